//! Which of several servers decides.
//!
//! All of them read repositories, take reports of their own attempts, and show everything. One has a lease in the
//! store: it creates runs, starts attempts and sends notifications. If it does not renew the lease, another server
//! takes it, with a greater fence, and what the earlier one starts late is refused by the store.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::store::Deciders;

/// How long a lease is in force without being renewed. With [`AGAIN`], another server decides within 20 s.
pub(super) const LIFETIME: Duration = Duration::from_secs(15);

/// The time between two renewals, or two attempts to get the lease.
const AGAIN: Duration = Duration::from_secs(5);

/// Whether this server decides.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Leadership {
    /// It does. If other servers share the store, what it starts has this fence.
    Decides(Option<u64>),
    /// Another one does, or none that is known.
    Waits,
}

impl Leadership {
    /// Whether it decides.
    #[must_use]
    pub const fn decides(self) -> bool {
        matches!(self, Self::Decides(_))
    }

    /// The fence of what it starts.
    pub(super) const fn fence(self) -> Option<u64> {
        match self {
            Self::Decides(fence) => fence,
            Self::Waits => None,
        }
    }
}

/// Renews the lease of the server with this name, or waits for it. Never ends.
pub(super) async fn lead<S: Deciders>(
    store: Arc<S>,
    server: String,
    leadership: watch::Sender<Leadership>,
) {
    // Before the store is asked: the lease ends later than this, by the store's clock.
    let mut ends = Instant::now();
    loop {
        let asked = Instant::now();
        let renewed = async {
            match store.decide(&server, LIFETIME).await {
                Ok(lease) if lease.holder == server => Some(Leadership::Decides(Some(lease.fence))),
                Ok(_) => Some(Leadership::Waits),
                Err(error) => {
                    tracing::warn!(%error, "cannot ask the store which server decides");
                    None
                }
            }
        };
        // While it does not answer, the lease can end.
        let decides = leadership.borrow().decides();
        let renewed =
            if decides { timeout_at(ends, renewed).await.ok() } else { Some(renewed.await) };
        match renewed.flatten() {
            Some(found) => {
                if found.decides() {
                    ends = asked + LIFETIME;
                }
                set(&leadership, found);
            }
            None if Instant::now() >= ends => set(&leadership, Leadership::Waits),
            None => {}
        }
        let again = asked + AGAIN;
        sleep_until(if leadership.borrow().decides() { again.min(ends) } else { again }).await;
    }
}

fn set(leadership: &watch::Sender<Leadership>, found: Leadership) {
    let changed = leadership.send_if_modified(|known| std::mem::replace(known, found) != found);
    if changed {
        match found {
            Leadership::Decides(_) => tracing::info!("this server decides from now on"),
            Leadership::Waits => tracing::info!("another server decides from now on"),
        }
    }
}

#[cfg(test)]
#[path = "leadership_tests.rs"]
mod tests;
