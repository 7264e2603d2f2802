//! The HTTP API below `/api/v1`, for people's tools and for the command line; `/healthz`, `/readyz`
//! and `/metrics`.
//!
//! [`routes`] is the table of all requests with the role that each needs. The router, its
//! authorization and the OpenAPI document are made from it, so a route without a rule cannot exist.

mod access;
mod access_file;
mod approvals;
mod authorize;
mod breaker;
mod configuration;
mod disk;
mod error;
mod events;
mod followers;
mod forget;
mod health;
mod hosts;
mod layers;
mod logs;
mod metrics;
mod openapi;
mod planning;
mod policy;
mod reached;
mod refusals;
mod rendered;
mod repositories;
mod route;
mod routes;
mod runs;
mod session;
mod shape;
mod sign_in;
mod state;
mod state_lock;
mod stream;
#[cfg(test)]
pub(crate) mod tests;
mod unlock;
mod user;
mod users;
mod windows;

pub(crate) use approvals::{apply_of, why_not};
pub(crate) use authorize::permit;
pub(crate) use breaker::problem as breaker_problem;
pub(crate) use configuration::in_force;
pub(crate) use followers::statuses as follower_statuses;
pub(crate) use layers::{Filter, view as layer_view};
pub(crate) use planning::insert as plan_layer;
pub(crate) use policy::{PolicyView, policies};
pub(crate) use reached::Reached;
pub(crate) use routes::unknown;
pub(crate) use runs::{attempt, directory, run, view as run_view};
pub(crate) use session::{Browser, SentBy, begin, browser, forget};
pub(crate) use state::Shared;
pub(crate) use windows::waits_for_window;

pub use access::{Access, new_token};
pub use disk::DiskLook;
pub use error::ApiError;
pub use hosts::Hosts;
pub use reached::Peer;
pub use rendered::Rendered;
pub use route::Route;
pub use routes::{router, routes};
pub use sign_in::SignIns;
pub use state::ApiState;
pub use user::{Layers, Role, User};
