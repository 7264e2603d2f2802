//! The settings of `config webhook`.

use url::Url;

use super::reader::Reader;
use super::server::{ServerConfig, config};
use super::setting::PUBLIC_URL;
use super::{Arguments, Environment, SettingsError, parse};

/// The settings of `config webhook`.
#[derive(Debug)]
pub struct WebhookSettings {
    /// Where the repository is configured.
    pub config: ServerConfig,
    /// The address of the server.
    pub public_url: Url,
}

impl WebhookSettings {
    /// Reads and checks the settings.
    ///
    /// # Errors
    /// If a setting is missing or not usable.
    pub fn resolve(
        arguments: &Arguments,
        environment: &Environment,
    ) -> Result<Self, SettingsError> {
        let reader = Reader { arguments, environment };
        let public_url = reader.parsed(&PUBLIC_URL, parse::web_url)?;
        let public_url = public_url.ok_or(SettingsError::Missing { setting: &PUBLIC_URL })?;
        Ok(Self { config: config(&reader)?, public_url })
    }
}
