//! Makes Terraform or `OpenTofu` ready: from PATH, from the cache, or downloaded and verified.
//!
//! There is no way from an archive to an executable that goes past the signature and the hash:
//! `release` makes the only thing that `cache` installs, and `cache` hands out only what still has
//! the sum that was verified. A release site, a mirror and a cache are trusted with nothing but the
//! list of versions.

mod archive;
mod attempt;
mod audit;
mod cache;
mod checksums;
mod choice;
mod constraint;
mod default;
mod digest;
mod download;
mod error;
#[cfg(test)]
mod fuzz_tests;
mod index;
mod installed;
mod inventory;
mod journal;
mod lifetime;
mod lock;
mod note;
mod path;
mod platform;
mod probe;
mod product;
mod prune;
mod queue;
mod ready;
mod record;
mod release;
mod sites;
mod status;
mod uninstall;
mod usage;
mod verify;
mod wanted;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::blocking;
use crate::http::LazyClient;
use crate::spec::{Product, ToolRequest, VersionFile};

pub use archive::ArchiveError;
pub use audit::{Audited, Verdict, audit};
pub use cache::CacheError;
pub use checksums::ChecksumsError;
pub use choice::{Reach, choose, choose_for_module, choose_wanted};
pub use constraint::ConstraintError;
pub use default::{adopt_default, default_version, use_version};
pub use digest::{NoSha256Sum, Sha256Sum};
pub use download::DownloadError;
pub use error::ToolError;
pub use installed::installed;
pub use inventory::{Available, available, history, inventory, status, users};
pub use journal::{Act, Entry, Outcome};
pub use lifetime::{ExpiringKey, expiring_keys};
pub use platform::UnknownPlatform;
pub use probe::{Probe, list_url, on_path, probe};
pub use prune::{Fate, Limits, Pruned, PrunedVersion, prune};
pub use queue::{InProgress, Queue, in_progress, queue};
pub use ready::ready;
pub use sites::Sites;
pub use status::{InstalledVersion, Signer, Source, State, Status};
pub use uninstall::{UninstallError, Uninstalled, uninstall};
pub use usage::{InUse, User};
pub use verify::VerifyError;
pub use wanted::{Wanted, WantedError};

/// Where tools come from and where they are kept.
#[derive(Clone)]
pub struct ToolOptions {
    /// The cache: `<cache>/<product>/<version>/<executable>`.
    pub cache: PathBuf,
    /// Where releases come from.
    pub sites: Sites,
    /// Files with additional trusted signing keys (`--signing-key`).
    pub signing_keys: Vec<PathBuf>,
    /// The runner's PATH, for a tool that is installed already.
    pub search_path: Option<OsString>,
    /// The HTTP client to download with, made when something is downloaded.
    pub http: LazyClient,
    /// How long it may take to make one version ready, other processes' installs included.
    pub timeout: Duration,
    /// What happens where another process installs or removes the wanted version.
    pub when_busy: WhenBusy,
    /// Who asks, for people who want to remove a version: `run 7`.
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

/// What happens where another process installs or removes a version that is wanted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum WhenBusy {
    /// It is waited for, within the time that there is.
    #[default]
    Wait,
    /// That is an error at once.
    Refuse,
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
#[derive(Clone, Debug)]
pub struct InstalledTool {
    /// What it is.
    pub request: ToolRequest,
    /// The executable, as an absolute path.
    pub path: PathBuf,
    /// Where it was found.
    pub origin: Origin,
    /// Keeps it from being removed as long as it lives; none of what the cache does not keep.
    pub in_use: Option<Arc<InUse>>,
}

/// What is known about the version that a run wants.
#[derive(Clone, Debug, Default)]
pub struct VersionWish {
    /// The run names it: this decides.
    pub exact: Option<ToolRequest>,
    /// Only this product is meant; where there is none, Terraform or `OpenTofu`.
    pub product: Option<Product>,
    /// `required_version` of the module: all must hold.
    pub required: Vec<String>,
    /// The version files that speak for the module, the one that counts most first.
    pub version_files: Vec<VersionFile>,
    /// `--default-tool-version`.
    pub default: Option<ToolRequest>,
}
