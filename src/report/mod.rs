//! The log of a run on its way to its readers, and the diagnostics in it.

mod files;
mod log;
mod terminal;

pub use files::{PICKED_UP, REPORTS};
pub use log::batch::Batch;
pub use log::log_copy::copy_log;
pub use log::run_log::{LiveOutput, PlanHint, RunLog};
pub use log::spool::{Receiver, Sender, channel};
pub use log::undelivered::{Undelivered, WrittenLines};
pub use log::upload::{Delivery, LogSink, UploadEnd, UploadReport, upload};
pub use log::waiting::WaitingLines;
pub use terminal::show;
