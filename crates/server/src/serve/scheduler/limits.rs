//! What limits the starts of attempts.

use std::path::Path;

use butler_protocol::backend::LOCAL;
use tokio::time::Instant;

use super::Scheduler;
use crate::controller::{Executor, Limits};
use crate::layers::LayerSource;
use crate::model::LayerName;
use crate::store::Store;

/// The least free space of the data directory with which attempts are started, in bytes.
const LEAST_ROOM: u64 = 1 << 30;

/// Why a layer is not started whose state another server would not find: it would create everything again.
const STATE_OF_ONE_SERVER: &str = "its state is in the data directory of one server, and several servers share the \
    store; give it a remote `backend`, or an absolute `path` of a file system that all servers mount";

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
        let fence = self.leadership().fence();
        Limits { starts_left, starts_again, is_first_pass, no_starts, fence, ..limits }
    }

    /// What can run of this layer now.
    pub(super) fn limits_of(
        &self,
        layer: &LayerName,
        source: Option<&LayerSource>,
        limits: &Limits,
    ) -> Limits {
        let state = source.filter(|source| self.shared.is_some() && has_state_in_data(source));
        let no_starts = state.map(|_| STATE_OF_ONE_SERVER.to_owned());
        Limits {
            repository_concurrency: self.repository_concurrency(source),
            unlisted: self.catalog.borrow().unlisted_namespace(layer).map(str::to_owned),
            no_starts: no_starts.or_else(|| limits.no_starts.clone()),
            ..limits.clone()
        }
    }

    /// The most attempts of layers of the repository of `source` at the same time. It is read each
    /// time: a new configuration can have another one.
    fn repository_concurrency(&self, source: Option<&LayerSource>) -> Option<u32> {
        let name = &source?.configured.repository;
        self.desired.config().repositories.get(name)?.entry.concurrency
    }
}

/// Whether the state of a layer is a file of the data directory.
fn has_state_in_data(source: &LayerSource) -> bool {
    source.entry.backend.as_ref().is_some_and(|backend| {
        let path = backend.config.get("path").and_then(|path| path.as_str());
        backend.kind.value == LOCAL.name && !path.is_some_and(|path| Path::new(path).is_absolute())
    })
}
