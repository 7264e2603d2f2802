//! Errors of saving a plan or using a saved one, and what to do about them.

use std::io;
use std::path::{Path, PathBuf};

use butler_base::error::{Advice, FailureClass};
use butler_protocol::spec::Operation;

/// The advice for a file that cannot be used.
const SAVE_AGAIN: &str = "save a new plan with `butler-runner plan --out FILE`";

/// A plan cannot be saved, or one that was saved cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// The file cannot be written.
    #[error("cannot save the plan as `{}`", path.display())]
    Save {
        /// The file, or the file that was added to it.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// Something else than a saved plan has the name.
    #[error("cannot save the plan as `{}`: it exists and is not a saved plan", path.display())]
    Occupied {
        /// The file.
        path: PathBuf,
    },
    /// A file name that the format cannot store.
    #[error("cannot save the plan: the name `{}` is not valid UTF-8", path.display())]
    Name {
        /// The name.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// It is a plan file of Terraform itself.
    #[error("`{}` is a plan file of Terraform itself, not one that `butler-runner plan --out` saved", path.display())]
    TerraformPlan {
        /// The file.
        path: PathBuf,
    },
    /// It is another kind of file.
    #[error("`{}` is not a plan that `butler-runner plan --out` saved", path.display())]
    NotAPlan {
        /// The file.
        path: PathBuf,
    },
    /// It was written by a later version of this program.
    #[error("`{}` has format {version}, and this version of butler-runner reads format {}", path.display(), super::FORMAT_VERSION)]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        version: u64,
    },
    /// Its content does not match its manifest.
    #[error("the saved plan `{}` is damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The damage.
        what: String,
    },
    /// It was made in another directory.
    #[error("the plan was made in `{}`, not in `{}`", made.display(), here.display())]
    Directory {
        /// The directory of the plan.
        made: PathBuf,
        /// The directory of the apply.
        here: PathBuf,
        /// The file with the plan.
        file: PathBuf,
    },
    /// It is for another operation.
    #[error("`{}` is a plan for `{made}`, and the run is `{wanted}`", file.display())]
    Operation {
        /// The file with the plan.
        file: PathBuf,
        /// The operation that the plan is for.
        made: Operation,
        /// The operation of the run.
        wanted: Operation,
    },
    /// A file that the plan created exists with another content.
    #[error("`{}` has changed since the plan was saved", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The path of a file that the plan created contains a link or a file.
    #[error("cannot restore `{}`: `{}` is not a directory", file.display(), path.display())]
    NotADirectory {
        /// The file to restore.
        file: PathBuf,
        /// The link or file.
        path: PathBuf,
    },
    /// A file that the plan created cannot be written.
    #[error("cannot restore `{}`", path.display())]
    Restore {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
}

impl ArtifactError {
    pub(super) fn save(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Save { path: path.to_owned(), source }
    }

    pub(super) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Read { path: path.to_owned(), source }
    }

    pub(super) fn restore(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Restore { path: path.to_owned(), source }
    }

    pub(super) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), what: what.into() }
    }
}

impl Advice for ArtifactError {
    fn class(&self) -> Option<FailureClass> {
        match self {
            Self::Newer { .. }
            | Self::Damaged { .. }
            | Self::Directory { .. }
            | Self::Changed { .. }
            | Self::NotADirectory { .. } => Some(FailureClass::StalePlan),
            Self::Save { .. } | Self::Read { .. } | Self::Restore { .. } => {
                Some(FailureClass::Platform)
            }
            Self::TerraformPlan { .. }
            | Self::Occupied { .. }
            | Self::Name { .. }
            | Self::NotAPlan { .. }
            | Self::Operation { .. } => None,
        }
    }

    fn advice(&self) -> Option<String> {
        match self {
            Self::TerraformPlan { path } => {
                Some(format!("apply it with `terraform apply {}`, or {SAVE_AGAIN}", path.display()))
            }
            Self::NotAPlan { .. } | Self::Damaged { .. } => Some(SAVE_AGAIN.to_owned()),
            Self::Occupied { .. } => {
                Some("use another name for --out, or remove the file first".to_owned())
            }
            Self::Newer { .. } => Some(format!("use a newer butler-runner, or {SAVE_AGAIN}")),
            Self::Directory { made, file, .. } => Some(format!(
                "plans hold absolute paths; apply it there: `butler-runner apply {} {}`",
                file.display(),
                made.display()
            )),
            Self::Changed { path } if path.ends_with(super::LOCK_FILE) => {
                Some(format!("the plan was made with other providers: {SAVE_AGAIN}"))
            }
            Self::Changed { .. } => {
                Some(format!("the plan needs the file as it was: restore it, or {SAVE_AGAIN}"))
            }
            Self::Save { .. }
            | Self::Name { .. }
            | Self::Read { .. }
            | Self::Operation { .. }
            | Self::NotADirectory { .. }
            | Self::Restore { .. } => None,
        }
    }
}
