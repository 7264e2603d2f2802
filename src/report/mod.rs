//! Tells the world how a run goes: log stream, plan, outputs and status.

mod batch;
mod block;
mod diagnostics;
mod files;
mod line_diff;
mod log_copy;
mod overflow;
mod page;
mod run_log;
mod spool;
mod summary;
mod terminal;
mod undelivered;
mod upload;
mod visible;
mod wording;

pub use batch::Batch;
pub use block::Entry;
pub use files::{PICKED_UP, REPORTS};
pub use log_copy::{LogCopy, copy_log};
pub use page::page;
pub use run_log::{PlanHint, RunLog, Shown};
pub use spool::{Receiver, Sender, channel};
pub use summary::{SUMMARY_LIMIT, summary};
pub use terminal::show;
pub use undelivered::{Undelivered, Written};
pub use upload::{Delivery, LogSink, UploadEnd, UploadReport, upload};
