//! Keeps the log lines that the registry did not get, in a file.

use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::RecvError;

use crate::report::{Undelivered, UploadEnd, UploadReport, WrittenLines};
use crate::run::directory::kept_file::new_file;
use butler_base::cancel::Stop;
use butler_result::UndeliveredLogs;

/// The name of the file, in the recovery directory or beside the run's directory.
const PREFIX: &str = "undelivered-log-";
const SUFFIX: &str = ".jsonl";

/// How long writing the file may take; enough for 256 MiB of lines on a slow disk.
const WRITING: Duration = Duration::from_secs(10);

/// The same after a signal: the final status needs the time.
const WRITING_AFTER_SIGNAL: Duration = Duration::from_secs(1);

/// The directories for the file.
#[derive(Clone, Debug)]
pub(in crate::run) struct RecoveryDirectories {
    /// The first choice (`--recovery-dir`).
    pub(in crate::run) recovery: PathBuf,
    /// The second choice: the parent of the run's directory.
    pub(in crate::run) work: PathBuf,
}

/// Keeps the lines that the registry did not get and may still need. A signal shortens the time for
/// it. The spool must not be wiped before this has completed.
///
/// # Errors
/// The thread that writes the file has panicked.
pub(in crate::run) async fn keep_undelivered(
    report: UploadReport,
    mut left: Undelivered,
    directories: RecoveryDirectories,
    stop: &Stop,
) -> Result<Option<UndeliveredLogs>, RecvError> {
    let (signal_time, signalled) = (Arc::new(OnceLock::new()), stop.signalled());
    let (sender, kept) = oneshot::channel();
    let signal_time_of_thread = signal_time.clone();
    tokio::task::spawn_blocking(move || {
        let begun = Instant::now();
        let has_time = || match signal_time_of_thread.get() {
            None => begun.elapsed() < WRITING,
            Some(signal) => Instant::elapsed(signal) < WRITING_AFTER_SIGNAL,
        };
        // The receiver is gone if the run was dropped.
        let _ = sender.send(keep_lines(&report, &mut left, &directories, has_time));
    });
    tokio::pin!(kept);
    tokio::select! {
        biased;
        () = signalled => { let _ = signal_time.set(Instant::now()); }
        kept = &mut kept => return kept,
    }
    kept.await
}

fn keep_lines(
    report: &UploadReport,
    left: &mut Undelivered,
    directories: &RecoveryDirectories,
    has_time: impl Fn() -> bool,
) -> Option<UndeliveredLogs> {
    let (first, last) = report.undelivered.clone()?.into_inner();
    if report.end == UploadEnd::RunOver {
        return None;
    }
    let mut logs =
        UndeliveredLogs { lines: last - first + 1, first, last, kept_in: None, problem: None };
    match write(left, directories, has_time) {
        Ok((path, written)) => {
            logs.kept_in = Some(path.display().to_string());
            logs.problem =
                (!written.complete).then(|| format!("only the first {} in time", written.lines));
        }
        Err(error) => logs.problem = Some(format!("they could not be kept: {error}")),
    }
    Some(logs)
}

/// Writes the lines into a new file (0600), which is removed after an error.
fn write(
    left: &mut Undelivered,
    directories: &RecoveryDirectories,
    has_time: impl Fn() -> bool,
) -> std::io::Result<(PathBuf, WrittenLines)> {
    let file = new_file(&directories.recovery, PREFIX, SUFFIX).or_else(|error| {
        tracing::warn!(%error, "cannot keep log lines in the recovery directory");
        new_file(&directories.work, PREFIX, SUFFIX)
    })?;
    let written = left.write(&mut BufWriter::new(file.as_file()), has_time)?;
    let (_, path) = file.keep().map_err(|error| error.error)?;
    Ok((path, written))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::report::{Batch, Delivery, LogSink, channel, upload};

    /// A registry that returns this to all requests.
    struct FixedResponse(Delivery);

    impl LogSink for FixedResponse {
        async fn send(&self, _batch: &Batch) -> Delivery {
            self.0.clone()
        }
    }

    async fn keep(
        delivery: Delivery,
        directories: &RecoveryDirectories,
    ) -> Option<UndeliveredLogs> {
        let (sender, receiver) = channel(1 << 20, directories.work.join("spool"));
        for sequence in 1..=3 {
            let stream = butler_base::event::Stream::Stdout;
            sender.send(butler_base::event::LogLineRef { sequence, stream, content: "x" });
        }
        drop(sender);
        let overdue = std::future::pending();
        let (report, left) =
            upload(receiver, &FixedResponse(delivery), Duration::ZERO, overdue).await;
        keep_undelivered(report, left, directories.clone(), &Stop::new()).await.unwrap()
    }

    fn refused() -> Delivery {
        Delivery::Refused { reason: String::new() }
    }

    #[tokio::test]
    async fn lines_are_kept_in_a_private_file_of_the_recovery_directory() {
        let base = tempfile::tempdir().unwrap();
        let recovery = base.path().join("cache/recovery");
        let directories =
            RecoveryDirectories { recovery: recovery.clone(), work: base.path().to_owned() };
        let kept = keep(refused(), &directories).await.unwrap();
        let path = PathBuf::from(kept.kept_in.clone().unwrap());
        assert_eq!(path.parent(), Some(recovery.as_path()));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 3);
        let expected = "3 log lines (1 to 3) did not reach the registry; kept in `";
        assert!(kept.to_string().starts_with(expected), "{}", kept.to_string());
    }

    #[tokio::test]
    async fn lines_are_kept_beside_the_run_if_the_recovery_directory_is_not_writable() {
        let base = tempfile::tempdir().unwrap();
        let recovery = base.path().join("recovery");
        std::fs::write(&recovery, "a file where a directory should be").unwrap();
        let directories = RecoveryDirectories { recovery, work: base.path().join("work") };
        let kept = keep(refused(), &directories).await.unwrap();
        let path = PathBuf::from(kept.kept_in.unwrap());
        assert_eq!(path.parent(), Some(directories.work.as_path()));
        assert_eq!(kept.problem, None);
    }

    #[tokio::test]
    async fn lines_that_cannot_be_kept_are_reported_and_lines_of_an_ended_run_are_dropped() {
        let base = tempfile::tempdir().unwrap();
        let file = base.path().join("file");
        std::fs::write(&file, "a file where a directory should be").unwrap();
        let directories = RecoveryDirectories { recovery: file.join("x"), work: file };
        let kept = keep(refused(), &directories).await.unwrap();
        assert!(kept.to_string().contains("could not be kept: "), "{}", kept.to_string());
        let directories = RecoveryDirectories {
            recovery: base.path().join("recovery"),
            work: base.path().to_owned(),
        };
        assert!(keep(Delivery::RunOver, &directories).await.is_none());
        assert!(!directories.recovery.exists());
    }
}
