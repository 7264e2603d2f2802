//! The versions that a run, its module and the command line ask for, before one is chosen.

use butler_protocol::spec::{Product, ToolRequest, VersionFile, Wanted};

/// The versions that a run, its module and the command line ask for.
#[derive(Clone, Debug, Default)]
pub struct VersionWish {
    /// The version that the run names, which takes precedence.
    pub named: Option<Wanted>,
    /// Only this product; if it is `None`, Terraform or `OpenTofu`.
    pub product: Option<Product>,
    /// `required_version` of the module: all must hold.
    pub required: Vec<String>,
    /// The version files of the module, in order of precedence.
    pub version_files: Vec<VersionFile>,
    /// `--default-tool-version`.
    pub default: Option<ToolRequest>,
}
