//! An installation or removal in progress: other processes see it, and the history keeps its result.
//!
//! The history has an entry however the attempt ends: with its result; as cancelled if the attempt is
//! dropped without one; as interrupted if the process dies (see [`crate::tool::store::note`]).

use std::error::Error;
use std::time::SystemTime;

use crate::tool::store::cache::Cache;
use crate::tool::store::journal::{self, Act, Entry};
use crate::tool::store::lock::VersionLock;
use crate::tool::store::note::{self, Content, Doing, Note};
use butler_protocol::spec::ToolRequest;

/// The error of a dropped attempt in the history.
const CANCELLED: &str = "cancelled before it was complete";

/// An operation on one version, by the process that has its lock. The note is removed before the
/// lock.
#[derive(Debug)]
pub(in crate::tool) struct Attempt {
    cache: Cache,
    request: ToolRequest,
    act: Act,
    started: SystemTime,
    said: Content,
    is_over: bool,
    note: Option<Note>,
    _lock: VersionLock,
}

impl Attempt {
    /// Writes a note that `owner` begins with `act`. A removal with a drain period passes `until`,
    /// the end of that period.
    pub(in crate::tool) fn begin(
        cache: &Cache,
        request: &ToolRequest,
        (act, until): (Act, Option<SystemTime>),
        owner: &str,
        lock: VersionLock,
    ) -> Self {
        // The history entries of dead processes must come before the one of this attempt.
        drop(note::read(cache, request));
        let doing = match act {
            Act::Install => Doing::Install,
            Act::Uninstall => Doing::Uninstall,
        };
        let mut said = Content::now(doing, owner);
        said.until = until.map(journal::moment);
        let note = note::write(cache, request, &said);
        Self {
            cache: cache.clone(),
            request: request.clone(),
            act,
            started: SystemTime::now(),
            said,
            is_over: false,
            note,
            _lock: lock,
        }
    }

    /// Writes into the note that the drain period is over.
    pub(in crate::tool) fn end_drain_period(&mut self) {
        self.said.until = None;
        if let Some(note) = &mut self.note {
            note.rewrite(&self.said);
        }
    }

    /// Writes the result into the history, and returns it.
    pub(in crate::tool) fn finish<T, E: Error + 'static>(
        mut self,
        result: Result<T, E>,
    ) -> Result<T, E> {
        let error = result.as_ref().err().map(|error| butler_base::error::chain(error));
        self.remember(error);
        result
    }

    fn remember(&mut self, error: Option<String>) {
        self.is_over = true;
        let entry = Entry::ended(&self.request.version, self.act, self.started, error);
        journal::append(&self.cache, self.request.product, entry);
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.is_over {
            self.remember(Some(CANCELLED.to_owned()));
        }
    }
}
