//! Jenkins: a parametrized job, the queue item of a start request, and the build that it becomes.
//!
//! Responses contain the server's own address, which is often not the one that clients use, for example behind a
//! proxy. The runner takes only numbers from responses and sends every request to the configured address.

mod client;
mod find;
mod job;
mod login;
mod parameters;
mod queue;
mod run_reference;

pub(super) use client::{Jenkins, STATES};
