//! Which attempts cannot be copied, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

/// How many attempts wait for the object store, because it did not answer when they were copied.
#[derive(Debug, Default)]
pub struct Pending(AtomicU64);

impl Pending {
    /// The number.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, count: usize) {
        self.0.store(count as u64, Ordering::Relaxed);
    }
}
