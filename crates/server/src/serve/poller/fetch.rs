//! Fetches commits of a repository into its mirror.

use std::collections::{BTreeMap, BTreeSet};

use butler_base::blocking::blocking;
use butler_base::cancel::Stop;
use butler_base::event::Stream;
use butler_base::process::Sink;
use butler_protocol::spec::GitCredentials;
use butler_source::git::{
    GitEnvironment, MirrorHistory, MirrorRequest, MirrorSubmodules, MirrorUpdate, update_mirror,
};
use secrecy::SecretString;

use super::{DEADLINE, PollError, Poller};
use crate::config::{Config, RepositoryEntry, SubmoduleChoice};
use crate::layers::{Heads, LeftOut};
use crate::model::Commit;
use crate::store::Store;

/// The commits that the mirror gets, and how much of their submodules and histories.
pub(super) struct Wanted {
    pub(super) references: Vec<String>,
    pub(super) submodules: MirrorSubmodules,
    pub(super) history: MirrorHistory,
}

impl<S: Store + 'static> Poller<S> {
    /// Fetches `references`, and those of their submodules that are at or above the paths of `submodules`.
    pub(super) async fn fetch(
        &self,
        config: &Config,
        entry: &RepositoryEntry,
        references: BTreeSet<String>,
        submodules: BTreeMap<String, BTreeSet<String>>,
        stop: &Stop,
    ) -> Result<Heads, PollError> {
        let wanted = Wanted {
            references: references.into_iter().collect(),
            submodules: match entry.submodules.unwrap_or_default() {
                SubmoduleChoice::Needed => MirrorSubmodules::Needed(submodules),
                SubmoduleChoice::All => MirrorSubmodules::All,
                SubmoduleChoice::None => MirrorSubmodules::None,
            },
            history: MirrorHistory::Recent,
        };
        let update = self.fetch_wanted(config, entry, wanted, stop).await?;
        let commits = update.references.into_iter();
        let commits: BTreeMap<String, Option<Commit>> =
            commits.map(|(name, commit)| (name, commit.map(Commit::new))).collect();
        let mut left_out = LeftOut::new();
        for (reference, failed) in update.left_out {
            if let Some(Some(commit)) = commits.get(&reference) {
                left_out.entry(commit.clone()).or_default().extend(failed);
            }
        }
        let homes = self.desired.homes(&self.name);
        Ok(Heads { commits, notes: update.notes, homes, left_out })
    }

    /// Updates the mirror once, within `DEADLINE`.
    pub(super) async fn fetch_wanted(
        &self,
        config: &Config,
        entry: &RepositoryEntry,
        wanted: Wanted,
        stop: &Stop,
    ) -> Result<MirrorUpdate, PollError> {
        let credentials = self.credentials(entry).await?;
        let request = MirrorRequest {
            repository: SecretString::from(entry.url.value.clone()),
            credentials,
            references: wanted.references,
            keep: self.keep(),
            directory: self.directory(),
            submodules: wanted.submodules,
            history: wanted.history,
            memory_limit: self.settings.mirror_memory,
        };
        let sink = PollSink(&self.name);
        let update = update_mirror(&request, self.git(config), &sink, stop);
        Ok(tokio::time::timeout(DEADLINE, update).await.map_err(|_| PollError::TooSlow)??)
    }

    /// The credentials of the repository.
    pub(super) async fn credentials(
        &self,
        entry: &RepositoryEntry,
    ) -> Result<GitCredentials, PollError> {
        let Some(entry) = entry.credentials.as_ref().map(|entry| entry.value.clone()) else {
            return Ok(GitCredentials::None);
        };
        let used_by = format!("the repository `{}`", self.name);
        let secrets = self.settings.secrets.clone();
        Ok(blocking(move |_| secrets.credentials(&entry, &used_by)).await?)
    }

    pub(super) fn git(&self, config: &Config) -> &GitEnvironment {
        // Credentials of the server's environment are not for repositories that an include defines.
        if config.is_included_repository(&self.name) {
            &self.settings.git_of_includes
        } else {
            &self.settings.git
        }
    }
}

/// Writes the progress of git to the log of the server.
struct PollSink<'a>(&'a str);

impl Sink for PollSink<'_> {
    fn line(&self, _: Stream, line: &[u8]) {
        tracing::debug!(repository = self.0, "{}", String::from_utf8_lossy(line));
    }

    /// Progress that overwrites itself is left out.
    fn partial(&self, _: Stream, pending: &[u8]) -> usize {
        pending.len()
    }
}
