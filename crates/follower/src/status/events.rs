//! The events of a follower, as text.

use super::stage::EventStatus;
use super::table::Table;
use crate::commit::Commit;

/// The table of events, the oldest first.
#[must_use]
pub fn events_table(events: &[EventStatus]) -> String {
    let mut table = Table::new(&["TIME", "PHASE", "TARGET", "MESSAGE"]);
    for event in events {
        table.push([
            event.at.clone(),
            event.phase.as_str().to_owned(),
            event.target.as_ref().map_or("-", Commit::short).to_owned(),
            event.message.clone(),
        ]);
    }
    table.to_string()
}
