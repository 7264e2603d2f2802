//! What the CI system around the runner offers.
//!
//! GitHub Actions masks values that a job registers while it runs: [`Masks`]. GitLab cannot be told
//! of a value by a running job, it masks only what its own settings mark as masked; there the
//! runner's redactor is all there is. Nothing here reads the environment or decides where output goes.

mod masks;
mod system;

pub use masks::Masks;
pub use system::System;
