//! Writes the summary and the page to the paths that the user has set, atomically.
//!
//! Other users read them, so their mode is 0644 without the umask, and they contain no secrets. An error
//! is logged and does not change how the run ended.

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

/// The paths of the documents; absent if the user has not set them.
#[derive(Debug, Default)]
pub(in crate::run) struct Documents {
    summary: Option<PathBuf>,
    page: Option<PathBuf>,
}

impl Documents {
    pub(in crate::run) fn new(settings: &Settings) -> Self {
        Self { summary: settings.summary.clone(), page: settings.report.clone() }
    }

    /// Writes the documents, as long as there is time.
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
            write_in_time(stop, "summary", path, write).await;
        }
        if let Some(path) = self.page.clone() {
            let result = result.clone();
            write_in_time(stop, "report", path, move |file| page(&result, log, file)).await;
        }
    }
}

/// Writes a file with a deadline, because disks can be slow and file systems can hang.
async fn write_in_time(
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
        None if draft.cancel().await => TOO_LATE.to_owned(),
        // Written, or written at the moment of the deadline.
        Some(Ok(Ok(()))) | None => return,
    };
    tracing::warn!("cannot write the {what} `{}`: {problem}", path.display());
}

/// Why a file was not written.
const TOO_LATE: &str = "there was no time left";

/// How long the removal of a cancelled draft may take.
const REMOVAL_TIME: Duration = Duration::from_millis(200);

/// A temporary file beside its destination, until it is renamed or cancelled.
#[derive(Debug, Default)]
struct Draft {
    is_cancelled: AtomicBool,
    /// Whether it was renamed to its destination.
    is_finished: AtomicBool,
    /// The path of the temporary file.
    file: Mutex<Option<PathBuf>>,
}

/// Writes a draft until it is cancelled.
struct Writer {
    file: BufWriter<std::fs::File>,
    draft: Arc<Draft>,
}

impl Draft {
    /// Writes the temporary file and renames it to `path`.
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

    /// Stops writing and removes the temporary file. Returns false if the file is finished.
    async fn cancel(self: Arc<Self>) -> bool {
        self.is_cancelled.store(true, Ordering::Relaxed);
        let removal = tokio::task::spawn_blocking(move || {
            let file = self.file().take();
            // An error is not logged: the disk is the reason for the cancellation.
            let _ = file.map(std::fs::remove_file);
            !self.is_finished.load(Ordering::Relaxed)
        });
        // The file is not finished if the disk needs longer.
        match tokio::time::timeout(REMOVAL_TIME, removal).await {
            Ok(Ok(is_cancelled)) => is_cancelled,
            Ok(Err(_)) | Err(_) => true,
        }
    }

    fn check(&self) -> Result<()> {
        if self.is_cancelled.load(Ordering::Relaxed) {
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
    async fn late_file_is_not_written_and_leaves_no_draft() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("page.html");
        let stop = Stop::new();
        stop.request(StopReason::Signal(Signal::SIGTERM));
        let (go_on, waiting) = channel();
        let (ended, end) = channel();
        write_in_time(&stop, "report", path, move |file| {
            file.write_all(b"one")?;
            waiting.recv().unwrap();
            let written = file.write_all(b"two");
            ended.send(written.is_err()).unwrap();
            written
        })
        .await;
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0, "no draft is left");
        go_on.send(()).unwrap();
        assert!(end.recv().unwrap(), "the writer stops");
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
    }
}
