//! What streams of server-sent events have in common.
//!
//! Each message has an `id`. A client that connects again sends the last one as `Last-Event-ID`, and
//! gets what follows: nothing is left out or repeated. A stream ends with an error of the store, and
//! when its user is removed from the access file, also while it waits.

use std::future::Future;
use std::time::Duration;

use axum::http::{HeaderMap, header};
use axum::response::sse::{Event as Message, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{TryStreamExt, stream};

use super::error::ApiError;
use super::state::Shared;
use super::user::User;
use crate::store::Store;

/// The time between two comments of a stream without messages, so that proxies keep it open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Reads what a stream sends.
pub(super) trait Batches: Send + 'static {
    /// Waits for the next messages. Returns `None` at the end.
    fn next(&mut self) -> impl Future<Output = Result<Option<Vec<Message>>, ApiError>> + Send;
}

/// Whether the client asks for a stream.
pub(super) fn is_asked_for(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    accepted.is_some_and(|accepted| accepted.contains("text/event-stream"))
}

/// The `id` of the last message that a client has received which connects again.
pub(super) fn last_event_id<T>(
    headers: &HeaderMap,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, ApiError> {
    let Some(id) = headers.get("last-event-id") else { return Ok(None) };
    let wrong = || ApiError::bad_request("`Last-Event-ID` must be the `id` of an event");
    id.to_str().ok().and_then(parse).ok_or_else(wrong).map(Some)
}

/// Sends `batches` to `user`.
pub(super) fn respond<S: Store + 'static>(
    state: Shared<S>,
    user: User,
    batches: impl Batches,
) -> Response {
    let batches = stream::try_unfold((state, user, batches), async |(state, user, mut batches)| {
        let next = tokio::select! {
            next = batches.next() => next?,
            // A stream can wait for days.
            () = state.access.removed(&user) => None,
        };
        let Some(messages) = next else { return Ok(None) };
        // The user can have been removed since the last look.
        if !state.access.has(&user) {
            return Ok(None);
        }
        Ok::<_, ApiError>(Some((messages, (state, user, batches))))
    });
    let messages = batches
        .map_ok(|batch| stream::iter(batch.into_iter().map(Ok::<_, ApiError>)))
        .try_flatten();
    Sse::new(messages).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}
