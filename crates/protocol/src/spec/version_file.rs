//! Version files: the version of a tool that a directory requires.

use super::Product;

/// The kind of a version file, which decides its name and its syntax.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum VersionFileKind {
    /// One version, of this product where the version names no other.
    Of(Product),
    /// asdf's: a line a tool, its name and its versions.
    ToolVersions,
}

impl VersionFileKind {
    /// All of them; in one directory an earlier one counts before a later one.
    pub const ALL: [Self; 4] = [
        Self::Of(Product::Terraform),
        Self::Of(Product::OpenTofu),
        Self::Of(Product::Terragrunt),
        Self::ToolVersions,
    ];

    /// The file's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Of(Product::Terraform) => ".terraform-version",
            Self::Of(Product::OpenTofu) => ".opentofu-version",
            Self::Of(Product::Terragrunt) => ".terragrunt-version",
            Self::ToolVersions => ".tool-versions",
        }
    }
}

/// A version file and what is in it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct VersionFile {
    /// What it is called.
    pub kind: VersionFileKind,
    /// Where it is, from the directory that it speaks for, such as `../.tool-versions`.
    pub place: String,
    /// All of its text.
    pub text: String,
}
