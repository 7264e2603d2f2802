//! State locks: who holds one, whether it is the lock that a killed tool has left, and its removal.

pub(super) mod killed_lock;
pub(super) mod lock;
pub(super) mod lock_output;
pub(super) mod locking;
mod pushing;
pub(super) mod removal;
pub(super) mod trace;
