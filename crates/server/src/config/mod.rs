//! The desired state: repositories, layers and the rest, as YAML files say them.
//!
//! [`document`] is what a file can contain, [`load`] reads files and checks them one by one, and
//! [`check`] checks what they say together. Each error has a file, a line and a column.

mod check;
mod document;
mod error;
mod load;
mod name;
mod span;

pub use document::{
    BackendEntry, CredentialsEntry, DriftEntry, EnvironmentValue, HistoryEntry, LayerEntry,
    NotificationEntry, NotificationEvent, NotificationFormat, RepositoryEntry, RetriesEntry,
    SecretSource, TimeoutEntry, WebhookEntry, WebhookProvider, WindowEntry,
};
pub use error::ConfigError;
pub use load::{Config, Placed, load, parse};
pub use name::generated_name;
pub use span::Span;
