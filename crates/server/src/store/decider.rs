//! Which server decides. The transactions of [`super::Deciders`].

use std::time::Duration;

use super::error::StoreResult;
use super::transaction::Tables;
use crate::model::DeciderLease;

/// Renews the lease of `server`, or gives it to it if no other one has it. Returns the lease that is in force.
pub(super) fn decide(
    tables: &mut dyn Tables,
    server: &str,
    lifetime: Duration,
) -> StoreResult<DeciderLease> {
    let now = tables.now();
    let known = tables.decider()?;
    let fence = match &known {
        Some(known) if known.holder == server => known.fence,
        Some(known) if now < known.until => return Ok(known.clone()),
        known => known.as_ref().map_or(0, |known| known.fence) + 1,
    };
    let lease = DeciderLease { holder: server.to_owned(), fence, until: now + lifetime };
    tables.write_decider(&lease)?;
    Ok(lease)
}

/// Ends the lease of `server`, if it has it.
pub(super) fn resign(tables: &mut dyn Tables, server: &str) -> StoreResult<()> {
    let until = tables.now();
    match tables.decider()? {
        Some(known) if known.holder == server => {
            tables.write_decider(&DeciderLease { until, ..known })
        }
        _ => Ok(()),
    }
}

/// Whether a server with this fence may still start something.
pub(super) fn is_current(tables: &mut dyn Tables, fence: u64) -> StoreResult<bool> {
    Ok(tables.decider()?.is_some_and(|lease| lease.fence == fence))
}
