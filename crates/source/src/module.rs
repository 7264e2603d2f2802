//! Reads what the runner must know about a module before Terraform does.
//!
//! Only the files of one directory count, as for Terraform: `*.tf`, `*.tofu` and their `.json`
//! forms, override files last. A file that cannot be parsed is passed over, because Terraform
//! explains it better; nothing here is ever the reason why a run fails on valid configuration.
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
pub use files::{override_files, read as read_text};
pub use read::has_configuration;
