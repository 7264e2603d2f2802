//! The reports of a plan: its JSON, its text, and the body for the registry.

pub(super) mod detail_level;
pub(super) mod part_writer;
pub(super) mod plan_report;
pub(super) mod plan_text;
