//! The sources from which a version is chosen: the run, its module, and the settings.

use butler_protocol::spec::{
    Product, RequestedVersion, RequiredVersions, ToolRequest, VersionFile,
};

/// The sources from which a version is chosen.
#[derive(Clone, Debug, Default)]
pub struct VersionSources {
    /// The version that the run names, which takes precedence.
    pub named: Option<RequestedVersion>,
    /// Only this product; if it is `None`, Terraform or `OpenTofu`.
    pub product: Option<Product>,
    /// The constraints of the module.
    pub required: RequiredVersions,
    /// The version files of the module, in order of precedence.
    pub version_files: Vec<VersionFile>,
    /// `--default-tool-version`.
    pub default: Option<ToolRequest>,
}
