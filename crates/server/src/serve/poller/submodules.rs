//! Fetches the submodules that the layers of a repository may need.

use std::collections::BTreeSet;
use std::sync::Arc;

use butler_base::cancel::Stop;

use super::{PollError, Poller};
use crate::config::Config;
use crate::layers::{AbsentSubmodules, Heads, LeftOut, Reading};
use crate::mirror::MOST_NESTED;
use crate::model::Commit;
use crate::store::Store;

impl<S: Store + 'static> Poller<S> {
    /// Reads the repository, and fetches the submodules that its layers may need. What is fetched can lead to others.
    /// Returns why some cannot be fetched.
    pub(super) async fn read_with_submodules(
        &self,
        config: &Arc<Config>,
        heads: &Heads,
        stop: &Stop,
    ) -> Result<(Reading, LeftOut), PollError> {
        let entry = config.repositories.get(&self.name).ok_or(PollError::Removed)?;
        let mut heads = heads.clone();
        let mut reading = self.read(config, &heads).await?;
        for _ in 0..MOST_NESTED {
            let is_new = |commit: &Commit, path: &String| {
                !heads.left_out.get(commit).is_some_and(|known| known.contains_key(path))
            };
            let wanted: AbsentSubmodules = reading
                .wanted
                .iter()
                .map(|(commit, paths)| {
                    let paths = paths.iter().filter(|path| is_new(commit, path));
                    (commit.clone(), paths.cloned().collect())
                })
                .filter(|(_, paths): &(Commit, BTreeSet<String>)| !paths.is_empty())
                .collect();
            if wanted.is_empty() {
                break;
            }
            // The mirror must not forget the other commits.
            let commits = heads.commits.values().flatten().map(ToString::to_string).collect();
            let paths = wanted.iter().map(|(commit, paths)| (commit.to_string(), paths.clone()));
            let fetched = self.fetch(config, &entry.entry, commits, paths.collect(), stop).await;
            let left_out = match fetched {
                Ok(found) => found.left_out,
                Err(error @ (PollError::Git(_) | PollError::TooSlow))
                    if stop.reason().is_none() =>
                {
                    let why = error.describe();
                    let each = |paths: BTreeSet<String>| {
                        paths.into_iter().map(|path| (path, why.clone())).collect()
                    };
                    wanted.into_iter().map(|(commit, paths)| (commit, each(paths))).collect()
                }
                Err(error) => return Err(error),
            };
            for (commit, failed) in left_out {
                heads.left_out.entry(commit).or_default().extend(failed);
            }
            reading = self.read(config, &heads).await?;
        }
        Ok((reading, heads.left_out))
    }

    /// Says once which submodules are left out.
    pub(super) fn log_submodules(&self, reading: &Reading, left_out: &LeftOut) {
        let repository = &self.name;
        let last = self.last.as_ref();
        for (commit, paths) in left_out {
            let known = last.and_then(|last| last.heads.left_out.get(commit));
            for (path, why) in paths {
                if known.and_then(|known| known.get(path)) != Some(why) {
                    tracing::warn!(
                        repository,
                        commit = commit.as_str(),
                        "the submodule `{path}` cannot be fetched, which stops only the layers that may read it: {why}"
                    );
                }
            }
        }
        for (commit, paths) in reading.unneeded.iter().filter(|(_, paths)| !paths.is_empty()) {
            let known = last.and_then(|last| last.reading.unneeded.get(commit));
            if known != Some(paths) {
                let paths: Vec<String> = paths.iter().map(|path| format!("`{path}`")).collect();
                tracing::info!(
                    repository,
                    commit = commit.as_str(),
                    "left out submodules: {}",
                    paths.join(", ")
                );
            }
        }
    }
}
