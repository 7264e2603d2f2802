//! The wipe of a run's directory at the end of the run.
//!
//! It runs on a separate thread, so that signals are handled meanwhile. Files that no report needs are wiped while the
//! reports are sent, and the others after that. The final status waits for the wipe: without a limit at first, and for a
//! short time after a signal.

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::run_directory::RunDirectory;
use butler_base::cancel::{Step, Stop};
use butler_base::error::chain;
use butler_base::secret::WipeError;

/// The time that the wipe always gets. It is usually enough.
const MIN_WIPE_TIME: Duration = Duration::from_millis(500);

/// The message about a wipe that failed.
const NOT_WIPED: &str = "secrets may remain on the disk";

/// The message about a wipe that missed its deadline.
const WIPE_UNFINISHED: &str = "the run's files were not all wiped in the time after a signal; \
the next run or `butler-runner clean` wipes what is left";

/// The wipe of a run's directory.
pub(in crate::run) struct Wiping {
    task: JoinHandle<Result<(), WipeError>>,
    /// Dropped when no file of the directory is needed any more.
    reported: oneshot::Sender<()>,
}

/// A wipe that missed its deadline and continues.
pub(in crate::run) struct UnfinishedWipe(JoinHandle<Result<(), WipeError>>);

/// The result of a wipe at the time of the final status.
pub(in crate::run) enum Wiped {
    Done,
    Failed(String),
    Unfinished(UnfinishedWipe),
}

impl Wiped {
    /// The message for users.
    pub(in crate::run) fn problem(&self) -> Option<String> {
        match self {
            Self::Done => None,
            Self::Failed(reason) => Some(format!("{NOT_WIPED}: {reason}")),
            Self::Unfinished(_) => Some(WIPE_UNFINISHED.to_owned()),
        }
    }

    /// The wipe to wait for after everything else.
    pub(in crate::run) fn unfinished(self) -> Option<UnfinishedWipe> {
        match self {
            Self::Unfinished(wipe) => Some(wipe),
            Self::Done | Self::Failed(_) => None,
        }
    }
}

impl Wiping {
    /// Begins with the files that no report needs, which include `unused`. All children must have ended.
    pub(in crate::run) fn start(
        mut directory: RunDirectory,
        unused: Vec<PathBuf>,
        but_clone: bool,
    ) -> Self {
        let (reported, rest) = oneshot::channel();
        let task = tokio::task::spawn_blocking(move || {
            let wiped = directory.wipe_unused(&unused, but_clone);
            // An error means that the sender was dropped: the reports have ended.
            let _ = rest.blocking_recv();
            wiped.and(if but_clone { directory.wipe_but_clone() } else { directory.wipe() })
        });
        Self { task, reported }
    }

    /// Wipes the rest and waits for the end. After a signal it waits for a short time, because the final status must be
    /// delivered.
    pub(in crate::run) async fn finish(self, stop: &Stop) -> Wiped {
        let Self { mut task, reported } = self;
        drop(reported);
        let too_long = async {
            tokio::join!(stop.overdue(Step::Files), tokio::time::sleep(MIN_WIPE_TIME));
        };
        tokio::select! {
            biased;
            done = &mut task => match done {
                Ok(Ok(())) => Wiped::Done,
                Ok(Err(error)) => Wiped::Failed(chain(&error)),
                Err(error) => Wiped::Failed(format!("the wipe failed (a bug): {error}")),
            },
            () = too_long => Wiped::Unfinished(UnfinishedWipe(task)),
        }
    }
}

impl UnfinishedWipe {
    /// Waits for the end as long as there is time.
    pub(in crate::run) async fn join(self, stop: &Stop) {
        match stop.within(Step::Terminal, self.0).await {
            Some(Ok(Ok(()))) => tracing::info!("all files of the run are wiped now"),
            Some(Ok(Err(error))) => tracing::error!("{NOT_WIPED}: {}", chain(&error)),
            Some(Err(error)) => tracing::error!("{NOT_WIPED}: the wipe failed (a bug): {error}"),
            None => tracing::error!("{WIPE_UNFINISHED}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::run_directory::RunDirectoryOptions;
    use super::*;

    /// A run's directory with a clone, a plan and a report of it. Returns these three.
    fn run(base: &Path) -> (RunDirectory, [PathBuf; 3]) {
        let options = RunDirectoryOptions {
            work_dir: base,
            path: None,
            tmpfs_dir: Some(base),
            owner: "run 7".to_owned(),
        };
        let directory = RunDirectory::create(&options, &mut None).unwrap();
        std::fs::create_dir(directory.source()).unwrap();
        directory.prepare_module(&directory.source()).unwrap();
        directory.secrets().write("variables", b"hunter22").unwrap();
        let [plan, report] =
            ["plan", "report"].map(|name| directory.private().write(name, b"hunter22"));
        let files = [directory.source(), plan.unwrap(), report.unwrap()];
        (directory, files)
    }

    fn wait_until_gone(path: &Path) {
        while path.exists() {
            std::thread::yield_now();
        }
    }

    fn entries(base: &Path) -> usize {
        std::fs::read_dir(base).unwrap().count()
    }

    #[tokio::test]
    async fn files_of_reports_stay_until_they_are_sent_and_others_are_wiped_at_once() {
        let base = tempfile::tempdir().unwrap();
        let (directory, [clone, plan, report]) = run(base.path());
        let wiping = Wiping::start(directory, vec![plan.clone()], false);
        wait_until_gone(&plan);
        wait_until_gone(&clone);
        assert_eq!(entries(base.path()), 1, "the secrets are gone");
        assert_eq!(std::fs::read(&report).unwrap(), b"hunter22");
        assert!(matches!(wiping.finish(&Stop::new()).await, Wiped::Done));
        assert_eq!(entries(base.path()), 0);
    }

    #[tokio::test]
    async fn everything_is_wiped_if_the_wipe_is_dropped() {
        let base = tempfile::tempdir().unwrap();
        let (directory, [clone, ..]) = run(base.path());
        let private = clone.parent().unwrap().to_owned();
        drop(Wiping::start(directory, Vec::new(), false));
        wait_until_gone(&private);
    }

    #[tokio::test]
    async fn clone_with_a_state_stays() {
        let base = tempfile::tempdir().unwrap();
        let (directory, [clone, plan, _]) = run(base.path());
        std::fs::write(clone.join("errored.tfstate"), "precious").unwrap();
        let wiping = Wiping::start(directory, vec![plan.clone()], true);
        assert!(matches!(wiping.finish(&Stop::new()).await, Wiped::Done));
        assert!(!plan.exists());
        assert_eq!(std::fs::read(clone.join("errored.tfstate")).unwrap(), b"precious");
    }
}
