//! Why keys are left out, in the words of notes.

/// A key about pull requests.
pub(super) const PULL_REQUESTS: &str =
    "it is about pull requests; a server plans the commits of a branch";

/// Checks of policies.
pub(super) const AFTER_PLAN: &str = "name the program that checks plans in `after-plan`";
