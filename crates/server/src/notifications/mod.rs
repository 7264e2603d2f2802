//! Tells people and programs what happened: plans that wait, failures, drift.
//!
//! The journal is the list of what is to be sent, and each receiver has a cursor in the store. `meaning` says what
//! an entry means, `retry` when the next try is due; both are pure. An `outbox` for each receiver reads the
//! journal and waits, `delivery` sends. A cursor advances only after the receiver has acknowledged. So nothing is
//! lost if the server ends, and a receiver that is down delays only itself.
//!
//! The address of a receiver is a secret. It is read at each delivery, and is never part of an error, a log line or a
//! metric.

mod delivery;
mod generic;
mod meaning;
#[cfg(test)]
mod meaning_tests;
mod message;
mod notifier;
mod outbox;
#[cfg(test)]
mod outbox_tests;
mod receiver;
mod retry;
mod slack;
mod teams;

pub use notifier::{Notifier, Setup};
pub use retry::LIMIT;
