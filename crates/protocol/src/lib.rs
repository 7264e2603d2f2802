//! The registry's documents: the configuration of a run, the references in it, and the state backends that it can
//! name.
//!
//! The result of [`parse_config`](configuration::parse_config) is fully validated. Nothing here sends
//! a request; the runner's client and the server share these types.

pub mod backend;
pub mod configuration;
pub mod name_rules;
pub mod references;
pub mod spec;
