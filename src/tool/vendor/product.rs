//! The tools that the runner can install; a product is a table entry, not a code path.
//!
//! An entry has the file names of a product, its signer, and the URLs of its vendor. A mirror
//! replaces the vendor's site and keeps the path of the official URL.

use semver::Version;
use url::Url;

use crate::tool::fetch::sites::Mirror;
use butler_protocol::spec::Product;

/// The data of one product. In its texts, `{version}` and `{platform}` are replaced by those of the
/// release.
pub(in crate::tool) struct ProductData {
    signer: Signer,
    /// The URL of the directory of one version.
    pub(in crate::tool) releases: &'static str,
    /// The file with the executable in it.
    pub(in crate::tool) file: &'static str,
    packaging: Packaging,
    /// The file with the checksums of all files of the release.
    pub(in crate::tool) checksums: &'static str,
    /// The suffixes of the signatures of the checksum file, best first.
    pub(in crate::tool) signatures: &'static [&'static str],
    /// The first version that must be signed. Earlier versions may be unsigned on the vendor's own site.
    signed_since: Option<Version>,
    /// The list of versions.
    index: Index,
    /// The arguments with which the executable prints its version.
    version_arguments: &'static [&'static str],
    /// The Go package of its executable.
    package: &'static str,
}

/// The format of a release file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::tool) enum Packaging {
    /// In a zip archive, by its own name.
    Zip,
    /// The file is the executable.
    Bare,
}

/// The list of versions of a product.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::tool) enum Index {
    /// In one file.
    Whole(&'static str),
    /// In pages, by GitHub's rules for lists.
    Paged(&'static str),
}

/// The key that a vendor signs with.
#[derive(Clone, Copy, Debug)]
pub(in crate::tool) struct Signer {
    /// The pinned fingerprint of its primary key.
    pub(in crate::tool) fingerprint: &'static str,
    /// The certificate, armored.
    pub(in crate::tool) certificate: &'static [u8],
}

/// `HashiCorp`'s key expired in April 2026 and was renewed under the same fingerprint. The file
/// holds both generations of self-signatures: with the old ones alone new releases do not verify,
/// with the new ones alone old releases do not.
static TERRAFORM: ProductData = ProductData {
    signer: Signer {
        fingerprint: "C874011F0AB405110D02105534365D9472D7468F",
        certificate: include_bytes!("keys/hashicorp-72D7468F.asc"),
    },
    releases: "https://releases.hashicorp.com/terraform/{version}/",
    file: "terraform_{version}_{platform}.zip",
    packaging: Packaging::Zip,
    checksums: "terraform_{version}_SHA256SUMS",
    // The name without the key's id may be by a key that was retired.
    signatures: &[".72D7468F.sig", ".sig"],
    signed_since: None,
    index: Index::Whole("https://releases.hashicorp.com/terraform/index.json"),
    version_arguments: &["version"],
    package: "github.com/hashicorp/terraform",
};

/// `.gpgsig` is the `OpenPGP` signature; `.sig` beside it belongs to cosign.
static OPENTOFU: ProductData = ProductData {
    signer: Signer {
        fingerprint: "E3E6E43D84CB852EADB0051D0C0AF313E5FD9F80",
        certificate: include_bytes!("keys/opentofu-E5FD9F80.asc"),
    },
    releases: "https://github.com/opentofu/opentofu/releases/download/v{version}/",
    file: "tofu_{version}_{platform}.zip",
    packaging: Packaging::Zip,
    checksums: "tofu_{version}_SHA256SUMS",
    signatures: &[".gpgsig"],
    signed_since: None,
    index: Index::Whole("https://get.opentofu.org/tofu/api.json"),
    version_arguments: &["version"],
    package: "github.com/opentofu/opentofu/cmd/tofu",
};

/// Signed with `OpenPGP` since January 2026 (v0.98.0); before, there are checksums only.
static TERRAGRUNT: ProductData = ProductData {
    signer: Signer {
        fingerprint: "68C80F86DF98E710C0F22E2E577774ACA847CC49",
        certificate: include_bytes!("keys/terragrunt-A847CC49.asc"),
    },
    releases: "https://github.com/gruntwork-io/terragrunt/releases/download/v{version}/",
    file: "terragrunt_{platform}",
    packaging: Packaging::Bare,
    checksums: "SHA256SUMS",
    signatures: &[".gpgsig"],
    signed_since: Some(Version::new(0, 98, 0)),
    index: Index::Paged("https://api.github.com/repos/gruntwork-io/terragrunt/releases"),
    version_arguments: &["--version"],
    package: "github.com/gruntwork-io/terragrunt",
};

/// The data of `product`.
pub(in crate::tool) const fn product_data(product: Product) -> &'static ProductData {
    match product {
        Product::Terraform => &TERRAFORM,
        Product::OpenTofu => &OPENTOFU,
        Product::Terragrunt => &TERRAGRUNT,
    }
}

/// How the vendor of a product publishes its releases.
pub(in crate::tool) trait Vendored {
    /// The key that signs its releases.
    fn signer(self) -> Signer;

    /// The format of its release files.
    fn packaging(self) -> Packaging;

    /// The first version that must be signed, if earlier versions are unsigned.
    fn signed_since(self) -> Option<&'static Version>;

    /// Whether the signed file name contains the version. If it does not, a site can serve one
    /// release for another, each with a valid signature.
    fn names_version(self) -> bool;

    /// The arguments with which its executable prints its version.
    fn version_arguments(self) -> &'static [&'static str];

    /// The Go package that its executable is built of.
    fn package(self) -> &'static str;

    /// The URL of the list of versions, and whether it has pages.
    fn index(self, mirror: Option<&Mirror>) -> (Url, bool);
}

impl Vendored for Product {
    fn signer(self) -> Signer {
        product_data(self).signer
    }

    fn packaging(self) -> Packaging {
        product_data(self).packaging
    }

    fn signed_since(self) -> Option<&'static Version> {
        product_data(self).signed_since.as_ref()
    }

    fn names_version(self) -> bool {
        product_data(self).file.contains("{version}")
    }

    fn version_arguments(self) -> &'static [&'static str] {
        product_data(self).version_arguments
    }

    fn package(self) -> &'static str {
        product_data(self).package
    }

    fn index(self, mirror: Option<&Mirror>) -> (Url, bool) {
        match product_data(self).index {
            Index::Whole(url) => (locate(url, mirror), false),
            Index::Paged(url) => (locate(url, mirror), true),
        }
    }
}

/// `official`, or its URL on the mirror.
pub(in crate::tool) fn locate(official: &str, mirror: Option<&Mirror>) -> Url {
    let official =
        Url::parse(official).expect("the table has valid URLs, and a version keeps them valid");
    match mirror {
        None => official,
        Some(mirror) => mirror.locate(official),
    }
}
