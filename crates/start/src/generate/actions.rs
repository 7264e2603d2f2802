//! The GitHub actions that generated workflows use.
//!
//! The actions are pinned to commits, because a tag can be moved to other code. The commits are those that public
//! repositories pin with the version in a comment; at least two independent repositories agree on each (read in
//! November 2026). To update one, read the tag's commit in the action's own repository.

/// Actions at a commit, with their version in a comment for readers and update bots.
pub(super) struct Actions {
    /// Caches a directory for later jobs.
    pub(super) cache: &'static str,
    /// Assumes a role in AWS.
    pub(super) aws: &'static str,
    /// Writes a configuration with which Google's libraries get tokens.
    pub(super) gcp: &'static str,
    /// Stores files with the workflow run.
    pub(super) upload: &'static str,
}

/// The actions. Azure does not need one, because its providers request tokens from GitHub themselves.
pub(super) const ACTIONS: Actions = Actions {
    cache: "actions/cache@668228422ae6a00e4ad889ee87cd7109ec5666a7 # v5.0.4",
    aws: "aws-actions/configure-aws-credentials@e6de054238d6b7531b4efff3b6587d9aade6a06c # v6.2.3",
    gcp: "google-github-actions/auth@7c6bc770dae815cd3e89ee6cdf493a5fab2cc093 # v3.0.0",
    upload: "actions/upload-artifact@bbbca2ddaa5d8feaa63e36b76fdaad77386f024f # v7.0.0",
};
