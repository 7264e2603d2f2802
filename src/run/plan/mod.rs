//! The plan of a run as it is reported: redacted JSON and text.

pub(super) mod part_writer;
pub(super) mod plan_report;
pub(super) mod plan_text;
