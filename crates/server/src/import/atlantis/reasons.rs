//! Reasons of notes about keys that are left out.

/// The reason for keys about pull requests.
pub(super) const PULL_REQUESTS: &str =
    "it is about pull requests; a server plans the commits of a branch";

/// The reason for keys about checks of policies.
pub(super) const AFTER_PLAN: &str = "name the program that checks plans in `after-plan`";
