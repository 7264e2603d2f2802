//! Starts, watches and ends child processes; knows neither git nor Terraform.
//!
//! A child gets a process group of its own, so that a terminal's Ctrl-C does not reach it a second
//! time. It is stopped by one SIGTERM to its own pid, or to that of the program that it wraps
//! (Terraform's providers die of one, and a second one makes Terraform give up; so it gets none where
//! it says that whoever signalled this process has signalled it too), and by SIGKILL to its group
//! when the grace is over.
//! Callers may rely on it that nothing of the group runs when [`supervise`] returns or is dropped,
//! and that what left the group is ended too where [`adopt_orphans`] was called (Linux only).

mod command;
mod descendants;
#[cfg(test)]
mod fuzz_tests;
mod memory;
mod pump;
mod replace;
mod running;
mod supervise;
mod table;

pub use command::{Command, Environment, Inner, Input, Output};
pub use descendants::{adopt_orphans, end_left_behind, reap_orphans};
pub use memory::{OutOfMemory, memory_left};
pub use replace::become_program;
pub use running::{Processes, Running};
pub use supervise::{Exit, Grace, ProcessError, supervise};

use crate::event::Stream;

/// Where a child's lines go.
pub trait Sink {
    /// Takes one line, without its newline.
    fn line(&self, stream: Stream, line: &[u8]);

    /// Takes the beginning of a line whose end has not come for a while, or that is too long to
    /// wait for. Returns how many bytes it took; the rest is given again with what follows.
    fn partial(&self, stream: Stream, pending: &[u8]) -> usize;

    /// Whether the lines say that the child was asked to end already, by whoever; none where its
    /// lines never say so.
    fn knows_of_stop(&self) -> Option<bool> {
        None
    }
}

/// A sink for children whose output nobody needs.
#[derive(Clone, Copy, Debug)]
pub struct Discard;

impl Sink for Discard {
    fn line(&self, _: Stream, _: &[u8]) {}

    fn partial(&self, _: Stream, pending: &[u8]) -> usize {
        pending.len()
    }
}
