//! Generates the wrapper that a CI system needs to start the runner: a file in the system's own format
//! that installs the runner and passes its options.
//!
//! The output depends only on the options and does not contain secrets: values of a run are variables
//! and secrets of the CI system. Each target has its own module; the texts are templates in
//! `templates`.

mod actions;
mod azure_pipelines;
mod bitbucket_pipelines;
mod circleci;
mod container;
mod error;
mod failure;
mod filters;
mod generic;
mod github_actions;
mod gitlab_ci;
mod identity;
mod install;
mod jenkins;
mod options;
mod render;
mod secret;
mod secret_names;
mod tekton;

pub use azure_pipelines::azure_pipelines;
pub use bitbucket_pipelines::bitbucket_pipelines;
pub use circleci::circleci;
pub use error::GenerateError;
pub use generic::{RunOutline, generic, parse_run_outline};
pub use github_actions::{action, github_actions};
pub use gitlab_ci::gitlab_ci;
pub use identity::Tokens;
pub use jenkins::jenkins;
pub use options::{
    Aws, Azure, Cloud, Gcp, IMAGE, Install, Need, Network, Options, RELEASES, Version,
};
pub use secret::Secret;
pub use tekton::tekton;
