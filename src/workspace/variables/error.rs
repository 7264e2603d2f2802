//! Errors for variables that cannot be passed to Terraform.

use butler_base::secret::WipeError;
use butler_protocol::name_rules::HARMLESS_OPTIONS;
use butler_protocol::references::{ReferenceError, input_variable};
use butler_source::hcl::HclError;

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
    pub(super) fn without_value(name: String) -> Self {
        let variable = input_variable(&name);
        let ways = format!(
            "it has no value: set `{variable}`, name a secret in the registry, or declare a default in the module"
        );
        Self { name, ways }
    }

    /// A sensitive variable with a reference of another system.
    pub(super) fn unreadable(name: String) -> Self {
        let variable = input_variable(&name);
        let ways = format!(
            "its value is a reference of another system, which the runner does not read: set `{variable}`"
        );
        Self { name, ways }
    }
}

/// Why variables cannot be given to Terraform.
#[derive(Debug, thiserror::Error)]
pub enum VariableError {
    /// Terraform does not allow this name.
    #[error("`{}` is not a valid name of a Terraform variable", .0.escape_debug())]
    Name(String),
    /// The operating system does not allow this name.
    #[error("`{}` is not a valid name of an environment variable", .0.escape_debug())]
    EnvironmentName(String),
    /// The variable would break a guarantee of the runner.
    #[error("the run must not set the environment variable `{name}`: {reason}")]
    Refused {
        /// The variable.
        name: String,
        /// The reason in [`super::NAME_RULES`].
        reason: &'static str,
    },
    /// A value that cannot be passed to a process.
    #[error("the value of the environment variable `{0}` contains a NUL character")]
    EnvironmentValue(String),
    /// The value is not valid JSON.
    #[error("the value of the variable `{0}` is not valid JSON")]
    Json(String),
    /// The value is nested so deeply that its parts cannot be masked.
    #[error("the value of the variable `{0}` is nested too deeply")]
    TooDeep(String),
    /// The variable's type needs HCL.
    #[error(
        "the variable `{name}` needs a list, map or object, but its text is not such a value in HCL"
    )]
    Hcl {
        /// The variable.
        name: String,
        /// The position in the text; `None` if it is HCL, but not a value.
        #[source]
        source: Option<HclError>,
    },
    /// The secret of a reference is not usable.
    #[error("cannot resolve the secret of `{name}`")]
    Reference {
        /// The variable.
        name: String,
        /// The reason.
        #[source]
        source: ReferenceError,
    },
    /// Secrets that do not exist.
    #[error("cannot resolve {}", list_unresolved(.0))]
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
                    "a run may set {options}, each with its value in the same word; users who start the runner may set any option in its environment"
                ))
            }
            Self::Refused { .. } => Some(
                "remove it from the run; users who start the runner may set it in its environment"
                    .to_owned(),
            ),
            _ => None,
        }
    }

    fn class(&self) -> Option<butler_base::error::FailureClass> {
        Some(butler_base::error::FailureClass::Configuration)
    }
}

pub(in crate::workspace) fn list_unresolved(unresolved: &[Unresolved]) -> String {
    let secrets = if unresolved.len() == 1 { "secret" } else { "secrets" };
    let each = unresolved.iter().map(|one| format!("`{}` ({})", one.name, one.ways));
    format!("{} {secrets}: {}", unresolved.len(), each.collect::<Vec<_>>().join(", "))
}
