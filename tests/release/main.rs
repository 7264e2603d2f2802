//! The static release binary that `make build` makes: its size, its costs, and that it needs no other file.
//!
//! The profile `release` of nextest selects these tests, and no other profile does: no other test needs that build.

#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "tests start the programs that they check")]
#![expect(clippy::unwrap_used, reason = "what fails in a test's set-up fails the test")]

mod binary;
mod performance;
mod run_empty_root;
