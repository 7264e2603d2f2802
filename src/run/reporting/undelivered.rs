//! What the registry did not get of the log: counted, kept in a file, and told to everybody.

use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::sync::oneshot::error::RecvError;

use crate::report::{Undelivered, UploadEnd, UploadReport, Written};
use crate::run::directory::recovery::new_file;
use butler_base::cancel::Stop;
use butler_result::UndeliveredLogs;

/// How kept lines are called in the recovery directory, and beside a run's directory.
const PREFIX: &str = "undelivered-log-";
const SUFFIX: &str = ".jsonl";

/// How long writing the file may take: 256 MiB of lines, on a slow disk.
const WRITING: Duration = Duration::from_secs(10);

/// How long after a signal, when the final status matters more.
const WRITING_AFTER_SIGNAL: Duration = Duration::from_secs(1);

/// Where lines are kept.
#[derive(Clone, Debug)]
pub(in crate::run) struct Place {
    /// The directory for what could not be handed over (`--recovery-dir`).
    pub(in crate::run) recovery: PathBuf,
    /// Where else: the directory in which the run has its own.
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
    place: Place,
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
        let _ = sender.send(keep_lines(&report, &mut left, &place, has_time));
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
    place: &Place,
    has_time: impl Fn() -> bool,
) -> Option<UndeliveredLogs> {
    let (first, last) = report.undelivered.clone()?.into_inner();
    if report.end == UploadEnd::RunOver {
        return None;
    }
    let mut logs =
        UndeliveredLogs { lines: last - first + 1, first, last, kept_in: None, problem: None };
    match write(left, place, has_time) {
        Ok((path, written)) => {
            logs.kept_in = Some(path.display().to_string());
            logs.problem =
                (!written.complete).then(|| format!("only the first {} in time", written.lines));
        }
        Err(error) => logs.problem = Some(format!("they could not be kept: {error}")),
    }
    Some(logs)
}

/// Writes the lines into a new file (0600). What cannot be written is not left behind in part.
fn write(
    left: &mut Undelivered,
    place: &Place,
    has_time: impl Fn() -> bool,
) -> std::io::Result<(PathBuf, Written)> {
    let file = new_file(&place.recovery, PREFIX, SUFFIX).or_else(|error| {
        tracing::warn!(%error, "cannot keep log lines in the recovery directory");
        new_file(&place.work, PREFIX, SUFFIX)
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

    /// A registry that refuses everything in the same way.
    struct Refuses(Delivery);

    impl LogSink for Refuses {
        async fn send(&self, _batch: &Batch) -> Delivery {
            self.0.clone()
        }
    }

    async fn kept(answer: Delivery, place: &Place) -> Option<UndeliveredLogs> {
        let (sender, receiver) = channel(1 << 20, place.work.join("spool"));
        for sequence in 1..=3 {
            let stream = butler_base::event::Stream::Stdout;
            sender.send(butler_base::event::LogLineRef { sequence, stream, content: "x" });
        }
        drop(sender);
        let overdue = std::future::pending();
        let (report, left) = upload(receiver, &Refuses(answer), Duration::ZERO, overdue).await;
        keep_undelivered(report, left, place.clone(), &Stop::new()).await.unwrap()
    }

    fn refused() -> Delivery {
        Delivery::Refused { reason: String::new() }
    }

    #[tokio::test]
    async fn lines_are_kept_where_the_user_is_told_for_nobody_else_to_read() {
        let base = tempfile::tempdir().unwrap();
        let recovery = base.path().join("cache/recovery");
        let place = Place { recovery: recovery.clone(), work: base.path().to_owned() };
        let told = kept(refused(), &place).await.unwrap();
        let path = PathBuf::from(told.kept_in.clone().unwrap());
        assert_eq!(path.parent(), Some(recovery.as_path()));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 3);
        let expected = "3 log lines (1 to 3) did not reach the registry; kept in `";
        assert!(told.to_string().starts_with(expected), "{}", told.to_string());
    }

    #[tokio::test]
    async fn lines_are_kept_beside_the_run_where_the_recovery_directory_cannot_take_them() {
        let base = tempfile::tempdir().unwrap();
        let recovery = base.path().join("recovery");
        std::fs::write(&recovery, "a file where a directory should be").unwrap();
        let place = Place { recovery, work: base.path().join("work") };
        let told = kept(refused(), &place).await.unwrap();
        let path = PathBuf::from(told.kept_in.unwrap());
        assert_eq!(path.parent(), Some(place.work.as_path()));
        assert_eq!(told.problem, None);
    }

    #[tokio::test]
    async fn what_cannot_be_kept_is_told_and_what_nobody_wants_is_not_kept() {
        let base = tempfile::tempdir().unwrap();
        let file = base.path().join("file");
        std::fs::write(&file, "a file where a directory should be").unwrap();
        let place = Place { recovery: file.join("x"), work: file };
        let told = kept(refused(), &place).await.unwrap();
        assert!(told.to_string().contains("could not be kept: "), "{}", told.to_string());
        let place = Place { recovery: base.path().join("recovery"), work: base.path().to_owned() };
        assert!(kept(Delivery::RunOver, &place).await.is_none());
        assert!(!place.recovery.exists());
    }
}
