//! Finds, downloads, verifies and installs versions of Terraform, `OpenTofu` and Terragrunt.
//!
//! `choice` chooses the version, `vendor` has the URLs of its files and the keys that sign them, `fetch`
//! downloads and verifies them, and `store` keeps the verified executables.
//!
//! Every executable that the runner installs has a verified hash, and that hash has a verified
//! signature. There are two exceptions to the signature: the user gave the checksum and the URL, or
//! the vendor did not sign releases yet and the files come from the vendor's own site.
//! `fetch::release` creates the only type that `store::install` installs, and `store::lookup`
//! returns an executable only if it still has the verified checksum. A mirror and a cache are
//! trusted only with the list of versions.

mod advice;
mod choice;
mod digest;
mod error;
mod fetch;
#[cfg(test)]
mod fuzz_tests;
mod installed_tool;
mod options;
mod ready;
mod runner_release;
mod store;
mod vendor;
mod version_query;

pub use choice::choose::{Reach, choose, choose_for_module, choose_wanted};
pub use choice::version_sources::VersionSources;
pub use digest::{NoSha256Sum, Sha256Sum};
pub use error::{ChecksumSource, ToolError};
pub use fetch::bundle::error::BundleError;
pub use fetch::bundle::write_bundle::write_bundle;
pub use fetch::download::{DownloadError, SentLogin};
pub use fetch::login::{GivenLogin, Login, redacted};
pub use fetch::netrc::Netrc;
pub use fetch::probe::{Probe, learn, list_url, on_path, probe};
pub use fetch::sites::{Mirror, Sites, Template};
pub use fetch::transfer::{Meter, Transfer};
pub use installed_tool::{InstalledTool, Origin};
pub use options::{ToolOptions, WhenBusy};
pub use ready::{RunLocation, ensure_wanted_version, ready, startable};
pub use runner_release::{RunnerArchive, RunnerReleaseError, fetch_runner, newest_runner};
pub use store::archive::ArchiveError;
pub use store::audit::{AuditResult, AuditedVersion, audit};
pub use store::default::{adopt_default, default_version, use_version};
pub use store::error::CacheError;
pub use store::history::{HistoryEntry, OperationOutcome, ToolOperation};
pub use store::installed::{installed, installed_versions};
pub use store::inventory::{ReleasedVersion, available, inventory, status};
pub use store::prune::{PruneLimits, PruneResult, Pruned, PrunedVersion, prune};
pub use store::queue::{InProgress, Queue};
pub use store::required_checksum::check_required_checksum;
pub use store::status::{InstalledVersion, Signer, ToolSource, ToolStatus, Trust, VersionState};
pub use store::uninstall::{UninstallError, Uninstalled, uninstall};
pub use store::usage::{InUse, VersionUser};
pub use vendor::checksums::ChecksumsError;
pub use vendor::lifetime::{ExpiringKey, expiring_keys};
pub use vendor::platform::{Platform, UnknownPlatform};
#[cfg(test)]
pub(crate) use vendor::release_urls::checksums_directory;
pub use vendor::verify::VerifyError;
