//! Integration tests: real Terraform, real git servers, real PostgreSQL, real signals.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod binary;
mod settings;
mod support;
