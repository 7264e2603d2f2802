//! What limits the starts of attempts.

use tokio::time::Instant;

use super::Scheduler;
use crate::controller::{Executor, Limits};
use crate::layers::LayerSource;
use crate::store::Store;

/// The least free space of the data directory with which attempts are started, in bytes.
const LEAST_ROOM: u64 = 1 << 30;

impl<S: Store, E: Executor> Scheduler<S, E> {
    /// What can run now, of a layer whose repository is not limited.
    pub(super) fn limits(&mut self, is_first_pass: bool) -> Limits {
        let room = butler_base::platform::room(&self.data);
        let no_starts = room.filter(|room| room.free < LEAST_ROOM).map(|room| {
            format!(
                "the data directory has {} MiB of free space, and nothing is started below {} MiB",
                room.free >> 20,
                LEAST_ROOM >> 20
            )
        });
        let (starts_left, starts_again) = self.rate.left(Instant::now());
        let limits = Limits::concurrency(self.capacity.concurrency);
        Limits { starts_left, starts_again, is_first_pass, no_starts, ..limits }
    }

    /// The most attempts of layers of the repository of `source` at the same time. It is read each
    /// time: a new configuration can have another one.
    pub(super) fn repository_concurrency(&self, source: Option<&LayerSource>) -> Option<u32> {
        let name = &source?.configured.repository;
        self.desired.config().repositories.get(name)?.entry.concurrency
    }
}
