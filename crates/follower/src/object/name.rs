//! Names of native objects, derived from what they are for.

use sha2::{Digest, Sha256};

use crate::commit::Commit;

/// The longest name. A Job adds a hyphen and five letters for its pods, and the result is a label
/// with at most 63 letters.
const LONGEST: usize = 57;

/// The digits of the commit that a name shows.
const COMMIT_DIGITS: usize = 8;

/// The bytes of the digest that make names distinct whose readable parts are equal.
const DIGEST_BYTES: usize = 5;

/// What an object is for. Two objects with the same purpose have the same name, so the cluster
/// refuses the second one.
#[derive(Clone, Copy, Debug)]
pub struct Purpose<'a> {
    /// The follower's id.
    pub follower: &'a str,
    /// The stage's name.
    pub stage: &'a str,
    /// The source commit.
    pub commit: &'a Commit,
    /// The attempt, from 1.
    pub attempt: u32,
}

impl Purpose<'_> {
    /// The object's name: a DNS label of at most 57 letters, which begins with a letter.
    #[must_use]
    pub fn object_name(&self) -> String {
        let Self { follower, stage, commit, attempt } = self;
        // Neither ids nor names of stages have a slash, so `a-b` + `c` differs from `a` + `b-c`.
        let identity = format!("{follower}/{stage}/{commit}/{attempt}");
        let digest = hex::encode(&Sha256::digest(identity)[..DIGEST_BYTES]);
        let attempt = if *attempt > 1 { format!("-a{attempt}") } else { String::new() };
        let end = format!("-{}-{digest}{attempt}", &commit.as_str()[..COMMIT_DIGITS]);
        let start: String = format!("{follower}-{stage}")
            .chars()
            .map(|letter| letter.to_ascii_lowercase())
            .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
            .skip_while(|letter| !letter.is_ascii_alphabetic())
            .take(LONGEST - end.len())
            .collect();
        let start = start.trim_end_matches('-');
        if start.is_empty() { format!("f{end}") } else { format!("{start}{end}") }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn is_label(text: &str) -> bool {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        text.bytes().all(|byte| is_plain(byte) || byte == b'-')
            && text.starts_with(|letter: char| letter.is_ascii_lowercase())
            && !text.ends_with('-')
            && text.len() <= LONGEST
    }

    #[test]
    fn names_are_valid_and_distinct_for_each_purpose() {
        let commits = ["a", "b"].map(|digit| Commit::parse(&digit.repeat(40)).unwrap());
        let long = "x".repeat(300);
        let mut names = BTreeSet::new();
        let mut count = 0;
        for follower in ["web", "web-a", "Ünï/Code", "-", "9", &long] {
            for stage in ["a-build", "build", "", "b_c", &long] {
                for commit in &commits {
                    for attempt in [1, 2, 11, u32::MAX] {
                        let purpose = Purpose { follower, stage, commit, attempt };
                        let name = purpose.object_name();
                        assert!(is_label(&name), "{name}");
                        assert_eq!(name, purpose.object_name());
                        names.insert(name);
                        count += 1;
                    }
                }
            }
        }
        assert_eq!(names.len(), count);
    }

    #[test]
    fn name_shows_follower_stage_commit_and_attempt() {
        let commit = Commit::parse(&"0123456789".repeat(4)).unwrap();
        let purpose = Purpose { follower: "web", stage: "build", commit: &commit, attempt: 2 };
        let name = purpose.object_name();
        assert!(name.starts_with("web-build-01234567-") && name.ends_with("-a2"), "{name}");
    }
}
