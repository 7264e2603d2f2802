//! Integration tests: real Terraform, real git servers, real PostgreSQL, real signals.

#![expect(clippy::unwrap_used, reason = "a test ends where anything is not as it expects")]

mod source;
mod support;
