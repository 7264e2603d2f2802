//! The options of an operation in a local directory: those of Terraform's `plan` and `apply`, and the
//! plan file.
//!
//! A run from a registry or a file sets only the plan file, its purpose, the lock to remove, and whether it reports the
//! version of its state: all else is the default.

use std::num::NonZeroU16;
use std::path::PathBuf;

use secrecy::{ExposeSecret, SecretString};

use crate::backend::{LockId, StateReport};

/// The options of `plan`, `apply`, `destroy` and similar commands.
#[derive(Clone, Debug, Default)]
pub struct LocalOptions {
    /// The options for the plan.
    pub planning: PlanningOptions,
    /// The workspace; `None` for the selected one.
    pub workspace: Option<String>,
    /// Whether the user must approve the plan before it is applied.
    pub approval: Approval,
    /// The purpose of a plan that is not applied at once.
    pub purpose: PlanPurpose,
    /// The file of the plan.
    pub plan_file: PlanFile,
    /// The exit code of a plan with changes.
    pub changes: ChangesExit,
    /// The state lock that is removed before the plan, if it is still held.
    pub force_unlock: Option<LockId>,
    /// Whether the run reports the version of its state.
    pub state_report: StateReport,
}

/// Terraform's options for a plan.
#[derive(Clone, Debug, Default)]
pub struct PlanningOptions {
    /// Values and files of variables in the order in which they were given: a later one wins.
    pub assignments: Vec<Assignment>,
    /// Addresses of the resources that the plan is limited to; empty for all.
    pub targets: Vec<String>,
    /// Files with such addresses.
    pub target_files: Vec<PathBuf>,
    /// Addresses of the resources that the plan leaves out.
    pub exclusions: Vec<String>,
    /// Files with such addresses.
    pub exclusion_files: Vec<PathBuf>,
    /// The address of an action that the plan invokes instead of changing resources.
    pub invocation: Option<String>,
    /// Addresses of the resources that are always replaced.
    pub replacements: Vec<String>,
    /// Whether the state is refreshed first.
    pub refresh: Refresh,
    /// The number of parallel operations; `None` for Terraform's own limit.
    pub parallelism: Option<NonZeroU16>,
}

/// One `--var` or `--var-file`.
#[derive(Clone, Debug)]
pub enum Assignment {
    /// A variable and its value, in the form of Terraform's `-var`.
    Value {
        /// The name.
        name: String,
        /// The value. It is never shown, because the module can declare it sensitive.
        value: SecretString,
    },
    /// A file with variables.
    File(PathBuf),
}

impl Assignment {
    /// Reads `NAME=VALUE`; `None` if the name or `=` is missing.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (name, value) = text.split_once('=')?;
        let name = name.trim().to_owned();
        (!name.is_empty()).then(|| Self::Value { name, value: value.into() })
    }
}

impl PlanningOptions {
    /// The files with addresses of resources.
    pub fn address_files(&self) -> impl Iterator<Item = &PathBuf> {
        self.target_files.iter().chain(&self.exclusion_files)
    }

    /// The files with variables, in their order.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.assignments.iter().filter_map(|assignment| match assignment {
            Assignment::File(file) => Some(file),
            Assignment::Value { .. } => None,
        })
    }

    /// The names and values of single variables, in their order.
    pub fn values(&self) -> impl Iterator<Item = (&str, &str)> {
        self.assignments.iter().filter_map(|assignment| match assignment {
            Assignment::Value { name, value } => Some((name.as_str(), value.expose_secret())),
            Assignment::File(_) => None,
        })
    }
}

/// Whether a plan applies or destroys the configuration, or accepts what was changed without it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum PlanPurpose {
    /// To apply the configuration.
    #[default]
    Apply,
    /// To destroy all resources of the state.
    Destroy,
    /// To write what was changed outside of Terraform into the state.
    Accept,
}

/// Whether a plan refreshes the state first.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Refresh {
    /// The plan reads the current resources from the providers.
    #[default]
    First,
    /// The plan uses the state without a refresh.
    Skip,
}

/// Whether the user must approve a plan before it is applied.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Approval {
    /// The plan is applied without a question.
    #[default]
    Given,
    /// The terminal shows a question. Only `yes` continues.
    Ask,
}

/// The file of a plan.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum PlanFile {
    /// The plan is created and wiped after the run.
    #[default]
    None,
    /// The plan is created and saved in this file.
    Save(PathBuf),
    /// The plan is read from this file.
    Apply(PathBuf),
    /// The plan is created and sent to the registry.
    Send {
        /// A path or URL like that of a callback.
        url: String,
    },
    /// The plan is read from the registry.
    Fetch {
        /// A path or URL like that of a callback.
        url: String,
        /// The SHA-256 of the file, as 64 lowercase hexadecimal digits.
        sha256: String,
    },
}

/// The exit code of a plan with changes.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ChangesExit {
    /// The same as without changes.
    #[default]
    Success,
    /// A separate exit code, as with Terraform's `-detailed-exitcode`.
    Detailed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_can_be_empty_or_contain_an_equals_sign_and_is_never_printed() {
        for (text, expected) in [
            ("region=eu", Some(("region", "eu"))),
            ("a=b=c", Some(("a", "b=c"))),
            ("empty=", Some(("empty", ""))),
            ("=x", None),
            ("region", None),
        ] {
            let assignments: Vec<_> = Assignment::parse(text).into_iter().collect();
            let planning = PlanningOptions { assignments, ..PlanningOptions::default() };
            assert_eq!(planning.values().next(), expected, "{text}");
            assert!(!format!("{planning:?}").contains("b=c"), "{planning:?}");
        }
    }
}
