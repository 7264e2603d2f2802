//! Leaves and mechanism: what every other crate of the workspace builds on.
//!
//! Only [`process`] starts processes and only [`http`] builds HTTP clients. Nothing here knows
//! Terraform, git, the registry, or a CI system, and nothing here reads settings.
//!
//! Modules import downwards only: `http`, `process` → leaves → `platform`.

pub mod blocking;
pub mod cancel;
pub mod error;
pub mod event;
pub mod http;
pub mod pace;
pub mod platform;
pub mod process;
pub mod resource_lines;
pub mod secret;
pub mod similar;
pub mod trust;
