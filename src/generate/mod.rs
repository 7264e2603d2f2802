//! Writes the thin wrapper that a CI system needs to start the runner: a file of its own dialect
//! with nothing in it but how the runner gets there and what it is told.
//!
//! What is written depends on the options alone, is the same each time, and holds no secret: values
//! of a run are the CI system's own variables and secrets. One file a target; the texts are templates
//! in `templates/generate`.

mod actions;
mod azure_pipelines;
mod bitbucket_pipelines;
mod circleci;
mod error;
mod filters;
mod github_actions;
mod install;
mod login;
mod options;
mod tekton;

pub use azure_pipelines::azure_pipelines;
pub use bitbucket_pipelines::bitbucket_pipelines;
pub use circleci::circleci;
pub use error::GenerateError;
pub use github_actions::github_actions;
pub use options::{Aws, Azure, Cloud, Gcp, IMAGE, Install, Network, Options, RELEASES, Version};
pub use tekton::tekton;

/// What a template makes: lines, each of them ended.
fn text(template: &impl askama::Template) -> String {
    let mut text = template.render().expect("writing to a string does not fail");
    text.push('\n');
    text
}
