//! The summary and the page, written where the user wants them: whole or not at all.
//!
//! They are for others to read, so the mode is what the umask leaves of 0644, and nothing in them is
//! a secret. Whoever cannot write them says so; the run has ended as it has.

use std::fs::Permissions;
use std::io::{BufWriter, Result, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::cancel::{Step, Stop};
use crate::report::{LogCopy, SUMMARY_LIMIT, page, summary};
use crate::result::RunResult;
use crate::settings::Settings;

/// Which documents are wanted.
#[derive(Debug, Default)]
pub(super) struct Documents {
    summary: Option<PathBuf>,
    page: Option<PathBuf>,
}

impl Documents {
    pub(super) fn new(settings: &Settings) -> Self {
        Self { summary: settings.summary.clone(), page: settings.report.clone() }
    }

    /// Writes them, as long as there is time.
    pub(super) async fn write(&self, result: &RunResult, log: Option<LogCopy>, stop: &Stop) {
        if let Some(path) = self.summary.clone() {
            let result = result.clone();
            let write = move || {
                replace(&path, |file| file.write_all(summary(&result, SUMMARY_LIMIT).as_bytes()))
                    .map_err(|error| format!("the summary `{}`: {error}", path.display()))
            };
            within(stop, write).await;
        }
        if let Some(path) = self.page.clone() {
            let result = result.clone();
            let write = move || {
                replace(&path, |file| page(&result, log, file))
                    .map_err(|error| format!("the report `{}`: {error}", path.display()))
            };
            within(stop, write).await;
        }
    }
}

/// Disks can be slow, and file systems can hang.
async fn within(
    stop: &Stop,
    write: impl FnOnce() -> std::result::Result<(), String> + Send + 'static,
) {
    let problem = match stop.within(Step::Terminal, tokio::task::spawn_blocking(write)).await {
        Some(Ok(Ok(()))) => return,
        Some(Ok(Err(problem))) => problem,
        Some(Err(error)) => format!("a file (a bug): {error}"),
        None => "a file: there was no time left".to_owned(),
    };
    tracing::warn!("cannot write {problem}");
}

/// Writes a file beside, and puts it in the place of an older one.
fn replace(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<std::fs::File>) -> Result<()>,
) -> Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let (file, place) = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o644))
        .tempfile_in(directory)?
        .into_parts();
    let mut file = BufWriter::new(file);
    write(&mut file)?;
    file.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_data()?;
    Ok(place.persist(path)?)
}
