//! Finds out whether the host of a repository redirects to another one.
//!
//! A host redirects the address of a repository that was renamed until the name is given to another repository. Then
//! that one is read.

use std::sync::PoisonError;

use butler_source::git::moved_to;
use secrecy::SecretString;

use super::address::Address;
use super::{PollError, Poller};
use crate::config::{Config, RepositoryEntry, without_login};
use crate::store::Store;

impl<S: Store + 'static> Poller<S> {
    /// That the repository has moved, in one sentence, if its host redirects to another address.
    pub(super) async fn moved(
        &self,
        config: &Config,
        entry: &RepositoryEntry,
    ) -> Result<Option<String>, PollError> {
        let url = &entry.url.value;
        let known = self.address.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if known.is_known(url) {
            return Ok(known.moved);
        }
        let credentials = self.credentials(entry).await?;
        let git = self.git(config);
        let target = moved_to(&SecretString::from(url.clone()), &credentials, git).await;
        let moved = target.map(|target| {
            format!(
                "the repository `{}` has moved: {} redirects to {target}; change its `url` before the host gives the \
                 earlier name to another repository",
                self.name,
                without_login(url)
            )
        });
        let mut known = self.address.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(moved) = moved.as_ref().filter(|_| known.moved != moved) {
            tracing::warn!(repository = self.name, "{moved}");
        }
        *known = Address::answered(url, moved.clone());
        Ok(moved)
    }
}
