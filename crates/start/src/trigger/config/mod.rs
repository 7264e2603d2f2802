//! The CI configuration: `ci_config` (ADR-001, "CI Credential Resolution") and the options of the command
//! line, which take precedence.

mod ci_config;
mod error;
mod json;
mod words;

pub use ci_config::{CiConfig, LARGEST_CONFIG, parse_input, parse_url};
pub use error::ConfigError;
pub use words::{Event, ProviderName};
