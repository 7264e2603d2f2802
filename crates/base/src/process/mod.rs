//! Starts, supervises and ends child processes, without knowledge of git or Terraform.
//!
//! A child gets its own process group, so that Ctrl-C in a terminal does not reach it a second
//! time. A stop sends one SIGTERM to its pid, or to the pid of the program that it wraps, and
//! SIGKILL to its group after the grace period. Only one process gets SIGTERM, because providers of
//! Terraform die of it. A second signal makes Terraform abort, so the runner sends none if the
//! child's output shows that it received the signal itself.
//!
//! Callers may rely on this: no process of the group runs when [`supervise`] returns or is dropped.
//! After [`adopt_orphans`] (Linux only), this includes processes that left the group.

mod command;
mod descendants;
mod detached;
#[cfg(test)]
mod fuzz_tests;
mod identity;
mod memory;
mod pump;
mod replace;
mod running;
mod sink;
mod source;
mod supervise;
mod table;

pub use command::{Channel, Command, Environment, Inner, Input, Output, Session};
pub use descendants::{adopt_orphans, end_orphans, reap_orphans, run_helper};
pub use detached::start_detached;
pub use identity::ProcessIdentity;
pub use memory::{OutOfMemory, memory_left};
pub use replace::become_program;
pub use running::{Processes, Running};
pub use sink::{Discard, Sink};
pub use supervise::{Exit, Grace, ProcessError, supervise};
