//! Why a bundle cannot be written, and what to do.

use std::io;
use std::path::{Path, PathBuf};

use butler_protocol::spec::ToolRequest;

/// A bundle cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// A part of it cannot be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// What.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// Another process writes to it, and is not waited for any longer.
    #[error("another process writes to `{}`", path.display())]
    Busy {
        /// The directory.
        path: PathBuf,
    },
    /// A list of versions in it has an unknown format.
    #[error("`{}` is not the list of versions of a bundle", path.display())]
    List {
        /// The file.
        path: PathBuf,
        /// Why it cannot be read, if that is the reason.
        #[source]
        source: Option<io::Error>,
    },
    /// The target exists and is not a bundle, so it must not be overwritten.
    #[error("`{}` exists and is not a bundle", path.display())]
    NotBundle {
        /// The file or directory.
        path: PathBuf,
    },
    /// A release has no signature, so the machine that installs it could not verify it.
    #[error("{request} was published without a signature")]
    Unsigned {
        /// The release.
        request: ToolRequest,
    },
}

impl butler_base::error::Advice for BundleError {
    fn advice(&self) -> Option<String> {
        Some(match self {
            Self::Write { .. } => {
                "name a writable location with enough free space with --output".to_owned()
            }
            Self::Busy { .. } => {
                "retry when that process has ended, or increase --tool-timeout".to_owned()
            }
            Self::NotBundle { .. } => {
                "name a new file or directory, or an existing bundle, with --output".to_owned()
            }
            Self::List { .. } => {
                "name a new directory or an existing bundle with --output, or remove this file"
                    .to_owned()
            }
            Self::Unsigned { request } => format!(
                "a bundle contains only releases that can be verified again when they are installed; copy the file separately and install it with `butler-runner tool install {} --url file:///PATH --checksum sha256:HEX`",
                request.product.spelled(&request.version.to_string())
            ),
        })
    }
}

/// Makes an error of an I/O error at `path`.
pub(super) fn cannot_write(path: &Path) -> impl Fn(io::Error) -> BundleError {
    let path = path.to_owned();
    move |source| BundleError::Write { path: path.clone(), source }
}
