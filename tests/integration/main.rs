//! Integration tests: real Terraform, real git servers, real PostgreSQL, real signals.

mod source;
mod support;
