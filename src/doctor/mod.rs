//! Checks whether this machine can execute runs: settings, registry, network, tools and disk space.
//!
//! Nothing is changed but what is remembered of executables: what those on PATH said, and that one in
//! the cache is not the one that was verified. Every wait has its bound. What has to be asked of others is asked at the same time. All that is said goes through the
//! redactor; a URL is always shown without its login.

mod examine;
mod finding;
mod keys;
mod machine;
mod network;
mod registry;
mod room;
mod time_limit;
mod tools;

pub use examine::examine;
pub use finding::{Finding, State};
