//! Browsers that are signed in.
//!
//! A session is found by the hash of its cookie, so the store contains nothing with which a browser could sign in.

use std::future::Future;
use std::time::Duration;

use butler_registry::TokenHash;

use super::StoreResult;
use super::transaction::Tables;
use crate::model::Session;

/// The time of the last use is written at most this often.
const TOUCH: Duration = Duration::from_mins(1);

/// The sessions of all browsers.
pub trait Sessions: Send + Sync {
    /// Records that a browser has signed in with the token of this hash. `id` is the hash of its cookie.
    ///
    /// # Errors
    /// If the store does not answer. This holds for all methods.
    fn begin_session(
        &self,
        id: TokenHash,
        user: TokenHash,
    ) -> impl Future<Output = StoreResult<()>> + Send;

    /// The session of a browser, if it has not ended. Records that it is used.
    fn use_session(
        &self,
        id: TokenHash,
    ) -> impl Future<Output = StoreResult<Option<Session>>> + Send;

    /// Ends a session, if it exists.
    fn end_session(&self, id: TokenHash) -> impl Future<Output = StoreResult<()>> + Send;

    /// Removes the sessions that have ended.
    fn prune_sessions(&self) -> impl Future<Output = StoreResult<()>> + Send;
}

pub(super) fn begin(tables: &mut impl Tables, id: TokenHash, user: TokenHash) -> StoreResult<()> {
    let now = tables.now();
    tables.write_session(id, Session { user, created: now, used: now })
}

pub(super) fn used(tables: &mut impl Tables, id: TokenHash) -> StoreResult<Option<Session>> {
    let now = tables.now();
    let Some(session) = tables.session(id)?.filter(|session| !session.is_over(now)) else {
        return Ok(None);
    };
    if now >= session.used + TOUCH {
        tables.write_session(id, Session { used: now, ..session })?;
    }
    Ok(Some(session))
}

pub(super) fn prune(tables: &mut impl Tables) -> StoreResult<()> {
    let now = tables.now();
    for (id, session) in tables.sessions()? {
        if session.is_over(now) {
            tables.remove_session(id)?;
        }
    }
    Ok(())
}
