//! The reports of a run: to the registry, the report directory, the log, the terminal, and the CI system.

pub(super) mod documents;
pub(super) mod final_status;
pub(super) mod logs;
pub(super) mod notices;
pub(super) mod outputs;
pub(super) mod report_error;
pub(super) mod report_files;
pub(super) mod reports;
pub(super) mod stale_reports;
pub(super) mod status_report;
pub(super) mod undelivered;
