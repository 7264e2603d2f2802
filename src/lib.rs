//! Executes Terraform and `OpenTofu` runs for a registry.
//!
//! The flow of a run:
//!
//! ```text
//! Args → Settings → RunSpec → Workspace + InstalledTool → Engine → RunResult → Exit
//!                                 lines flow sideways to the reports
//! ```
//!
//! Modules import downwards only: edge (`cli`) → `demo` → composition (`run`, `settings`, `update`,
//! `doctor`) → phases (`registry`, `workspace`, `tool`, `providers`, `engine`, `report`, `ci`,
//! `telemetry`, `artifact`; not each other) → `exit`, `screen` → the crates below `crates/`.

pub mod artifact;
pub mod ci;
pub mod cli;
pub mod demo;
pub mod doctor;
pub mod engine;
pub mod exit;
pub mod providers;
pub mod registry;
pub mod report;
pub mod run;
pub mod screen;
pub mod settings;
pub mod telemetry;
pub mod tool;
pub mod update;
pub mod workspace;
