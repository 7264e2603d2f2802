//! The options of an operation in a local directory: those of Terraform's `plan` and `apply`, and the
//! plan file.
//!
//! A run from a registry or a file cannot set these: its [`LocalOptions`] are the default.

use std::num::NonZeroU16;
use std::path::PathBuf;

use secrecy::{ExposeSecret, SecretString};

/// Everything that `plan`, `apply`, `destroy` and their neighbours take on the command line.
#[derive(Clone, Debug, Default)]
pub struct LocalOptions {
    /// What the plan is made with.
    pub planning: PlanningOptions,
    /// The workspace; none for the one that is selected in the directory.
    pub workspace: Option<String>,
    /// Whether the user must approve the plan before anything is changed.
    pub approval: Approval,
    /// What a plan that is not applied at once is for.
    pub purpose: Purpose,
    /// Where the plan comes from or goes to.
    pub plan_file: PlanFile,
    /// How a plan that found changes ends.
    pub changes: ChangesExit,
}

/// What a plan is made with, as Terraform has it.
#[derive(Clone, Debug, Default)]
pub struct PlanningOptions {
    /// Values and files of variables in the order in which they were given: a later one wins.
    pub assignments: Vec<Assignment>,
    /// Addresses of the resources that the plan is limited to; none for all.
    pub targets: Vec<String>,
    /// Addresses of the resources that are always replaced.
    pub replacements: Vec<String>,
    /// Whether the state is brought up to date first.
    pub refresh: Refresh,
    /// How many operations run at the same time; none for Terraform's own limit.
    pub parallelism: Option<NonZeroU16>,
}

/// One `--var` or `--var-file`.
#[derive(Clone, Debug)]
pub enum Assignment {
    /// A variable and its value, as Terraform's `-var` takes them.
    Value {
        /// The name.
        name: String,
        /// The value; secret if the module says so, and never shown.
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
    /// The files with variables, in their order.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.assignments.iter().filter_map(|assignment| match assignment {
            Assignment::File(file) => Some(file),
            Assignment::Value { .. } => None,
        })
    }

    /// The names and values that were given one by one, in their order.
    pub fn values(&self) -> impl Iterator<Item = (&str, &str)> {
        self.assignments.iter().filter_map(|assignment| match assignment {
            Assignment::Value { name, value } => Some((name.as_str(), value.expose_secret())),
            Assignment::File(_) => None,
        })
    }
}

/// What a plan is for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Purpose {
    /// To make of what there is what the configuration says.
    #[default]
    Bring,
    /// To destroy everything.
    Destroy,
}

/// Whether a plan brings the state up to date first.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Refresh {
    /// It asks the providers what there is.
    #[default]
    First,
    /// It takes the state as it is.
    Skip,
}

/// Whether the user must approve a plan before it is applied.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Approval {
    /// The plan is applied without a question.
    #[default]
    Given,
    /// The terminal asks, and only `yes` goes on.
    Ask,
}

/// Where a plan comes from or goes to.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum PlanFile {
    /// It is made and, after the run, gone.
    #[default]
    None,
    /// It is made and saved in this file.
    Save(PathBuf),
    /// It is taken from this file.
    Apply(PathBuf),
}

/// How a plan that found changes ends.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ChangesExit {
    /// As one that found none.
    #[default]
    Success,
    /// With an exit code of its own, as Terraform's `-detailed-exitcode` has it.
    Detailed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_may_hold_an_equals_sign_and_be_empty_and_is_never_printed() {
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
