//! Finds and wipes the directories of killed runners.
//!
//! Directories are found by their names, and their users by locks. A state that Terraform could not store is moved to
//! the recovery directory before the rest is wiped. A directory stays unchanged while its Terraform is alive, or may be
//! alive on another host.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::errored_state::{ERRORED_STATE, KeptState, StateForm, keep_errored_state};
use super::memory;
use super::ownership::{DirectoryUse, OrphanedDirectory, inspect_directory, list_run_directories};
use super::recovery::{collect_errored_state, errored_states_below};
use super::run_directory::{DOWNLOADS, LAYOUT, module_of};
use crate::settings::{CleanSettings, Settings};
use butler_base::cancel::Stop;
use butler_base::error::chain;
use butler_base::secret::{WipeError, wipe_directory};

/// How long a new run waits for the cleaning, which then continues in the background.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// The child that clones a source ends a moment after its runner, and can write until then.
const WIPE_ATTEMPTS: usize = 4;
const WIPE_PAUSE: Duration = Duration::from_millis(250);

/// What to do with orphaned directories.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CleanMode {
    /// Wipe them.
    Wipe,
    /// Only report them.
    DryRun,
}

/// An orphaned directory, and what the runner did with it.
#[derive(Debug)]
pub struct Finding {
    path: PathBuf,
    /// The name of its run; empty if it is unknown.
    owner: String,
    kept: Option<KeptState>,
    outcome: CleanOutcome,
}

#[derive(Debug)]
enum CleanOutcome {
    Wiped,
    WouldBeWiped,
    /// Its tool is alive.
    InUse,
    /// It belongs to this host, whose processes are not visible.
    Unknown(String),
    Failed(String),
}

impl Finding {
    /// Whether it is not in use and could not be wiped.
    #[must_use]
    pub const fn has_failed(&self) -> bool {
        matches!(self.outcome, CleanOutcome::Failed(_))
    }

    fn log(&self) {
        match self.outcome {
            CleanOutcome::Failed(_) => tracing::error!("{self}"),
            CleanOutcome::InUse | CleanOutcome::Unknown(_) => tracing::warn!("{self}"),
            _ if self.kept.is_some() => tracing::warn!("{self}"),
            CleanOutcome::Wiped | CleanOutcome::WouldBeWiped => tracing::info!("{self}"),
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
        match &self.outcome {
            CleanOutcome::Wiped => write!(formatter, "wiped {path}, left over{}", of(" from "))?,
            CleanOutcome::WouldBeWiped => {
                write!(formatter, "would wipe {path}, left over{}", of(" from "))?;
            }
            CleanOutcome::InUse => write!(
                formatter,
                "left {path} alone: the runner{} is dead, but its tool still runs",
                of(" of ")
            )?,
            CleanOutcome::Unknown(host) => write!(
                formatter,
                "left {path} alone: it is{} on the host {host}, and whether that still runs cannot be seen from here",
                of(" of ")
            )?,
            CleanOutcome::Failed(reason) => {
                let from = of(" from ");
                write!(formatter, "secrets may remain in {path}, left over{from}: {reason}")?;
            }
        }
        match &self.kept {
            None => Ok(()),
            Some(state) if matches!(self.outcome, CleanOutcome::WouldBeWiped) => {
                write!(formatter, "; would keep the state {} first", state.path().display())
            }
            Some(state) => {
                let path = state.path();
                write!(
                    formatter,
                    "; its tool could not store the state, which is kept in {}: ",
                    path.display()
                )?;
                match state {
                    KeptState::Plain(_) => write!(
                        formatter,
                        "{}, or the same with `tofu` or `terragrunt`, in the module",
                        state.next_step("terraform", path)
                    ),
                    // Only OpenTofu encrypts states.
                    KeptState::Decryptable(_) => {
                        write!(formatter, "{} in the module", state.next_step("tofu", path))
                    }
                    KeptState::Encrypted(_) | KeptState::Part(_) => {
                        formatter.write_str(&state.next_step("tofu", path))
                    }
                }
            }
        }
    }
}

/// Cleans the directories in `settings`. Passes each finding to `report`.
///
/// # Errors
/// If the work directory cannot be read.
pub fn clean(
    settings: &CleanSettings,
    mode: CleanMode,
    mut report: impl FnMut(Finding),
) -> std::io::Result<()> {
    let memory = memory::memory_directory(settings.tmpfs_dir.as_deref());
    // All lists first: a directory that is in several of them is cleaned once.
    let work = list_run_directories(&settings.work_dir)?;
    // A directory that is not readable contains nothing of this user. The parts of a run in other directories are
    // wiped first, because the run's directory tells whether they are in use.
    let others = memory.into_iter().chain([settings.temporary.clone()]);
    let others = others.filter(|parent| *parent != settings.work_dir);
    let mut found = Vec::new();
    for path in others.flat_map(|it| list_run_directories(&it).unwrap_or_default()).chain(work) {
        if !found.contains(&path) {
            found.push(path);
        }
    }
    for path in found {
        let (mut orphaned, outcome) = match inspect_directory(&path) {
            DirectoryUse::NotAvailable => continue,
            DirectoryUse::Empty => {
                if mode == CleanMode::Wipe {
                    // Fails if a process has just created a file in it.
                    let _ = std::fs::remove_dir(&path);
                }
                continue;
            }
            DirectoryUse::Unknown(orphaned) => {
                let host = orphaned.origin.host().to_owned();
                (orphaned, Some(CleanOutcome::Unknown(host)))
            }
            DirectoryUse::ByTool(orphaned) => (orphaned, Some(CleanOutcome::InUse)),
            DirectoryUse::Unused(orphaned) => {
                let dry_run = mode == CleanMode::DryRun;
                (orphaned, dry_run.then_some(CleanOutcome::WouldBeWiped))
            }
        };
        let (kept, outcome) = match outcome {
            Some(CleanOutcome::WouldBeWiped) => {
                (find_errored_state(&orphaned), CleanOutcome::WouldBeWiped)
            }
            Some(outcome) => (None, outcome),
            None => wipe(&mut orphaned, &settings.recovery_dir),
        };
        let OrphanedDirectory { path, owner, .. } = orphaned;
        report(Finding { path, owner, kept, outcome });
    }
    Ok(())
}

/// The same for a run that is about to begin: logs the findings, waits for a limited time, and never fails.
pub(in crate::run) async fn clean_before(settings: &Settings, stop: &Stop) {
    let settings = Arc::new(CleanSettings {
        work_dir: settings.work_dir.clone(),
        temporary: settings.temporary.clone(),
        tmpfs_dir: settings.tmpfs_dir.clone(),
        recovery_dir: settings.recovery_dir.clone(),
    });
    let cleaning = tokio::task::spawn_blocking(move || {
        if let Err(error) = clean(&settings, CleanMode::Wipe, |finding| finding.log()) {
            let path = settings.work_dir.display();
            tracing::warn!(%path, %error, "cannot look for what killed runners left");
        }
    });
    tokio::select! {
        done = tokio::time::timeout(MAX_WAIT, cleaning) => match done {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "tidying up after killed runners failed (a bug)"),
            Err(_) => tracing::info!("there is much to wipe; the run begins meanwhile"),
        },
        _ = stop.requested() => {}
    }
}

/// Removes the directory `path` if a killed runner left it. A run that is told to work at this path needs it.
///
/// # Errors
/// If it is in use, is not the directory of a run, or cannot be wiped.
pub(in crate::run) fn remove_leftover(path: &Path, recovery: &Path) -> Result<(), WipeError> {
    let refused = |reason: String| WipeError {
        act: "use",
        path: path.to_owned(),
        source: std::io::Error::other(reason),
    };
    if !path.try_exists().map_err(|error| refused(error.to_string()))? {
        return Ok(());
    }
    match inspect_directory(path) {
        DirectoryUse::Empty => {
            std::fs::remove_dir(path).map_err(|error| refused(error.to_string()))
        }
        DirectoryUse::Unused(mut orphaned) => {
            let (kept, outcome) = wipe(&mut orphaned, recovery);
            let OrphanedDirectory { path, owner, .. } = orphaned;
            let finding = Finding { path, owner, kept, outcome };
            finding.log();
            if finding.has_failed() { Err(refused(finding.to_string())) } else { Ok(()) }
        }
        DirectoryUse::ByTool(_) => {
            Err(refused("the tool of an earlier run still works there".to_owned()))
        }
        DirectoryUse::NotAvailable | DirectoryUse::Unknown(_) => {
            Err(refused("another run uses it, or it is not the directory of a run".to_owned()))
        }
    }
}

/// Moves a state to the recovery directory, and wipes the rest.
fn wipe(orphaned: &mut OrphanedDirectory, recovery: &Path) -> (Option<KeptState>, CleanOutcome) {
    let kept = match module_of(&orphaned.path) {
        Some(module) => {
            collect_errored_state(&orphaned.path.join(DOWNLOADS), &module);
            keep_errored_state(&module, recovery, &orphaned.path)
        }
        None => Ok(None),
    };
    let kept = match kept {
        Ok(kept) => kept,
        // It is the only copy, so the whole directory stays.
        Err(error) => {
            return (
                None,
                CleanOutcome::Failed(format!(
                    "its tool could not store the state, and the state cannot be moved from there: {error}"
                )),
            );
        }
    };
    let mut attempts = 1;
    let outcome = loop {
        match wipe_directory(&orphaned.path, LAYOUT) {
            Ok(()) => break CleanOutcome::Wiped,
            Err(_) if attempts < WIPE_ATTEMPTS => {
                attempts += 1;
                std::thread::sleep(WIPE_PAUSE);
            }
            Err(_) if orphaned.remove_unlocked() => break CleanOutcome::Wiped,
            Err(error) => break CleanOutcome::Failed(chain(&error)),
        }
    };
    (kept, outcome)
}

/// The state in the directory that Terraform could not store.
fn find_errored_state(orphaned: &OrphanedDirectory) -> Option<KeptState> {
    let in_module = module_of(&orphaned.path).map(|module| module.join(ERRORED_STATE));
    let copies = errored_states_below(&orphaned.path.join(DOWNLOADS));
    in_module
        .into_iter()
        .chain(copies)
        .find_map(|path| StateForm::of_file(&path).map(|form| KeptState::at(path, form)))
}
