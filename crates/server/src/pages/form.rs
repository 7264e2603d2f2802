//! What a form of a page contains.

use axum::body::{Body, to_bytes};

use crate::api::ApiError;

/// The largest form, in bytes.
const MOST: usize = 1 << 16;

/// The fields of a form, in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Form(Vec<(String, String)>);

impl Form {
    /// Reads the body of a request.
    pub(super) async fn read(body: Body) -> Result<Self, ApiError> {
        let body = to_bytes(body, MOST).await.map_err(|_| ApiError::too_large(MOST))?;
        Ok(Self(url::form_urlencoded::parse(&body).into_owned().collect()))
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The fields for the handler: without the ones that every form has.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        let own = |name: &str| !["token", "key"].contains(&name);
        let fields = self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        fields.filter(move |(name, _)| own(name))
    }
}
