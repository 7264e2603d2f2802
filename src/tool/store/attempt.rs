//! An installation or removal in progress: other processes see it, and the history keeps its result.
//!
//! The history has an entry however the attempt ends: with its result; as cancelled if the attempt is
//! dropped without one; as interrupted if the process dies (see [`crate::tool::store::note`]).

use std::error::Error;
use std::time::SystemTime;

use crate::tool::store::cache::Cache;
use crate::tool::store::history::{self, ToolOperation};
use crate::tool::store::note::{self, Activity, Note, NoteContent};
use crate::tool::store::record::rfc3339;
use crate::tool::store::version_lock::VersionLock;
use butler_base::error::chain;
use butler_protocol::spec::ToolRequest;

/// The error of a dropped attempt in the history.
const CANCELLED: &str = "cancelled before it was complete";

/// An operation on one version, by the process that has its lock. The note is removed before the
/// lock.
#[derive(Debug)]
pub(in crate::tool) struct Attempt {
    cache: Cache,
    request: ToolRequest,
    operation: ToolOperation,
    /// The error for the history.
    error: Option<String>,
    content: NoteContent,
    note: Option<Note>,
    _lock: VersionLock,
}

impl Attempt {
    /// Writes a note that `owner` begins with `operation`. A removal with a drain period passes
    /// `until`, the end of that period.
    pub(in crate::tool) fn begin(
        cache: &Cache,
        request: &ToolRequest,
        (operation, until): (ToolOperation, Option<SystemTime>),
        owner: &str,
        lock: VersionLock,
    ) -> Self {
        // The history entries of dead processes must come before the one of this attempt.
        drop(note::read(cache, request));
        let mut content = NoteContent::now(Activity::from(operation), owner);
        content.until = until.map(rfc3339);
        let note = note::write(cache, request, &content);
        Self {
            cache: cache.clone(),
            request: request.clone(),
            operation,
            error: Some(CANCELLED.to_owned()),
            content,
            note,
            _lock: lock,
        }
    }

    /// Writes into the note that the drain period is over.
    pub(in crate::tool) fn end_drain_period(&mut self) {
        self.content.until = None;
        if let Some(note) = &mut self.note {
            note.rewrite(&self.content);
        }
    }

    /// Writes the result into the history, and returns it.
    pub(in crate::tool) fn finish<T, E: Error + 'static>(
        mut self,
        result: Result<T, E>,
    ) -> Result<T, E> {
        self.error = result.as_ref().err().map(|error| chain(error));
        result
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let (started_at, error) = (self.content.since.clone(), self.error.take());
        history::append(&self.cache, &self.request, self.operation, started_at, error);
    }
}
