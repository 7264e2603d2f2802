//! The desired state: repositories, layers and the rest, as YAML files say them.
//!
//! [`load()`] reads the files and checks what they say together. Each error has a file, a line and a
//! column.

mod check;
mod document;
mod entries;
mod error;
mod include;
#[cfg(test)]
mod include_tests;
mod isolation;
mod load;
mod login;
mod name;
mod notifications;
mod schema;
mod secrets;
mod size;
mod sources;
mod span;
#[cfg(test)]
mod tests;
mod trust;
mod values;
mod windows;
mod written;
#[cfg(test)]
mod written_tests;

pub use butler_follower::config::SecretReference;
pub use check::missing_programs;
pub use document::{
    BackendEntry, DriftEntry, EnvironmentValue, HistoryEntry, IsolationEntry, JobEntry, LayerEntry,
    NotificationEntry, NotificationEvent, NotificationFormat, RepositoryEntry, RetriesEntry,
    SecretSource, TimeoutEntry, WebhookEntry, WebhookProvider, WindowEntry, schema,
};
pub(crate) use entries::namespace_of;
pub use entries::{Config, Included, IncludedFrom, MAX_LAYERS, Placed};
pub use error::ConfigError;
pub use include::{load_included, merge, parse_included, parse_namespace};
pub(crate) use isolation::{STATES, local_backend_problem};
pub use load::{document_problem, load, of_repository, parse, parse_from};
pub use login::without_login;
pub use name::generated_name;
pub use size::Size;
pub use sources::{
    Checkout, CredentialsEntry, DEFAULT_REFERENCE, IncludeEntry, IncludeSource,
    ModuleCredentialsEntry, SecretName, SubmoduleChoice,
};
pub use span::Span;
pub use trust::{RemoteLimits, Trust, git_host};
pub(crate) use values::refusal;
