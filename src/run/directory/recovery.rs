//! Saves what could not be handed over: a state that Terraform could not store.
//!
//! It is the only copy there is, so it is pushed again, and where that fails it leaves the run's
//! directory before that is wiped. It is never forced upon a backend whose state has gone on.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use futures_util::FutureExt;

use crate::engine::{Engine, LeftLock, UnfinishedCommand};
use crate::report::RunLog;
use butler_base::cancel::Step;
use butler_base::error::chain;
use butler_base::platform::fs::{DirBuilderExt, PermissionsExt};
use butler_base::secret::wipe_file;

/// Where Terraform leaves a state that it could not store, in the module's directory.
pub(in crate::run) const ERRORED_STATE: &str = "errored.tfstate";

/// How long each try to push a state waits. Backends have tries of their own within these.
const WAITS: [Duration; 4] = [
    Duration::from_millis(250),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
];

/// Where Terragrunt keeps its copies of a module where nobody says anything else, in the module.
pub(in crate::run) const TERRAGRUNT_CACHE: &str = ".terragrunt-cache";

/// Directories of git's, Terraform's and Terragrunt's own, in which no module is run.
const NO_MODULES: [&str; 3] = [".git", ".terraform", TERRAGRUNT_CACHE];

/// How deep in Terragrunt's directory modules are looked for: it adds two levels to a source's own.
const DEEPEST: usize = 16;

/// How long all of them may take.
const PUSH_DEADLINE: Duration = Duration::from_mins(1);

/// Pushes the state that the apply could not store, if there is one, a few times or until there is
/// no more time, which a signal makes short. Removes the lock that the apply has left, where that is
/// wanted: only then, so that nobody else comes first. Says so where the push went well; where it did
/// not, the state is still where it was.
pub(in crate::run) async fn push_state(
    engine: &Engine<'_, RunLog>,
    unfinished: &mut UnfinishedCommand,
) -> Option<String> {
    let errored = engine.directory.join(ERRORED_STATE);
    if !errored.is_file() {
        engine.release_lock(unfinished).await;
        return None;
    }
    engine.log.announce("The state could not be stored: pushing it again");
    let given_up = async {
        tokio::select! {
            () = tokio::time::sleep(PUSH_DEADLINE) => {}
            () = engine.stop.overdue(Step::State) => {}
        }
    };
    let given_up = given_up.boxed_local().shared();
    let mut pushed = false;
    for wait in WAITS {
        tokio::select! {
            biased;
            () = given_up.clone() => break,
            () = tokio::time::sleep(wait) => {}
        }
        if matches!(unfinished.error.left(), None | Some(LeftLock::Unknown)) {
            engine.recheck_lock(unfinished).await;
        }
        pushed = push_once(engine, &errored, unfinished, given_up.clone()).await;
        if pushed {
            break;
        }
    }
    engine.release_lock(unfinished).await;
    // There are backends that take no state at all without the id of the lock.
    if !pushed && matches!(unfinished.error.left(), Some(LeftLock::Removed { .. })) {
        pushed = push_once(engine, &errored, unfinished, given_up).await;
    }
    pushed.then_some(())?;
    if let Err(error) = wipe_file(&errored) {
        tracing::warn!(error = %chain(&error), "the state that was pushed is still on the disk");
    }
    let text = "the state could not be stored at first, and was then pushed by the runner";
    engine.log.announce(text);
    Some(text.to_owned())
}

/// Removes states that Terragrunt got together with a module: none of them is one that this run could
/// not store.
pub(in crate::run) fn forget_brought_states(downloads: &Path) {
    for state in states_below(downloads) {
        if let Err(error) = wipe_file(&state) {
            tracing::warn!(error = %chain(&error), "a state that came with the module is still there");
        }
    }
}

/// Brings a state that Terraform could not store from Terragrunt's copy of the module, in which it
/// ran, to the module itself, where it is looked for.
pub(in crate::run) fn bring_state_home(downloads: &Path, module: &Path) {
    let home = module.join(ERRORED_STATE);
    let modified = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    let Some(state) = states_below(downloads).into_iter().max_by_key(|path| modified(path)) else {
        return;
    };
    // Terragrunt copies what is in the module, this file too.
    if std::fs::read(&home).ok().is_some_and(|known| std::fs::read(&state).ok() == Some(known)) {
        return;
    }
    // Both are in the run's directory.
    if let Err(error) = std::fs::rename(&state, &home) {
        tracing::error!(%error, path = %state.display(), "cannot move the state that could not be stored");
    }
}

/// All states below Terragrunt's directory that could not be stored.
pub(in crate::run) fn states_below(downloads: &Path) -> Vec<PathBuf> {
    let states = directories_below(downloads).into_iter().map(|it| it.join(ERRORED_STATE));
    // A link may lead anywhere.
    states.filter(|it| it.symlink_metadata().is_ok_and(|metadata| metadata.is_file())).collect()
}

/// Terragrunt's directory and all below it in which Terraform may run.
pub(in crate::run) fn directories_below(downloads: &Path) -> Vec<PathBuf> {
    let (mut found, mut pending) = (Vec::new(), vec![(downloads.to_owned(), 0)]);
    while let Some((directory, depth)) = pending.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let is_tools_own = NO_MODULES.iter().any(|name| entry.file_name() == *name);
            if is_directory && !is_tools_own && depth < DEEPEST {
                pending.push((entry.path(), depth + 1));
            }
        }
        found.push(directory);
    }
    found
}

/// Pushes the state; a lock that this leaves is said in `unfinished`.
async fn push_once(
    engine: &Engine<'_, RunLog>,
    errored: &Path,
    unfinished: &mut UnfinishedCommand,
    given_up: impl Future<Output = ()> + Clone,
) -> bool {
    if given_up.clone().now_or_never().is_some() {
        return false;
    }
    let (pushed, left) = match engine.push_state(errored, unfinished, given_up).await {
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

/// Says where the state is that an apply, begun then, could not store in a directory of the
/// user's own; what becomes of it is the user's to say.
pub(in crate::run) fn point_to_state(
    engine: &Engine<'_, RunLog>,
    unfinished: &UnfinishedCommand,
    begun: SystemTime,
) -> Option<String> {
    let mut states = vec![engine.directory.join(ERRORED_STATE)];
    if engine.wrapper.is_some() {
        states.extend(states_below(&engine.directory.join(TERRAGRUNT_CACHE)));
    }
    let modified = |path: &PathBuf| path.metadata().ok()?.modified().ok();
    let errored = states.into_iter().max_by_key(modified)?;
    let modified = modified(&errored)?;
    let product = engine.program_name();
    let removal = unfinished.error.left().and_then(|left| left.removal(product));
    // Terragrunt starts Terraform in another directory than its own.
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

/// Takes the state that Terraform could not store out of `module`: into `recovery`, or, where that
/// is not possible, beside `run`, the run's directory, which needs no room on the disk. Returns
/// where it is (mode 0600), if there was one.
///
/// # Errors
/// When it can be moved to neither; then it is still where it was.
pub(in crate::run) fn keep_state(
    module: &Path,
    recovery: &Path,
    run: &Path,
) -> std::io::Result<Option<PathBuf>> {
    let errored = module.join(ERRORED_STATE);
    if !errored.is_file() {
        return Ok(None);
    }
    let kept = copy_state(&errored, recovery).or_else(|error| {
        tracing::warn!(%error, "cannot keep the state in the recovery directory");
        let beside = run.with_extension(ERRORED_STATE);
        std::fs::set_permissions(&errored, std::fs::Permissions::from_mode(0o600))?;
        std::fs::rename(&errored, &beside)?;
        Ok::<_, std::io::Error>(beside)
    });
    kept.map(Some)
}

/// A new file (0600) under a name of its own in `directory` (0700), which is made if needed.
pub(in crate::run) fn new_file(
    directory: &Path,
    prefix: &str,
    suffix: &str,
) -> std::io::Result<tempfile::NamedTempFile> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    tempfile::Builder::new().prefix(prefix).suffix(suffix).tempfile_in(directory)
}

/// Copies a state into `recovery` (0700) under a name of its own (0600).
fn copy_state(state: &Path, recovery: &Path) -> std::io::Result<PathBuf> {
    let mut kept = new_file(recovery, "errored-", ".tfstate")?;
    std::io::copy(&mut fs_err::File::open(state)?, &mut kept)?;
    kept.as_file().sync_all()?;
    let (_, path) = kept.keep().map_err(|error| error.error)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_in_directories_of_the_tools_own_no_state_is_looked_for() {
        let downloads = tempfile::tempdir().unwrap();
        let state = |below: &str| {
            let directory = downloads.path().join(below);
            std::fs::create_dir_all(&directory).unwrap();
            let state = directory.join(ERRORED_STATE);
            std::fs::write(&state, "{}").unwrap();
            state
        };
        let mut wanted = ["aa/bb", "aa/bb/.hidden/deep", "aa/.github"].map(state);
        for own in [".git", "aa/bb/.terraform/modules/x", "aa/.terragrunt-cache/cc"] {
            state(own);
        }
        let mut found = states_below(downloads.path());
        found.sort();
        wanted.sort();
        assert_eq!(found, wanted);
    }
}
