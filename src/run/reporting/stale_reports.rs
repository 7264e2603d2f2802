//! Takes away what an earlier run has left where this one reports to: its outputs and counts would be
//! taken for this run's, where this one has none.

use std::path::Path;

use crate::report::{PICKED_UP, REPORTS};
use crate::settings::Settings;

/// Removes these files, and nothing else that is there.
pub(in crate::run) fn remove(settings: &Settings) {
    if let Some(directory) = &settings.report_dir {
        for name in PICKED_UP.into_iter().chain(REPORTS) {
            remove_file(&directory.join(name));
        }
    } else if let Some(directory) = &settings.job.reports
        // Where nobody has named it, whoever has made a link of it may mean another place.
        && directory.symlink_metadata().is_ok_and(|it| it.is_dir())
    {
        for name in PICKED_UP {
            remove_file(&directory.join(name));
        }
    }
}

/// Removes a file or a link, not what it leads to.
fn remove_file(path: &Path) {
    if let Err(error) = std::fs::remove_file(path)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        tracing::warn!("`{}` of an earlier run cannot be removed: {error}", path.display());
    }
}
