//! How a run ended, and who is told: registry, report directory, log, terminal and CI system.

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
