//! Errors of the provider cache.

use std::io;
use std::path::{Path, PathBuf};

use butler_base::error::Advice;
use butler_base::trust::Distrust;

/// Why the provider cache cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProvidersError {
    /// A file in the cache cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// A file in the cache cannot be written or removed.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// Another user could have written a file in the cache.
    #[error("not using `{}`: {fault}", path.display())]
    Unsafe {
        /// The file or directory.
        path: PathBuf,
        /// The problem.
        fault: &'static str,
    },
}

impl ProvidersError {
    pub(super) fn read(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Read { path: path.to_owned(), source }
    }

    pub(super) fn write(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Write { path: path.to_owned(), source }
    }

    pub(super) fn distrust(path: &Path) -> impl Fn(Distrust) -> Self {
        move |distrust| match distrust {
            Distrust::Read(source) => Self::Read { path: path.to_owned(), source },
            Distrust::Unsafe(fault) => Self::Unsafe { path: path.to_owned(), fault },
        }
    }
}

impl Advice for ProvidersError {
    fn advice(&self) -> Option<String> {
        Some(match self {
            Self::Read { .. } | Self::Write { .. } => {
                "name a writable directory with enough free space with --provider-cache, or disable the cache with --provider-cache off".to_owned()
            }
            Self::Unsafe { path, .. } => format!(
                "remove `{}`, or choose another --provider-cache: it must belong to you or to root, and other users must not have write access",
                path.display()
            ),
        })
    }
}
