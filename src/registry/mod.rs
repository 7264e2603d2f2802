//! Talks to the registry: status, configuration and callbacks of one run.
//!
//! Every request goes through one function that classifies the answer and tries again where that
//! makes sense. The token is sent to the registry's own origin only and can be read nowhere.

mod address;
mod answer;
mod body;
mod client;
mod error;
mod key;
mod rest;
mod retry;

pub use address::{Address, AddressError, Callback, Callbacks};
pub use body::{Body, Part};
pub use client::{Client, Config, RunStatus};
pub use error::{Redirect, RegistryError};
pub use retry::{Limits, Patience};
