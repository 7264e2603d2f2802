//! Why a report could not be delivered.

use std::path::PathBuf;

use crate::registry::RegistryError;
use butler_base::error::Advice;

/// A report that could not be delivered.
#[derive(Debug, thiserror::Error)]
pub(in crate::run) enum ReportError {
    /// The registry did not accept the report.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The report directory is not writable.
    #[error("cannot write the report `{}`", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// The file with the report's content cannot be read.
    #[error("cannot read the content of the report")]
    Read(#[source] std::io::Error),
}

impl Advice for ReportError {
    fn advice(&self) -> Option<String> {
        match self {
            Self::Registry(error) => error.advice(),
            Self::Write { .. } => Some("check --report-dir (BUTLER_REPORT_DIR)".to_owned()),
            Self::Read(_) => None,
        }
    }
}
