//! Servers, repositories, browsers and runs for tests, each on a free port and in a directory of its own.
//!
//! This crate is compiled once for all tests. It depends on no crate that a change of the server compiles again, and it
//! starts the runner as a process only. What it starts ends with the value that stands for it.

#![cfg(unix)]
#![expect(clippy::disallowed_methods, reason = "tests start the programs that they check")]
#![expect(clippy::unwrap_used, reason = "what fails in a test's set-up fails the test")]
#![expect(clippy::missing_panics_doc, reason = "a function of tests panics if anything fails")]
#![expect(clippy::missing_errors_doc, reason = "the errors of linters are what tests look at")]
#![expect(clippy::new_without_default, reason = "a new machine or port is not a default")]
#![expect(
    clippy::must_use_candidate,
    clippy::return_self_not_must_use,
    reason = "tests use values"
)]

#[cfg(target_os = "linux")]
pub mod accounted;
pub mod api;
pub mod api_server;
pub mod authority;
pub mod azure;
pub mod browser;
pub mod canned;
pub mod ci_server;
pub mod cloud_server;
pub mod cloud_storage;
pub mod curl;
pub mod deployed;
pub mod documented;
pub mod empty_root;
pub mod environment;
pub mod file_s3;
pub mod files_provider;
pub mod forward_proxy;
pub mod git_server;
pub mod github_actions;
pub mod google_storage;
pub mod gpg;
pub mod hang;
pub mod http_backend;
pub mod kubernetes;
pub mod linters;
pub mod machine;
pub mod object_store;
pub mod ports;
mod postgres;
pub mod processes;
pub mod programs;
pub mod project;
pub mod provider_mirror;
pub mod proxy;
pub mod release_site;
pub mod root;
pub mod ssh_server;
pub mod stand_in;
pub mod terminal;
pub mod terraform;
pub mod terraform_registry;
pub mod threads;
#[cfg(target_os = "linux")]
pub mod traced;
pub mod vendors;
pub mod world;

pub use ports::HeldPort;
pub use postgres::{PASSWORD, Postgres};
pub use programs::{runner, static_runner};
