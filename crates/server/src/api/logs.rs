//! The log of a run: a page of it, or a stream that follows it through all attempts.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::sse::Event as Message;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use butler_base::blocking::blocking;
use butler_base::event::{LogLine, LogLineRef};
use butler_result::shown_line;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::error::ApiError;
use super::runs::{COPIED_IN, attempt, directory, run, view};
use super::state::Shared;
use super::stream::{self, Batches, Reader};
use crate::attempts::{AttemptDirectory, FollowedLog, LeftOut, LogPage, LogPart, LogPosition};
use crate::model::{Ending, Run};
use crate::serve::RunView;
use crate::store::{AttemptId, Store};

/// The time between two looks at a log that is followed, in addition to those after each write.
const LOOK: Duration = Duration::from_secs(1);

/// Which lines are read.
#[derive(Debug, Default, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Lines {
    /// Only lines with a greater sequence number.
    after: u32,
    /// The number of the attempt; the newest one if not given.
    attempt: Option<u32>,
    /// Whether a stream has lines as pages show them: without invisible characters, with their style, and with the
    /// part of the log that they begin.
    shown: bool,
}

/// Lines of the log of an attempt.
#[derive(Debug, Default, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LogView {
    /// The lines: `{sequence, stream, content}`.
    #[schemars(with = "Vec<BTreeMap<String, Value>>")]
    items: Vec<LogLine>,
    /// The value of `after` for what follows.
    next: Option<u32>,
    /// The number of the attempt.
    attempt: Option<u32>,
    /// What was left out at the end, because the log has reached its limit.
    left_out: Option<LeftOutLines>,
}

/// A line in a stream of a page.
#[derive(Debug, Serialize)]
struct ShownLine<'a> {
    sequence: u32,
    text: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    style: &'static str,
    /// The number of the part.
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<u8>,
}

/// A line in a stream.
#[derive(Debug, Serialize)]
struct StreamedLine<'a> {
    attempt: u32,
    #[serde(flatten)]
    line: &'a LogLine,
}

pub(super) async fn logs<S: Store + 'static>(
    State(state): State<Shared<S>>,
    Extension(reader): Extension<Reader>,
    Path(id): Path<String>,
    Query(lines): Query<Lines>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let (layer, run) = run(&state, &id).await?;
    if stream::is_asked_for(&headers) {
        let follower = LogFollower::new(state.clone(), &run, &lines, &headers).await?;
        return Ok(stream::respond(state, reader, follower));
    }
    if run.attempts.is_empty() && lines.attempt.is_none() {
        return Ok(Json(LogView::default()).into_response());
    }
    let attempt = attempt(&run, lines.attempt)?;
    let directory = directory(&state, layer, &run, attempt).await?;
    let page = page(directory.clone(), LogPosition::after(lines.after)).await?;
    let left_out = left_out(directory).await?;
    let next = page.lines.last().filter(|_| page.has_more).map(|line| line.sequence);
    let answer = LogView { items: page.lines, next, attempt: Some(attempt), left_out };
    Ok(Json(answer).into_response())
}

/// Reads what follows in the log of an attempt.
async fn page(directory: AttemptDirectory, from: LogPosition) -> Result<LogPage, ApiError> {
    let read = blocking(move |_| directory.log().page(from));
    read.await.map_err(|error| ApiError::internal(&error))
}

/// What was left out at the end of the log of an attempt.
async fn left_out(directory: AttemptDirectory) -> Result<Option<LeftOutLines>, ApiError> {
    let read = blocking(move |_| directory.log().left_out());
    let left_out = read.await.map_err(|error| ApiError::internal(&error))?;
    Ok(left_out.map(|LeftOut { lines, bytes, .. }| LeftOutLines { lines, bytes }))
}

/// What was left out at the end of a log.
#[derive(Clone, Copy, Debug, Serialize, schemars::JsonSchema)]
pub(super) struct LeftOutLines {
    /// How many lines.
    lines: u64,
    /// How much text they have, in bytes.
    bytes: u64,
}

/// The attempt and the sequence number of the last line that was received. The `id` of a line of the
/// first attempt is its sequence number; of later ones, it is `ATTEMPT-SEQUENCE`.
fn position(id: &str) -> Option<(u32, u32)> {
    match id.split_once('-') {
        Some((attempt, sequence)) => Some((attempt.parse().ok()?, sequence.parse().ok()?)),
        None => Some((1, id.parse().ok()?)),
    }
}

/// Follows the log of a run.
struct LogFollower<S> {
    state: Shared<S>,
    journal: watch::Receiver<u64>,
    run: RunView,
    /// The only attempt that is followed, if one was asked for.
    only: Option<u32>,
    /// The attempt whose log is read.
    attempt: u32,
    position: LogPosition,
    /// Its log.
    log: FollowedLog,
    has_ended: bool,
    /// When the run was first seen to be over although lines are missing.
    over_since: Option<Instant>,
    /// Whether lines are as pages show them.
    is_shown: bool,
}

impl<S: Store> LogFollower<S> {
    async fn new(
        state: Shared<S>,
        run: &Run,
        lines: &Lines,
        headers: &HeaderMap,
    ) -> Result<Self, ApiError> {
        let only = lines.attempt;
        let first = match attempt(run, only) {
            // It follows the first attempt as soon as there is one.
            Err(_) if run.attempts.is_empty() && only.is_none() => 1,
            found => found?,
        };
        let received = stream::last_event_id(headers, position)?;
        let (attempt, after) = received.unwrap_or((first, lines.after));
        if only.is_some_and(|only| only != attempt) {
            let message = "`Last-Event-ID` is of another attempt than `attempt`";
            return Err(ApiError::bad_request(message));
        }
        // Before the run is read: what is recorded after that is noticed.
        let journal = state.store.journal();
        let run = Self::read_run(&state, run.id.as_str()).await?;
        let position = LogPosition::after(after);
        let log = Self::follow(&state, &run, attempt);
        Ok(Self {
            state,
            journal,
            run,
            only,
            attempt,
            position,
            log,
            has_ended: false,
            over_since: None,
            is_shown: lines.shown,
        })
    }

    async fn read_run(state: &Shared<S>, id: &str) -> Result<RunView, ApiError> {
        let (layer, known) = run(state, id).await?;
        view(state, &layer, &known).await
    }

    /// Whether the process of the attempt was started whose log is read.
    async fn has_started(&self) -> Result<bool, ApiError> {
        let (_, run) = run(&self.state, self.run.id.as_str()).await?;
        let attempt = run.attempts.iter().find(|known| known.number == self.attempt);
        let end = attempt.and_then(|attempt| attempt.end);
        Ok(attempt.is_some() && !matches!(end, Some((Ending::NeverStarted, _))))
    }

    /// Where the attempt runs whose log is read.
    fn place(&self) -> &str {
        let attempt = self.run.attempts.iter().find(|known| known.number == self.attempt);
        attempt.map_or("", |attempt| attempt.place.as_str())
    }

    fn follow(state: &Shared<S>, run: &RunView, attempt: u32) -> FollowedLog {
        let (layer, run) = (run.layer.clone(), run.id.clone());
        state.log_watch.follow(&AttemptId { layer, run, number: attempt })
    }

    /// Reads the log, until lines follow or its end.
    async fn step(&mut self) -> Result<Option<Vec<Message>>, ApiError> {
        // The run is read before its log, so that the last lines are not missed.
        if self.journal.has_changed().unwrap_or(true) {
            self.journal.mark_unchanged();
            self.run = Self::read_run(&self.state, self.run.id.as_str()).await?;
        }
        let (layer, run) = (self.run.layer.clone(), self.run.id.clone());
        let id = AttemptId { layer, run, number: self.attempt };
        let directory = self.state.files.of(&id, self.place()).await?;
        // Before the log is read: lines that are written after that wake the wait for them.
        self.log.written.mark_unchanged();
        let page = self.log.page(self.position, || page(directory.clone(), self.position)).await?;
        self.position = page.end;
        if !page.lines.is_empty() {
            let messages = page.lines.iter().map(|line| self.message(line));
            return messages.collect::<Result<_, _>>().map(Some);
        }
        let next = self
            .run
            .attempts
            .iter()
            .map(|known| known.number)
            .find(|number| *number > self.attempt && self.only.is_none());
        if let Some(next) = next {
            (self.attempt, self.position) = (next, LogPosition::default());
            self.log = Self::follow(&self.state, &self.run, next);
            return Ok(Some(Vec::new()));
        }
        let mut attempts = self.run.attempts.iter();
        let is_over = match self.only {
            Some(only) => attempts.any(|known| known.number == only && known.ended.is_some()),
            None => self.run.over,
        };
        if !is_over {
            return Ok(None);
        }
        let is_awaited = self.state.files.is_awaited(&id, self.place());
        if is_awaited && self.has_started().await? {
            // The last lines are still to come, from another server.
            return if self.over_since.get_or_insert_with(Instant::now).elapsed() > COPIED_IN {
                Err(ApiError::not_copied(self.place()))
            } else {
                Ok(None)
            };
        }
        self.has_ended = true;
        let left_out = left_out(directory).await?;
        let end = json!({"run": self.run, "leftOut": left_out});
        let end = Message::default().event("end").json_data(end);
        Ok(Some(vec![end.map_err(|error| ApiError::internal(&error))?]))
    }

    fn message(&self, line: &LogLine) -> Result<Message, ApiError> {
        let (attempt, sequence) = (self.attempt, line.sequence);
        let id = if attempt == 1 { sequence.to_string() } else { format!("{attempt}-{sequence}") };
        let message = Message::default().id(id);
        let message = if self.is_shown {
            let LogLine { sequence, stream, content } = line;
            let shown = LogLineRef { sequence: *sequence, stream: *stream, content };
            let (text, style) = shown_line(&shown);
            let part = LogPart::beginning_with(content).map(|part| part as u8);
            message.json_data(ShownLine { sequence: *sequence, text: &text, style, part })
        } else {
            message.json_data(StreamedLine { attempt, line })
        };
        message.map_err(|error| ApiError::internal(&error))
    }
}

impl<S: Store + 'static> Batches for LogFollower<S> {
    async fn next(&mut self) -> Result<Option<Vec<Message>>, ApiError> {
        if self.has_ended {
            return Ok(None);
        }
        loop {
            if let Some(messages) = self.step().await? {
                return Ok(Some(messages));
            }
            tokio::select! {
                changed = self.journal.changed() => {
                    if changed.is_err() {
                        return Ok(None);
                    }
                    // The next step reads the run.
                    self.journal.mark_changed();
                }
                // The sender exists as long as this receiver.
                _ = self.log.written.changed() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }
}
