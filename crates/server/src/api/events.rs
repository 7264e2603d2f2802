//! The journal: a list, or a stream of server-sent events that follows it.
//!
//! Each message of the stream has the sequence of its entry as `id`. A client that connects again
//! sends it as `Last-Event-ID`, and gets what follows: nothing is left out or repeated.

use std::time::Duration;

use axum::Json;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, header};
use axum::response::sse::{Event as Message, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::watch;

use super::error::ApiError;
use super::state::Shared;
use crate::model::{JournalChange, JournalEntry, LayerName};
use crate::serve::Timestamp;
use crate::store::Store;

/// The most entries of one answer, and how many there are if the request does not say.
const MOST: u32 = 1_000;

/// The time between two comments of a stream without events, so that proxies keep it open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Which entries are read.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    layer: Option<String>,
    limit: Option<u32>,
    after: Option<u64>,
}

/// An entry with the names of the API.
#[derive(Debug, Serialize)]
struct EventView<'a> {
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
    Query(which): Query<Which>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let layer = which.layer.map(|name| {
        name.parse().map_err(|_| ApiError::not_found(format!("there is no layer `{name}`")))
    });
    let layer: Option<LayerName> = layer.transpose()?;
    let after = which.after.unwrap_or_default();
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    if accepted.is_some_and(|accepted| accepted.contains("text/event-stream")) {
        let after = last_event_id(&headers)?.unwrap_or(after);
        let journal = state.store.journal();
        let messages = messages(Follower { state, journal, layer, after });
        let keep_alive = KeepAlive::new().interval(KEEP_ALIVE);
        return Ok(Sse::new(messages).keep_alive(keep_alive).into_response());
    }
    let limit = which.limit.unwrap_or(MOST).clamp(1, MOST);
    let entries = state.store.events(Some(after), layer.as_ref(), limit).await?;
    // Given also at the end, so that a client can ask for what follows.
    let next = entries.last().map_or(after, |entry| entry.sequence);
    let items: Vec<EventView<'_>> = entries.iter().map(EventView::new).collect();
    Ok(Json(json!({"items": items, "next": next})).into_response())
}

/// What a client that connects again has received.
fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let Some(id) = headers.get("last-event-id") else { return Ok(None) };
    let sequence = id.to_str().ok().and_then(|id| id.parse().ok());
    let wrong = || ApiError::bad_request("`Last-Event-ID` is the `id` of an event, a number");
    sequence.ok_or_else(wrong).map(Some)
}

/// Follows the journal.
struct Follower<S> {
    state: Shared<S>,
    journal: watch::Receiver<u64>,
    layer: Option<LayerName>,
    /// The sequence of the last entry that was read.
    after: u64,
}

impl<S: Store> Follower<S> {
    /// Waits for further entries. Returns `None` if the store is closed.
    async fn entries(&mut self) -> Result<Option<Vec<JournalEntry>>, ApiError> {
        loop {
            // Before the store is read: an entry that is recorded after that wakes the wait below.
            self.journal.mark_unchanged();
            let layer = self.layer.as_ref();
            let entries = self.state.store.events(Some(self.after), layer, MOST).await?;
            if let Some(last) = entries.last() {
                self.after = last.sequence;
                return Ok(Some(entries));
            }
            if self.journal.changed().await.is_err() {
                return Ok(None);
            }
        }
    }
}

/// The messages of a stream. It ends with an error of the store, after which the client connects
/// again.
fn messages<S: Store + 'static>(
    follower: Follower<S>,
) -> impl Stream<Item = Result<Message, ApiError>> {
    let entries = stream::try_unfold(follower, |mut follower| async move {
        let entries = follower.entries().await?;
        Ok::<_, ApiError>(entries.map(|entries| (entries, follower)))
    });
    entries
        .map_ok(|entries| stream::iter(entries.into_iter().map(|entry| message(&entry))))
        .try_flatten()
}

fn message(entry: &JournalEntry) -> Result<Message, ApiError> {
    let message = Message::default().id(entry.sequence.to_string());
    message.json_data(EventView::new(entry)).map_err(|error| ApiError::internal(&error))
}
