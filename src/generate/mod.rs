//! Writes the thin wrapper that a CI system needs to start the runner: a file of its own dialect
//! with nothing in it but how the runner gets there and what it is told.
//!
//! What is written depends on the options alone, is the same each time, and holds no secret: values
//! of a run are the CI system's own variables and secrets. One file a target; the texts are templates
//! in `templates/generate`.

mod options;

pub use options::{Aws, Azure, Cloud, Gcp, Install, Network, Options, Version};
