//! The state backends: one table of everything that the runner and the server know about each of them.
//!
//! [`BackendKind::of`] is the only place that compares names of backends. A backend that is not in the table
//! gets [`UNKNOWN`], whose properties are the careful ones: its lock outlives the process, and it has no
//! [`StateKey`].

mod connection_string;
mod endpoint;
mod identity;
mod kind;
mod known_settings;
mod state_key;
mod state_lock;
mod state_version;
mod table;

pub use endpoint::is_aws_host;
pub use kind::{BackendKind, LockLifetime, SettingsTranslation, StateLocation};
pub use known_settings::SettingValue;
pub use state_key::{StateKey, state_key};
pub use state_lock::{Holder, InvalidLockId, LockId, StateLock};
pub use state_version::{DriftComparison, StateReport, StateVersion};
pub use table::{LOCAL, UNKNOWN, is_public_setting, is_secret_setting, public_settings};
