//! The wipe of a run's directory at the end of the run.
//!
//! It is on a thread of its own, so that signals are heard meanwhile. What no report is made of is wiped
//! while the reports are on their way, and the rest when they are there, or when nobody is left who
//! sends them. The final status waits for it: without bound at first, but not for long once a signal
//! has come.

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::run_directory::RunDirectory;
use butler_base::cancel::{Step, Stop};
use butler_base::error::chain;
use butler_base::secret::WipeError;

/// How long the wipe may take at least, however late it is: mostly it needs no more.
const WIPE_LEAST: Duration = Duration::from_millis(500);

/// What is said of a wipe that failed.
const NOT_WIPED: &str = "secrets may remain on the disk";

/// What is said of a wipe that there was no time for.
const WIPE_GOES_ON: &str = "the run's files were not all wiped in the time after a signal; \
the next run or `butler-runner clean` wipes what is left";

/// The wipe of a run's directory, on a thread of its own: meanwhile signals are heard.
pub(in crate::run) struct Wiping {
    task: JoinHandle<Result<(), WipeError>>,
    /// Told that nothing of the directory is needed any more; it is so too when this is dropped.
    reported: oneshot::Sender<()>,
}

/// The wipe of what is left, which takes long.
pub(in crate::run) struct GoingOn(JoinHandle<Result<(), WipeError>>);

/// How the wipe ended, as far as the final status waits for it.
pub(in crate::run) enum Wiped {
    Done,
    Failed(String),
    GoesOn(GoingOn),
}

impl Wiped {
    /// What people have to know of it.
    pub(in crate::run) fn problem(&self) -> Option<String> {
        match self {
            Self::Done => None,
            Self::Failed(reason) => Some(format!("{NOT_WIPED}: {reason}")),
            Self::GoesOn(_) => Some(WIPE_GOES_ON.to_owned()),
        }
    }

    /// What is to be waited for when everything else is done.
    pub(in crate::run) fn still_going_on(self) -> Option<GoingOn> {
        match self {
            Self::GoesOn(going_on) => Some(going_on),
            Self::Done | Self::Failed(_) => None,
        }
    }
}

impl Wiping {
    /// Begins with what no report is made of, `unused` among it. All children must have ended.
    pub(in crate::run) fn start(
        mut directory: RunDirectory,
        unused: Vec<PathBuf>,
        but_clone: bool,
    ) -> Self {
        let (reported, rest) = oneshot::channel();
        let task = tokio::task::spawn_blocking(move || {
            let wiped = directory.wipe_unused(&unused, but_clone);
            // Whoever sends the reports may be gone.
            let _ = rest.blocking_recv();
            wiped.and(if but_clone { directory.wipe_but_clone() } else { directory.wipe() })
        });
        Self { task, reported }
    }

    /// Wipes the rest and waits for the end; once a signal has come not for long, because the final
    /// status has to be delivered. What is secret goes first.
    pub(in crate::run) async fn finish(self, stop: &Stop) -> Wiped {
        let Self { mut task, reported } = self;
        drop(reported);
        let too_long = async {
            tokio::join!(stop.overdue(Step::Files), tokio::time::sleep(WIPE_LEAST));
        };
        tokio::select! {
            biased;
            done = &mut task => match done {
                Ok(Ok(())) => Wiped::Done,
                Ok(Err(error)) => Wiped::Failed(chain(&error)),
                Err(error) => Wiped::Failed(format!("the wipe failed (a bug): {error}")),
            },
            () = too_long => Wiped::GoesOn(GoingOn(task)),
        }
    }
}

impl GoingOn {
    /// Waits as long as there is time, after everything else.
    pub(in crate::run) async fn join(self, stop: &Stop) {
        match stop.within(Step::Terminal, self.0).await {
            Some(Ok(Ok(()))) => tracing::info!("all files of the run are wiped now"),
            Some(Ok(Err(error))) => tracing::error!("{NOT_WIPED}: {}", chain(&error)),
            Some(Err(error)) => tracing::error!("{NOT_WIPED}: the wipe failed (a bug): {error}"),
            None => tracing::error!("{WIPE_GOES_ON}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::run_directory::Place;
    use super::*;

    /// A run's directory with a clone, a plan and a report of it. Returns these three.
    fn run(base: &Path) -> (RunDirectory, [PathBuf; 3]) {
        let place = Place { work_dir: base, tmpfs_dir: Some(base), owner: "run 7".to_owned() };
        let directory = RunDirectory::create(&place, &mut None).unwrap();
        std::fs::create_dir(directory.source()).unwrap();
        directory.adopt(&directory.source()).unwrap();
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
    async fn what_is_reported_stays_until_it_was_and_everything_else_goes_at_once() {
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
    async fn everything_goes_where_nobody_reports_any_more() {
        let base = tempfile::tempdir().unwrap();
        let (directory, [clone, ..]) = run(base.path());
        let private = clone.parent().unwrap().to_owned();
        drop(Wiping::start(directory, Vec::new(), false));
        wait_until_gone(&private);
    }

    #[tokio::test]
    async fn a_clone_that_holds_a_state_stays() {
        let base = tempfile::tempdir().unwrap();
        let (directory, [clone, plan, _]) = run(base.path());
        std::fs::write(clone.join("errored.tfstate"), "precious").unwrap();
        let wiping = Wiping::start(directory, vec![plan.clone()], true);
        assert!(matches!(wiping.finish(&Stop::new()).await, Wiped::Done));
        assert!(!plan.exists());
        assert_eq!(std::fs::read(clone.join("errored.tfstate")).unwrap(), b"precious");
    }
}
