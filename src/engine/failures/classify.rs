//! Finds the cause of an error from its summary and its detail.
//!
//! The order of the rules is the order of their certainty: errors that the tool finds itself, then limits and error
//! codes of services, then the HTTP status, then failed connections if there is none, and at last words that describe
//! an answer.

use super::cause::FailureCause::{
    self, BackendSettings, Checksum, Constraint, CredentialsMissing, CredentialsRefused,
    Encryption, EncryptionKey, LockFile, Machine, OtherState, PlanFile, ServerFailed,
    SourceMissing, StaleState, StateNotSettled, Throttled, ToolVersion, Unknown, Workspace,
};
use super::certain::CERTAIN;
use super::context::cause_in_context;
use super::credentials::CREDENTIALS;
use super::http_status::http_status;
use super::locking::{is_about_held_lock, without_explanation};
use super::permissions::lacks_permission;
use super::phrases::{begins, contains, dense, normalised, says, says_any, without_names};
use super::secrets::secret_problem;
use super::services::{CHECKS, CONFLICTS, RATES, RULES};
use super::summaries::SUMMARIES;
use super::symptoms::{ANSWERS, GAVE_UP, OTHER_PROTOCOL, TRANSPORT, UNSET};
use butler_result::Diagnostic;

/// Summaries of errors that only follow from others, or announce them.
const FOLLOWING: [&str; 11] = [
    "cannot assume iam role",
    "encountered problems during initiali",
    "error releasing the state lock",
    "execution halted",
    "failed to persist state to backend",
    "failed to unlock state",
    "no valid credential sources",
    "operation cancel",
    "request cancelled",
    "unable to compute static value",
    "workspace creation canceled",
];

/// Whether an error with this summary is about others, so that they decide about the cause.
pub(super) fn follows_from_others(summary: &str) -> bool {
    let summary = summary.to_lowercase();
    FOLLOWING.iter().any(|phrase| summary.contains(phrase))
}

/// The cause of an error.
pub(super) fn cause_of(error: &Diagnostic) -> FailureCause {
    let summary = normalised(&error.summary);
    let text = normalised(&format!("{summary} {}", error.detail));
    let text = without_explanation(&text);
    let subject = error.subject.as_deref().unwrap_or_default();
    let owner = Owner::of(subject);
    if owner == Owner::Tool && is_about_held_lock(text) {
        return FailureCause::Locked;
    }
    if is_value_of_variable(error) {
        return FailureCause::Variable;
    }
    if let Some(cause) = find(SUMMARIES, |phrase| begins(&summary, phrase)) {
        return cause;
    }
    // All that is said.
    match text.trim() {
        // Of a connection that ends before an answer.
        "eof" | "unexpected eof" => return FailureCause::Unreachable,
        // Of the file that was given as the plan.
        "zip: not a valid zip file" => return FailureCause::PlanFile,
        _ => {}
    }
    let words = Words::new(text, owner);
    match (owner, words.cause()) {
        (Owner::Provider | Owner::Resource, Some(cause)) if is_of_tool(cause) => Unknown,
        (Owner::Provider, None) if words.status.is_none() && words.say_any(&UNSET) => {
            CredentialsMissing
        }
        (Owner::Tool, None) => cause_in_context(words.text, &words.dense, words.status, subject),
        (_, cause) => cause.unwrap_or_default(),
    }
}

/// The part that has reported an error.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Owner {
    /// The tool, its backend or the download of a package. Also unknown.
    Tool,
    /// A provider, when it is configured.
    Provider,
    /// A provider, for a resource.
    Resource,
}

impl Owner {
    /// The owner of an error with this subject.
    fn of(subject: &str) -> Self {
        const BLOCKS: [&str; 3] = ["data ", "ephemeral ", "resource "];
        if subject.contains("terraform_remote_state") {
            Self::Tool
        } else if subject.contains("provider[") || subject.starts_with("provider ") {
            Self::Provider
        } else if subject.contains('.') || BLOCKS.iter().any(|block| subject.starts_with(block)) {
            Self::Resource
        } else {
            Self::Tool
        }
    }
}

/// The words of an error in the forms in which the rules read them.
struct Words<'a> {
    /// All of them, in lower case.
    text: &'a str,
    /// Without the names of things.
    nameless: String,
    /// Without the names of things and without spaces.
    dense: String,
    /// The HTTP status with which a server has answered.
    status: Option<u16>,
    owner: Owner,
}

impl<'a> Words<'a> {
    fn new(text: &'a str, owner: Owner) -> Self {
        let nameless = without_names(text);
        let (dense, status) = (dense(&nameless), http_status(&nameless));
        Self { text, nameless, dense, status, owner }
    }

    fn say_any(&self, phrases: &[&str]) -> bool {
        says_any(&self.dense, phrases)
    }

    fn look(&self, rules: &[(FailureCause, &[&str])]) -> Option<FailureCause> {
        find(rules, |phrase| says(&self.dense, phrase))
    }

    /// The cause, from the most certain words to the least certain ones. None if no rule knows it.
    fn cause(&self) -> Option<FailureCause> {
        let Self { status, owner, .. } = *self;
        let all = dense(self.text);
        // A server that has refused a request for good speaks about the request: not about the machine or the network.
        let is_refused = status.is_some_and(is_final);
        let is_possible = |cause: &FailureCause| !(is_refused && cause.class().is_retried());
        let is_check = self.say_any(&CHECKS);
        let certain = find(CERTAIN, |phrase| says(&all, phrase)).filter(is_possible);
        if certain.is_some() {
            return certain;
        }
        // The quota of a service that answers with 429 is one of requests.
        if status == Some(429) || !is_refused && !is_check && self.say_any(&RATES) {
            return Some(Throttled);
        }
        let rule = self.look(RULES).or_else(|| (status == Some(413)).then_some(Unknown));
        if rule.is_some() {
            return rule;
        }
        if matches!(status, Some(409 | 410 | 422)) || self.say_any(&CONFLICTS) {
            return None;
        }
        if is_file_error(self.text) {
            return Some(Machine);
        }
        let login = self.look(CREDENTIALS);
        if login.is_some() {
            return login;
        }
        let is_of_login = matches!(status, None | Some(401 | 403 | 407 | 500..=599));
        if is_of_login && lacks_permission(&self.nameless, &self.dense) {
            return Some(CredentialsRefused);
        }
        if self.say_any(&OTHER_PROTOCOL) {
            return None;
        }
        let failed_connection = || find(TRANSPORT, |phrase| contains(&self.nameless, phrase));
        let secret = || secret_problem(&self.nameless, owner != Owner::Resource);
        // A server that has answered was reached, whatever it says about others.
        let by_status = match status {
            None => failed_connection().or_else(secret),
            Some(401 | 403) => secret().or(Some(CredentialsRefused)),
            Some(status) => cause_of_status(status),
        };
        let is_answer = |cause: &FailureCause| {
            !((is_refused || is_check) && cause.class().is_retried())
                && (owner == Owner::Tool || !is_of_tool(*cause))
        };
        by_status.or_else(|| self.look(ANSWERS).filter(is_answer)).or_else(|| {
            let has_given_up = self.say_any(&GAVE_UP) && !says(&self.dense, "waiting for");
            Some(ServerFailed).filter(|cause| has_given_up && is_possible(cause))
        })
    }
}

/// Whether only the tool itself reports errors of this cause. What a provider says in the same words is about
/// something else.
const fn is_of_tool(cause: FailureCause) -> bool {
    matches!(
        cause,
        BackendSettings
            | Checksum
            | Constraint
            | Encryption
            | EncryptionKey
            | LockFile
            | OtherState
            | PlanFile
            | SourceMissing
            | StaleState
            | StateNotSettled
            | ToolVersion
            | Workspace
    )
}

/// Whether the error is in a value that a variable has got outside of the module.
fn is_value_of_variable(error: &Diagnostic) -> bool {
    error.place.as_ref().is_some_and(|place| place.file.starts_with("<value for var"))
}

fn find(rules: &[(FailureCause, &[&str])], matches: impl Fn(&str) -> bool) -> Option<FailureCause> {
    let rule = rules.iter().find(|(_, phrases)| phrases.iter().any(|phrase| matches(phrase)));
    rule.map(|(cause, _)| *cause)
}

const fn cause_of_status(status: u16) -> Option<FailureCause> {
    Some(match status {
        401 | 403 | 407 => FailureCause::CredentialsRefused,
        408 => FailureCause::Unreachable,
        425 | 429 => FailureCause::Throttled,
        // A server that does not know a method or a version never will.
        500..=599 if !matches!(status, 501 | 505) => FailureCause::ServerFailed,
        _ => return None,
    })
}

/// Whether a server answers with this status as long as the request is the same.
const fn is_final(status: u16) -> bool {
    matches!(status, 400..=499) && cause_of_status(status).is_none()
}

/// Whether the operating system has refused access to a local file.
fn is_file_error(text: &str) -> bool {
    const ACTS: [&str; 18] = [
        "chmod",
        "chown",
        "fork/exec",
        "link",
        "lstat",
        "mkdir",
        "mkdirat",
        "open",
        "openat",
        "read",
        "remove",
        "rename",
        "stat",
        "symlink",
        "truncate",
        "unlink",
        "unlinkat",
        "write",
    ];
    const REFUSALS: [&str; 4] = [
        ": permission denied",
        ": operation not permitted",
        ": access is denied",
        ": device or resource busy",
    ];
    REFUSALS.iter().flat_map(|refusal| text.match_indices(refusal)).any(|(at, _)| {
        // The act and one or two paths in front, such as `open a/b`.
        let mut words = text[..at].rsplit(' ').skip(1).take(2);
        words.any(|act| ACTS.contains(&act))
    })
}

#[cfg(test)]
mod tests {
    use super::FailureCause::Unreachable;
    use super::*;
    use butler_result::{Severity, SourceLocation};

    fn error(summary: &str, subject: Option<&str>, file: &str) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            summary: summary.to_owned(),
            detail: String::new(),
            subject: subject.map(str::to_owned),
            place: Some(SourceLocation { file: file.to_owned(), line: 1 }),
        }
    }

    #[test]
    fn same_words_have_another_cause_if_a_provider_says_them() {
        for (summary, subject, cause) in [
            ("NoSuchBucket: It does not exist", None, BackendSettings),
            ("NoSuchBucket: It does not exist", Some("data \"aws_s3_object\" \"a\""), Unknown),
            ("NoSuchBucket: no", Some("data.terraform_remote_state.a"), BackendSettings),
            ("Repository not found", Some("module \"a\""), SourceMissing),
            ("Repository not found", Some("github_repository.a"), Unknown),
            ("The host must be set", Some("provider[\"a/b/c\"]"), CredentialsMissing),
            ("The host must be set", Some("a.b"), Unknown),
            ("Error loading state: context deadline exceeded", None, Unreachable),
            ("polling: context deadline exceeded", None, Unknown),
            ("Variables not allowed", None, FailureCause::Syntax),
        ] {
            assert_eq!(cause_of(&error(summary, subject, "main.tf")), cause, "{summary}");
        }
        let of_value = error("Variables not allowed", None, "<value for var.a>");
        assert_eq!(cause_of(&of_value), FailureCause::Variable);
    }

    #[test]
    fn answer_that_refuses_a_request_is_not_retried() {
        for (summary, cause) in [
            ("StatusCode: 400, Test failed: connection refused", Unknown),
            ("got 404 instead: the certificate has expired", Unknown),
            ("400 Bad Request: rate limit of 5 is not allowed", Unknown),
            ("409 Conflict: you are not authorized to take this name", Unknown),
            ("StatusCode: 400, api error ThrottlingException: Rate exceeded", Throttled),
            ("rate_limit must be greater than 0", Unknown),
            ("StatusCode: 500, InsufficientInstanceCapacity: none left", Unknown),
            ("googleapi: Error 403: Quota exceeded for disks", Unknown),
        ] {
            assert_eq!(cause_of(&error(summary, None, "main.tf")), cause, "{summary}");
        }
    }

    #[test]
    fn names_and_values_that_a_request_has_do_not_decide() {
        for (summary, cause) in [
            ("creating Role (access-denied): StatusCode: 400, it is malformed", Unknown),
            ("monitor \"gateway-timeout\" was not created: its query is empty", Unknown),
            ("connection_timeout_ms must be a positive number", Unknown),
            ("StatusCode: 400, The execution role does not have permissions", Unknown),
            ("StatusCode: 400, AccessDeniedException: No", CredentialsRefused),
            ("no API key found matching the name \"a\"", Unknown),
            ("no valid credentials", CredentialsMissing),
            ("response code: 500 (dial tcp: connection refused)", ServerFailed),
            ("StatusCode: 429, Quota exceeded", Throttled),
        ] {
            assert_eq!(cause_of(&error(summary, Some("a.b"), "main.tf")), cause, "{summary}");
        }
    }

    #[test]
    fn local_file_that_the_system_refuses_is_found() {
        for (text, is_found) in [
            ("open /a/b: permission denied", true),
            ("rename /a /b: operation not permitted", true),
            ("open c:\\a.exe: access is denied.", true),
            ("policy of a user: permission denied", false),
            ("permission denied", false),
        ] {
            assert_eq!(is_file_error(text), is_found, "{text}");
        }
    }
}
