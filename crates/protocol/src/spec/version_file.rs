//! Version files: the version of a tool that a directory requires.

use super::Product;

/// The kind of a version file, which decides its name and its syntax.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum VersionFileKind {
    /// One version, of this product unless the text names another one.
    Of(Product),
    /// The same, in the file of tfswitch or tgswitch.
    Switch(Product),
    /// The file of asdf: a line for each tool, with its name and its versions.
    ToolVersions,
}

impl VersionFileKind {
    /// All kinds. In one directory, an earlier one wins over a later one.
    pub const ALL: [Self; 6] = [
        Self::Of(Product::Terraform),
        Self::Of(Product::OpenTofu),
        Self::Of(Product::Terragrunt),
        Self::ToolVersions,
        Self::Switch(Product::Terraform),
        Self::Switch(Product::Terragrunt),
    ];

    /// The file's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Of(Product::Terraform) => ".terraform-version",
            Self::Of(Product::OpenTofu) => ".opentofu-version",
            Self::Of(Product::Terragrunt) => ".terragrunt-version",
            Self::ToolVersions => ".tool-versions",
            // tfswitch uses one file for Terraform and OpenTofu.
            Self::Switch(Product::Terraform | Product::OpenTofu) => ".tfswitchrc",
            Self::Switch(Product::Terragrunt) => ".tgswitchrc",
        }
    }
}

/// A version file and its content.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct VersionFile {
    /// The kind of the file.
    pub kind: VersionFileKind,
    /// Its path relative to the directory that it applies to, such as `../.tool-versions`.
    pub place: String,
    /// The whole text.
    pub text: String,
}
