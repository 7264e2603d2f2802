//! The registry's API for runs: its routes and its checks, over any store of runs.
//!
//! [`router`] authorizes each request, checks it, and calls a [`Registry`] only with requests that the
//! API allows. An implementation finds runs and records reports; it never sees a token, a run that
//! the token does not belong to, or a report that the API rejects. `docs/registry-api.md` describes the
//! API for authors of a registry.

mod contract;
pub mod memory;
mod read;
mod refusal;
mod report;
mod router;
mod token;

pub use contract::{Found, NoAnswer, Recorded, Registry, RegistryFailure};
pub use read::{BATCH_LIMIT, BODY_LIMIT, PLAN_FILE_LIMIT};
pub use report::{PlanReport, Report, StatusError, StatusReport};
pub use router::{router, routes};
pub use token::TokenHash;

/// The path under which registries usually serve the API.
pub const BASE_PATH: &str = "/api/registry";
