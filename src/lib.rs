//! Carries out Terraform and `OpenTofu` runs for a registry.
//!
//! One way through:
//!
//! ```text
//! Args → Settings → RunSpec → Workspace + InstalledTool → Engine → Outcome → ExitCode
//!                                 lines flow sideways to the reports
//! ```
//!
//! Modules import downwards only: edge (`cli`) → composition (`run`, `settings`, `trigger`, `update`) → phases
//! (`registry`, `workspace`, `tool`, `providers`, `engine`, `report`, `cluster`,
//! `ci`, `generate`, `telemetry`, `artifact`; not each other) → mechanism (`process`, `http`, `screen`) → leaves
//! (`platform`, `secret`, `spec`, `event`, `result`, `resource_lines`, `timeline`, `cancel`, `pace`,
//! `similar`, `trust`, `error`).

pub mod artifact;
mod blocking;
pub mod cancel;
pub mod ci;
pub mod cli;
pub mod cluster;
pub mod devregistry;
pub mod doctor;
pub mod engine;
pub mod error;
pub mod event;
#[cfg(test)]
mod fuzz;
pub mod generate;
pub mod http;
pub mod pace;
pub mod platform;
pub mod process;
pub mod providers;
pub mod registry;
pub mod report;
pub mod resource_lines;
pub mod result;
pub mod run;
pub mod screen;
pub mod secret;
pub mod settings;
mod similar;
pub mod spec;
pub mod telemetry;
pub mod timeline;
pub mod tool;
pub mod trigger;
mod trust;
pub mod update;
pub mod workspace;
