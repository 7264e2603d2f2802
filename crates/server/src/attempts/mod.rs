//! Attempts: what they execute, their processes, and what they report.

mod archive_stream;
mod attributes;
mod configuration;
mod directory;
mod drift;
mod drift_ignore;
mod executor;
mod executors;
mod failure_text;
pub(crate) mod file_names;
mod job_options;
mod jobs;
mod log;
mod log_part;
mod log_watch;
mod log_writer;
mod missing_files;
mod outcome;
mod plan_file;
mod registry;
mod secrets;
mod source;
#[cfg(test)]
mod source_tests;
mod states;

pub use directory::{AttemptDirectory, states_beside};
pub use executor::{ATTEMPT_COMMAND, AttemptSettings, ProcessExecutor, begin_attempt};
pub(crate) use executor::{is_any_alive, probe};
pub use executors::Executors;
pub use job_options::JobSettings;
pub use jobs::JobExecutor;
pub use log::{AttemptLog, LeftOut, LogPage, LogPosition};
pub use log_part::LogPart;
pub use log_watch::{FollowedLog, LogWatch};
pub(crate) use outcome::DriftRules;
pub use plan_file::{PlanFileError, PlanFiles};
pub use registry::StoreRegistry;
pub use secrets::{ReadSecret, ReadVariable, SecretError, Secrets};
