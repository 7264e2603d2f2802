//! The server: it watches repositories, decides which runs of which layers are due, and starts
//! them.
//!
//! [`config`] reads the desired state, which [`import`] makes of that of other tools, [`layers`] finds the layers that it means, and [`mirror`]
//! finds out which of them a commit changes.
//! [`model`] holds the types that pass between the parts, and [`decision`] the pure function that
//! decides. [`windows`] says when actions are forbidden. [`plans`] protects saved plans. [`store`] keeps the
//! facts, and [`controller`] executes what was decided. [`webhooks`] takes what git hosts tell about commits.
//! [`followers`] delivers the commits of branches. [`notifications`] tells people and programs what happened.
//! [`metrics`] names and counts what the server measures.

pub mod api;
pub mod artifacts;
pub mod attempts;
pub mod config;
pub mod controller;
pub mod data;
pub mod decision;
pub mod event;
pub mod followers;
pub mod import;
pub mod layers;
pub mod metrics;
pub mod mirror;
pub mod model;
pub mod notifications;
pub mod pages;
pub mod plans;
pub mod resources;
pub mod serve;
pub mod store;
#[cfg(test)]
mod test_attempts;
#[cfg(test)]
mod test_repository;
pub mod webhooks;
pub mod windows;
