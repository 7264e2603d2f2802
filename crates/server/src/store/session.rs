//! Browsers that are signed in.
//!
//! A session is found by the hash of its cookie, so the store contains nothing with which a browser could sign in.

use std::time::Duration;

use butler_registry::TokenHash;

use super::error::StoreResult;
use super::transaction::Tables;
use crate::model::Session;

/// The time of the last use is written at most this often.
const TOUCH: Duration = Duration::from_mins(1);

pub(super) fn begin(tables: &mut dyn Tables, id: TokenHash, user: TokenHash) -> StoreResult<()> {
    let now = tables.now();
    tables.write_session(id, Session { user, created: now, used: now })
}

pub(super) fn find(tables: &mut dyn Tables, id: TokenHash) -> StoreResult<Option<Session>> {
    let now = tables.now();
    Ok(tables.session(id)?.filter(|session| !session.is_over(now)))
}

pub(super) fn used(tables: &mut dyn Tables, id: TokenHash) -> StoreResult<Option<Session>> {
    let now = tables.now();
    let session = find(tables, id)?;
    if let Some(session) = session
        && now >= session.used + TOUCH
    {
        tables.write_session(id, Session { used: now, ..session })?;
    }
    Ok(session)
}

pub(super) fn prune(tables: &mut dyn Tables) -> StoreResult<()> {
    let now = tables.now();
    for (id, session) in tables.sessions()? {
        if session.is_over(now) {
            tables.remove_session(id)?;
        }
    }
    Ok(())
}
