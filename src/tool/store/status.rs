//! What `tool status` and `tool list` answer: the shape of their JSON, and its JSON Schema.
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
    /// The default version; none as long as nothing was installed or chosen.
    pub current_version: Option<Version>,
    /// How the current version stands.
    pub state: VersionState,
    /// Its executable.
    pub binary_path: Option<String>,
    /// When it was installed.
    #[schemars(extend("format" = "date-time"))]
    pub installed_at: Option<String>,
    /// Where it came from.
    pub source: Option<ToolSource>,
    /// Why it is trusted.
    pub trust: Option<Trust>,
    /// Who signed it.
    pub signed_by: Option<Signer>,
    /// Who uses it now.
    pub users: Vec<VersionUser>,
    /// What is being done with versions of the product now.
    pub queue: Queue,
    /// What was done, the latest first.
    pub history: Vec<HistoryEntry>,
    /// All installed versions, the newest first.
    pub installed: Vec<InstalledVersion>,
}

/// The state of a version.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum VersionState {
    /// It is not there.
    NotInstalled,
    /// A process is installing it.
    Installing,
    /// It can be used.
    Ready,
    /// A process is removing it.
    Uninstalling,
    /// It is removed as soon as no process uses it.
    PendingDeletion,
    /// It is there but not as it was verified, or the last attempt to install it failed.
    Failed,
}

/// Why a version is trusted.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trust {
    /// Its sum was signed.
    Signature,
    /// The user gave its sum.
    Checksum,
    /// Its sum stood on the vendor's own site, from before the vendor signed.
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

/// Where a version came from.
#[derive(Clone, Debug, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolSource {
    /// The archive, without credentials.
    pub url: String,
    /// Its sum, such as `sha256:abc123...`.
    #[schemars(regex(pattern = r"^sha256:[0-9a-f]{64}$"))]
    pub checksum: String,
}

/// Who signed the checksum file of a release.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Signer {
    /// The vendor, if it was the key that is built in; none for a key of the user's.
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
    /// How it stands.
    pub state: VersionState,
    /// What is wrong with it.
    pub problem: Option<String>,
    /// Its executable.
    pub path: String,
    /// The size of its executable, in bytes.
    pub size: u64,
    /// When it was installed.
    #[schemars(extend("format" = "date-time"))]
    pub installed_at: String,
    /// When a process last began or ended to use it, if known.
    #[schemars(extend("format" = "date-time"))]
    pub last_used_at: Option<String>,
    /// Where it came from.
    pub source: ToolSource,
    /// Why it is trusted.
    pub trust: Trust,
    /// Who signed it; `null` if only a checksum was verified.
    pub signed_by: Option<Signer>,
    /// Who uses it now.
    pub users: Vec<VersionUser>,
}

impl ToolStatus {
    /// The JSON Schema of what is serialized.
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
    /// Who is behind a `fingerprint` in the record of a version of `product`.
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

/// `HashiCorp (C874...)`, or who only has a fingerprint.
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
