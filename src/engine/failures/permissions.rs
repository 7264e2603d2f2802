//! Recognises a sentence that says that the login has too few permissions.
//!
//! Such as `you do not have the capability to use this`, `lacks the permission x` or `must have admin rights`. A
//! server that refuses a request with another status says the same about a role that the request names.

use super::phrases::says_any;

/// Codes and sentences about permissions, and about a login that a request can also name.
const PHRASES: [&str; 25] = [
    "\": denied",
    "access denied",
    "access is denied",
    "authentication fail",
    "authentication required",
    "authorization fail",
    "authorization required",
    "denied on resource",
    "elevated privileges",
    "insufficient access",
    "insufficient permission",
    "insufficient privilege",
    "insufficient rights",
    "insufficient scope",
    "is not allowed to access the server",
    "is not permitted to log in",
    "must be owner of",
    "must be superuser",
    "no permission",
    "not authorized",
    "not on access list",
    "not permitted to perform",
    "not whitelisted",
    "only root can",
    "permission denied",
];

/// Words for what a login can do.
const RIGHTS: [&str; 10] = [
    "access",
    "authority",
    "capability",
    "permission",
    "permissions",
    "privilege",
    "privileges",
    "rights",
    "scope",
    "scopes",
];

/// Words behind `access` that make it a part of a name.
const THINGS: [&str; 15] = [
    "control", "entry", "grant", "group", "key", "keys", "level", "list", "log", "logs", "mode",
    "point", "policy", "tier", "token",
];

/// Words behind one of `RIGHTS` that make it the name of a setting.
const SETTINGS: [&str; 13] = [
    "argument",
    "attribute",
    "block",
    "boundary",
    "config",
    "configuration",
    "field",
    "parameter",
    "property",
    "rule",
    "set",
    "setting",
    "type",
];

/// Words in front of one of `RIGHTS` that say that it is missing.
const TOO_FEW: [&str; 7] =
    ["additional", "higher", "insufficient", "lack", "lacking", "lacks", "missing"];

/// Words in front of `have`.
const NEGATIONS: [&str; 4] = ["cannot", "doesn", "not", "t"];

/// Conditions behind one of `RIGHTS`.
const REFUSED: [&str; 6] =
    ["denied", "forbidden", "insufficient", "needed", "refused", "restricted"];

/// Words directly in front of one of `REFUSED`.
const IS: [&str; 5] = ["are", "been", "is", "was", "were"];

/// The longest distance between a verb and one of `RIGHTS`, in words.
const REACH: usize = 6;

/// Whether `text`, which is in lower case, and the same text without spaces say that a permission is missing.
pub(super) fn lacks_permission(text: &str, dense: &str) -> bool {
    if says_any(dense, &PHRASES) {
        return true;
    }
    let words: Vec<_> = text
        .split(|letter: char| !letter.is_alphanumeric() && letter != '-')
        .filter(|word| !word.is_empty())
        .collect();
    (0..words.len()).any(|at| {
        let behind = &words[at + 1..];
        let is_thing = behind.first().is_some_and(|next| {
            SETTINGS.contains(next) || words[at] == "access" && THINGS.contains(next)
        });
        RIGHTS.contains(&words[at])
            && !is_thing
            && (is_missing_before(&words[..at]) || is_refused_behind(behind))
    })
}

/// Whether the words in front of a permission say that it is missing.
fn is_missing_before(words: &[&str]) -> bool {
    let near = &words[words.len().saturating_sub(3)..];
    if near.iter().any(|word| TOO_FEW.contains(word)) {
        return true;
    }
    let far = &words[words.len().saturating_sub(REACH)..];
    // `does not have a scope` is about a thing.
    let is_one = matches!(words.last(), Some(&("a" | "an")));
    !is_one && far.windows(2).any(|pair| NEGATIONS.contains(&pair[0]) && pair[1] == "have")
        || near.windows(2).any(|pair| pair == ["must", "have"])
}

/// Whether the words behind a permission say that it is refused.
fn is_refused_behind(words: &[&str]) -> bool {
    let mut near = words.iter().take(REACH).enumerate();
    near.any(|(at, word)| REFUSED.contains(word) && (at == 0 || IS.contains(&words[at - 1])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::failures::phrases::dense;

    #[test]
    fn sentence_about_missing_permissions_is_found() {
        for (text, is_found) in [
            ("you do not have the capability to use this feature", true),
            ("the user doesn't have enough access rights", true),
            ("a@b does not have storage.buckets.get access to the bucket", true),
            ("token lacks permission 'key:read'", true),
            ("lacks the necessary scope", true),
            ("must have admin rights to repository", true),
            ("the request requires higher privileges than the token has", true),
            ("access to this resource has been denied", true),
            ("access has been denied", true),
            ("error: insufficient_scope", true),
            ("permissions needed: dashboards:read", true),
            ("does not have an access policy", false),
            ("missing access key", false),
            ("the role does not have a scope", false),
            ("missing the access attribute", false),
            ("the cluster does not have a subnet", false),
            ("created permission", false),
            ("", false),
        ] {
            assert_eq!(lacks_permission(text, &dense(text)), is_found, "{text}");
        }
    }
}
