//! State locks: whose they are, and what happens to one that a killed tool leaves.

pub(super) mod killed_lock;
pub(super) mod lock;
pub(super) mod locking;
