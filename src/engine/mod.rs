//! Runs Terraform or `OpenTofu`: what is started, with what arguments, and what its answers mean.
//!
//! Arguments are built as pure data. What a run changed is read from the saved plan's JSON and
//! from the state, never from text: a module or a provisioner can print any text.

mod arguments;
mod changes;
mod clean;
mod commands;
mod diagnostics;
mod difference;
mod environment;
mod error;
#[cfg(test)]
mod fuzz_tests;
mod junit;
mod labels;
mod lock;
mod locking;
mod marks;
mod plan;
mod reading;
mod reported;
mod showing;
mod splitter;
mod state;
mod survey;
mod test_results;
mod walk;
mod watching;
mod wrapper;

pub use arguments::{PlanMode, PlanRequest, required_version};
pub use clean::Content;
pub use commands::{Engine, Planned, Saved, Tested, Validated};
pub use environment::prepare as prepare_environment;
pub use error::{EngineError, Failed};
pub use junit::readable_junit;
pub use lock::{Holder, LeftLock, StateLock};
pub use locking::{KilledLock, Unfinished};
pub use plan::{Counts, PlanSummary};
pub use reading::Copied;
pub use reported::Reported;
pub use state::Applied;
pub use survey::Survey;
pub use test_results::TestCounts;
pub use walk::Member;
pub use wrapper::{OLDEST_WRAPPER, Wrapper, can_wrap};
