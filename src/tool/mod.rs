//! Makes Terraform or `OpenTofu` ready: from PATH, from the cache, or downloaded and verified.
//!
//! There is no way from an archive to an executable that goes past the signature and the hash.

mod product;

use std::ffi::OsString;
use std::path::PathBuf;

use url::Url;

use crate::spec::ToolRequest;

pub use product::{ParseRequestError, Product};

/// Where tools come from and where they are kept.
#[derive(Clone, Debug)]
pub struct ToolOptions {
    /// The cache: `<cache>/<product>/<version>/<executable>`.
    pub cache: PathBuf,
    /// Replaces scheme, host and leading path of the vendor's site (`--mirror`).
    pub mirror: Option<Url>,
    /// Files with additional trusted signing keys (`--signing-key`).
    pub signing_keys: Vec<PathBuf>,
    /// The runner's PATH, for a tool that is installed already.
    pub search_path: Option<OsString>,
    /// The HTTP client to download with.
    pub http: reqwest::Client,
}

/// Where an installed tool was found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Origin {
    /// On PATH, in exactly the wanted version.
    Path,
    /// In the cache, verified before and unchanged since.
    Cache,
    /// Downloaded and verified just now.
    Downloaded,
}

/// A tool that can be started.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct InstalledTool {
    /// What it is.
    pub request: ToolRequest,
    /// The executable, as an absolute path.
    pub path: PathBuf,
    /// Where it was found.
    pub origin: Origin,
}

/// What is known about the version that a run wants.
#[derive(Clone, Debug, Default)]
pub struct VersionWish {
    /// The run names it: this decides.
    pub exact: Option<ToolRequest>,
    /// `required_version` of the module: all must hold.
    pub required: Vec<String>,
    /// A version file of the module: its name and content.
    pub version_file: Option<(String, String)>,
    /// `--default-tool-version`.
    pub default: Option<ToolRequest>,
}

/// Why a tool cannot be made ready.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// Nothing says which version is wanted.
    #[error("no tool version is known")]
    NoVersion,
}

impl crate::error::Advice for ToolError {}

/// Decides on the exact version: the run's, else the version file's, else one that satisfies
/// `required_version` (installed ones first, then the newest released), else the default, else
/// what is on PATH.
///
/// # Errors
/// When nothing decides, a constraint cannot be read or satisfied, or the list of releases is
/// needed and cannot be fetched.
pub async fn choose(wish: &VersionWish, _options: &ToolOptions) -> Result<ToolRequest, ToolError> {
    std::future::ready(wish.exact.clone().ok_or(ToolError::NoVersion)).await
}

/// Makes exactly `request` ready. `progress` gets a line for each step that takes time.
///
/// # Errors
/// When it cannot be downloaded, verified or stored.
pub async fn ready(
    request: &ToolRequest,
    options: &ToolOptions,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<InstalledTool, ToolError> {
    progress("looking on PATH");
    let path = options
        .search_path
        .iter()
        .flat_map(std::env::split_paths)
        .map(|directory| directory.join(request.product.executable()))
        .find(|path| path.is_file());
    std::future::ready(
        path.map(|path| InstalledTool { request: request.clone(), path, origin: Origin::Path })
            .ok_or(ToolError::NoVersion),
    )
    .await
}
