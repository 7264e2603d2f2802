//! Keeps what could not be handed over: a state that Terraform could not store.
//!
//! It is the only copy there is, so it leaves the run's directory before that is wiped.

use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Where Terraform leaves a state that it could not store, in the module's directory.
pub(super) const ERRORED_STATE: &str = "errored.tfstate";

/// Takes the state that Terraform could not store out of `module`: into `recovery`, or, where that
/// is not possible, beside `run`, the run's directory, which needs no room on the disk. Returns
/// where it is (mode 0600), if there was one.
///
/// # Errors
/// When it can be moved to neither; then it is still where it was.
pub(super) fn keep_state(
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
pub(super) fn new_file(
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
