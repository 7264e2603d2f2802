//! Pushes a state that Terraform could not store in its backend.
//!
//! The file is the only copy, so the runner pushes it again; an encrypted one is decrypted for this. If that fails, the
//! file is moved out of the run's directory before the directory is wiped: see [`super::errored_state`]. A push is never
//! forced: the state in the backend can be newer.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use futures_util::FutureExt;

use super::decryption::prepare_decryption;
use super::errored_state::{ERRORED_STATE, KeptState, StateForm, keep_encrypted};
use crate::engine::{Engine, LeftLock, UnfinishedCommand};
use crate::report::RunLog;
use butler_base::cancel::Step;
use butler_base::error::chain;
use butler_base::platform::fs::DirBuilderExt;
use butler_base::platform::{give_directory, share_with_group};
use butler_base::secret::{PrivateDirectory, wipe_file};
use butler_base::trust::open_regular;

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

/// The name of the decrypted state in the directory for secrets.
const DECRYPTED: &str = "decrypted.tfstate";

/// The directory in the private directory in which a state is decrypted.
const DECRYPTION: &str = "decryption";

/// The directories for a state that was not stored, and the user who reads it.
pub(in crate::run) struct StateFiles<'run> {
    /// The directory for files with secrets.
    pub(in crate::run) secrets: &'run PrivateDirectory,
    /// The directory for files that outlive the run.
    pub(in crate::run) recovery: &'run Path,
    /// The user of the tools, if they have one of their own.
    pub(in crate::run) user: Option<u32>,
}

/// Pushes the state that the apply could not store, if there is one. Stops after a few attempts or at the deadline,
/// which a signal brings forward. Removes the lock of the apply after that, if this is enabled, so that no other process
/// can change the state first. Returns a message if the push succeeded; otherwise the state is still in its file.
pub(in crate::run) async fn push_state(
    engine: &Engine<'_, RunLog>,
    files: &StateFiles<'_>,
    unfinished: &mut UnfinishedCommand,
) -> Option<String> {
    let errored = engine.directory.join(ERRORED_STATE);
    let form = StateForm::of_file(&errored).filter(|form| *form != StateForm::Part);
    let Some(form) = form else {
        engine.release_lock(unfinished).await;
        return None;
    };
    engine.log.announce("The state could not be stored: pushing it again");
    let deadline = async {
        tokio::select! {
            () = tokio::time::sleep(PUSH_DEADLINE) => {}
            () = engine.stop.overdue(Step::State) => {}
        }
    };
    let deadline = deadline.boxed_local().shared();
    let decrypted = match form {
        StateForm::Encrypted => decrypt(engine, files, &errored, deadline.clone()).await,
        StateForm::Plain | StateForm::Part => None,
    };
    let pushed = match (form, &decrypted) {
        // `state push` reads plain text only.
        (StateForm::Encrypted, None) => {
            engine.release_lock(unfinished).await;
            false
        }
        (_, decrypted) => {
            let state = decrypted.as_ref().unwrap_or(&errored);
            push_repeatedly(engine, state, unfinished, deadline).await
        }
    };
    pushed.then_some(())?;
    for state in [Some(errored), decrypted].into_iter().flatten() {
        if let Err(error) = wipe_file(&state) {
            tracing::warn!(error = %chain(&error), "the state that was pushed is still on the disk");
        }
    }
    let text = "the state could not be stored at first, and was then pushed by the runner";
    engine.log.announce(text);
    Some(text.to_owned())
}

/// The file with the state that the apply could not store, if it is still there.
pub(in crate::run) fn unsaved_state(engine: &Engine<'_, RunLog>) -> Option<PathBuf> {
    let errored = engine.directory.join(ERRORED_STATE);
    (StateForm::of_file(&errored)? != StateForm::Part).then_some(errored)
}

/// Pushes the state in the file `state` until this succeeds or `deadline` is over. Also removes the lock of the apply.
async fn push_repeatedly(
    engine: &Engine<'_, RunLog>,
    state: &Path,
    unfinished: &mut UnfinishedCommand,
    deadline: impl Future<Output = ()> + Clone,
) -> bool {
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
        pushed = push_once(engine, state, unfinished, deadline.clone()).await;
        if pushed {
            break;
        }
    }
    engine.release_lock(unfinished).await;
    // Some backends do not accept a state without the id of the lock.
    if !pushed && matches!(unfinished.error.left(), Some(LeftLock::Removed { .. })) {
        pushed = push_once(engine, state, unfinished, deadline).await;
    }
    pushed
}

/// Decrypts the state in `errored` into a file in the directory for secrets; `None` if that fails.
async fn decrypt(
    engine: &Engine<'_, RunLog>,
    files: &StateFiles<'_>,
    errored: &Path,
    deadline: impl Future<Output = ()>,
) -> Option<PathBuf> {
    let directory = engine.private.join(DECRYPTION);
    let failed = |error: String| {
        tracing::warn!(%error, "the state that could not be stored cannot be decrypted");
    };
    let prepared = std::fs::DirBuilder::new().mode(0o700).create(&directory);
    let prepared =
        prepared.and_then(|()| prepare_decryption(&directory, engine.directory, errored));
    let prepared =
        prepared.and_then(|()| files.user.map_or(Ok(()), |user| give_directory(&directory, user)));
    prepared.inspect_err(|error| failed(error.to_string())).ok()?;
    let state = engine.decrypt_state(&directory, deadline).await;
    let state = state.inspect_err(|error| failed(chain(error))).ok()?;
    let written = files.secrets.write(DECRYPTED, &state);
    let path = written.inspect_err(|error| failed(chain(error))).ok()?;
    let shared = files.user.map_or(Ok(()), |user| share_with_group(&path, user));
    shared.inspect_err(|error| failed(error.to_string())).ok()?;
    Some(path)
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

/// A state that an apply could not store in a directory of the user.
pub(in crate::run) struct LeftState {
    /// Its file; none if it has only a part of the state.
    pub(in crate::run) file: Option<PathBuf>,
    /// The next step of the user, for the reason of the failure.
    pub(in crate::run) note: String,
}

/// Finds the state that an apply, begun at `begun`, could not store in a directory of the user. The runner does not
/// push or move it, because the directory is the user's. It makes a copy of an encrypted state that can be decrypted.
pub(in crate::run) fn find_left_state(
    engine: &Engine<'_, RunLog>,
    files: &StateFiles<'_>,
    unfinished: &UnfinishedCommand,
    begun: SystemTime,
) -> Option<LeftState> {
    let mut states = vec![engine.directory.join(ERRORED_STATE)];
    if engine.wrapper.is_some() {
        states.extend(errored_states_below(&engine.directory.join(TERRAGRUNT_CACHE)));
    }
    let found = states.into_iter().filter_map(|path| Some((StateForm::of_file(&path)?, path)));
    let modified = |path: &PathBuf| path.metadata().ok()?.modified().ok();
    let (form, file) = found.max_by_key(|(_, path)| modified(path))?;
    // File times are coarser than the clock.
    if modified(&file)? + Duration::from_secs(1) < begun {
        return None;
    }
    let product = engine.program_name();
    let mut kept = KeptState::at(file.clone(), form);
    if form == StateForm::Encrypted {
        match keep_encrypted(&file, file.parent().unwrap_or(engine.directory), files.recovery) {
            Ok(decryptable) => kept = decryptable,
            Err(error) => tracing::warn!(%error, "cannot prepare the decryption of the state"),
        }
    }
    let removal = unfinished.error.left().and_then(|left| left.removal(product));
    let first = removal.map(|removal| format!("{removal}, then ")).unwrap_or_default();
    // Terragrunt starts Terraform in another directory.
    let (shown, there) = match (&engine.wrapper, &kept) {
        (None, KeptState::Plain(_)) => (Path::new(ERRORED_STATE), "there"),
        (None, KeptState::Decryptable(path)) => (&**path, "there"),
        (_, kept) => (kept.path(), "in the module"),
    };
    let step = kept.next_step(product, shown);
    let there =
        if matches!(kept, KeptState::Part(_)) { String::new() } else { format!(" {there}") };
    let note = format!(
        "the state could not be stored and is in `{}`: {first}{step}{there}",
        file.display(),
    );
    Some(LeftState { file: (form != StateForm::Part).then_some(file), note })
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
