//! Finds out whether the commits that are read have common ancestors with those that were read before.
//!
//! Another repository can get the address of a repository: after a rename, the host lets other users take the earlier
//! name. The commits of the other repository must not be applied as if they came after those of the first one.

use std::collections::{BTreeMap, BTreeSet};

use butler_base::blocking::blocking;
use butler_base::cancel::Stop;
use butler_source::git::{
    FetchError, Histories, MirrorHistory, MirrorSubmodules, SourceError, compare_histories,
};

use super::fetch::Wanted;
use super::{PollError, Poller};
use crate::config::Config;
use crate::layers::Heads;
use crate::model::{Commit, LayerName, Sighting, Unrelated};
use crate::store::Store;

/// The number of commits of the second look, if the recent history is not enough.
const LONGER: u32 = 1_000;

impl<S: Store + 'static> Poller<S> {
    /// The pairs of a commit that was read before and one that is read now, without a known ancestor in common.
    pub(super) async fn unrelated(
        &self,
        config: &Config,
        heads: &Heads,
        sightings: &[(LayerName, Sighting)],
        stop: &Stop,
    ) -> Result<Vec<Unrelated>, PollError> {
        let layers: Vec<LayerName> = sightings.iter().map(|(name, _)| name.clone()).collect();
        let known = self.store.observations(&layers).await?;
        // New layers have not been read before, but the branch has.
        let last = self.desired.heads(&self.name);
        let branches = heads.commits.iter().filter_map(|(reference, commit)| {
            Some((last.get(reference)?.clone(), commit.clone()?))
        });
        let mut compared: BTreeMap<Unrelated, bool> = BTreeMap::new();
        for pair in branches {
            self.compare(config, pair, &mut compared, stop).await?;
        }
        for (layer, sighting) in sightings {
            let (Some(last), Some(commit)) = (known.get(layer), sighting.commit()) else {
                continue;
            };
            let Some(read) = last.commit() else { continue };
            let pair = (read.clone(), commit.clone());
            let is_unrelated = self.compare(config, pair, &mut compared, stop).await?;
            if let Some(known) = last.history_break.as_ref().filter(|_| is_unrelated) {
                let pair = (known.before.clone(), commit.clone());
                self.compare(config, pair, &mut compared, stop).await?;
            }
        }
        let unrelated = compared.into_iter().filter(|(_, is_unrelated)| *is_unrelated);
        let unrelated: Vec<Unrelated> = unrelated.map(|(pair, _)| pair).collect();
        for (before, commit) in &unrelated {
            tracing::warn!(
                repository = self.name,
                "commit {commit} has no known ancestor in common with commit {before}, which was read before: nothing \
                 of it is applied without an approval; check that the address still leads to the same repository"
            );
        }
        Ok(unrelated)
    }

    /// Whether these commits have no known ancestor in common.
    async fn compare(
        &self,
        config: &Config,
        pair: Unrelated,
        compared: &mut BTreeMap<Unrelated, bool>,
        stop: &Stop,
    ) -> Result<bool, PollError> {
        if let Some(known) = compared.get(&pair) {
            return Ok(*known);
        }
        let is_unrelated = self.look_for_ancestor(config, &pair, stop).await? != Histories::Shared;
        compared.insert(pair, is_unrelated);
        Ok(is_unrelated)
    }

    /// Compares the histories of these commits: first the part that is in the mirror, then a longer part, and at last
    /// all of it.
    async fn look_for_ancestor(
        &self,
        config: &Config,
        (before, commit): &Unrelated,
        stop: &Stop,
    ) -> Result<Histories, PollError> {
        let mut found = self.known_histories(before, commit).await?;
        let mut references = BTreeSet::from([commit.to_string()]);
        for history in [MirrorHistory::Commits(LONGER), MirrorHistory::Whole] {
            if found != Histories::Unknown {
                break;
            }
            let entry = config.repositories.get(&self.name).ok_or(PollError::Removed)?;
            let wanted = Wanted {
                references: references.iter().cloned().collect(),
                submodules: MirrorSubmodules::None,
                history,
            };
            match self.fetch_wanted(config, &entry.entry, wanted, stop).await {
                Err(error) if is_temporary(&error) => return Err(error),
                // It stays unknown, for example because the history is too large.
                Err(error) => tracing::warn!(
                    repository = self.name,
                    "cannot read the history before commit {commit}: {}",
                    error.describe()
                ),
                Ok(_) => {}
            }
            found = self.known_histories(before, commit).await?;
            // The host can have removed it.
            references.insert(before.to_string());
        }
        Ok(found)
    }

    /// Compares the parts of two histories that are in the mirror.
    async fn known_histories(&self, one: &Commit, other: &Commit) -> Result<Histories, PollError> {
        let (mirror, one, other) = (self.directory(), one.clone(), other.clone());
        let work = move || compare_histories(&mirror, one.as_str(), other.as_str());
        blocking(move |_| work()).await.map_err(|error| PollError::Mirror(error.to_string()))
    }
}

/// Whether the next poll may succeed with the same request. Until then, nothing is recorded.
const fn is_temporary(error: &PollError) -> bool {
    matches!(
        error,
        PollError::Git(
            SourceError::Stopped { .. }
                | SourceError::Mirror {
                    source: FetchError::Connect { .. }
                        | FetchError::ServerFailed { .. }
                        | FetchError::Timeout { .. },
                    ..
                }
        )
    )
}
