//! Fetches a module's source with libgit2, in a supervised child of the same executable: one commit
//! of a repository for a run, or a mirror of it for the server.
//!
//! libgit2 blocks in connect and receive, so a clone can only be ended by ending its process. The
//! child gets its task, credentials included, over a pipe: never in argv or in its environment.
//! Credentials go to their own server only, and never into the clone or into a message.
//!
//! [`fetch`] and [`update_mirror`] are the parent's side and [`run_child`] the child's;
//! [`share_credentials`] lets the `git` that Terraform starts log in the same way, through
//! [`answer_git`].

mod advice;
mod ask;
mod certificates;
mod checked_out;
mod child;
mod credential_helper;
mod environment;
mod failure;
mod fetch;
#[cfg(test)]
mod fuzz_tests;
mod history;
mod known_hosts;
mod launch;
mod login;
mod mirror;
mod module_directory;
mod share;
mod submodules;
mod task;
mod url;

pub use ask::moved_to;
pub use certificates::share_certificates;
pub use checked_out::checked_out_commit;
pub use child::run_child;
pub use credential_helper::answer_git;
pub use environment::{
    CREDENTIAL_COMMAND, Checkout, EnvironmentToken, FETCH_COMMAND, GitEnvironment,
};
pub use failure::{FetchError, SourceError};
pub use fetch::{CloneRequest, fetch};
pub use history::{Histories, MirrorHistory, compare_histories, has_files};
pub use mirror::{MirrorRequest, MirrorUpdate, update_mirror};
pub use module_directory::module_directory;
pub use share::share_credentials;
pub use submodules::{MirrorSubmodules, Submodules};
pub use url::{address_problem, shown_repository};
