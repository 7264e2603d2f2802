//! The meaning of the tool's errors: what a failed command has printed, its cause, the class of the cause and
//! the hint.
//!
//! The texts of errors are not an interface of the tool, and differ between versions, backends, registries and
//! providers. So the rules look for the words that all of them share: error codes of services, sentences about
//! secrets, messages of Go's network library, HTTP statuses. `tests/data/tool-errors` has real texts with their causes.

pub(super) mod cause;
mod certain;
pub(super) mod classify;
mod crash;
mod http_status;
mod phrases;
pub(super) mod printed;
mod secrets;
mod sentence;
mod services;
mod summaries;
mod symptoms;
#[cfg(test)]
mod table_tests;
