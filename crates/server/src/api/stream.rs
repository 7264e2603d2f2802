//! What streams of server-sent events have in common.
//!
//! Each message has an `id`. A client that connects again sends the last one as `Last-Event-ID`, and
//! gets what follows: nothing is left out or repeated. A stream ends with an error of the store, and
//! when its user is removed from the access file or the session of its browser ends, also while it waits.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, header};
use axum::response::sse::{Event as Message, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use butler_registry::TokenHash;
use futures_util::{StreamExt, TryStreamExt, stream};

use super::error::ApiError;
use super::state::{ApiState, Shared};
use super::user::User;
use crate::store::Store;

/// The time between two comments of a stream without messages, so that proxies keep it open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How often a stream looks whether the session of its browser has ended.
const SESSION_CHECK: Duration = Duration::from_secs(30);

/// Who reads a stream.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    pub(super) user: User,
    /// The session, if it is a browser.
    pub(super) session: Option<TokenHash>,
}

impl Reader {
    /// Waits until the reader may read no more.
    async fn ended<S: Store>(&self, state: &ApiState<S>) {
        tokio::select! {
            () = state.access.removed(&self.user) => {}
            () = self.signed_out(state) => {}
        }
    }

    /// Waits until the session has ended. It never does for a program.
    async fn signed_out<S: Store>(&self, state: &ApiState<S>) {
        let Some(session) = self.session else { return std::future::pending().await };
        // A store that does not answer ends the stream.
        while let Ok(Some(_)) = state.store.session(session).await {
            tokio::time::sleep(SESSION_CHECK).await;
        }
    }
}

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

/// Sends `batches` to `reader`.
pub(super) fn respond<S: Store + 'static>(
    state: Shared<S>,
    reader: Reader,
    batches: impl Batches,
) -> Response {
    let first = (Arc::clone(&state), reader.user.clone(), batches);
    let batches = stream::try_unfold(first, async |(state, user, mut batches)| {
        let next = batches.next().await?;
        // The user can have been removed since the last look.
        let next = next.filter(|_| state.access.has(&user));
        Ok::<_, ApiError>(next.map(|messages| (messages, (state, user, batches))))
    });
    // A stream can wait for days.
    let ended = async move { reader.ended(&state).await };
    let messages = batches
        .map_ok(|batch| stream::iter(batch.into_iter().map(Ok::<_, ApiError>)))
        .try_flatten()
        .take_until(Box::pin(ended));
    Sse::new(messages).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}
