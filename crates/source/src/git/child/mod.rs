//! The child's side of a fetch: everything that libgit2 does, in a process that can be killed.
//!
//! It reads one task, writes one answer, and says on standard error what it is doing. It must
//! not outlive its parent, and it leaves nothing outside the clone and its scratch directory.

mod authenticate;
mod certificates;
mod check_out;
mod clone;
mod explain;
mod host_keys;
mod inspect;
mod local;
mod progress;
mod reference;
mod run;
mod submodules;
mod transfer;

pub use run::run_child;
