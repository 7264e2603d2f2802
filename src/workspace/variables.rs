//! Turns a run's variables into the files and the environment that Terraform reads.
//!
//! Values stay the text that they came as, so that numbers keep every digit. Files are written to
//! the private directory only. Each value has lines of its own there, because Terraform quotes the
//! lines of a value that it does not like. A module's own variable files are left alone; ours come
//! later on the command line and win.

mod assigned;
mod declared;
mod files;
mod names;
mod resolve;

use std::path::PathBuf;

use secrecy::SecretString;

use butler_base::secret::WipeError;
use butler_protocol::references::{ReferenceError, input_variable};
use butler_source::hcl::HclError;

pub use assigned::assigned_secrets;
pub use declared::settle_declared;
pub use files::{saved_plan_takes_variables, write_variable_files};
pub(super) use names::refusal;
pub use names::{Fate, HARMLESS_OPTIONS, NAME_RULES, NameRule};
pub(super) use resolve::is_environment_name;
pub use resolve::resolve;

/// The inputs of a run with every reference resolved.
#[derive(Debug, Default)]
pub struct Inputs {
    /// Variables in their order: name, JSON text, and whether it is sensitive.
    pub variables: Vec<(String, SecretString, bool)>,
    /// Terraform's additional environment: name, value, and whether it is sensitive.
    pub environment: Vec<(String, SecretString, bool)>,
    /// Sensitive variables that came without a value or with an empty one, for [`settle_declared`].
    pub without_value: Vec<String>,
    /// What the log should warn of.
    pub warnings: Vec<String>,
    /// What the log should say, line by line: `Resolved 3 variables: region, db_password [sensitive]`,
    /// and which variables an upstream output replaced.
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

/// A secret that could not be found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Unresolved {
    /// The variable, or the environment variable, that needs it.
    pub name: String,
    /// How the user can supply it, in one line.
    pub ways: String,
}

impl Unresolved {
    /// A sensitive variable that came without a value or with an empty one.
    fn without_value(name: String) -> Self {
        let variable = input_variable(&name);
        let ways = format!(
            "it has no value: set `{variable}`, name a secret in the registry, or declare a default in the module"
        );
        Self { name, ways }
    }
}

/// Why variables cannot be given to Terraform.
#[derive(Debug, thiserror::Error)]
pub enum VariableError {
    /// Terraform knows no such names.
    #[error("`{}` is no name of a Terraform variable", .0.escape_debug())]
    Name(String),
    /// The operating system knows no such names.
    #[error("`{}` is no name of an environment variable", .0.escape_debug())]
    EnvironmentName(String),
    /// The variable would take back what the runner promises.
    #[error(
        "the run sets the environment variable `{name}`, which is not for a run to set: {reason}"
    )]
    Refused {
        /// The variable.
        name: String,
        /// Why, from [`NAME_RULES`].
        reason: &'static str,
    },
    /// A value that cannot be passed to a process.
    #[error("the environment variable `{0}` has a value with a NUL character in it")]
    EnvironmentValue(String),
    /// The value is no JSON text.
    #[error("the value of the variable `{0}` is no JSON")]
    Json(String),
    /// The value nests so deep that its parts could not be masked.
    #[error("the value of the variable `{0}` nests too deep")]
    TooDeep(String),
    /// The variable's type needs HCL.
    #[error(
        "the variable `{name}` wants a list, map or object, and its text is no such value in HCL"
    )]
    Hcl {
        /// The variable.
        name: String,
        /// Where in the text; none when it is HCL, but no value.
        #[source]
        source: Option<HclError>,
    },
    /// A reference leads to something that cannot be used.
    #[error("cannot resolve the secret of `{name}`")]
    Reference {
        /// The variable.
        name: String,
        /// What is wrong.
        #[source]
        source: ReferenceError,
    },
    /// Secrets that are nowhere.
    #[error("cannot resolve {}", list(.0))]
    Unresolved(Vec<Unresolved>),
    /// A file cannot be written.
    #[error("cannot write the variable files")]
    Write(#[from] WipeError),
}

impl butler_base::error::Advice for VariableError {
    fn advice(&self) -> Option<String> {
        match self {
            Self::Hcl { .. } => Some("write lists as `[\"a\", \"b\"]`, maps as `{ a = 1 }`".to_owned()),
            Self::Unresolved(_) => Some(
                "if a value is the secret itself and not a reference, use --sensitive-values literal"
                    .to_owned(),
            ),
            Self::Refused { name, .. } if name.starts_with("TF_CLI_ARGS") => {
                let options = HARMLESS_OPTIONS.join(", ");
                Some(format!(
                    "a run may give {options}, each with its value in the same word; whoever starts the runner may set anything in its environment"
                ))
            }
            Self::Refused { .. } => Some(
                "take it out of the run; whoever starts the runner may set it in its environment"
                    .to_owned(),
            ),
            _ => None,
        }
    }
}

pub(super) fn list(unresolved: &[Unresolved]) -> String {
    let secrets = if unresolved.len() == 1 { "secret" } else { "secrets" };
    let each = unresolved.iter().map(|one| format!("`{}` ({})", one.name, one.ways));
    format!("{} {secrets}: {}", unresolved.len(), each.collect::<Vec<_>>().join(", "))
}
