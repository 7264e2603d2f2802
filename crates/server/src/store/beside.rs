//! What a store keeps beside the facts of layers: sessions of browsers, cursors of receivers, records of followers,
//! and which server decides.
//!
//! The traits are here, and their transactions in [`super::session`], [`super::cursor`],
//! [`super::follower`] and [`super::decider`].

use std::future::Future;
use std::time::Duration;

use butler_follower::state::Record;
use butler_registry::TokenHash;

use super::error::StoreResult;
use super::note::Outcome;
use crate::model::{DeciderLease, Moment, Session, StoredFollower};

/// The sessions of all browsers.
pub trait Sessions: Send + Sync {
    /// Records that a browser has signed in with the token of this hash. `id` is the hash of its cookie.
    ///
    /// # Errors
    /// If the store does not answer. This holds for all methods.
    fn begin_session(
        &self,
        id: TokenHash,
        user: TokenHash,
    ) -> impl Future<Output = StoreResult<()>> + Send;

    /// The session of a browser, if it has not ended. Records that it is used.
    fn use_session(
        &self,
        id: TokenHash,
    ) -> impl Future<Output = StoreResult<Option<Session>>> + Send;

    /// The session of a browser, if it has not ended. This is not a use of it.
    fn session(&self, id: TokenHash) -> impl Future<Output = StoreResult<Option<Session>>> + Send;

    /// Ends a session, if it exists.
    fn end_session(&self, id: TokenHash) -> impl Future<Output = StoreResult<()>> + Send;

    /// Removes the sessions that have ended.
    fn prune_sessions(&self) -> impl Future<Output = StoreResult<()>> + Send;
}

/// The cursors of all receivers.
pub trait Cursors: Send + Sync {
    /// The cursor of a receiver. A new one begins at the end of the journal, which is recorded.
    ///
    /// # Errors
    /// If the store does not answer. This holds for all methods.
    fn cursor(&self, receiver: &str) -> impl Future<Output = StoreResult<u64>> + Send;

    /// Moves the cursor of a receiver to this sequence. It never goes back, and one that was removed stays
    /// removed.
    fn advance_cursor(
        &self,
        receiver: &str,
        sequence: u64,
    ) -> impl Future<Output = StoreResult<()>> + Send;

    /// Removes the cursors of all other receivers.
    fn retain_cursors(&self, receivers: &[String]) -> impl Future<Output = StoreResult<()>> + Send;
}

/// The records of all followers.
pub trait Followers: Send + Sync {
    /// The time, by the clock of the store. Several servers decide about one follower.
    ///
    /// # Errors
    /// If the store does not answer. This holds for all methods.
    fn clock(&self) -> impl Future<Output = StoreResult<Moment>> + Send;

    /// The record of a follower, if it has one.
    fn follower(
        &self,
        id: &str,
    ) -> impl Future<Output = StoreResult<Option<StoredFollower>>> + Send;

    /// All records, in the order of the followers' ids.
    fn followers(&self) -> impl Future<Output = StoreResult<Vec<StoredFollower>>> + Send;

    /// Writes the record of the follower that it names. Refused unless the stored one has this version; 0 stands
    /// for a follower without a record.
    fn write_follower(
        &self,
        version: u64,
        record: Record,
    ) -> impl Future<Output = StoreResult<Outcome>> + Send;
}

/// Which of several servers decides.
pub trait Deciders: Send + Sync {
    /// Renews the lease of `server`, or gives it to it if no other one has it. Returns the lease that is in force.
    ///
    /// # Errors
    /// If the store does not answer. This holds for all methods.
    fn decide(
        &self,
        server: &str,
        lifetime: Duration,
    ) -> impl Future<Output = StoreResult<DeciderLease>> + Send;

    /// Ends the lease of `server`, if it has it: another one can take it at once.
    fn resign(&self, server: &str) -> impl Future<Output = StoreResult<()>> + Send;
}
