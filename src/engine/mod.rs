//! Runs Terraform or `OpenTofu`: what is started, with what arguments, and what its answers mean.
//!
//! Arguments are built as pure data. What a run changed is read from the saved plan's JSON and
//! from the state, never from text: a module or a provisioner can print any text.

mod arguments;
mod commands;
mod diagnostics;
mod environment;
mod error;
#[cfg(test)]
mod fuzz_tests;
mod invocation;
mod locks;
mod plan;
mod test_results;
mod watching;
mod wrapper;

pub use arguments::{PlanMode, PlanRequest, required_version};
pub use commands::{Planned, Saved, Tested, Validated};
pub use environment::prepare as prepare_environment;
pub use error::{EngineError, Failed};
pub use invocation::Engine;
pub use locks::killed_lock::KilledLock;
pub use locks::lock::{Holder, LeftLock, StateLock};
pub use locks::locking::Unfinished;
pub use plan::applied::Applied;
pub use plan::reported::Reported;
pub use test_results::counts::TestCounts;
pub use test_results::junit::readable_junit;
pub use wrapper::{OLDEST_WRAPPER, Wrapper, can_wrap};
