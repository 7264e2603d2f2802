//! The summary and the page, written where the user wants them: whole or not at all.
//!
//! They are for others to read, so the mode is what the umask leaves of 0644, and nothing in them is
//! a secret. Whoever cannot write them says so; the run has ended as it has.

use std::fs::Permissions;
use std::io::{BufWriter, Error, ErrorKind, Result, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::settings::Settings;
use butler_base::cancel::{Step, Stop};
use butler_base::platform::fs::PermissionsExt;
use butler_result::RunResult;
use butler_result::{LogCopy, SUMMARY_LIMIT, page, summary};

/// Which documents are wanted.
#[derive(Debug, Default)]
pub(in crate::run) struct Documents {
    summary: Option<PathBuf>,
    page: Option<PathBuf>,
}

impl Documents {
    pub(in crate::run) fn new(settings: &Settings) -> Self {
        Self { summary: settings.summary.clone(), page: settings.report.clone() }
    }

    /// Writes them, as long as there is time.
    pub(in crate::run) async fn write(
        &self,
        result: &RunResult,
        log: Option<LogCopy>,
        stop: &Stop,
    ) {
        if let Some(path) = self.summary.clone() {
            let result = result.clone();
            let write =
                move |file: &mut Writer| file.write_all(summary(&result, SUMMARY_LIMIT).as_bytes());
            within(stop, "summary", path, write).await;
        }
        if let Some(path) = self.page.clone() {
            let result = result.clone();
            within(stop, "report", path, move |file| page(&result, log, file)).await;
        }
    }
}

/// Disks can be slow, and file systems can hang.
async fn within(
    stop: &Stop,
    what: &str,
    path: PathBuf,
    write: impl FnOnce(&mut Writer) -> Result<()> + Send + 'static,
) {
    let draft = Arc::new(Draft::default());
    let (place, drafted) = (path.clone(), Arc::clone(&draft));
    let writing = tokio::task::spawn_blocking(move || drafted.replace(&place, write));
    let problem = match stop.within(Step::Terminal, writing).await {
        Some(Ok(Err(error))) => error.to_string(),
        Some(Err(error)) => format!("{error} (a bug)"),
        None if draft.give_up().await => TOO_LATE.to_owned(),
        // Now, or just when it was to be given up.
        Some(Ok(Ok(()))) | None => return,
    };
    tracing::warn!("cannot write the {what} `{}`: {problem}", path.display());
}

/// Why a file was given up.
const TOO_LATE: &str = "there was no time left";

/// How long the removal of a file that was given up may take.
const PATIENCE: Duration = Duration::from_millis(200);

/// A file that is being written beside its place, until it is put there or given up.
#[derive(Debug, Default)]
struct Draft {
    is_given_up: AtomicBool,
    /// Whether it is in its place.
    is_finished: AtomicBool,
    /// The file, as long as it is a draft.
    file: Mutex<Option<PathBuf>>,
}

/// Writes a draft until it is given up.
struct Writer {
    file: BufWriter<std::fs::File>,
    draft: Arc<Draft>,
}

impl Draft {
    /// Writes a file beside, and puts it in the place of an older one.
    fn replace(
        self: Arc<Self>,
        path: &Path,
        write: impl FnOnce(&mut Writer) -> Result<()>,
    ) -> Result<()> {
        let directory = path.parent().unwrap_or(Path::new("/"));
        let (file, place) = tempfile::Builder::new()
            .permissions(Permissions::from_mode(0o644))
            .tempfile_in(directory)?
            .into_parts();
        *self.file() = Some(place.to_path_buf());
        let mut writer = Writer { file: BufWriter::new(file), draft: Arc::clone(&self) };
        write(&mut writer)?;
        writer.file.into_inner().map_err(std::io::IntoInnerError::into_error)?;
        let mut draft = self.file();
        self.check()?;
        place.persist(path)?;
        *draft = None;
        self.is_finished.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Has it written no further and removes it; not where it is finished.
    async fn give_up(self: Arc<Self>) -> bool {
        self.is_given_up.store(true, Ordering::Relaxed);
        let removal = tokio::task::spawn_blocking(move || {
            let file = self.file().take();
            // Where it cannot be removed, the disk is what there was no time for.
            let _ = file.map(std::fs::remove_file);
            !self.is_finished.load(Ordering::Relaxed)
        });
        // What takes longer is not finished either.
        match tokio::time::timeout(PATIENCE, removal).await {
            Ok(Ok(is_given_up)) => is_given_up,
            Ok(Err(_)) | Err(_) => true,
        }
    }

    fn check(&self) -> Result<()> {
        if self.is_given_up.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::TimedOut, TOO_LATE));
        }
        Ok(())
    }

    fn file(&self) -> MutexGuard<'_, Option<PathBuf>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.draft.check()?;
        self.file.write(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use nix::sys::signal::Signal;

    use super::*;
    use butler_base::cancel::StopReason;

    #[tokio::test]
    async fn a_file_that_takes_too_long_is_neither_there_later_nor_beside() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("page.html");
        let stop = Stop::new();
        stop.request(StopReason::Signal(Signal::SIGTERM));
        let (go_on, waiting) = channel();
        let (ended, end) = channel();
        within(&stop, "report", path, move |file| {
            file.write_all(b"one")?;
            waiting.recv().unwrap();
            let written = file.write_all(b"two");
            ended.send(written.is_err()).unwrap();
            written
        })
        .await;
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0, "no draft is left");
        go_on.send(()).unwrap();
        assert!(end.recv().unwrap(), "it goes no further");
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
    }
}
