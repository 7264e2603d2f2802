//! The tool cache: installed versions, their users, and their installation and removal.

pub(super) mod archive;
pub(super) mod attempt;
pub(super) mod audit;
pub(super) mod brief_lock;
pub(super) mod cache;
pub(super) mod default;
pub(super) mod error;
pub(super) mod history;
pub(super) mod install;
pub(super) mod installed;
pub(super) mod inventory;
pub(super) mod listing;
pub(super) mod lookup;
pub(super) mod note;
pub(super) mod prune;
pub(super) mod queue;
pub(super) mod record;
pub(super) mod recorded_version;
pub(super) mod required_checksum;
pub(super) mod status;
pub(super) mod uninstall;
pub(super) mod usage;
pub(super) mod version_lock;
