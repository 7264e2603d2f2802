//! The tools that execute runs, and exact versions of them.

use std::fmt;

use semver::Version;

/// A tool that executes runs.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Product {
    /// `HashiCorp` Terraform.
    Terraform,
    /// `OpenTofu`.
    OpenTofu,
    /// Terragrunt, which starts Terraform or `OpenTofu`.
    Terragrunt,
}

impl Product {
    /// All products.
    pub const ALL: [Self; 3] = [Self::Terraform, Self::OpenTofu, Self::Terragrunt];

    /// The tools that execute a run themselves, best known first.
    pub const ENGINES: [Self; 2] = [Self::Terraform, Self::OpenTofu];

    /// The product's name in versions, cache directories and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Terraform => "terraform",
            Self::OpenTofu => "opentofu",
            Self::Terragrunt => "terragrunt",
        }
    }

    /// The product's name in sentences.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Terraform => "Terraform",
            Self::OpenTofu => "OpenTofu",
            Self::Terragrunt => "Terragrunt",
        }
    }

    /// The product that is called `name`, or whose executable is.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let is_called = |it: &Self| [it.name(), it.executable()].contains(&name);
        Self::ALL.into_iter().find(is_called)
    }

    /// The product that a text such as `opentofu-1.8.3`, `tofu@1.8` or `terraform 1.9.8` begins with, and the rest of it.
    #[must_use]
    pub fn of_prefix(text: &str) -> Option<(Self, &str)> {
        Self::ALL.into_iter().find_map(|product| {
            let names = [product.name(), product.executable()];
            let rest = names.into_iter().find_map(|name| text.strip_prefix(name))?;
            let is_separator = |it: char| matches!(it, '-' | '@') || it.is_ascii_whitespace();
            Some((product, rest.strip_prefix(is_separator)?))
        })
    }

    /// The argument for `version` of this product: `1.9.8`, `opentofu-1.8.3`.
    #[must_use]
    pub fn spelled(self, version: &str) -> String {
        match self {
            Self::Terraform => version.to_owned(),
            _ => format!("{}-{version}", self.name()),
        }
    }

    /// The name of its executable.
    #[must_use]
    pub const fn executable(self) -> &'static str {
        match self {
            Self::Terraform => "terraform",
            Self::OpenTofu => "tofu",
            Self::Terragrunt => "terragrunt",
        }
    }

    /// The name of its executable's file on this system.
    #[must_use]
    pub fn file_name(self) -> String {
        format!("{}{}", self.executable(), std::env::consts::EXE_SUFFIX)
    }
}

/// An exact version of a product.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ToolRequest {
    /// The product.
    pub product: Product,
    /// The exact version.
    pub version: Version,
}

impl std::fmt::Display for ToolRequest {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} {}", self.product, self.version)
    }
}

impl fmt::Display for Product {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// A text is not an exact version.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{text}` is not an exact version such as `1.9.0` or `opentofu-1.8.3`")]
pub struct ParseRequestError {
    /// The text.
    pub text: String,
}
