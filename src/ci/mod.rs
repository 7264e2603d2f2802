//! Features of the CI system around the runner: the display of the log, and reports at the end of a run.
//!
//! GitHub Actions masks values that a running job registers: [`Masks`]. GitLab masks only the variables that
//! its settings mark as masked; a running job cannot register values, so only the runner's redactor
//! protects them. Nothing here reads the environment or decides where output goes.

mod annotations;
mod disarm;
mod github;
mod gitlab;
mod group;
mod job;
mod masks;
mod notation;
mod system;

pub use annotations::annotations;
pub use disarm::disarm;
pub use github::{append_summary, step_outputs, write_outputs};
pub use gitlab::{dotenv, terraform_report};
pub use group::grouped;
pub use job::Job;
pub use masks::Masks;
pub use notation::notation;
pub use system::System;
