//! Reports on a run: log stream, plan, outputs and status.

mod batch;
mod block;
mod diagnostics;
mod files;
mod log_copy;
mod overflow;
mod run_log;
mod spool;
mod terminal;
mod undelivered;
mod upload;

pub use batch::Batch;
pub use files::{PICKED_UP, REPORTS};
pub use log_copy::copy_log;
pub use run_log::{PlanHint, RunLog, Shown};
pub use spool::{Receiver, Sender, channel};
pub use terminal::show;
pub use undelivered::{Undelivered, Written};
pub use upload::{Delivery, LogSink, UploadEnd, UploadReport, upload};
