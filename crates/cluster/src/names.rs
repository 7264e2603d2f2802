//! Names and labels of a run's objects.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

/// The prefix of all Jobs of runs.
const PREFIX: &str = "butler-run-";

/// The longest name of a Job that is not cut in the names of its pods: a pod's name adds a hyphen and five
/// letters, and is a label with at most 63 characters.
const LONGEST: usize = 57;

/// The length of the digest in a name, in bytes. It distinguishes runs whose ids look the same in a name.
const DIGEST_LENGTH: usize = 6;

/// The value of the label `app.kubernetes.io/managed-by`.
pub(crate) const MANAGED_BY: &str = "butler-runner";

/// The annotation with the run's id; also a label if the id is a valid label value.
pub(crate) const RUN_ID: &str = "butler.dev/run-id";

/// The annotation that identifies the command that created the Job, so that a retry recognizes its own Job.
pub(crate) const REQUEST: &str = "butler.dev/request";

/// The label that selects the objects of one run.
pub(crate) const INSTANCE: &str = "app.kubernetes.io/instance";

/// The name of a run's Job, and the prefix of the names of its Secret and policy. It is derived from the run's
/// id, so that the cluster refuses a second Job for the same run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JobName(String);

impl JobName {
    /// The name for the run with this id. If the id cannot be part of a name, its valid characters are used with
    /// a digest of the id.
    #[must_use]
    pub fn for_run(run_id: &str) -> Self {
        let is_placeholder = run_id.starts_with("${");
        if is_placeholder || is_label(run_id) && PREFIX.len() + run_id.len() <= LONGEST {
            return Self(format!("{PREFIX}{run_id}"));
        }
        let readable: String = run_id
            .chars()
            .map(|letter| letter.to_ascii_lowercase())
            .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
            .take(LONGEST - PREFIX.len() - 1 - 2 * DIGEST_LENGTH)
            .collect();
        let readable = readable.trim_matches('-');
        let separator = if readable.is_empty() { "" } else { "-" };
        let digest = hex::encode(&Sha256::digest(run_id)[..DIGEST_LENGTH]);
        Self(format!("{PREFIX}{readable}{separator}{digest}"))
    }

    /// The name of an existing Job.
    #[must_use]
    pub const fn from_existing(name: String) -> Self {
        Self(name)
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for JobName {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The labels of the run's objects.
pub(crate) fn labels(name: &JobName, run_id: &str) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from([
        ("app.kubernetes.io/name".to_owned(), "butler-runner".to_owned()),
        (INSTANCE.to_owned(), name.0.clone()),
        ("app.kubernetes.io/component".to_owned(), "run".to_owned()),
        ("app.kubernetes.io/managed-by".to_owned(), MANAGED_BY.to_owned()),
    ]);
    let can_be_value = |text: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let ends = [text.bytes().next(), text.bytes().last()];
        text.len() <= 63
            && text.bytes().all(is_plain)
            && ends.into_iter().flatten().all(|byte| byte.is_ascii_alphanumeric())
    };
    if run_id.starts_with("${") || can_be_value(run_id) {
        labels.insert(RUN_ID.to_owned(), run_id.to_owned());
    }
    labels
}

/// Whether `text` can be a part of a DNS name (RFC 1123).
fn is_label(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(is_plain) && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_runs_are_distinct_and_valid() {
        let uuid = "550e8400-e29b-41d4-a716-446655440000";
        assert_eq!(JobName::for_run(uuid).as_str(), format!("butler-run-{uuid}"));
        let odd = ["Run/7", "run-7", "RUN_7", "run.7", "-", "é", &"x".repeat(300)];
        let names: std::collections::BTreeSet<_> =
            odd.iter().map(|id| JobName::for_run(id).as_str().to_owned()).collect();
        assert_eq!(names.len(), odd.len());
        assert!(names.iter().all(|name| is_label(name) && name.len() <= LONGEST), "{names:?}");
        assert!(names.contains("butler-run-run-7"));
    }

    #[test]
    fn run_id_is_a_label_only_if_it_is_a_valid_value() {
        let has = |id: &str| labels(&JobName::for_run(id), id).contains_key(RUN_ID);
        assert!(has("Run.7_a") && !has("a/b") && !has("-a") && !has(&"x".repeat(64)));
    }
}
