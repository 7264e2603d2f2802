//! What is needed to make a tool ready, out of the settings.

use crate::http::LazyClient;
use crate::settings::ToolSettings;
use crate::tool::{ToolOptions, WhenBusy};

/// The options for `owner`, without anything that is installed outside of the cache.
#[must_use]
pub fn tool_options(settings: &ToolSettings, http: LazyClient, owner: String) -> ToolOptions {
    ToolOptions {
        cache: settings.cache_dir.clone(),
        sites: settings.sites.clone(),
        signing_keys: settings.signing_keys.clone(),
        search_path: None,
        http,
        timeout: settings.timeout,
        when_busy: WhenBusy::Wait,
        owner,
    }
}
