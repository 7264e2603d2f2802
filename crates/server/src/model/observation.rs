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

impl Sighting {
    /// The commit that was read, if the ref exists.
    #[must_use]
    pub const fn commit(&self) -> Option<&Commit> {
        match self {
            Self::Found(Revision { commit, .. })
            | Self::PathMissing { commit }
            | Self::Invalid { commit, .. } => Some(commit),
            Self::RefMissing => None,
        }
    }
}

/// Two commits without a known common ancestor: one that was read, and one that was read after it.
pub type Unrelated = (Commit, Commit);

/// A break in a history: a commit was read that does not have a known ancestor in common with the commit before it. The
/// repository or its history was replaced. Since then, no commit of the new history was applied.
#[derive(Clone, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct HistoryBreak {
    /// The last commit of the earlier history.
    pub before: Commit,
    /// The first [`Observation::change`] whose content is from the new history only.
    pub change: u64,
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
    /// The last commit that was read, if the ref is missing now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Commit>,
    /// The last break in the history, if no commit of the new history was applied since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history_break: Option<HistoryBreak>,
}

impl Observation {
    /// The observation after `last`, if the repository now contains `sighting`. `unrelated` has all pairs of these
    /// commits without a known common ancestor.
    #[must_use]
    pub fn after(
        last: Option<&Self>,
        sighting: Sighting,
        unrelated: &[Unrelated],
        at: Moment,
    ) -> Self {
        let (mut change, mut digest) =
            last.map_or((0, None), |last| (last.change, last.digest.clone()));
        let next = change + 1;
        if let Sighting::Found(found) = &sighting
            && digest.as_ref() != Some(&found.digest)
        {
            (change, digest) = (next, Some(found.digest.clone()));
        }
        let history_break = match sighting.commit() {
            Some(commit) => history_break(last, commit, unrelated, next),
            None => last.and_then(|last| last.history_break.clone()),
        };
        let before = match sighting.commit() {
            Some(_) => None,
            None => last.and_then(Self::commit).cloned(),
        };
        Self { sighting, change, digest, at, before, history_break }
    }

    /// The last commit that was read.
    #[must_use]
    pub fn commit(&self) -> Option<&Commit> {
        self.sighting.commit().or(self.before.as_ref())
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

/// The break in the history before `commit`, which is read after `last`. New content of `commit` has the change `next`.
fn history_break(
    last: Option<&Observation>,
    commit: &Commit,
    unrelated: &[Unrelated],
    next: u64,
) -> Option<HistoryBreak> {
    let breaks = |before: &Commit| HistoryBreak { before: before.clone(), change: next };
    let is_unrelated =
        |before: &Commit| unrelated.iter().any(|pair| (&pair.0, &pair.1) == (before, commit));
    let Some((last, read)) = last.and_then(|last| Some((last, last.commit()?))) else {
        // A layer that was never read can be new with the history.
        return unrelated.iter().find(|pair| pair.1 == *commit).map(|pair| breaks(&pair.0));
    };
    match &last.history_break {
        known if !is_unrelated(read) => known.clone(),
        None => Some(breaks(read)),
        // A third history, or the first one again.
        Some(known) => is_unrelated(&known.before).then(|| breaks(&known.before)),
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
            let next = Observation::after(last.as_ref(), sighting, &[], Moment::default());
            changes.push(next.change);
            last = Some(next);
        }
        assert_eq!(changes, [0, 1, 1, 1, 1, 2, 2, 3]);
    }

    #[test]
    fn break_in_the_history_stays_until_the_earlier_one_is_back() {
        let found = |commit: &str, digest: &str| {
            let (commit, digest) = (Commit::new(commit), Digest::new(digest));
            Sighting::Found(Revision { commit, digest })
        };
        // Commits with the same letter have a common ancestor.
        let pairs = |before: &[&str], now: &str| -> Vec<Unrelated> {
            let unrelated = before.iter().filter(|before| before[..1] != now[..1]);
            unrelated.map(|before| (Commit::new(*before), Commit::new(now))).collect()
        };
        let (mut last, mut read): (Option<Observation>, Vec<&str>) = (None, Vec::new());
        for (commit, digest, expected) in [
            ("a1", "1", None),
            ("a2", "2", None),
            // The content is the same: what comes next is from the new history only.
            ("b1", "2", Some(("a2", 3))),
            ("b2", "3", Some(("a2", 3))),
            ("c1", "4", Some(("a2", 4))),
            ("a3", "5", None),
            ("b1", "6", Some(("a3", 6))),
        ] {
            // The ref can be missing in between.
            for sighting in [Sighting::RefMissing, found(commit, digest)] {
                let unrelated = pairs(&read, commit);
                let next =
                    Observation::after(last.as_ref(), sighting, &unrelated, Moment::default());
                last = Some(next);
            }
            read.push(commit);
            let known = last.as_ref().and_then(|last| last.history_break.as_ref());
            let known = known.map(|known| (known.before.as_str(), known.change));
            assert_eq!(known, expected, "{commit}");
        }
        let new =
            Observation::after(None, found("b1", "1"), &pairs(&["a1"], "b1"), Moment::default());
        assert_eq!(new.history_break, Some(HistoryBreak { before: Commit::new("a1"), change: 1 }));
    }
}
