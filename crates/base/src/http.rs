//! Builds all HTTP clients of the runner.
//!
//! Reading the system's certificates takes longer than most commands. The certificates are therefore
//! read when the first server presents its own, once for all clients with the same bundle.

mod client;
mod error;
mod gzip;
mod headers;
mod observed;
mod roots;
#[cfg(test)]
mod test_certificates;
mod tls;
mod verifier;

pub use client::{Clients, LazyClient, Redirects, client, clients, direct_client};
pub use error::HttpError;
pub use gzip::{GzipError, decompress};
pub use headers::{now, retry_after, seconds};
pub use observed::{Exchange, Observed, Observer, OutgoingRequest, Peer};
pub use tls::{check_bundle, has_system_certificates, tls_config};
