//! Removes the reports of an earlier run from the directories of this run's reports. Otherwise a CI job
//! would read old outputs and counts if this run does not write any.

use std::path::Path;

use crate::report::{PICKED_UP, REPORTS};
use crate::settings::Settings;

/// Removes the reports of an earlier run. Other files stay.
pub(in crate::run) fn remove_stale_reports(settings: &Settings) {
    if let Some(directory) = &settings.report_dir {
        for name in PICKED_UP.into_iter().chain(REPORTS) {
            remove_file(&directory.join(name));
        }
    } else if let Some(directory) = &settings.job.reports
        // The user has not named this directory. If it is a link, its target may belong to others.
        && directory.symlink_metadata().is_ok_and(|it| it.is_dir())
    {
        for name in PICKED_UP {
            remove_file(&directory.join(name));
        }
    }
}

/// Removes a file, or a link but not its target.
fn remove_file(path: &Path) {
    if let Err(error) = std::fs::remove_file(path)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!("`{}` of an earlier run cannot be removed: {error}", path.display());
    }
}
