//! The log of a run, from redacted lines to the requests that deliver them.

pub(super) mod batch;
pub(super) mod block;
pub(super) mod log_copy;
pub(super) mod overflow;
pub(super) mod run_log;
pub(super) mod spool;
pub(super) mod undelivered;
pub(super) mod upload;
