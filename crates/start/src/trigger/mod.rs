//! Starts runs on a CI system and reads their state.
//!
//! A [`Provider`] is one place on a CI system where runs start: a workflow, a project, or a job. A run is
//! never requested twice: if the response to a request is lost, the provider searches for the run
//! instead of repeating the request. Credentials are only sent to the origin of the provider's own URL,
//! and never to the target of a redirect. Each provider has its own module; `server` is the HTTP client
//! that they share.

mod config;
mod credentials;
mod error;
mod follow;
mod github;
mod gitlab;
mod jenkins;
mod lost_response;
mod provider;
mod rate_limit;
mod response;
mod server;
mod settings;
mod start_request;
mod state;

pub use config::{
    CiConfig, ConfigError, Event, LARGEST_CONFIG, ProviderName, parse_input, parse_url,
};
pub use credentials::{CredentialReference, CredentialsError};
pub use error::TriggerError;
pub use follow::follow;
pub use provider::{Provider, reported_states};
pub use server::Connection;
pub use settings::TriggerSettings;
pub use start_request::{RunnerAccess, StartRequest, StartedRun};
pub use state::{RunState, RunStatus};
