//! Whether the disk of the data directory can be written.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use butler_base::blocking::blocking;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// The time between two looks at the disk. Each writes to it, and anyone may ask.
const LOOK_AT_DISK: Duration = Duration::from_secs(5);

/// The room that the disk must have, in bytes: for some lines of a log, and a change of the store.
const ROOM: usize = 64 << 10;

/// The result of the last look at the disk.
#[derive(Debug, Default)]
pub struct DiskLook(Mutex<Option<(Instant, Result<(), String>)>>);

impl DiskLook {
    /// Whether `directory` can be written, as the last look has found, or a new one if that is too long ago.
    pub(super) async fn look(&self, directory: &Path) -> Result<(), String> {
        let mut last = self.0.lock().await;
        if let Some((at, found)) = &*last
            && at.elapsed() < LOOK_AT_DISK
        {
            return found.clone();
        }
        let (shown, path) = (directory.display(), directory.to_owned());
        let written = blocking(move |_| write_some(&path)).await;
        let found = written.map_err(|error| format!("cannot write to `{shown}`: {error}"));
        *last = Some((Instant::now(), found.clone()));
        found
    }
}

/// Writes a file without a name, so that nothing is left of it.
fn write_some(directory: &Path) -> io::Result<()> {
    let mut file = tempfile::tempfile_in(directory)?;
    file.write_all(&vec![1; ROOM])?;
    file.sync_data()
}
