//! What a repository contained when it was last read.

use super::{Commit, Digest, Moment};

/// A layer's part of a repository at one commit.
#[derive(
    Clone, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize, schemars::JsonSchema,
)]
pub struct Revision {
    /// A commit that has the digest. There can be others.
    pub commit: Commit,
    /// The hash of what the layer depends on.
    pub digest: Digest,
}

/// What was found at the layer's ref and path.
#[derive(Clone, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub enum Sighting {
    /// The layer's path exists.
    Found(Revision),
    /// The ref does not exist.
    RefMissing,
    /// The ref exists, but the layer's path does not.
    PathMissing {
        /// The commit that lacks the path.
        commit: Commit,
    },
    /// The module cannot be used, for example because its backend is also that of another layer.
    Invalid {
        /// The commit that was read.
        commit: Commit,
        /// What is wrong and what to do, in one sentence.
        why: String,
    },
}

/// The last reading of the layer's repository that succeeded.
#[derive(Clone, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct Observation {
    /// What was found.
    pub sighting: Sighting,
    /// How often the layer's digest has changed, the first time included. It tells two visits of
    /// one digest apart, as after a revert.
    pub change: u64,
    /// The digest of the last change. It stays while the path is missing, so that a layer that comes
    /// back as it was has not changed.
    pub digest: Option<Digest>,
    /// When the repository was read.
    pub at: Moment,
}

impl Observation {
    /// What is known after `last`, if the repository now contains `sighting`.
    #[must_use]
    pub fn after(last: Option<&Self>, sighting: Sighting, at: Moment) -> Self {
        let (change, digest) = last.map_or((0, None), |last| (last.change, last.digest.clone()));
        match &sighting {
            Sighting::Found(found) if digest.as_ref() != Some(&found.digest) => {
                Self { change: change + 1, digest: Some(found.digest.clone()), sighting, at }
            }
            _ => Self { sighting, change, digest, at },
        }
    }

    /// The revision, if the layer's path was found.
    #[must_use]
    pub fn revision(&self) -> Option<&Revision> {
        match &self.sighting {
            Sighting::Found(revision) => Some(revision),
            Sighting::RefMissing | Sighting::PathMissing { .. } | Sighting::Invalid { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_digest_is_a_change() {
        let found = |commit: &str, digest: &str| {
            let (commit, digest) = (Commit::new(commit), Digest::new(digest));
            Sighting::Found(Revision { commit, digest })
        };
        let mut last = None;
        let mut changes = Vec::new();
        for sighting in [
            Sighting::RefMissing,
            found("1", "a"),
            found("2", "a"),
            Sighting::PathMissing { commit: Commit::new("3") },
            found("4", "a"),
            found("5", "b"),
            Sighting::RefMissing,
            found("6", "a"),
        ] {
            let next = Observation::after(last.as_ref(), sighting, Moment::default());
            changes.push(next.change);
            last = Some(next);
        }
        assert_eq!(changes, [0, 1, 1, 1, 1, 2, 2, 3]);
    }
}
