//! Errors of reading a module.

use std::path::PathBuf;

use butler_protocol::spec::{FIRST_WITH_TOFU_FILES, ToolRequest};

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
    /// The directory contains only files that the tool does not read.
    #[error("`{}` holds {what} for OpenTofu only (`{file}`), and the run uses {tool}", path.display())]
    OtherTool {
        /// The directory.
        path: PathBuf,
        /// The content of the files: configuration or tests.
        what: &'static str,
        /// The name of one of its files.
        file: String,
        /// The tool.
        tool: ToolRequest,
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
            Self::OtherTool { .. } => Some(format!(
                "set the run's version to one of OpenTofu from {FIRST_WITH_TOFU_FILES} on, such as `opentofu-{FIRST_WITH_TOFU_FILES}`"
            )),
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
