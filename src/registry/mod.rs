//! Talks to the registry: status, configuration and callbacks of one run.
//!
//! One function sends all requests, classifies the responses, and retries transient errors. The token
//! is sent only to the registry's own origin, and is never printed.

mod address;
mod archive;
mod body;
mod client;
mod error;
mod idempotency_key;
mod requested_delay;
mod response;
mod retry;

pub use address::{Address, AddressError, Callback, Callbacks};
pub use body::{Body, Part};
pub use client::{Client, Config, RunStatus};
pub use error::{Redirect, RegistryError};
pub use retry::{Limits, Patience};
