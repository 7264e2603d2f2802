//! Writes the files of the report directory atomically.

use std::io::Read;
use std::path::Path;

use super::report_error::ReportError;
use butler_base::platform::fs::{DirBuilderExt, PermissionsExt};

/// Creates the directory for reports (0700) if it does not exist.
pub(in crate::run) fn prepare_directory(path: &Path) -> Result<(), ReportError> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|source| ReportError::Write { path: path.to_owned(), source })
}

/// Writes a file (0600) atomically, without fsync: the CI job collects it on the same machine, and after
/// a power cut the run has no reports anyway.
pub(in crate::run) fn replace(path: &Path, content: impl Read) -> std::io::Result<()> {
    replace_as(0o600, path, content)
}

/// [`replace`] with another mode.
pub(in crate::run) fn replace_as(
    mode: u32,
    path: &Path,
    mut content: impl Read,
) -> std::io::Result<()> {
    let directory = path.parent().expect("a report is a file in a directory");
    let permissions = std::fs::Permissions::from_mode(mode);
    let mut file = tempfile::Builder::new().permissions(permissions).tempfile_in(directory)?;
    std::io::copy(&mut content, file.as_file_mut())?;
    file.persist(path)?;
    Ok(())
}

/// Creates the file for the log (0600), and replaces an older one.
pub(in crate::run) fn log_file(directory: &Path) -> Result<std::fs::File, ReportError> {
    let path = directory.join("log.txt");
    tempfile::NamedTempFile::new_in(directory)
        .and_then(|file| file.persist(&path).map_err(|error| error.error))
        .map_err(|source| ReportError::Write { path, source })
}
