//! The registry of followers: a YAML file with the controller's settings and the followers.
//!
//! It does not copy settings of what is delivered. `config-refs` name the configurations that own
//! these. [`Registry::parse`] refuses unknown keys and reports everything that is wrong.

mod check_entry;
mod document;
mod error;
mod load;
mod load_stage;
mod name;
mod preset;
mod registry;
mod span;
mod stage;
mod written;

#[cfg(test)]
mod tests;

pub use error::ConfigError;
pub use preset::Preset;
pub(crate) use registry::DEFAULT_BUDGET;
pub use registry::{Adapter, Budget, BudgetOrigin, Controller, Follower, Registry, Source};
pub use stage::{
    CiJob, CiPlace, ExternalRun, SecretReference, Stage, StageKind, StageWork, TokenSource,
};
