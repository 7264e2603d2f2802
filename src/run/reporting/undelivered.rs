//! What the registry did not get of the log: counted, kept in a file, and told to everybody.

use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::RecvError;

use crate::report::{Undelivered, UploadEnd, UploadReport, WrittenLines};
use crate::run::directory::recovery::new_file;
use butler_base::cancel::Stop;

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

/// The lines that the registry did not get, as the final status tells it.
#[derive(Clone, Debug, Serialize)]
pub(in crate::run) struct UndeliveredLogs {
    /// How many.
    lines: u32,
    /// The number of the first.
    first: u32,
    /// The number of the last.
    last: u32,
    /// The file that holds them, one JSON object a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::run) kept_in: Option<String>,
    /// Why it does not, or not all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::run) problem: Option<String>,
}

impl UndeliveredLogs {
    /// How many there are.
    pub(in crate::run) const fn lines(&self) -> u32 {
        self.lines
    }

    /// Keeps what an upload has left, if it has left anything that somebody may want, and hurries
    /// once a signal has come. The spool is wiped after this has completed.
    pub(in crate::run) async fn keep(
        report: UploadReport,
        mut left: Undelivered,
        place: Place,
        stop: &Stop,
    ) -> Result<Option<Self>, RecvError> {
        let (signalled, heard) = (Arc::new(OnceLock::new()), stop.signalled());
        let (tell, told) = oneshot::channel();
        let at = signalled.clone();
        tokio::task::spawn_blocking(move || {
            let begun = Instant::now();
            let goes_on = || match at.get() {
                None => begun.elapsed() < WRITING,
                Some(signal) => Instant::elapsed(signal) < WRITING_AFTER_SIGNAL,
            };
            // Nobody hears it where the run was given up.
            let _ = tell.send(Self::write(&report, &mut left, &place, goes_on));
        });
        tokio::pin!(told);
        tokio::select! {
            biased;
            () = heard => { let _ = signalled.set(Instant::now()); }
            kept = &mut told => return kept,
        }
        told.await
    }

    fn write(
        report: &UploadReport,
        left: &mut Undelivered,
        place: &Place,
        goes_on: impl Fn() -> bool,
    ) -> Option<Self> {
        let (first, last) = report.undelivered.clone()?.into_inner();
        if report.end == UploadEnd::RunOver {
            return None;
        }
        let mut told = Self { lines: last - first + 1, first, last, kept_in: None, problem: None };
        match write(left, place, goes_on) {
            Ok((path, written)) => {
                told.kept_in = Some(path.display().to_string());
                told.problem = (!written.complete)
                    .then(|| format!("only the first {} in time", written.lines));
            }
            Err(error) => told.problem = Some(format!("they could not be kept: {error}")),
        }
        Some(told)
    }

    /// In one line.
    pub(in crate::run) fn text(&self) -> String {
        let Self { lines, first, last, .. } = self;
        let mut text = match lines {
            1 => format!("1 log line ({first}) did not reach the registry"),
            _ => format!("{lines} log lines ({first} to {last}) did not reach the registry"),
        };
        if let Some(path) = &self.kept_in {
            text = format!("{text}; kept in `{path}`");
        }
        if let Some(problem) = &self.problem {
            text = format!("{text}; {problem}");
        }
        text
    }
}

/// Writes the lines into a new file (0600). What cannot be written is not left behind in part.
fn write(
    left: &mut Undelivered,
    place: &Place,
    goes_on: impl Fn() -> bool,
) -> std::io::Result<(PathBuf, WrittenLines)> {
    let file = new_file(&place.recovery, PREFIX, SUFFIX).or_else(|error| {
        tracing::warn!(%error, "cannot keep log lines in the recovery directory");
        new_file(&place.work, PREFIX, SUFFIX)
    })?;
    let written = left.write(&mut BufWriter::new(file.as_file()), goes_on)?;
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
        UndeliveredLogs::keep(report, left, place.clone(), &Stop::new()).await.unwrap()
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
        assert!(told.text().starts_with(expected), "{}", told.text());
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
        assert!(told.text().contains("could not be kept: "), "{}", told.text());
        let place = Place { recovery: base.path().join("recovery"), work: base.path().to_owned() };
        assert!(kept(Delivery::RunOver, &place).await.is_none());
        assert!(!place.recovery.exists());
    }
}
