//! Names and labels of a run's objects.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

/// What all Jobs of runs begin with.
const PREFIX: &str = "butler-run-";

/// The longest name of a Job whose pods can carry it whole: a pod's has a hyphen and five letters
/// more, and is a label of 63 at most.
const LONGEST: usize = 57;

/// How many bytes of a digest tell runs apart whose ids look the same in a name.
const DIGEST: usize = 6;

/// What makes an object this program's, under `app.kubernetes.io/managed-by`.
pub(super) const MANAGED_BY: &str = "butler-runner";

/// The run's id: always an annotation, and also a label if it is a valid label value.
pub(super) const RUN_ID: &str = "butler.dev/run-id";

/// Says which command made the Job: a request that is sent again after an unclear answer finds its own.
pub(super) const REQUEST: &str = "butler.dev/request";

/// What selects the objects of one run.
pub(super) const INSTANCE: &str = "app.kubernetes.io/instance";

/// The name of a run's Job, with which those of its Secret and policy begin. The same run has the same name, so that the cluster
/// itself refuses a second Job for it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct JobName(String);

impl JobName {
    /// The name for the run with this id. An id that cannot be part of a name is written as far as
    /// it can, with a digest of the whole.
    #[must_use]
    pub fn of(run_id: &str) -> Self {
        let is_placeholder = run_id.starts_with("${");
        if is_placeholder || is_label(run_id) && PREFIX.len() + run_id.len() <= LONGEST {
            return Self(format!("{PREFIX}{run_id}"));
        }
        let readable: String = run_id
            .chars()
            .map(|letter| letter.to_ascii_lowercase())
            .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
            .take(LONGEST - PREFIX.len() - 1 - 2 * DIGEST)
            .collect();
        let readable = readable.trim_matches('-');
        let separator = if readable.is_empty() { "" } else { "-" };
        let digest = hex::encode(&Sha256::digest(run_id)[..DIGEST]);
        Self(format!("{PREFIX}{readable}{separator}{digest}"))
    }

    /// A Job's name that was said before.
    #[must_use]
    pub const fn given(name: String) -> Self {
        Self(name)
    }

    /// The name.
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

/// The labels of everything that belongs to the run.
pub(super) fn labels(name: &JobName, run_id: &str) -> BTreeMap<String, String> {
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
    fn each_run_has_a_name_of_its_own_that_the_cluster_takes() {
        let uuid = "550e8400-e29b-41d4-a716-446655440000";
        assert_eq!(JobName::of(uuid).as_str(), format!("butler-run-{uuid}"));
        let odd = ["Run/7", "run-7", "RUN_7", "run.7", "-", "é", &"x".repeat(300)];
        let names: std::collections::BTreeSet<_> =
            odd.iter().map(|id| JobName::of(id).as_str().to_owned()).collect();
        assert_eq!(names.len(), odd.len());
        assert!(names.iter().all(|name| is_label(name) && name.len() <= LONGEST), "{names:?}");
        assert!(names.contains("butler-run-run-7"));
    }

    #[test]
    fn an_id_that_can_be_no_label_is_none() {
        let has = |id: &str| labels(&JobName::of(id), id).contains_key(RUN_ID);
        assert!(has("Run.7_a") && !has("a/b") && !has("-a") && !has(&"x".repeat(64)));
    }
}
