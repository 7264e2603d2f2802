//! One file for each CI system. [`super::System`] lists them.

pub(super) mod azure_pipelines;
pub(super) mod bitbucket_pipelines;
pub(super) mod buildkite;
pub(super) mod circleci;
pub(super) mod generic;
pub(super) mod github_actions;
pub(super) mod gitlab_ci;
pub(super) mod jenkins;
pub(super) mod no_ci;
pub(super) mod teamcity;
pub(super) mod tekton;
