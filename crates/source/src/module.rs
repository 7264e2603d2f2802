//! Reads the declarations of a module that the runner needs before Terraform starts.
//!
//! Only the files of one directory count, as for Terraform: `*.tf`, `*.tofu` and their `.json`
//! forms, override files last. A file that cannot be parsed is skipped, because Terraform reports it
//! better: this module must never fail a run with a valid configuration. The values of all variables
//! count as secrets then, because such a file may declare them.
//! Of an `x.tf` and an `x.tofu` both are read, although `OpenTofu` only reads the latter.

mod declaration;
mod error;
mod files;
mod findings;
mod json;
mod native;
mod read;

pub use declaration::{BackendBlock, BlockSetting, Module, TypeKind, VariableDeclaration};
pub use error::ModuleError;
pub use files::{FileText, override_files, read as read_text};
pub use read::has_configuration;
