//! An installation or removal that is under way: others see it, and its end is remembered.
//!
//! However it ends, it is in the history: with its result, as given up when the attempt is dropped
//! without one, and as interrupted when the process dies (see [`crate::tool::store::note`]).

use std::error::Error;
use std::time::SystemTime;

use crate::tool::store::cache::Cache;
use crate::tool::store::journal::{self, Act, Entry};
use crate::tool::store::lock::VersionLock;
use crate::tool::store::note::{self, Content, Doing, Note};
use butler_protocol::spec::ToolRequest;

/// What the history says of an attempt that was dropped.
const GIVEN_UP: &str = "stopped before it was done";

/// An act on one version, by whoever has its lock. The note goes before the lock.
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
    /// Lets everybody know that `owner` begins with `act`. A removal that leaves the version to
    /// others for a while says `until` when.
    pub(in crate::tool) fn begin(
        cache: &Cache,
        request: &ToolRequest,
        (act, until): (Act, Option<SystemTime>),
        owner: &str,
        lock: VersionLock,
    ) -> Self {
        // What died before this one is remembered before this one.
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

    /// Lets everybody know that the version is no longer left to others.
    pub(in crate::tool) fn go_on(&mut self) {
        self.said.until = None;
        if let Some(note) = &mut self.note {
            note.rewrite(&self.said);
        }
    }

    /// Remembers how it ended, and hands the result on.
    pub(in crate::tool) fn ended<T, E: Error + 'static>(
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
            self.remember(Some(GIVEN_UP.to_owned()));
        }
    }
}
