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
mod junit;
mod killed_lock;
mod lock;
mod locking;
mod reported;
mod showing;
mod state;
mod test_results;
mod watching;
mod wrapper;

pub use arguments::{PlanMode, PlanRequest, required_version};
pub use commands::{Planned, Saved, Tested, Validated};
pub use environment::prepare as prepare_environment;
pub use error::{EngineError, Failed};
pub use invocation::Engine;
pub use junit::readable_junit;
pub use killed_lock::KilledLock;
pub use lock::{Holder, LeftLock, StateLock};
pub use locking::Unfinished;
pub use reported::Reported;
pub use state::Applied;
pub use test_results::TestCounts;
pub use wrapper::{OLDEST_WRAPPER, Wrapper, can_wrap};
