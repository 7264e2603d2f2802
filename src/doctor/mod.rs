//! Checks whether this machine can execute runs: settings, registry, network, tools and disk space.
//!
//! The checks write only to the cache: the versions of executables on PATH, and a mark on installed
//! executables that were changed. Each check has a time limit, and checks of servers run concurrently.
//! All messages are redacted, and URLs are shown without their logins.

mod cli_configuration;
mod directories;
mod examine;
mod finding;
mod keys;
mod machine;
mod network;
mod registry;
mod time_limit;
mod tools;

pub use examine::examine;
pub use finding::{Finding, FindingState};
