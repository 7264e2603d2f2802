//! Writes the thin wrapper that a CI system needs to start the runner: a file of its own dialect
//! with nothing in it but how the runner gets there and what it is told.
//!
//! What is written depends on the options alone, is the same each time, and holds no secret: values
//! of a run are the CI system's own variables and secrets. One file a target; the texts are templates
//! in `templates/generate`.

mod error;
mod filters;
mod github_actions;
mod install;
mod options;

pub use error::GenerateError;
pub use github_actions::github_actions;
pub use options::{Aws, Azure, Cloud, Gcp, IMAGE, Install, Network, Options, RELEASES, Version};
