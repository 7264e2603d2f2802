//! What is needed to make a tool ready, out of the settings.

use crate::http::OnDemand;
use crate::settings::ToolSettings;
use crate::tool::ToolOptions;

/// The options for `owner`, without anything that is installed outside of the cache.
#[must_use]
pub fn tool_options(settings: &ToolSettings, owner: String) -> ToolOptions {
    ToolOptions {
        cache: settings.cache_dir.clone(),
        sites: settings.sites.clone(),
        signing_keys: settings.signing_keys.clone(),
        search_path: None,
        http: OnDemand::new(settings.ca_bundle.clone()),
        meter: None,
        timeout: settings.timeout,
        owner,
    }
}
