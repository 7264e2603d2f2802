//! Parses a requested version: an argument, a run's version, a version file, or a line of `.tool-versions`.
//!
//! This is the only parser of versions: `1.9.8`, `opentofu-1.8.3`, `tofu@1.8`, `~> 1.9`, `latest`. Exact versions and
//! constraints have Terraform's syntax. `latest` and similar words come from the files of tfenv, tenv and asdf. Of
//! `latest:REGEX` only a prefix of a version is supported, segment by segment: `latest:^1.1` does not match 1.10.

use semver::Version;

use super::constraint::{Constraint, ConstraintError};
use super::required_versions::core;
use super::tool::{ParseRequestError, Product, ToolRequest};
use super::version_file::{VersionFile, VersionFileKind};
use butler_base::error::Advice;

/// A product and the requested version of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RequestedVersion {
    /// The product.
    pub product: Product,
    /// The requested version.
    pub selector: VersionSelector,
}

/// A requested version, exact or not.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum VersionSelector {
    /// This version.
    Exact(Version),
    /// A version that satisfies the constraint.
    Within(Constraint),
    /// The newest released version that satisfies the constraint: `latest`, `latest:^1.9`.
    Newest(Option<Constraint>),
    /// The newest version that `required_version` allows: `latest-allowed`.
    NewestAllowed,
    /// The oldest version that `required_version` allows: `min-required`.
    OldestAllowed,
    /// Only the product is named: version files, constraints and the machine decide.
    OfModule,
}

/// The newest version that `required_version` allows, in the syntax of tfenv and tenv.
pub const NEWEST_ALLOWED: &str = "latest-allowed";
/// The oldest version that `required_version` allows, in the syntax of tfenv and tenv.
pub const OLDEST_ALLOWED: &str = "min-required";

/// An argument is not a usable version.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub enum RequestedVersionError {
    /// It is neither a version nor a constraint.
    #[error("`{text}` is neither a version nor a constraint")]
    Unreadable {
        /// The argument.
        text: String,
    },
    /// Its product is not the product of the command.
    #[error("`{text}` is a version of {actual}, not of {expected}")]
    OtherProduct {
        /// The argument.
        text: String,
        /// The product of the argument.
        actual: Product,
        /// The product of the command.
        expected: Product,
    },
    /// It can be several versions, but the command needs exactly one.
    #[error("an exact version of {product} is needed")]
    Inexact {
        /// The product.
        product: Product,
    },
    /// It is only valid in a version file.
    #[error("`{text}` is for version files")]
    ForFiles {
        /// The argument.
        text: String,
    },
}

impl Advice for RequestedVersionError {
    fn advice(&self) -> Option<String> {
        Some(match self {
            Self::Unreadable { .. } => {
                "write `1.9.8`, `1.9`, `opentofu-1.8.3`, `>= 1.6, < 2` or `latest`, in quotes if there are spaces"
                    .to_owned()
            }
            Self::OtherProduct { actual, .. } => {
                format!("leave out --product, or give --product {actual}")
            }
            Self::Inexact { .. } => "write it like `1.9.8`".to_owned(),
            Self::ForFiles { .. } => {
                "without a version, `install --latest` takes the newest one that the directory allows"
                    .to_owned()
            }
        })
    }
}

impl From<ToolRequest> for RequestedVersion {
    fn from(ToolRequest { product, version }: ToolRequest) -> Self {
        Self { product, selector: VersionSelector::Exact(version) }
    }
}

impl RequestedVersion {
    /// Parses an argument. `product` is the product of the command, if it has one. `1.9` means any 1.9.x, although as a
    /// constraint it would mean 1.9.0.
    ///
    /// # Errors
    /// If it is not a version, or if its product is another one.
    pub fn of_argument(
        text: &str,
        product: Option<Product>,
    ) -> Result<Self, RequestedVersionError> {
        let text = text.trim();
        let (named, rest) = split_product(text, product.unwrap_or(Product::Terraform));
        if let Some(expected) = product
            && expected != named
        {
            return Err(RequestedVersionError::OtherProduct {
                text: text.to_owned(),
                actual: named,
                expected,
            });
        }
        let bare = rest.strip_prefix('v').unwrap_or(rest);
        let numbers = bare.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        // As a constraint it would be possible, but no version of a tool has four segments.
        let is_release = !numbers || bare.split('.').count() <= 3;
        match VersionSelector::parse(rest) {
            Ok(_) if !is_release => {
                Err(RequestedVersionError::Unreadable { text: text.to_owned() })
            }
            Ok(VersionSelector::Within(exactly)) if numbers => {
                let selector =
                    VersionSelector::Within(Constraint::beginning_with(bare).unwrap_or(exactly));
                Ok(Self { product: named, selector })
            }
            Ok(VersionSelector::NewestAllowed | VersionSelector::OldestAllowed) => {
                Err(RequestedVersionError::ForFiles { text: rest.to_owned() })
            }
            Ok(selector) => Ok(Self { product: named, selector }),
            Err(_) => Err(RequestedVersionError::Unreadable { text: text.to_owned() }),
        }
    }

    /// As [`Self::of_argument`], for a run: the name of a product alone, such as `terragrunt`, takes the version that
    /// the module names.
    ///
    /// # Errors
    /// If it is neither a version nor a product.
    pub fn of_run(text: &str) -> Result<Self, RequestedVersionError> {
        match Product::named(text.trim()) {
            Some(product) => Ok(Self { product, selector: VersionSelector::OfModule }),
            None => Self::of_argument(text, None),
        }
    }

    /// Whether the request can mean `tool`. A request without a version and a constraint can mean each version of its
    /// product.
    #[must_use]
    pub fn allows(&self, tool: &ToolRequest) -> bool {
        let is_within = |constraint: &Constraint| {
            constraint.allows(&tool.version) || constraint.allows(&core(&tool.version))
        };
        self.product == tool.product
            && match &self.selector {
                VersionSelector::Exact(version) => *version == tool.version,
                VersionSelector::Within(constraint) | VersionSelector::Newest(Some(constraint)) => {
                    is_within(constraint)
                }
                VersionSelector::Newest(None)
                | VersionSelector::NewestAllowed
                | VersionSelector::OldestAllowed
                | VersionSelector::OfModule => true,
            }
    }

    /// The exact version.
    ///
    /// # Errors
    /// If it can be several versions.
    pub fn exact(&self) -> Result<ToolRequest, RequestedVersionError> {
        match &self.selector {
            VersionSelector::Exact(version) => {
                Ok(ToolRequest { product: self.product, version: version.clone() })
            }
            _ => Err(RequestedVersionError::Inexact { product: self.product }),
        }
    }

    /// The versions of `product` in `file`: none, one, or several, of which the first installed one is requested.
    ///
    /// # Errors
    /// If a line that names `product` is not a version or a constraint.
    pub fn of_file(file: &VersionFile, product: Product) -> Result<Vec<Self>, ConstraintError> {
        let mut lines = file
            .text
            .trim_start_matches('\u{feff}')
            .lines()
            .map(|line| unquoted(line.split('#').next().unwrap_or_default().trim()))
            .filter(|line| !line.is_empty());
        match file.kind {
            VersionFileKind::Of(meant) | VersionFileKind::Switch(meant) => {
                let Some(line) = lines.next() else { return Ok(Vec::new()) };
                let (named, rest) = split_product(line, meant);
                let rest = unquoted(rest);
                if named != product {
                    return Ok(Vec::new());
                }
                Ok(vec![Self { product, selector: VersionSelector::parse(rest)? }])
            }
            VersionFileKind::ToolVersions => {
                let names = [product.name(), product.executable()];
                let versions = lines.find_map(|line| {
                    let (name, versions) = line.split_once(char::is_whitespace)?;
                    names.contains(&name).then_some(versions)
                });
                versions
                    .unwrap_or_default()
                    .split_whitespace()
                    .map(unquoted)
                    .filter(|version| !is_local_asdf_version(version))
                    .map(|version| Ok(Self { product, selector: VersionSelector::parse(version)? }))
                    .collect()
            }
        }
    }
}

/// The text without quotes around it, as a line that was copied from a configuration has them.
fn unquoted(text: &str) -> &str {
    let inner = |quote: char| text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    inner('"').or_else(|| inner('\'')).map_or(text, str::trim)
}

/// Whether asdf does not use a release for this version.
fn is_local_asdf_version(version: &str) -> bool {
    version == "system" || version.starts_with("ref:") || version.starts_with("path:")
}

/// The product that `text` names, else `default`, and the rest of `text`.
fn split_product(text: &str, default: Product) -> (Product, &str) {
    Product::of_prefix(text).map_or((default, text), |(named, rest)| (named, rest.trim_start()))
}

impl VersionSelector {
    fn parse(text: &str) -> Result<Self, ConstraintError> {
        match text {
            "latest" | "latest-stable" => return Ok(Self::Newest(None)),
            NEWEST_ALLOWED => return Ok(Self::NewestAllowed),
            OLDEST_ALLOWED => return Ok(Self::OldestAllowed),
            _ => {}
        }
        if let Some(beginning) = text.strip_prefix("latest:") {
            let constraint = Constraint::beginning_with(beginning);
            let constraint = constraint.ok_or_else(|| ConstraintError { text: text.to_owned() })?;
            return Ok(Self::Newest(Some(constraint)));
        }
        match text.strip_prefix('v').unwrap_or(text).parse() {
            Ok(version) => Ok(Self::Exact(version)),
            Err(_) => Ok(Self::Within(text.parse()?)),
        }
    }
}

impl std::str::FromStr for ToolRequest {
    type Err = ParseRequestError;

    /// Parses `1.9.0`, `v1.9.0`, `terraform-1.9.0`, `opentofu-1.8.3`, `tofu-1.8.3`, `tofu@1.8.3` or
    /// `terragrunt-0.99.1`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let exact = RequestedVersion::of_argument(text, None).and_then(|wanted| wanted.exact());
        exact.map_err(|_| ParseRequestError { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_argument(text: &str, product: Option<Product>) -> String {
        match RequestedVersion::of_argument(text, product) {
            Ok(RequestedVersion { product, selector }) => match selector {
                VersionSelector::Exact(version) => format!("{product} {version}"),
                VersionSelector::Within(constraint) => format!("{product} within {constraint}"),
                VersionSelector::Newest(None) => format!("{product} newest"),
                VersionSelector::Newest(Some(constraint)) => {
                    format!("{product} newest {constraint}")
                }
                other => format!("{product} {other:?}"),
            },
            Err(error) => format!("{error}; {}", error.advice().unwrap()),
        }
    }

    #[test]
    fn arguments_are_parsed_as_users_type_them() {
        let tofu = Some(Product::OpenTofu);
        for (text, product, read) in [
            ("1.9.8", None, "terraform 1.9.8"),
            (" v1.9.8 ", None, "terraform 1.9.8"),
            ("1.15.0-rc1", None, "terraform 1.15.0-rc1"),
            ("opentofu-1.8.3", None, "opentofu 1.8.3"),
            ("tofu-v1.8.3", tofu, "opentofu 1.8.3"),
            ("tofu@1.8.3", None, "opentofu 1.8.3"),
            ("opentofu@1.8", None, "opentofu within ~> 1.8.0"),
            ("tofu@latest", None, "opentofu newest"),
            ("terraform@v1.9.8", None, "terraform 1.9.8"),
            ("1.9", None, "terraform within ~> 1.9.0"),
            ("v1", None, "terraform within ~> 1.0"),
            ("1.8.3", tofu, "opentofu 1.8.3"),
            ("terragrunt-latest", None, "terragrunt newest"),
            ("~> 1.9", None, "terraform within ~> 1.9"),
            ("opentofu-~> 1.8", None, "opentofu within ~> 1.8"),
            (">= 1.6, < 2, != 1.7.0", None, "terraform within >= 1.6, < 2, != 1.7.0"),
            ("= 1.9", None, "terraform within = 1.9"),
            ("latest", None, "terraform newest"),
            ("latest-stable", None, "terraform newest"),
            ("opentofu-latest-stable", None, "opentofu newest"),
            ("terraform 1.9.8", None, "terraform 1.9.8"),
            ("tofu 1.8", None, "opentofu within ~> 1.8.0"),
            (">= 1.05", None, "terraform within >= 1.05"),
            ("latest:^1.9", None, "terraform newest ~> 1.9.0"),
            (r"latest:^1\.9\.", None, "terraform newest ~> 1.9.0"),
            ("latest:1", tofu, "opentofu newest ~> 1.0"),
        ] {
            assert_eq!(of_argument(text, product), read, "{text}");
        }
    }

    #[test]
    fn error_of_an_unusable_argument_contains_a_hint() {
        assert_eq!(
            of_argument("terraform-1.9.8", Some(Product::OpenTofu)),
            "`terraform-1.9.8` is a version of terraform, not of opentofu; leave out --product, or give --product terraform"
        );
        for text in ["", "newest", "^1.9", "1.2.3.4", ">= 1 < 2", "latest:^1.9|2", "latest:"] {
            assert!(of_argument(text, None).contains("is neither a version"), "{text}");
        }
        for text in ["latest-allowed", "min-required"] {
            assert!(of_argument(text, None).contains("--latest"), "{text}");
        }
    }

    fn of_file(kind: VersionFileKind, text: &str, product: Product) -> Vec<String> {
        let file = VersionFile { kind, place: kind.name().to_owned(), text: text.to_owned() };
        let wanted = RequestedVersion::of_file(&file, product).unwrap();
        wanted.into_iter().map(|wanted| format!("{:?}", wanted.selector)).collect()
    }

    #[test]
    fn version_file_is_for_its_product_unless_it_names_another() {
        let file = VersionFileKind::Of(Product::Terraform);
        let exact =
            |version: &str| vec![format!("{:?}", VersionSelector::Exact(version.parse().unwrap()))];
        let none: Vec<String> = Vec::new();
        for (text, product, said) in [
            ("\u{feff}# ours\n\n v1.9.8 # pinned\r\n1.9.7\n", Product::Terraform, exact("1.9.8")),
            ("1.9.8", Product::OpenTofu, none.clone()),
            ("opentofu-1.8.3", Product::OpenTofu, exact("1.8.3")),
            ("opentofu-1.8.3", Product::Terraform, none.clone()),
            ("terraform 1.9.8", Product::Terraform, exact("1.9.8")),
            ("terraform\tv1.9.8", Product::Terraform, exact("1.9.8")),
            ("terraform \"1.9.8\"", Product::Terraform, exact("1.9.8")),
            ("\"1.9.8\"\n", Product::Terraform, exact("1.9.8")),
            ("'1.9.8' # pinned", Product::Terraform, exact("1.9.8")),
            ("'terraform 1.9.8'", Product::Terraform, exact("1.9.8")),
            ("\"opentofu-1.8.3\"", Product::OpenTofu, exact("1.8.3")),
            ("tofu 1.8.3", Product::OpenTofu, exact("1.8.3")),
            ("tofu 1.8.3", Product::Terraform, none.clone()),
            ("latest-stable", Product::Terraform, vec!["Newest(None)".to_owned()]),
            ("# nothing\n", Product::Terraform, none),
        ] {
            assert_eq!(of_file(file, text, product), said, "{text}");
        }
    }

    #[test]
    fn line_of_tool_versions_can_contain_several_versions() {
        let text = "# tools\nnodejs 20.1.0\nterraform  1.9.8\t\"1.8.5\" # old\nopentofu system 1.8.3\n\
                    terragrunt path:/opt/terragrunt\nterraform-ls 0.33.0\n";
        let said = |product| of_file(VersionFileKind::ToolVersions, text, product);
        let exact =
            |version: &str| format!("{:?}", VersionSelector::Exact(version.parse().unwrap()));
        assert_eq!(said(Product::Terraform), [exact("1.9.8"), exact("1.8.5")]);
        assert_eq!(said(Product::OpenTofu), [exact("1.8.3")]);
        assert!(said(Product::Terragrunt).is_empty());
    }

    #[test]
    fn version_can_contain_the_product() {
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
    fn text_that_is_not_a_version_is_refused() {
        for text in ["", "latest", "1.9", "tofu@1.8", "opentofu-", "../1.9.0", "1.9.0/.."] {
            assert!(text.parse::<ToolRequest>().is_err(), "{text}");
        }
    }
}
