//! Fetches files from a release site: small ones into memory, archives into an unnamed file.
//!
//! Transient errors are retried a few times; a refusal of the site is not. The checksum of an
//! archive is computed while it streams. Errors show URLs without user names, passwords and
//! queries.

mod error;
mod fetcher;
mod local;
mod partial;
mod remote;
mod web_page;

pub use error::{DownloadError, SentLogin};
pub(in crate::tool) use fetcher::Fetcher;
pub(in crate::tool) use web_page::{BEGINNING, web_page};
