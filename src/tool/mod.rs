//! Makes Terraform or `OpenTofu` ready: from PATH, from the cache, or downloaded and verified.
//!
//! There is no way from an archive to an executable that goes past the signature and the hash:
//! `release` makes the only thing that `cache` installs, and `cache` hands out only what still has
//! the sum that was verified. A release site, a mirror and a cache are trusted with nothing but the
//! list of versions.

mod archive;
mod blocking;
mod bundle;
mod cache;
mod checksums;
mod choice;
mod constraint;
mod digest;
mod download;
mod error;
#[cfg(test)]
mod fuzz_tests;
mod given;
mod index;
mod inventory;
mod journal;
mod lock;
mod login;
mod netrc;
mod path;
mod platform;
mod product;
mod ready;
mod record;
mod release;
mod sites;
mod transfer;
mod usage;
mod verify;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::http::OnDemand;
use crate::spec::ToolRequest;

pub use archive::ArchiveError;
pub use bundle::{BundleError, bundle};
pub use cache::CacheError;
pub use checksums::ChecksumsError;
pub use choice::choose;
pub use constraint::ConstraintError;
pub use digest::{NoSha256Sum, Sha256Sum};
pub use download::{Asked, DownloadError};
pub use error::{Meant, ToolError};
pub use given::check_given;
pub use inventory::{history, users};
pub use journal::{Act, Entry, Outcome};
pub use login::{GivenLogin, Login};
pub use netrc::Netrc;
pub use platform::{Platform, UnknownPlatform};
pub use ready::ready;
pub use record::Trusted;
pub use sites::{Mirror, Sites, Template};
pub use transfer::{Meter, Transfer};
pub use usage::{InUse, User};
pub use verify::VerifyError;

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
    /// The HTTP client to download with.
    pub http: OnDemand,
    /// Who sees each piece of an archive come in; without one, slow downloads say a line now and then.
    pub meter: Option<Meter>,
    /// How long it may take to make one version ready, other processes' installs included.
    pub timeout: Duration,
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

/// Where the checksum file of a release of `product` comes from; its directory where it is not
/// called after its release. For tests of what settings mean.
#[cfg(test)]
pub(crate) fn place(sites: &Sites, product: crate::spec::Product) -> String {
    let version = semver::Version::new(1, 0, 0);
    let request = ToolRequest { product, version };
    let platform = platform::Platform { system: "linux", architecture: "amd64" };
    let release = product::Release::of(&request, platform, sites.mirror(product));
    let place = release.checksums.to_string();
    match product {
        crate::spec::Product::Terragrunt => place[..=place.rfind('/').unwrap()].to_owned(),
        _ => place,
    }
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
    /// `required_version` of the module: all must hold.
    pub required: Vec<String>,
    /// A version file of the module: its name and content.
    pub version_file: Option<(String, String)>,
    /// `--default-tool-version`.
    pub default: Option<ToolRequest>,
}
