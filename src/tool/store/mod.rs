//! The cache: what is installed, who uses it, and what becomes of it.

pub(super) mod archive;
pub(super) mod attempt;
pub(super) mod audit;
pub(super) mod cache;
pub(super) mod default;
pub(super) mod elsewhere;
pub(super) mod error;
pub(super) mod given;
pub(super) mod install;
pub(super) mod installed;
pub(super) mod inventory;
pub(super) mod journal;
pub(super) mod lock;
pub(super) mod lookup;
pub(super) mod note;
pub(super) mod prune;
pub(super) mod queue;
pub(super) mod record;
pub(super) mod status;
pub(super) mod traces;
pub(super) mod uninstall;
pub(super) mod usage;
