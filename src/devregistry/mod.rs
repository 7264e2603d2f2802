//! A registry for development: the endpoints and checks of the real registry, on loopback.
//!
//! `butler-runner demo` and the integration tests run against it; the tests also inject faults. It
//! keeps everything in memory and is not for production.

mod handlers;
mod server;
mod state;

pub use handlers::{BASE_PATH, router};
pub use server::{Server, serve};
pub use state::{Received, Registry, Request, Run};
