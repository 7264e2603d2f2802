//! Real servers for tests. Each one belongs to one test, uses a free port and a directory of its own, and ends
//! with it.

#![cfg_attr(
    unix,
    expect(clippy::disallowed_methods, reason = "tests start the programs that they check"),
    expect(clippy::unwrap_used, reason = "what fails in a test's set-up fails the test")
)]

#[cfg(unix)]
mod postgres;

#[cfg(unix)]
pub use postgres::{PASSWORD, Postgres, free_port};
