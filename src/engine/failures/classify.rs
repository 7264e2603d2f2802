//! Finds the cause of an error from its summary and its detail.
//!
//! The order of the rules is the order of their certainty: errors that the tool finds itself, then error codes,
//! then failed connections, then HTTP statuses, and at last words that describe an answer.

use super::cause::FailureCause::{
    self, BackendSettings, CredentialsMissing, Machine, SourceMissing, Throttled, Unknown,
    Unreachable, Workspace,
};
use super::certain::CERTAIN;
use super::http_status::http_status;
use super::phrases::{begins, contains, dense, normalised, says, says_any};
use super::secrets::secret_problem;
use super::services::{CREDENTIALS, RATES, RULES};
use super::summaries::SUMMARIES;
use super::symptoms::{ABSENT, ANSWERS, OF_SOURCES, OF_STATES, TIMES, TRANSPORT, UNSET};
use butler_base::error::FailureClass;
use butler_result::Diagnostic;

/// Words of an error about a state lock that is held. They are those of the backends.
const HELD: [&str; 23] = [
    "already locked",
    "another process has locked",
    "at least one of the pre-conditions you specified did not hold",
    "conditionalcheckfailed",
    "conditionnotmet",
    "coordination.k8s.io * already exists",
    "if-none-match",
    "ifnonematchfailed",
    "currently a lease on the blob",
    "leasealreadypresent",
    "leaseid",
    "locked by",
    "lock already held",
    "lock file * exist",
    "lock id * does not match",
    "lock id * doesn't match",
    "otsconditioncheckfail",
    "preconditionfailed",
    "resource temporarily unavailable",
    "state locked",
    "state is locked",
    "the object has been modified",
    "workspace is locked",
];

/// Words of an error about a state lock.
const LOCKING: [&str; 12] = [
    "acquiring the state lock",
    "error locking destination state",
    "error locking state",
    "error releasing the state lock",
    "failed to lock",
    "failed to unlock",
    "unable to lock",
    "unable to unlock",
    "cannot lock workspace",
    "state already locked",
    "state is already locked",
    "workspace already locked",
];

/// The beginning of the explanation that the tool adds to errors about locks.
const EXPLANATION: &str = " acquires a state lock to protect";

/// Summaries of errors that only follow from others, or announce them.
const FOLLOWING: [&str; 10] = [
    "cannot assume iam role",
    "encountered problems during initiali",
    "error releasing the state lock",
    "execution halted",
    "failed to persist state to backend",
    "failed to unlock state",
    "no valid credential sources",
    "operation cancel",
    "request cancelled",
    "workspace creation canceled",
];

/// Whether an error with this summary is about others, so that they decide about the cause.
pub(super) fn follows_from_others(summary: &str) -> bool {
    let summary = summary.to_lowercase();
    FOLLOWING.iter().any(|phrase| summary.contains(phrase))
}

/// Whether the message of an error about a state lock says that the lock is held.
pub(in crate::engine) fn says_that_lock_is_held(message: &str) -> bool {
    let message = normalised(message);
    HELD.iter().any(|phrase| contains(&message, phrase))
}

/// The cause of an error.
pub(super) fn cause_of(error: &Diagnostic) -> FailureCause {
    let summary = normalised(&error.summary);
    let text = normalised(&format!("{summary} {}", error.detail));
    let text = text.split(EXPLANATION).next().unwrap_or_default();
    let is_locking = LOCKING.iter().any(|phrase| text.contains(phrase));
    if is_locking && HELD.iter().any(|phrase| contains(text, phrase)) {
        return FailureCause::Locked;
    }
    if is_value_of_variable(error) {
        return FailureCause::Variable;
    }
    if let Some(cause) = find(SUMMARIES, |phrase| begins(&summary, phrase)) {
        return cause;
    }
    let subject = error.subject.as_deref().unwrap_or_default();
    let owner = Owner::of(subject);
    let dense = dense(text);
    let cause = cause_of_text(text, &dense, owner);
    match (owner, cause) {
        (Owner::Provider | Owner::Resource, SourceMissing) => Unknown,
        (Owner::Provider, Unknown) if http_status(text).is_none() && says_any(&dense, &UNSET) => {
            CredentialsMissing
        }
        (Owner::Tool, Unknown) => cause_in_context(text, &dense),
        _ => cause,
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

/// The cause from the words of an error, in the order of their certainty.
fn cause_of_text(text: &str, dense: &str, owner: Owner) -> FailureCause {
    let status = http_status(text);
    let is_answered = status.is_some_and(is_final);
    let look = |rules| find(rules, |phrase| says(dense, phrase));
    // A request that a server has refused for good has reached it.
    let look_further = |rules| {
        look(rules)
            .filter(|cause: &FailureCause| !(is_answered && cause.class() == FailureClass::Network))
    };
    look(CERTAIN)
        .or_else(|| (!is_answered && is_about_rate(dense)).then_some(Throttled))
        .or_else(|| look(RULES))
        .or_else(|| matches!(status, Some(409 | 410 | 422)).then_some(Unknown))
        .or_else(|| is_file_error(text).then_some(Machine))
        .or_else(|| look(CREDENTIALS))
        .or_else(|| look_further(TRANSPORT))
        .or_else(|| {
            matches!(status, None | Some(401 | 403))
                .then(|| secret_problem(text, owner != Owner::Resource))
                .flatten()
        })
        .or_else(|| status.and_then(cause_of_status))
        .or_else(|| {
            look_further(ANSWERS).filter(|cause| owner == Owner::Tool || !is_of_tool(*cause))
        })
        .unwrap_or_default()
}

/// Whether a server limits the rate of requests, and does not only check the argument of that name.
fn is_about_rate(dense: &str) -> bool {
    says_any(dense, &RATES) && !says(dense, "must be")
}

/// Whether only the tool itself reports errors of this cause. What a provider says in the same words is about
/// something else.
const fn is_of_tool(cause: FailureCause) -> bool {
    matches!(cause, BackendSettings | Workspace)
}

/// The cause of an error of the tool itself that no other words explain.
fn cause_in_context(text: &str, dense: &str) -> FailureCause {
    let is_of_state = says_any(dense, &OF_STATES);
    let is_of_source = says_any(dense, &OF_SOURCES);
    if (is_of_state || is_of_source) && says_any(dense, &TIMES) {
        Unreachable
    } else if is_of_state {
        BackendSettings
    } else if is_of_source && (says_any(dense, &ABSENT) || http_status(text) == Some(404)) {
        SourceMissing
    } else {
        Unknown
    }
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
