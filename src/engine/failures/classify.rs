//! Finds the cause of an error from its summary and its detail.
//!
//! The order of the rules is the order of their certainty: errors that the tool finds itself, then error codes,
//! then failed connections, then HTTP statuses, and at last words that describe an answer.

use super::cause::FailureCause;
use super::certain::CERTAIN;
use super::http_status::http_status;
use super::summaries::SUMMARIES;
use super::symptoms::{ANSWERS, TRANSPORT};

/// Words of an error about a state lock that is held. They are those of the backends.
const HELD: [&str; 17] = [
    "already locked",
    "another process has locked",
    "at least one of the pre-conditions you specified did not hold",
    "conditionalcheckfailed",
    "conditionnotmet",
    "coordination.k8s.io * already exists",
    "if-none-match",
    "ifnonematchfailed",
    "leasealreadypresent",
    "lock already held",
    "lock file * exists",
    "otsconditioncheckfail",
    "preconditionfailed",
    "resource temporarily unavailable",
    "state locked",
    "state is locked",
    "the object has been modified",
];

/// Words of an error about a state lock.
const LOCKING: [&str; 5] = [
    "acquiring the state lock",
    "error locking state",
    "failed to lock",
    "cannot lock workspace",
    "workspace already locked",
];

/// The beginning of the explanation that the tool adds to errors about locks.
const EXPLANATION: &str = " acquires a state lock to protect";

/// Summaries of errors that only follow from others, or announce them.
const FOLLOWING: [&str; 9] = [
    "cannot assume iam role",
    "encountered problems during initiali",
    "error releasing the state lock",
    "execution halted",
    "failed to persist state to backend",
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
pub(super) fn cause_of(summary: &str, detail: &str) -> FailureCause {
    let summary = normalised(summary);
    let text = normalised(&format!("{summary} {detail}"));
    let text = text.split(EXPLANATION).next().unwrap_or_default();
    let is_locking = LOCKING.iter().any(|phrase| text.contains(phrase));
    if is_locking && HELD.iter().any(|phrase| contains(text, phrase)) {
        return FailureCause::Locked;
    }
    let of_summary = find(SUMMARIES, |phrase| begins(&summary, phrase));
    of_summary
        .or_else(|| find(CERTAIN, |phrase| contains(text, phrase)))
        .or_else(|| is_file_error(text).then_some(FailureCause::Machine))
        .or_else(|| find(TRANSPORT, |phrase| contains(text, phrase)))
        .or_else(|| http_status(text).and_then(cause_of_status))
        .or_else(|| find(ANSWERS, |phrase| contains(text, phrase)))
        .unwrap_or_default()
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

/// Whether the operating system has refused access to a local file.
fn is_file_error(text: &str) -> bool {
    const ACTS: [&str; 11] = [
        "open",
        "mkdir",
        "fork/exec",
        "stat",
        "lstat",
        "unlinkat",
        "rename",
        "chmod",
        "remove",
        "read",
        "write",
    ];
    text.match_indices(": permission denied").any(|(at, _)| {
        // The act and the path in front, such as `open a/b`.
        let mut words = text[..at].rsplit(' ').skip(1);
        words.next().is_some_and(|act| ACTS.contains(&act))
    })
}

/// In lower case, with one space between words: the tool breaks lines anywhere.
fn normalised(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    words.join(" ").to_lowercase()
}

/// Whether `text` contains the parts of `phrase` in their order.
fn contains(text: &str, phrase: &str) -> bool {
    let mut rest = text;
    phrase.split('*').map(str::trim).all(|part| match rest.split_once(part) {
        Some((_, behind)) => {
            rest = behind;
            true
        }
        None => false,
    })
}

/// Whether `text` begins with `phrase`.
fn begins(text: &str, phrase: &str) -> bool {
    let first = phrase.split('*').next().unwrap_or_default();
    text.starts_with(first) && contains(text, phrase)
}
