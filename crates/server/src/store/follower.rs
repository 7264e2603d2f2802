//! The records of followers.
//!
//! A record is written before its action is executed. So of two servers that decide about the same record, one
//! acts, and the other reads again.

use butler_follower::state::Record;

use super::Outcome;
use super::error::StoreResult;
use super::transaction::Tables;
use crate::model::StoredFollower;

pub(super) fn write(tables: &mut dyn Tables, version: u64, record: Record) -> StoreResult<Outcome> {
    let known = tables.follower(&record.follower)?.map_or(0, |known| known.version);
    if known != version {
        return Ok(Outcome::Refused);
    }
    tables.write_follower(&StoredFollower { version: version + 1, record })?;
    Ok(Outcome::Made)
}
