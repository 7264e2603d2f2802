//! The meaning of the tool's errors: what a failed command has printed, its cause, the class of the cause and
//! the hint.
//!
//! The texts of errors are not an interface of the tool, and differ between versions, backends, registries and
//! providers. So the rules look for the words that all of them share: error codes of services, sentences about
//! secrets and permissions, messages of Go's network library, HTTP statuses. Names of things do not count.
//! `tests/data/tool-errors` has real texts with their causes.

pub(super) mod cause;
mod certain;
mod classify;
mod context;
mod crash;
mod credentials;
mod http_status;
pub(super) mod locking;
mod permissions;
mod phrases;
pub(super) mod printed;
mod secrets;
mod sentence;
mod services;
mod summaries;
mod symptoms;
#[cfg(test)]
mod table_tests;
