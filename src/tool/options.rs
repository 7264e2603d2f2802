//! The options of this module: sources, cache, and timeouts.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use butler_base::http::LazyClient;

use crate::tool::fetch::sites::Sites;
use crate::tool::fetch::transfer::Meter;

/// The sources, the cache and the timeouts of tools.
#[derive(Clone)]
pub struct ToolOptions {
    /// The cache: `<cache>/<product>/<version>/<executable>`.
    pub cache: PathBuf,
    /// The release sites and mirrors.
    pub sites: Sites,
    /// Files with additional trusted signing keys (`--signing-key`).
    pub signing_keys: Vec<PathBuf>,
    /// The runner's PATH, for a tool that is installed already.
    pub search_path: Option<OsString>,
    /// The HTTP client, which is created by the first download.
    pub http: LazyClient,
    /// Receives the progress of each download; without it, slow downloads are reported every ten
    /// seconds.
    pub meter: Option<Meter>,
    /// The timeout for one version, including the wait for other processes.
    pub timeout: Duration,
    /// Whether to wait if another process installs or removes the wanted version.
    pub when_busy: WhenBusy,
    /// The name of this process for other users of the cache, such as `run 7`.
    pub owner: String,
}

impl std::fmt::Debug for ToolOptions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ToolOptions")
            .field("cache", &self.cache)
            .field("sites", &self.sites)
            .field("signing_keys", &self.signing_keys)
            .field("search_path", &self.search_path)
            .finish_non_exhaustive()
    }
}

/// Whether to wait if another process installs or removes a wanted version.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum WhenBusy {
    /// Wait for it, until the timeout.
    #[default]
    Wait,
    /// Fail at once.
    Refuse,
}
