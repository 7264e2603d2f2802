//! The child process of a fetch: all calls of libgit2 happen here, in a process that can be killed.
//!
//! It reads one task, writes one result, and prints its progress to standard error. It must not outlive
//! its parent, and it writes only to the clone or mirror and its scratch directory.

mod authenticate;
mod certificates;
mod check_out;
mod clone;
mod depth;
mod explain;
mod gitmodules;
mod host_keys;
mod local;
mod mirror;
mod mirror_fetch;
mod mirror_store;
mod mirror_submodules;
mod progress;
mod reference;
mod run;
mod submodules;
mod transfer;

pub use run::run_child;
