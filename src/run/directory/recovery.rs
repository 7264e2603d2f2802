//! Saves a state that Terraform could not store in its backend.
//!
//! The file is the only copy, so the runner pushes it again. If that fails, it moves the file out of the run's directory
//! before the directory is wiped. A push is never forced: the state in the backend can be newer.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use futures_util::FutureExt;

use crate::engine::{Engine, LeftLock, UnfinishedCommand};
use crate::report::RunLog;
use butler_base::cancel::Step;
use butler_base::error::chain;
use butler_base::platform::fs::{DirBuilderExt, PermissionsExt, take_ownership};
use butler_base::secret::wipe_file;
use butler_base::trust::open_regular;

/// The file in the module's directory for a state that Terraform could not store.
pub(in crate::run) const ERRORED_STATE: &str = "errored.tfstate";

/// The wait before each attempt to push a state. Backends also retry within an attempt.
const PUSH_WAITS: [Duration; 4] = [
    Duration::from_millis(250),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
];

/// The default directory for Terragrunt's copies of a module, in the module.
pub(in crate::run) const TERRAGRUNT_CACHE: &str = ".terragrunt-cache";

/// Directories of git, Terraform and Terragrunt, which do not contain modules that are run.
const NO_MODULES: [&str; 3] = [".git", ".terraform", TERRAGRUNT_CACHE];

/// The depth of the search for modules in Terragrunt's directory, which adds two levels to those of a source.
const MAX_DEPTH: usize = 16;

/// The limit for all attempts together.
const PUSH_DEADLINE: Duration = Duration::from_mins(1);

/// Pushes the state that the apply could not store, if there is one. Stops after a few attempts or at the deadline,
/// which a signal brings forward. Removes the lock of the apply after that, if this is enabled, so that no other process
/// can change the state first. Returns a message if the push succeeded; otherwise the state is still in its file.
pub(in crate::run) async fn push_state(
    engine: &Engine<'_, RunLog>,
    unfinished: &mut UnfinishedCommand,
) -> Option<String> {
    let errored = engine.directory.join(ERRORED_STATE);
    // What a link leads to is not a state of this run.
    if !errored.symlink_metadata().is_ok_and(|found| found.is_file()) {
        engine.release_lock(unfinished).await;
        return None;
    }
    engine.log.announce("The state could not be stored: pushing it again");
    let deadline = async {
        tokio::select! {
            () = tokio::time::sleep(PUSH_DEADLINE) => {}
            () = engine.stop.overdue(Step::State) => {}
        }
    };
    let deadline = deadline.boxed_local().shared();
    let mut pushed = false;
    for wait in PUSH_WAITS {
        tokio::select! {
            biased;
            () = deadline.clone() => break,
            () = tokio::time::sleep(wait) => {}
        }
        if matches!(unfinished.error.left(), None | Some(LeftLock::Unknown)) {
            engine.recheck_lock(unfinished).await;
        }
        pushed = push_once(engine, &errored, unfinished, deadline.clone()).await;
        if pushed {
            break;
        }
    }
    engine.release_lock(unfinished).await;
    // Some backends do not accept a state without the id of the lock.
    if !pushed && matches!(unfinished.error.left(), Some(LeftLock::Removed { .. })) {
        pushed = push_once(engine, &errored, unfinished, deadline).await;
    }
    pushed.then_some(())?;
    if let Err(error) = wipe_file(&errored) {
        tracing::warn!(error = %chain(&error), "the state that was pushed is still on the disk");
    }
    let text = "the state could not be stored at first, and was then pushed by the runner";
    engine.log.announce(text);
    Some(text.to_owned())
}

/// Removes states that Terragrunt fetched with a module. They are not states of this run.
pub(in crate::run) fn remove_fetched_states(downloads: &Path) {
    for state in errored_states_below(downloads) {
        if let Err(error) = wipe_file(&state) {
            tracing::warn!(error = %chain(&error), "a state that came with the module is still there");
        }
    }
}

/// Moves a state that Terraform could not store from Terragrunt's copy of the module to the module itself, where the
/// other functions expect it.
pub(in crate::run) fn collect_errored_state(downloads: &Path, module: &Path) {
    let target = module.join(ERRORED_STATE);
    let modified = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    let Some(state) = errored_states_below(downloads).into_iter().max_by_key(|path| modified(path))
    else {
        return;
    };
    // Terragrunt copies all files of the module, also this one.
    let read = |path: &Path| {
        let mut content = Vec::new();
        open_regular(path)?.read_to_end(&mut content).map(|_| content)
    };
    if read(&target).is_ok_and(|known| read(&state).is_ok_and(|state| state == known)) {
        return;
    }
    // Both paths are in the run's directory, so a rename is possible.
    if let Err(error) = std::fs::rename(&state, &target) {
        tracing::error!(%error, path = %state.display(), "cannot move the state that could not be stored");
    }
}

/// All states below Terragrunt's directory that could not be stored.
pub(in crate::run) fn errored_states_below(downloads: &Path) -> Vec<PathBuf> {
    let states = directories_below(downloads).into_iter().map(|it| it.join(ERRORED_STATE));
    // A link can lead to any other file.
    states.filter(|it| it.symlink_metadata().is_ok_and(|metadata| metadata.is_file())).collect()
}

/// Terragrunt's directory and all directories below it in which Terraform may run.
pub(in crate::run) fn directories_below(downloads: &Path) -> Vec<PathBuf> {
    let (mut found, mut pending) = (Vec::new(), vec![(downloads.to_owned(), 0)]);
    while let Some((directory, depth)) = pending.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let is_tools_own = NO_MODULES.iter().any(|name| entry.file_name() == *name);
            if is_directory && !is_tools_own && depth < MAX_DEPTH {
                pending.push((entry.path(), depth + 1));
            }
        }
        found.push(directory);
    }
    found
}

/// Pushes the state. Records a lock that remains in `unfinished`.
async fn push_once(
    engine: &Engine<'_, RunLog>,
    errored: &Path,
    unfinished: &mut UnfinishedCommand,
    deadline: impl Future<Output = ()> + Clone,
) -> bool {
    if deadline.clone().now_or_never().is_some() {
        return false;
    }
    let (pushed, left) = match engine.push_state(errored, unfinished, deadline).await {
        Ok(left) => (true, left),
        Err(error) => {
            tracing::warn!(error = %chain(&error), "the state was not pushed");
            (false, error.left().cloned())
        }
    };
    if let Some(left) = left {
        unfinished.set_left(left);
    }
    pushed
}

/// The message about a state that an apply, begun at `begun`, could not store in a directory of the user. The runner
/// does not push or move it: the directory is the user's.
pub(in crate::run) fn describe_errored_state(
    engine: &Engine<'_, RunLog>,
    unfinished: &UnfinishedCommand,
    begun: SystemTime,
) -> Option<String> {
    let mut states = vec![engine.directory.join(ERRORED_STATE)];
    if engine.wrapper.is_some() {
        states.extend(errored_states_below(&engine.directory.join(TERRAGRUNT_CACHE)));
    }
    let modified = |path: &PathBuf| path.metadata().ok()?.modified().ok();
    let errored = states.into_iter().max_by_key(modified)?;
    let modified = modified(&errored)?;
    let product = engine.program_name();
    let removal = unfinished.error.left().and_then(|left| left.removal(product));
    // Terragrunt starts Terraform in another directory.
    let (file, there) = match &engine.wrapper {
        Some(_) => (errored.display().to_string(), "in the module"),
        None => (ERRORED_STATE.to_owned(), "there"),
    };
    let first = removal.map(|removal| format!("{removal}, then ")).unwrap_or_default();
    // File times are coarser than the clock.
    (modified + Duration::from_secs(1) >= begun).then(|| {
        format!(
            "the state could not be stored and is in `{}`: {first}run `{product} state push {file}` {there}",
            errored.display(),
        )
    })
}

/// Moves the state that Terraform could not store from `module` to `recovery`. If that is not possible, renames it to a
/// file next to `run`, the run's directory, which needs no space on the disk. Returns its path (mode 0600), if there was
/// a state.
///
/// # Errors
/// If both fail. The state is then still in the module.
pub(in crate::run) fn keep_errored_state(
    module: &Path,
    recovery: &Path,
    run: &Path,
) -> std::io::Result<Option<PathBuf>> {
    let errored = module.join(ERRORED_STATE);
    // What a link leads to is not a state of this run.
    if !errored.symlink_metadata().is_ok_and(|found| found.is_file()) {
        return Ok(None);
    }
    let kept = copy_state(&errored, recovery).or_else(|error| {
        tracing::warn!(%error, "cannot keep the state in the recovery directory");
        let sibling = run.with_extension(ERRORED_STATE);
        std::fs::rename(&errored, &sibling)?;
        // There, a module cannot replace it by a link.
        std::fs::set_permissions(&sibling, std::fs::Permissions::from_mode(0o600))?;
        take_ownership(&sibling)?;
        Ok::<_, std::io::Error>(sibling)
    });
    kept.map(Some)
}

/// Creates a file (0600) with a unique name in `directory` (0700), which is created if it is missing.
pub(in crate::run) fn new_file(
    directory: &Path,
    prefix: &str,
    suffix: &str,
) -> std::io::Result<tempfile::NamedTempFile> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    tempfile::Builder::new().prefix(prefix).suffix(suffix).tempfile_in(directory)
}

/// Copies a state to a file with a unique name (0600) in `recovery` (0700).
fn copy_state(state: &Path, recovery: &Path) -> std::io::Result<PathBuf> {
    let mut kept = new_file(recovery, "errored-", ".tfstate")?;
    std::io::copy(&mut open_regular(state)?, &mut kept)?;
    kept.as_file().sync_all()?;
    let (_, path) = kept.keep().map_err(|error| error.error)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_in_directories_of_the_tools_are_ignored() {
        let downloads = tempfile::tempdir().unwrap();
        let state = |below: &str| {
            let directory = downloads.path().join(below);
            std::fs::create_dir_all(&directory).unwrap();
            let state = directory.join(ERRORED_STATE);
            std::fs::write(&state, "{}").unwrap();
            state
        };
        let mut expected = ["aa/bb", "aa/bb/.hidden/deep", "aa/.github"].map(state);
        for own in [".git", "aa/bb/.terraform/modules/x", "aa/.terragrunt-cache/cc"] {
            state(own);
        }
        let mut found = errored_states_below(downloads.path());
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
    }
}
