//! The server, clusters and triggers: real git servers, databases, browsers and processes.

#![expect(clippy::disallowed_methods, reason = "tests start the programs that they check")]
#![expect(clippy::unwrap_used, reason = "what fails in a test's set-up fails the test")]

mod cluster;
mod notices;
mod server;
mod trigger;
