//! The journal: a list, or a stream of server-sent events that follows it.
//!
//! The `id` of each message of the stream is the sequence of its entry.

use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::sse::Event as Message;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::watch;

use super::error::ApiError;
use super::state::Shared;
use super::stream::{self, Batches, Reader};
use crate::model::{JournalChange, JournalEntry, LayerName};
use crate::serve::Timestamp;
use crate::store::Store;

/// The most entries of one answer, and how many there are if the request does not say.
const MOST: u32 = 1_000;

/// Which entries are read.
#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    /// Only entries about this layer.
    layer: Option<String>,
    /// The most entries of the answer, at most 1,000.
    limit: Option<u32>,
    /// Only entries with a greater sequence.
    after: Option<u64>,
}

/// An entry with the names of the API.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct EventView<'a> {
    sequence: u64,
    at: Timestamp,
    layer: &'a LayerName,
    #[serde(flatten)]
    change: &'a JournalChange,
}

impl<'a> EventView<'a> {
    const fn new(entry: &'a JournalEntry) -> Self {
        let JournalEntry { sequence, at, layer, change } = entry;
        Self { sequence: *sequence, at: Timestamp(*at), layer, change }
    }
}

pub(super) async fn list<S: Store + 'static>(
    State(state): State<Shared<S>>,
    Extension(reader): Extension<Reader>,
    Query(which): Query<Which>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let layer = which.layer.map(|name| {
        name.parse().map_err(|_| ApiError::not_found(format!("there is no layer `{name}`")))
    });
    let layer: Option<LayerName> = layer.transpose()?;
    let after = which.after.unwrap_or_default();
    if stream::is_asked_for(&headers) {
        let received = stream::last_event_id(&headers, |id| id.parse().ok())?;
        let (journal, after) = (state.store.journal(), received.unwrap_or(after));
        let follower = Follower { state: state.clone(), journal, layer, after };
        return Ok(stream::respond(state, reader, follower));
    }
    let limit = which.limit.unwrap_or(MOST).clamp(1, MOST);
    let entries = state.store.events(Some(after), layer.as_ref(), limit).await?;
    // Given also at the end, so that a client can ask for what follows.
    let next = entries.last().map_or(after, |entry| entry.sequence);
    let items: Vec<EventView<'_>> = entries.iter().map(EventView::new).collect();
    Ok(Json(json!({"items": items, "next": next})).into_response())
}

/// Follows the journal.
struct Follower<S> {
    state: Shared<S>,
    journal: watch::Receiver<u64>,
    layer: Option<LayerName>,
    /// The sequence of the last entry that was read.
    after: u64,
}

impl<S: Store + 'static> Batches for Follower<S> {
    async fn next(&mut self) -> Result<Option<Vec<Message>>, ApiError> {
        loop {
            // Before the store is read: an entry that is recorded after that wakes the wait below.
            self.journal.mark_unchanged();
            let layer = self.layer.as_ref();
            let entries = self.state.store.events(Some(self.after), layer, MOST).await?;
            if let Some(last) = entries.last() {
                self.after = last.sequence;
                return entries.iter().map(message).collect::<Result<_, _>>().map(Some);
            }
            // An error: the store is closed.
            if self.journal.changed().await.is_err() {
                return Ok(None);
            }
        }
    }
}

fn message(entry: &JournalEntry) -> Result<Message, ApiError> {
    let message = Message::default().id(entry.sequence.to_string());
    message.json_data(EventView::new(entry)).map_err(|error| ApiError::internal(&error))
}
