//! Errors of a self-update, and what to do about them.

use std::path::PathBuf;

use semver::Version;

use super::installer::Installer;
use crate::tool::RunnerReleaseError;
use butler_base::error::Advice;

/// Why the executable was not replaced.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// A package manager installed it and must update it.
    #[error("`{}` {installer}", executable.display())]
    Managed {
        /// The executable.
        executable: PathBuf,
        /// The package manager.
        installer: Installer,
    },
    /// The system does not allow replacing a running executable.
    #[error("this system does not allow replacing a running executable")]
    System,
    /// This user may not replace it.
    #[error("this user cannot replace `{}`", executable.display())]
    ReadOnly {
        /// The executable.
        executable: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The release cannot be fetched.
    #[error(transparent)]
    Release(#[from] RunnerReleaseError),
    /// `gh`, which verifies the attestation, is not on PATH.
    #[error("cannot verify the attestation: `gh` is not on PATH")]
    NoVerifier,
    /// The attestation of the archive cannot be verified.
    #[error("cannot verify that the project built butler-runner {version}: {problem}")]
    NotAttested {
        /// The release.
        version: Version,
        /// Why `gh` could not verify it.
        problem: String,
    },
    /// The new executable does not run here, or is another one.
    #[error("the executable of butler-runner {version} {problem}")]
    Broken {
        /// The release.
        version: Version,
        /// The problem.
        problem: String,
    },
    /// The new executable cannot be written or renamed.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
}

impl Advice for UpdateError {
    fn advice(&self) -> Option<String> {
        Some(match self {
            Self::Managed { installer, .. } => installer.advice(),
            Self::ReadOnly { .. } => {
                "run this as a user with write access to it, or install into another directory: install.sh --to DIRECTORY"
                    .to_owned()
            }
            Self::System => "install the new release in its place: docs/packages.md".to_owned(),
            Self::Release(error) => return error.advice(),
            Self::NoVerifier => "install it from https://cli.github.com, or leave out --attestation".to_owned(),
            Self::NotAttested { .. } | Self::Broken { .. } => "nothing was replaced".to_owned(),
            Self::Write { .. } => "nothing was replaced; check the free disk space".to_owned(),
        })
    }
}
