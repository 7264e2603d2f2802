//! What the CI system around the runner offers: how its people see the log, and what it is handed
//! at the end of a run.
//!
//! GitHub Actions masks values that a job registers while it runs: [`Masks`]. GitLab cannot be told
//! of a value by a running job, it masks only what its own settings mark as masked; there the
//! runner's redactor is all there is. Nothing here reads the environment or decides where output goes.

mod annotations;
mod disarm;
mod github;
mod gitlab;
mod group;
mod job;
mod masks;
mod notation;
mod summary;
mod system;

pub use annotations::annotations;
pub use disarm::disarm;
pub use github::{append_summary, step_outputs, write_outputs};
pub use gitlab::{dotenv, terraform_report};
pub use group::grouped;
pub use job::Job;
pub use masks::Masks;
pub use notation::notation;
pub use summary::summary;
pub use system::System;
