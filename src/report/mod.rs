//! Reports on a run: log stream, plan, outputs and status.

mod diagnostics;
mod files;
mod log;
mod terminal;

pub use files::{PICKED_UP, REPORTS};
pub use log::batch::Batch;
pub use log::log_copy::copy_log;
pub use log::run_log::{PlanHint, RunLog, Shown};
pub use log::spool::{Receiver, Sender, channel};
pub use log::undelivered::{Undelivered, Written};
pub use log::upload::{Delivery, LogSink, UploadEnd, UploadReport, upload};
pub use terminal::show;
