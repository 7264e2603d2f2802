//! Makes Terraform or `OpenTofu` ready: from PATH, from the cache, or downloaded and verified.
//!
//! `choice` says which version is meant, `vendor` where its files are and who signs them, `fetch`
//! gets them here and verifies them, and `store` keeps what was verified.
//!
//! There is no way from an archive to an executable that goes past its hash, and none past a
//! signature of that hash but two: the user gave the sum and the URL, or the vendor did not sign yet
//! and its own site is asked. `release` makes the only thing that `cache` installs, and `cache` hands
//! out only what still has the sum that was verified. A mirror and a cache are trusted with nothing
//! but the list of versions.

mod choice;
mod digest;
mod error;
mod fetch;
#[cfg(test)]
mod fuzz_tests;
mod ready;
mod runner_release;
mod store;
mod vendor;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use butler_base::blocking;
use butler_base::http::LazyClient;
use butler_protocol::spec::{Product, ToolRequest, VersionFile, Wanted};

pub use choice::choose::{Reach, choose, choose_for_module, choose_wanted};
pub use choice::default::{adopt_default, default_version, use_version};
pub use digest::{NoSha256Sum, Sha256Sum};
pub use error::{Meant, ToolError};
pub use fetch::bundle::{BundleError, bundle};
pub use fetch::download::{Asked, DownloadError};
pub use fetch::login::{GivenLogin, Login};
pub use fetch::netrc::Netrc;
pub use fetch::probe::{Probe, learn, list_url, on_path, probe};
pub use fetch::sites::{Mirror, Sites, Template};
pub use fetch::transfer::{Meter, Transfer};
pub use ready::{Whereabouts, ready, settle, startable};
pub use runner_release::{RunnerArchive, RunnerReleaseError, fetch_runner, newest_runner};
pub use store::archive::ArchiveError;
pub use store::audit::{Audited, Verdict, audit};
pub use store::error::CacheError;
pub use store::given::check_given;
pub use store::installed::{installed, installed_versions};
pub use store::inventory::{Available, available, history, inventory, status, users};
pub use store::journal::{Act, Entry, Outcome};
pub use store::prune::{Fate, Limits, Pruned, PrunedVersion, prune};
pub use store::queue::{InProgress, Queue, in_progress, queue};
pub use store::status::{InstalledVersion, Signer, Source, State, Status, Trust};
pub use store::uninstall::{UninstallError, Uninstalled, uninstall};
pub use store::usage::{InUse, User};
pub use vendor::checksums::ChecksumsError;
pub use vendor::lifetime::{ExpiringKey, expiring_keys};
pub use vendor::platform::{Platform, UnknownPlatform};
pub use vendor::verify::VerifyError;

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
    /// Who sees each piece of an archive come in; without one, slow downloads say a line now and then.
    pub meter: Option<Meter>,
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

/// Where the checksum file of a release of `product` comes from; its directory where it is not
/// called after its release. For tests of what settings mean.
#[cfg(test)]
pub(crate) fn place(sites: &Sites, product: Product) -> String {
    let version = semver::Version::new(1, 0, 0);
    let request = ToolRequest { product, version };
    let platform = Platform { system: "linux", architecture: "amd64" };
    let release = vendor::product::Release::of(&request, platform, sites.mirror(product));
    let place = release.checksums.to_string();
    match product {
        Product::Terragrunt => place[..=place.rfind('/').unwrap()].to_owned(),
        _ => place,
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
    /// On PATH, as something that says it was the wanted version, but may start another one where it
    /// is run: a script, or what a version manager puts there.
    Shim,
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
    pub named: Option<Wanted>,
    /// Only this product is meant; where there is none, Terraform or `OpenTofu`.
    pub product: Option<Product>,
    /// `required_version` of the module: all must hold.
    pub required: Vec<String>,
    /// The version files that speak for the module, the one that counts most first.
    pub version_files: Vec<VersionFile>,
    /// `--default-tool-version`.
    pub default: Option<ToolRequest>,
}
