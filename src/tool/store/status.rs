//! The JSON output of `tool status` and `tool list`, and its JSON Schema.
//!
//! The keys are stable for scripts: each is always present, with `null` if it has no value.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use semver::Version;
use serde::Serialize;

use crate::tool::digest::Sha256Sum;
use crate::tool::store::history::HistoryEntry;
use crate::tool::store::queue::Queue;
use crate::tool::store::record::{Record, Trusted};
use crate::tool::store::usage::VersionUser;
use crate::tool::vendor::product::Vendored as _;
use butler_protocol::spec::Product;

/// A product on this machine: its current version, and all others.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolStatus {
    /// The product.
    #[schemars(extend("enum" = ["terraform", "opentofu", "terragrunt"]))]
    pub product: &'static str,
    /// The default version; `null` if no version was installed or chosen.
    pub current_version: Option<Version>,
    /// The state of the current version.
    pub state: VersionState,
    /// Its executable.
    pub binary_path: Option<String>,
    /// When it was installed.
    #[schemars(extend("format" = "date-time"))]
    pub installed_at: Option<String>,
    /// Its source.
    pub source: Option<ToolSource>,
    /// Why it is trusted.
    pub trust: Option<Trust>,
    /// Its signer.
    pub signed_by: Option<Signer>,
    /// The processes that use it now.
    pub users: Vec<VersionUser>,
    /// The operation in progress and the number of waiting processes.
    pub queue: Queue,
    /// The completed operations, the latest first.
    pub history: Vec<HistoryEntry>,
    /// All installed versions, the newest first.
    pub installed: Vec<InstalledVersion>,
}

/// The state of a version.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum VersionState {
    /// It is not installed.
    NotInstalled,
    /// A process is installing it.
    Installing,
    /// It can be used.
    Ready,
    /// A process is removing it.
    Uninstalling,
    /// It is removed as soon as no process uses it.
    PendingDeletion,
    /// It was changed after its verification, or its last installation failed.
    Failed,
}

/// Why a version is trusted.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trust {
    /// Its checksum was signed.
    Signature,
    /// The user gave its checksum.
    Checksum,
    /// Its checksum was published without a signature on the vendor's own site.
    Unsigned,
}

/// For messages, if the signer is unknown.
impl std::fmt::Display for Trust {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Signature => "signed",
            Self::Checksum => "checksum given by the user",
            Self::Unsigned => "published without a signature",
        })
    }
}

/// The source of a version.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolSource {
    /// The URL of the archive, without credentials.
    pub url: String,
    /// The checksum of the archive, such as `sha256:abc123...`.
    #[schemars(regex(pattern = r"^sha256:[0-9a-f]{64}$"))]
    pub checksum: String,
}

/// The signer of the checksum file of a release.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Signer {
    /// The vendor, if the key is built in; `null` for a key of the user.
    pub name: Option<String>,
    /// The fingerprint of the certificate's primary key.
    pub fingerprint: String,
}

/// An installed version.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InstalledVersion {
    /// The product.
    #[schemars(extend("enum" = ["terraform", "opentofu", "terragrunt"]))]
    pub product: &'static str,
    /// The version.
    pub version: Version,
    /// Whether it is the default version.
    pub default: bool,
    /// Its state.
    pub state: VersionState,
    /// The problem, if there is one.
    pub problem: Option<String>,
    /// Its executable.
    pub path: String,
    /// The size of its executable, in bytes.
    pub size: u64,
    /// When it was installed.
    #[schemars(extend("format" = "date-time"))]
    pub installed_at: String,
    /// The time when a process last started or stopped using it, if known.
    #[schemars(extend("format" = "date-time"))]
    pub last_used_at: Option<String>,
    /// Its source.
    pub source: ToolSource,
    /// Why it is trusted.
    pub trust: Trust,
    /// Its signer; `null` if only a checksum was verified.
    pub signed_by: Option<Signer>,
    /// The processes that use it now.
    pub users: Vec<VersionUser>,
}

impl ToolStatus {
    /// The JSON Schema.
    #[must_use]
    pub fn schema() -> Schema {
        SchemaSettings::draft2020_12()
            .for_serialize()
            .into_generator()
            .into_root_schema_for::<Self>()
    }
}

impl From<&Trusted> for Trust {
    fn from(trusted: &Trusted) -> Self {
        match trusted {
            Trusted::Signature { .. } => Self::Signature,
            Trusted::Checksum => Self::Checksum,
            Trusted::Unsigned => Self::Unsigned,
        }
    }
}

impl ToolSource {
    pub(in crate::tool) fn of(record: &Record) -> Self {
        Self { url: record.archive_url.clone(), checksum: checksum(record.archive_sha256) }
    }
}

impl Signer {
    /// The signer with this `fingerprint` in the record of a version of `product`.
    pub(in crate::tool) fn of(product: Product, fingerprint: Option<&str>) -> Option<Self> {
        let fingerprint = fingerprint?;
        let vendor = match product {
            Product::Terraform => "HashiCorp",
            Product::OpenTofu => "OpenTofu",
            Product::Terragrunt => "Gruntwork",
        };
        let is_built_in = fingerprint == product.signer().fingerprint;
        Some(Self {
            name: is_built_in.then(|| vendor.to_owned()),
            fingerprint: fingerprint.to_owned(),
        })
    }
}

/// `HashiCorp (C874...)` or `a key of your own (C874...)`.
impl std::fmt::Display for Signer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.name.as_deref().unwrap_or("a key of your own");
        write!(formatter, "{name} ({})", self.fingerprint)
    }
}

/// The same words as in JSON.
impl std::fmt::Display for VersionState {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::NotInstalled => "not-installed",
            Self::Installing => "installing",
            Self::Ready => "ready",
            Self::Uninstalling => "uninstalling",
            Self::PendingDeletion => "pending-deletion",
            Self::Failed => "failed",
        })
    }
}

fn checksum(sum: Sha256Sum) -> String {
    format!("sha256:{sum}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signer_is_the_vendor_only_with_the_built_in_key() {
        let hashicorp = Product::Terraform.signer().fingerprint;
        let name = |product, fingerprint| Signer::of(product, fingerprint).map(|it| it.name);
        assert_eq!(name(Product::Terraform, Some(hashicorp)), Some(Some("HashiCorp".to_owned())));
        assert_eq!(name(Product::OpenTofu, Some(hashicorp)), Some(None));
        assert_eq!(name(Product::Terragrunt, None), None);
    }

    #[test]
    fn version_state_has_the_same_name_in_text_and_json() {
        for state in [
            VersionState::NotInstalled,
            VersionState::Installing,
            VersionState::Ready,
            VersionState::Uninstalling,
            VersionState::PendingDeletion,
            VersionState::Failed,
        ] {
            assert_eq!(serde_json::to_value(state).unwrap(), state.to_string());
        }
    }
}
