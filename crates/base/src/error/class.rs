//! What kind of failure an error is, which decides whether the same thing can succeed later.

use serde::{Deserialize, Serialize};

/// What a run failed of.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureClass {
    /// Credentials are missing or refused.
    Credentials,
    /// The configuration of the run is wrong.
    Configuration,
    /// The module is not valid.
    Syntax,
    /// Terraform or a provider reported an error.
    Module,
    /// The state is locked.
    Lock,
    /// A server could not be reached.
    Network,
    /// The machine failed: disk full, eviction.
    Platform,
    /// The kernel ended a process because the limit of memory was reached.
    OutOfMemory,
    /// The program that checks plans has refused the plan.
    Policy,
    /// The saved plan no longer fits the state, the tool or the files: only a new plan can go on.
    StalePlan,
    /// A signal stopped the run.
    Stopped,
}

impl FailureClass {
    /// Whether the same thing can succeed later without a change.
    #[must_use]
    pub const fn is_retried(self) -> bool {
        match self {
            Self::Lock | Self::Network | Self::Platform | Self::Stopped => true,
            Self::Credentials
            | Self::Configuration
            | Self::Syntax
            | Self::Module
            | Self::Policy
            // The same memory is not enough the next time either.
            | Self::OutOfMemory
            | Self::StalePlan => false,
        }
    }

    /// What failed, for a sentence: "failed: {}".
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Credentials => "credentials are missing or were refused",
            Self::Configuration => "the configuration is not valid",
            Self::Syntax => "the module is not valid",
            Self::Module => "Terraform reported an error",
            Self::Lock => "the state is locked",
            Self::Network => "a server could not be reached",
            Self::Platform => "the machine or node failed",
            Self::OutOfMemory => "it was out of memory",
            Self::Policy => "the program that checks plans (`after-plan`) has refused the plan",
            Self::StalePlan => "the saved plan no longer fits",
            Self::Stopped => "a signal stopped the run",
        }
    }
}
