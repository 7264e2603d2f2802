//! The foundations of all other crates of the workspace: processes, HTTP clients, secrets, and the
//! operating system.
//!
//! Only [`process`] starts processes and only [`http`] builds HTTP clients. This crate does not
//! depend on Terraform, git, the registry, or a CI system, and does not read settings.
//!
//! Modules import downwards only: `http`, `process` → leaves → `platform`.

pub mod blocking;
pub mod cancel;
pub mod error;
pub mod event;
pub mod http;
pub mod json;
pub mod moment;
pub mod pace;
pub mod paths;
pub mod platform;
pub mod process;
pub mod resource_lines;
pub mod secret;
pub mod similar;
pub mod size;
pub mod trust;
pub mod yaml;
