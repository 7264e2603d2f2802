//! Converts a run's variables to the files and the environment that Terraform reads.
//!
//! Values keep their text, so that numbers keep every digit. Files are only written to the private directory. Each value
//! is on lines of its own, because Terraform quotes the lines of a value in its errors. A module's own variable files are
//! not changed; the runner's files are later on the command line and win.

mod assigned;
mod declared;
mod error;
mod files;
mod names;
mod resolve;

use std::collections::HashSet;
use std::path::PathBuf;

use secrecy::SecretString;

pub use assigned::{AssignedSecrets, assigned_secrets};
pub use butler_protocol::name_rules::{HARMLESS_OPTIONS, NAME_RULES, NameRule, VariableTreatment};
pub use declared::apply_declarations;
pub(super) use error::list_unresolved;
pub use error::{Unresolved, VariableError};
pub use files::{saved_plan_takes_all_variables, saved_plan_takes_variables, write_variable_files};
pub(super) use names::refusal;
pub(super) use resolve::is_environment_name;
pub use resolve::resolve;

/// The inputs of a run with every reference resolved.
#[derive(Debug, Default)]
pub struct Inputs {
    /// Variables in their order: name, JSON text, and whether it is sensitive.
    pub variables: Vec<(String, SecretString, bool)>,
    /// The names of variables whose values have a type: outputs of other modules.
    pub typed: HashSet<String>,
    /// Terraform's additional environment: name, value, and whether it is sensitive.
    pub environment: Vec<(String, SecretString, bool)>,
    /// Sensitive variables that came without a value or with an empty one, for [`apply_declarations`].
    pub without_value: Vec<String>,
    /// Warnings for the log.
    pub warnings: Vec<String>,
    /// Lines for the log: `Resolved 3 variables: region, db_password [sensitive]`, and the variables that an upstream
    /// output replaced.
    pub messages: Vec<String>,
}

/// The variable files of a run.
#[derive(Debug, Default, Eq, PartialEq)]
pub struct VariableFiles {
    /// Files for `plan` and `test`, in the order in which they must be passed.
    pub plan: Vec<PathBuf>,
    /// Files for the `apply` of a saved plan: ephemeral variables only.
    pub apply: Vec<PathBuf>,
}
