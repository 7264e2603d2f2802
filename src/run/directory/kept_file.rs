//! Files that outlive the run, in the recovery directory.

use std::fs::File;
use std::path::Path;

use butler_base::trust::{make_private, open_regular};

/// Creates a file (0600) with a unique name in `directory` (0700), which is created if it is missing.
pub(in crate::run) fn new_file(
    directory: &Path,
    prefix: &str,
    suffix: &str,
) -> std::io::Result<tempfile::NamedTempFile> {
    make_private(directory)?;
    tempfile::Builder::new().prefix(prefix).suffix(suffix).tempfile_in(directory)
}

/// Copies a file, which may not be a link, and waits until the disk has it.
pub(super) fn copy_to(from: &Path, to: &mut File) -> std::io::Result<()> {
    std::io::copy(&mut open_regular(from)?, to)?;
    to.sync_all()
}
