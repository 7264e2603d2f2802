//! Errors of reading a module.

use std::path::PathBuf;

/// A module's files cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ModuleError {
    /// The operating system refuses.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The directory does not contain any configuration.
    #[error("`{}` holds no Terraform configuration", path.display())]
    Empty {
        /// The directory.
        path: PathBuf,
    },
    /// The directory contains only Terragrunt's configuration.
    #[error("`{}` holds Terragrunt's configuration only", path.display())]
    TerragruntOnly {
        /// The directory.
        path: PathBuf,
    },
}

impl butler_base::error::Advice for ModuleError {
    fn advice(&self) -> Option<String> {
        match self {
            Self::Read { .. } => None,
            Self::Empty { .. } => {
                Some("check that the working directory names the module's own directory".to_owned())
            }
            Self::TerragruntOnly { .. } => Some(
                "name a version of Terragrunt, such as `terragrunt-1.0.0`, as the run's version"
                    .to_owned(),
            ),
        }
    }

    fn class(&self) -> Option<butler_base::error::FailureClass> {
        Some(butler_base::error::FailureClass::Syntax)
    }
}
