//! What a scheduler hears of other servers.

use tokio::sync::watch;

use crate::serve::leadership::Leadership;

/// What other servers do.
#[derive(Clone, Debug)]
pub(in crate::serve) struct Shared {
    /// Whether this server decides.
    pub(in crate::serve) leadership: watch::Receiver<Leadership>,
    /// The sequence of the newest entry of the journal.
    pub(in crate::serve) journal: watch::Receiver<u64>,
}

/// Something that another server may have done.
#[derive(Clone, Copy, Debug)]
pub(super) enum News {
    /// This server decides from now on, or another one does.
    Leadership,
    /// The journal has new entries.
    Journal,
}

/// Waits for the next news; for ever if the store is not shared.
pub(super) async fn news(shared: &mut Option<Shared>) -> News {
    let Some(Shared { leadership, journal }) = shared else { return std::future::pending().await };
    tokio::select! {
        Ok(()) = leadership.changed() => News::Leadership,
        Ok(()) = journal.changed() => News::Journal,
        // The server ends.
        else => std::future::pending().await,
    }
}
