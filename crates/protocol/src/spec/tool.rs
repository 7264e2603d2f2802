//! Which tool carries out a run, in which version.

use std::fmt;

use semver::Version;

use super::Wanted;

/// A tool that carries out runs.
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

    /// Those that carry out a run themselves, best known first.
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

    /// The product that is called `name`, or whose executable is.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let is_called = |it: &Self| [it.name(), it.executable()].contains(&name);
        Self::ALL.into_iter().find(is_called)
    }

    /// The product that a text such as `opentofu-1.8.3` or `tofu@1.8` begins with, and the rest of it.
    #[must_use]
    pub fn of_prefix(text: &str) -> Option<(Self, &str)> {
        Self::ALL.into_iter().find_map(|product| {
            let names = [product.name(), product.executable()];
            let rest = names.into_iter().find_map(|name| text.strip_prefix(name))?;
            Some((product, rest.strip_prefix(['-', '@'])?))
        })
    }

    /// How the command line is given `version` of this product: `1.9.8`, `opentofu-1.8.3`.
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

/// A version that cannot be read.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{text}` is not an exact version such as `1.9.0` or `opentofu-1.8.3`")]
pub struct ParseRequestError {
    /// What was given.
    pub text: String,
}

impl std::str::FromStr for ToolRequest {
    type Err = ParseRequestError;

    /// Reads `1.9.0`, `v1.9.0`, `terraform-1.9.0`, `opentofu-1.8.3`, `tofu-1.8.3`, `tofu@1.8.3` or
    /// `terragrunt-0.99.1`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let exact = Wanted::of_argument(text, None).and_then(|wanted| wanted.exact());
        exact.map_err(|_| ParseRequestError { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_may_carry_the_product() {
        for (text, product, version) in [
            ("1.9.0", Product::Terraform, "1.9.0"),
            ("v1.9.0", Product::Terraform, "1.9.0"),
            ("opentofu-1.8.3", Product::OpenTofu, "1.8.3"),
            ("tofu-1.8.3", Product::OpenTofu, "1.8.3"),
            ("tofu@1.8.3", Product::OpenTofu, "1.8.3"),
            ("terragrunt-0.99.1", Product::Terragrunt, "0.99.1"),
            ("1.15.0-rc1", Product::Terraform, "1.15.0-rc1"),
        ] {
            let request: ToolRequest = text.parse().unwrap();
            assert_eq!((request.product, request.version.to_string().as_str()), (product, version));
        }
    }

    #[test]
    fn what_is_no_version_is_named() {
        for text in ["", "latest", "1.9", "tofu@1.8", "opentofu-", "../1.9.0", "1.9.0/.."] {
            assert!(text.parse::<ToolRequest>().is_err(), "{text}");
        }
    }
}
