//! Recognises a sentence that says that a secret is missing, has expired or is wrong.
//!
//! Each service has sentences of its own, such as `no API token set`, `the access key must be provided` or
//! `the JWT that you have sent is not valid`. All of them have a word for a secret, and a word for its condition
//! close to it.

use super::cause::FailureCause::{
    self, CredentialsExpired, CredentialsMissing, CredentialsRefused,
};

/// Words for a secret.
const SECRETS: [&str; 8] =
    ["apikey", "credential", "credentials", "jwt", "token", "tokens", "pat", "accesskey"];

/// Words for a secret that can also be an argument of a resource.
const LOGINS: [&str; 3] = ["passphrase", "password", "username"];

/// Words for a secret together with the word in front of them.
const KEYS: [&str; 3] = ["key", "keys", "secret"];

/// The words in front of one of `KEYS`.
const KINDS: [&str; 9] =
    ["access", "account", "api", "app", "application", "auth", "client", "integration", "secret"];

/// Words in front of a missing secret.
const NONE: [&str; 4] = ["empty", "missing", "no", "without"];

/// Words in front of a wrong secret.
const BAD: [&str; 8] =
    ["bad", "illegal", "incorrect", "invalid", "malformed", "unknown", "unrecognized", "wrong"];

/// Verbs that ask for a secret if a word of `DEMANDS` is in front of them.
const VERBS: [&str; 7] = ["configure", "export", "give", "provide", "set", "specify", "supply"];

/// Words in front of one of `VERBS`.
const DEMANDS: [&str; 4] = ["must", "please", "should", "either"];

/// Verbs of a search for a secret that fails if a word of `NEGATIONS` is in front of them.
const SEARCHES: [&str; 4] = ["discover", "find", "load", "locate"];

/// Words that turn the meaning of others into the opposite, or demand it.
const NEGATIONS: [&str; 10] =
    ["cannot", "couldn", "failed", "must", "neither", "never", "not", "should", "t", "unable"];

/// Words between a secret and its condition.
const BETWEEN: [&str; 32] = [
    "a",
    "an",
    "and",
    "are",
    "be",
    "been",
    "being",
    "could",
    "either",
    "env",
    "found",
    "given",
    "has",
    "have",
    "in",
    "included",
    "is",
    "isn",
    "it",
    "of",
    "or",
    "provided",
    "request",
    "sent",
    "specified",
    "supplied",
    "that",
    "the",
    "used",
    "was",
    "were",
    "you",
];

/// Conditions of a missing secret.
const LACKING: [&str; 8] =
    ["absent", "blank", "empty", "missing", "nil", "required", "undefined", "unset"];

/// Conditions of a missing secret behind a negation.
const PRESENT: [&str; 10] = [
    "available",
    "configured",
    "defined",
    "exist",
    "found",
    "given",
    "present",
    "provided",
    "set",
    "specified",
];

/// Conditions of a wrong secret.
const WRONG: [&str; 9] = [
    "denied",
    "disabled",
    "incorrect",
    "invalid",
    "malformed",
    "mismatch",
    "rejected",
    "revoked",
    "wrong",
];

/// Conditions of a wrong secret behind a negation.
const RIGHT: [&str; 8] =
    ["accepted", "active", "allowed", "authorized", "correct", "permitted", "recognized", "valid"];

/// Words close to a secret that a resource manages.
const OBJECTS: [&str; 5] = ["exist", "exists", "found", "match", "matching"];

/// Words in front of its name.
const NAMED: [&str; 2] = ["name", "named"];

/// The longest distance between a verb that asks for a secret and the secret, in words.
const REACH: usize = 6;

/// The cause that a sentence about a secret in `text`, which is in lower case, names. `with_logins` is whether
/// passwords, names of users and named secrets are those of a login, and not those of a resource.
pub(super) fn secret_problem(text: &str, with_logins: bool) -> Option<FailureCause> {
    let words: Vec<_> = text
        .split(|letter: char| !letter.is_alphanumeric() && letter != '-')
        .filter(|word| !word.is_empty())
        .collect();
    (0..words.len()).find_map(|at| {
        let before = &words[..at];
        let word = words[at];
        let is_key = KEYS.contains(&word) && before.last().is_some_and(|kind| KINDS.contains(kind));
        let is_secret = is_key || SECRETS.contains(&word) || with_logins && LOGINS.contains(&word);
        let before = if is_key { &before[..at - 1] } else { before };
        let near = &words[at.saturating_sub(REACH)..words.len().min(at + REACH)];
        // Credentials without a name are those of the provider.
        let is_object = !with_logins
            && near.iter().any(|other| {
                NAMED.contains(other) || OBJECTS.contains(other) && !word.starts_with("credential")
            });
        (is_secret && !is_object)
            .then(|| condition_before(before).or_else(|| condition_behind(&words[at + 1..])))?
    })
}

/// The condition that the words in front of a secret name, such as `no valid` or `please provide an`.
fn condition_before(words: &[&str]) -> Option<FailureCause> {
    let near = &words[words.len().saturating_sub(3)..];
    // `invalid or missing`.
    let is_bad = near.iter().any(|word| BAD.contains(word));
    for (at, word) in near.iter().enumerate().rev() {
        if NONE.contains(word) {
            return Some(if is_bad { CredentialsRefused } else { CredentialsMissing });
        }
        if *word == "expired" {
            return Some(CredentialsExpired);
        }
        if BAD.contains(word) && at + 2 >= near.len() {
            return Some(CredentialsRefused);
        }
    }
    let far = &words[words.len().saturating_sub(REACH + 2)..];
    let is_missing = far.iter().enumerate().any(|(at, word)| {
        let in_front = &far[at.saturating_sub(2)..at];
        let is_demanded = in_front.last().is_some_and(|last| DEMANDS.contains(last))
            || matches!(in_front, ["have" | "need" | "needs" | "required", "to"]);
        VERBS.contains(word) && is_demanded
            || SEARCHES.contains(word) && in_front.iter().any(|word| NEGATIONS.contains(word))
    });
    is_missing.then_some(CredentialsMissing)
}

/// The condition that the words behind a secret name, such as `is not set` or `has expired`.
fn condition_behind(words: &[&str]) -> Option<FailureCause> {
    let mut is_negated = false;
    for (at, word) in words.iter().enumerate().take(REACH + 2) {
        if *word == "expired" {
            return Some(CredentialsExpired);
        }
        let is_lacking = LACKING.contains(word)
            && !matches!(words.get(at + 1..at + 3), Some(["or", other]) if WRONG.contains(other));
        if is_lacking || is_negated && PRESENT.contains(word) {
            return Some(CredentialsMissing);
        }
        if WRONG.contains(word) || is_negated && RIGHT.contains(word) {
            return Some(CredentialsRefused);
        }
        is_negated |= NEGATIONS.contains(word);
        if ![&NEGATIONS[..], &BETWEEN, &LACKING].iter().any(|passed| passed.contains(word)) {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentence_about_a_secret_names_its_condition() {
        for (text, cause) in [
            ("no vault token set on client", Some(CredentialsMissing)),
            ("missing api token", Some(CredentialsMissing)),
            ("api_key and app_key must be set unless validate = false", Some(CredentialsMissing)),
            ("the access key must be provided", Some(CredentialsMissing)),
            ("you need to provide an api key", Some(CredentialsMissing)),
            ("credentials could not be found", Some(CredentialsMissing)),
            ("could not find any credentials", Some(CredentialsMissing)),
            ("260002: password is empty", Some(CredentialsMissing)),
            ("the token you have provided has expired", Some(CredentialsExpired)),
            ("expired api key", Some(CredentialsExpired)),
            ("jwt token is invalid", Some(CredentialsRefused)),
            ("the api token provided is not valid", Some(CredentialsRefused)),
            ("wrong client secret", Some(CredentialsRefused)),
            ("invalid or missing credentials", Some(CredentialsRefused)),
            ("the credentials are missing or invalid", Some(CredentialsRefused)),
            ("created token", None),
            ("secret \"x\" not found", None),
            ("cannot fetch token: 500", None),
            ("the key is invalid", None),
            ("", None),
        ] {
            assert_eq!(secret_problem(text, true), cause, "{text}");
        }
        for text in ["password is required", "no api key with this name was found"] {
            assert_eq!(secret_problem(text, false), None, "{text}");
        }
    }
}
