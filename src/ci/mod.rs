//! Features of the CI system around the runner: the display of the log, and reports at the end of a run.
//!
//! Each system is described in a file of `systems`. GitHub Actions masks values that a running job registers: [`Masks`]. GitLab masks only the variables that
//! its settings mark as masked; a running job cannot register values, so only the runner's redactor
//! protects them. Nothing here reads the environment or decides where output goes.

mod annotations;
mod bracket_commands;
mod description;
mod disarm;
mod group;
mod job;
mod notation;
mod system;
mod systems;

pub use annotations::annotations;
pub use description::{CiSystem, JobVariables, StopTimes};
pub use disarm::disarm;
pub use group::grouped;
pub use job::Job;
pub use notation::notation;
pub use system::System;
pub use systems::github_actions::masks::Masks;
pub use systems::github_actions::step_files::{append_summary, step_outputs, write_outputs};
pub use systems::gitlab_ci::reports::{dotenv, terraform_report};
