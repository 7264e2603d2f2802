//! Tells the world how a run goes: log stream, plan, outputs and status.

mod batch;
mod block;
mod diagnostics;
mod overflow;
mod run_log;
mod spool;
mod terminal;
mod undelivered;
mod upload;

pub use batch::Batch;
pub use block::Entry;
pub use run_log::{RunLog, Shown};
pub use spool::{Receiver, Sender, channel};
pub use terminal::show;
pub use undelivered::{Undelivered, Written};
pub use upload::{Delivery, LogSink, UploadEnd, UploadReport, jittered, upload};
