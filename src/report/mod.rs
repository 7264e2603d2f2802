//! Tells the world how a run goes: log stream, plan, outputs and status.

mod run_log;
mod spool;

pub use run_log::RunLog;
pub use spool::{Receiver, Sender, channel};
