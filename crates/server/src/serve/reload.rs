//! Reads the configuration and the registry of followers again when their files change.

use std::path::Path;

use super::config_files::ConfigFiles;
use super::desired::Desired;
use super::followed::read_registry;
use crate::config::{self, ConfigError};

/// Puts each valid configuration of `files` into force. One with errors leaves the last valid one in
/// force. `data` is the data directory. Never ends.
pub(super) async fn reload(files: Option<ConfigFiles>, data: &Path, desired: &Desired) {
    let Some(mut files) = files else { return std::future::pending().await };
    loop {
        files.changed().await;
        desired.forget_refused();
        let loaded = config::load(files.path(), Some(data));
        match loaded.and_then(|config| desired.configure(config)) {
            Ok(()) => tracing::info!("the configuration has changed, and is in force"),
            Err(errors) => {
                let errors: Vec<String> = errors.iter().map(ConfigError::to_string).collect();
                for error in &errors {
                    tracing::error!("the new configuration is not used: {error}");
                }
                desired.refuse(errors);
            }
        }
    }
}

/// The same for the registry of followers.
pub(super) async fn reload_followers(files: Option<ConfigFiles>, desired: &Desired) {
    let Some(mut files) = files else { return std::future::pending().await };
    loop {
        files.changed().await;
        match read_registry(files.path()) {
            Ok((registry, _)) => {
                desired.followed.replace(registry);
                tracing::info!("the registry of followers has changed, and is in force");
            }
            Err(errors) => {
                for error in &errors {
                    tracing::error!("the new registry of followers is not used: {error}");
                }
                desired.followed.refuse(errors);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::RemoteLimits;

    #[tokio::test]
    async fn change_after_the_configuration_was_read_is_not_missed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("butler.yaml");
        std::fs::write(&path, "repositories: {a: {url: 'file:///a'}}").unwrap();
        let files = ConfigFiles::at(&path);
        let config = config::load(&path, None).unwrap();
        let desired = Desired::new(config, RemoteLimits::default());
        std::fs::write(&path, "repositories: {other: {url: 'file:///a'}}").unwrap();
        let mut configs = desired.configs();
        tokio::select! {
            () = reload(Some(files), directory.path(), &desired) => {}
            changed = configs.changed() => changed.unwrap(),
        }
        assert!(desired.config().repositories.contains_key("other"));
    }
}
