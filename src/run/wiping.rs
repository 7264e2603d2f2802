//! The wipe of a run's directory at the end of the run.
//!
//! It is on a thread of its own, so that signals are heard meanwhile, and the final status waits for
//! it: without bound at first, but not for long once a signal has come.

use std::time::Duration;

use tokio::task::JoinHandle;

use super::workspace::RunDirectory;
use crate::cancel::{Step, Stop};
use crate::error::chain;
use crate::secret::WipeError;

/// How long the wipe may take at least, however late it is: mostly it needs no more.
const WIPE_LEAST: Duration = Duration::from_millis(500);

/// What is said of a wipe that failed.
const NOT_WIPED: &str = "secrets may be left on the disk";

/// What is said of a wipe that there was no time for.
const WIPE_GOES_ON: &str = "the run's files were not all wiped in the time after a signal; \
the next run or `butler-runner clean` wipes what is left";

/// The wipe of a run's directory, on a thread of its own: meanwhile signals are heard.
pub(super) struct Wiping(JoinHandle<Result<(), WipeError>>);

/// How the wipe ended, as far as the final status waits for it.
pub(super) enum Wiped {
    Done,
    Failed(String),
    GoesOn(Wiping),
}

impl Wiped {
    /// What people have to know of it.
    pub(super) fn problem(&self) -> Option<String> {
        match self {
            Self::Done => None,
            Self::Failed(reason) => Some(format!("{NOT_WIPED}: {reason}")),
            Self::GoesOn(_) => Some(WIPE_GOES_ON.to_owned()),
        }
    }

    /// What is to be waited for when everything else is done.
    pub(super) fn still_going_on(self) -> Option<Wiping> {
        match self {
            Self::GoesOn(wiping) => Some(wiping),
            Self::Done | Self::Failed(_) => None,
        }
    }
}

impl Wiping {
    pub(super) fn start(directory: RunDirectory, but_clone: bool) -> Self {
        // Only paths are handled there, so nothing of a secret gets onto that stack.
        Self(tokio::task::spawn_blocking(move || {
            if but_clone { directory.wipe_but_clone() } else { directory.wipe() }
        }))
    }

    /// Waits for the end; once a signal has come not for long, because the final status has to be
    /// delivered. What is secret goes first.
    pub(super) async fn finish(mut self, stop: &Stop) -> Wiped {
        let too_long = async {
            tokio::join!(stop.overdue(Step::Files), tokio::time::sleep(WIPE_LEAST));
        };
        tokio::select! {
            biased;
            done = &mut self.0 => match done {
                Ok(Ok(())) => Wiped::Done,
                Ok(Err(error)) => Wiped::Failed(chain(&error)),
                Err(error) => Wiped::Failed(format!("the wipe failed (a bug): {error}")),
            },
            () = too_long => Wiped::GoesOn(self),
        }
    }

    /// Waits as long as there is time, after everything else.
    pub(super) async fn join(self, stop: &Stop) {
        match stop.within(Step::Terminal, self.0).await {
            Some(Ok(Ok(()))) => tracing::info!("all files of the run are wiped now"),
            Some(Ok(Err(error))) => tracing::error!("{NOT_WIPED}: {}", chain(&error)),
            Some(Err(error)) => tracing::error!("{NOT_WIPED}: the wipe failed (a bug): {error}"),
            None => tracing::error!("{WIPE_GOES_ON}"),
        }
    }
}
