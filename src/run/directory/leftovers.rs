//! Finds and wipes what runners left that were killed.
//!
//! Directories are found by their names where runs make them, and whose they are is known by their
//! locks. A state that Terraform could not store is kept before anything is wiped, and while a
//! Terraform still lives, or may live elsewhere, its directory stays as it is.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::memory;
use super::ownership::{Leftover, Use, candidates, inspect};
use super::recovery::{ERRORED_STATE, bring_state_home, keep_state, states_below};
use super::run_directory::{DOWNLOADS, LAYOUT, module_of};
use crate::settings::{CleanSettings, Settings};
use butler_base::cancel::Stop;
use butler_base::error::chain;
use butler_base::secret::wipe_directory;

/// How long a run waits for what it tidies up after others; the rest goes on beside it.
const WAIT: Duration = Duration::from_secs(5);

/// The child that clones ends a moment after its runner, and may write until then.
const WIPE_ATTEMPTS: usize = 4;
const WIPE_PAUSE: Duration = Duration::from_millis(250);

/// What is to be done with what is found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Act {
    /// It is wiped.
    Wipe,
    /// It is only reported.
    Show,
}

/// What was found, and what became of it.
#[derive(Debug)]
pub struct Finding {
    path: PathBuf,
    /// Whose it was, as text for people; empty where that is not known.
    owner: String,
    kept: Option<PathBuf>,
    end: End,
}

#[derive(Debug)]
enum End {
    Wiped,
    WouldBeWiped,
    /// The tool lives.
    InUse,
    /// Nobody can tell from here whether anybody lives on this host.
    Unknown(String),
    Failed(String),
}

impl Finding {
    /// Whether it is still there although nobody uses it.
    #[must_use]
    pub const fn has_failed(&self) -> bool {
        matches!(self.end, End::Failed(_))
    }

    fn log(&self) {
        match self.end {
            End::Failed(_) => tracing::error!("{self}"),
            End::InUse | End::Unknown(_) => tracing::warn!("{self}"),
            _ if self.kept.is_some() => tracing::warn!("{self}"),
            End::Wiped | End::WouldBeWiped => tracing::info!("{self}"),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        let of = |text: &str| match self.owner.as_str() {
            "" => String::new(),
            owner => format!("{text}{owner}"),
        };
        match &self.end {
            End::Wiped => write!(formatter, "wiped {path}, left over{}", of(" from "))?,
            End::WouldBeWiped => {
                write!(formatter, "would wipe {path}, left over{}", of(" from "))?;
            }
            End::InUse => write!(
                formatter,
                "left {path} alone: the runner{} is dead, but its tool still runs",
                of(" of ")
            )?,
            End::Unknown(host) => write!(
                formatter,
                "left {path} alone: it is{} on the host {host}, and whether that still runs cannot be seen from here",
                of(" of ")
            )?,
            End::Failed(reason) => {
                let from = of(" from ");
                write!(formatter, "secrets may remain in {path}, left over{from}: {reason}")?;
            }
        }
        match &self.kept {
            None => Ok(()),
            Some(state) if matches!(self.end, End::WouldBeWiped) => {
                write!(formatter, "; would keep the state {} first", state.display())
            }
            Some(state) => write!(
                formatter,
                "; its tool could not store the state, which is kept in {0}: run `terraform state push {0}`, or the same with `tofu` or `terragrunt`, in the module",
                state.display()
            ),
        }
    }
}

/// Tidies up in the directories that `settings` name and tells what was found, one by one.
///
/// # Errors
/// When the work directory cannot be read.
pub fn clean(
    settings: &CleanSettings,
    act: Act,
    mut tell: impl FnMut(Finding),
) -> std::io::Result<()> {
    let memory = memory::place(settings.tmpfs_dir.as_deref());
    // Both first: a place that is named twice is looked at once.
    let work = candidates(&settings.work_dir)?;
    // One that cannot be read holds nothing of this user's. Secrets go first, as at the end of a
    // run: whose they are is known by the run's directory.
    let mut found = memory.and_then(|place| candidates(&place).ok()).unwrap_or_default();
    found.extend(work.into_iter().filter(|path| !found.contains(path)).collect::<Vec<_>>());
    for path in found {
        let (mut leftover, end) = match inspect(&path) {
            Use::Foreign => continue,
            Use::Empty => {
                if act == Act::Wipe {
                    // Fails where somebody just put something into it.
                    let _ = std::fs::remove_dir(&path);
                }
                continue;
            }
            Use::Unknown(leftover) => {
                let host = leftover.origin.host().to_owned();
                (leftover, Some(End::Unknown(host)))
            }
            Use::Tool(leftover) => (leftover, Some(End::InUse)),
            Use::Nobody(leftover) => (leftover, (act == Act::Show).then_some(End::WouldBeWiped)),
        };
        let (kept, end) = match end {
            Some(End::WouldBeWiped) => (state_of(&leftover), End::WouldBeWiped),
            Some(end) => (None, end),
            None => wipe(&mut leftover, &settings.recovery_dir),
        };
        let Leftover { path, owner, .. } = leftover;
        tell(Finding { path, owner, kept, end });
    }
    Ok(())
}

/// The same for a run that is about to begin: says what it does in the log, waits for it for a
/// while only, and never fails.
pub(in crate::run) async fn clean_before(settings: &Settings, stop: &Stop) {
    let settings = Arc::new(CleanSettings {
        work_dir: settings.work_dir.clone(),
        tmpfs_dir: settings.tmpfs_dir.clone(),
        recovery_dir: settings.recovery_dir.clone(),
    });
    let cleaning = tokio::task::spawn_blocking(move || {
        if let Err(error) = clean(&settings, Act::Wipe, |finding| finding.log()) {
            let path = settings.work_dir.display();
            tracing::warn!(%path, %error, "cannot look for what killed runners left");
        }
    });
    tokio::select! {
        done = tokio::time::timeout(WAIT, cleaning) => match done {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "tidying up after killed runners failed (a bug)"),
            Err(_) => tracing::info!("there is much to wipe; the run begins meanwhile"),
        },
        _ = stop.requested() => {}
    }
}

/// Wipes a leftover, after its state was kept.
fn wipe(leftover: &mut Leftover, recovery: &Path) -> (Option<PathBuf>, End) {
    let kept = match module_of(&leftover.path) {
        Some(module) => {
            bring_state_home(&leftover.path.join(DOWNLOADS), &module);
            keep_state(&module, recovery, &leftover.path)
        }
        None => Ok(None),
    };
    let kept = match kept {
        Ok(kept) => kept,
        // It is the only copy there is: it stays, with everything around it.
        Err(error) => {
            return (
                None,
                End::Failed(format!(
                    "its tool could not store the state, and the state cannot be moved from there: {error}"
                )),
            );
        }
    };
    let mut attempts = 1;
    let end = loop {
        match wipe_directory(&leftover.path, LAYOUT) {
            Ok(()) => break End::Wiped,
            Err(_) if attempts < WIPE_ATTEMPTS => {
                attempts += 1;
                std::thread::sleep(WIPE_PAUSE);
            }
            Err(_) if leftover.remove_unlocked() => break End::Wiped,
            Err(error) => break End::Failed(chain(&error)),
        }
    };
    (kept, end)
}

/// A state in it that Terraform could not store.
fn state_of(leftover: &Leftover) -> Option<PathBuf> {
    let in_module = module_of(&leftover.path)
        .map(|module| module.join(ERRORED_STATE))
        .filter(|path| path.is_file());
    in_module.or_else(|| states_below(&leftover.path.join(DOWNLOADS)).pop())
}
