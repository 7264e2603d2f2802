//! The GitHub actions that generated workflows use.
//!
//! A tag can be moved to other code, a commit cannot. The commits are those that public repositories
//! pin with the version beside it; two that have nothing to do with each other had to agree on each
//! (read in November 2026). To raise one, read the tag's commit in the action's own repository.

/// An action at one commit, with its version for people and for bots that raise it.
pub(super) struct Actions {
    /// Keeps a directory for the next job.
    pub(super) cache: &'static str,
    /// Takes on a role at AWS.
    pub(super) aws: &'static str,
    /// Writes a configuration by which Google's libraries get tokens.
    pub(super) gcp: &'static str,
    /// Keeps files with the workflow's run.
    pub(super) upload: &'static str,
}

/// All of them. Azure needs none: its providers speak with GitHub themselves.
pub(super) const ACTIONS: Actions = Actions {
    cache: "actions/cache@668228422ae6a00e4ad889ee87cd7109ec5666a7 # v5.0.4",
    aws: "aws-actions/configure-aws-credentials@e6de054238d6b7531b4efff3b6587d9aade6a06c # v6.2.3",
    gcp: "google-github-actions/auth@7c6bc770dae815cd3e89ee6cdf493a5fab2cc093 # v3.0.0",
    upload: "actions/upload-artifact@bbbca2ddaa5d8feaa63e36b76fdaad77386f024f # v7.0.0",
};
