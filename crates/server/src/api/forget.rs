//! Layers that left the configuration, and are to be forgotten.

use axum::Json;
use axum::extract::{Path, State};
use schemars::JsonSchema;
use serde::Serialize;

use super::error::ApiError;
use super::layers::view;
use super::state::Shared;
use crate::model::LayerName;
use crate::store::{Outcome, Store};

/// A layer of which nothing is known any more.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct Forgotten {
    /// Its name.
    name: LayerName,
}

/// `POST /layers/NAME/forget`: its runs and facts are removed. Its infrastructure and its state are left alone.
pub(super) async fn forget<S: Store>(
    State(state): State<Shared<S>>,
    Path(layer): Path<String>,
) -> Result<Json<Forgotten>, ApiError> {
    let name = view(&state, &layer)?.name.clone();
    if state.source(&name).is_some() {
        let message = format!(
            "the layer `{name}` is in the configuration; a layer that was removed from it can be forgotten"
        );
        return Err(ApiError::conflict(message));
    }
    // Members of layer sets are unknown until their repository was read, and custom resources until they were listed.
    if state.desired.catalogs().borrow().may_be_missing(&name) {
        let message = format!(
            "the layer `{name}` can be in a repository or a namespace that was not read yet; ask again when all were \
             read"
        );
        return Err(ApiError::conflict(message));
    }
    if state.store.forget(&name).await? == Outcome::Refused {
        let message = format!(
            "an attempt of the layer `{name}` has not ended; `butler-runner run list {name}` shows it"
        );
        return Err(ApiError::conflict(message));
    }
    state.views.remove(&name);
    Ok(Json(Forgotten { name }))
}
