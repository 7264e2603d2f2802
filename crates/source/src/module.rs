//! Reads the declarations of a module that the runner needs before Terraform starts.
//!
//! Only the files of one directory count, as for Terraform: `*.tf`, `*.tofu` and their `.json`
//! forms, override files last. A file that cannot be parsed is skipped, because Terraform reports it
//! better: this module must never fail a run with a valid configuration. The values of all variables
//! count as secrets then, because such a file may declare them.
//! Which of them count depends on the tool: Terraform does not read `*.tofu`, and `OpenTofu` from 1.8 on reads the
//! `x.tofu` beside an `x.tf` instead of it. All are read as long as the tool is not known.

mod declaration;
mod encryption;
mod error;
mod files;
mod findings;
mod json;
mod native;
mod read;
mod remote_states;

pub use declaration::{BackendBlock, BlockSetting, Module, TypeKind, VariableDeclaration};
pub use encryption::{EncryptionFile, encryption_files};
pub use error::ModuleError;
pub use files::{FileText, override_files, read as read_text};
pub use read::{has_configuration, unread_tests};
pub use remote_states::LocalStateBlock;
