//! One request of the API.

use axum::http::Method;
use axum::routing::MethodRouter;

use super::shape::Shape;
use super::state::Shared;
use super::user::Role;

/// The path of the API.
pub(crate) const BASE: &str = "/api/v1";

/// One request of the API.
pub struct Route<S> {
    /// The method.
    pub method: Method,
    /// The path below `/api/v1`.
    pub path: &'static str,
    /// The lowest role that may send it.
    pub role: Role,
    /// What it does, in one sentence.
    pub summary: &'static str,
    /// Its parameters and its answer, for the OpenAPI document.
    pub(crate) shape: Shape,
    pub(crate) handler: MethodRouter<Shared<S>>,
}

impl<S> std::fmt::Debug for Route<S> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} {} ({})", self.method, self.path, self.role.name())
    }
}
