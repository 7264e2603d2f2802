//! Finds out whether the host of a repository redirects to another one.
//!
//! After a rename, a host redirects the earlier address until another repository gets the name. From then on, the server
//! reads that other repository.

use std::sync::PoisonError;

use butler_base::cancel::Stop;
use butler_source::git::moved_to;
use secrecy::SecretString;

use super::address::Asked;
use super::{PollError, Poller};
use crate::config::{Config, RepositoryEntry, without_login};
use crate::store::Store;

impl<S: Store + 'static> Poller<S> {
    /// A sentence that the repository has moved, if its host redirects to another address.
    pub(super) async fn moved(
        &self,
        config: &Config,
        entry: &RepositoryEntry,
        stop: &Stop,
    ) -> Result<Option<String>, PollError> {
        let url = &entry.url.value;
        let known = self.desired.move_of(&self.name);
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if asked.is_some_and(|asked| asked.is_recent(url)) {
            return Ok(known);
        }
        let credentials = self.credentials(entry).await?;
        let git = self.git(config);
        let address = SecretString::from(url.clone());
        let target = tokio::select! {
            target = moved_to(&address, &credentials, git) => target,
            _ = stop.requested() => return Ok(known),
        };
        let moved = target.map(|target| {
            format!(
                "the repository `{}` has moved: {} redirects to {target}; change its `url` before the host gives the \
                 earlier name to another repository",
                self.name,
                without_login(url)
            )
        });
        if let Some(moved) = moved.as_ref().filter(|_| known != moved) {
            tracing::warn!(repository = self.name, "{moved}");
        }
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = Some(Asked::now(url));
        Ok(moved)
    }
}
