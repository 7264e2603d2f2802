//! The tools that the runner can install; a product is a table entry, not a code path.
//!
//! An entry has the file names of a product, its signer, and the URLs of its vendor. A mirror
//! replaces the vendor's site and keeps the path of the official URL.

use semver::Version;
use url::Url;

use crate::tool::fetch::sites::Mirror;
use crate::tool::vendor::platform::Platform;
use butler_protocol::spec::{Product, ToolRequest};

/// The data of one product. In its texts, `{version}` and `{platform}` are replaced by those of the
/// release.
struct Entry {
    signer: Signer,
    /// Where releases are: scheme, host and the directory of one version.
    releases: &'static str,
    /// The file with the executable in it.
    file: &'static str,
    packaging: Packaging,
    /// The file with the sums of all files of the release.
    checksums: &'static str,
    /// What follows the name of the checksum file in the names of its signature, best first.
    signatures: &'static [&'static str],
    /// The first version of which a signature is demanded, where earlier ones may have none and
    /// are still taken from the vendor's own site.
    signed_since: Option<Version>,
    /// Where all versions are listed.
    index: Index,
    /// What makes the executable tell its version.
    version_question: &'static [&'static str],
    /// The Go package of its executable.
    package: &'static str,
}

/// How the executable is wrapped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::tool) enum Packaging {
    /// In a zip archive, by its own name.
    Zip,
    /// Not at all: the file is the executable.
    Bare,
}

/// Where all versions of a product are listed.
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
    /// The fingerprint of its primary key: what makes the certificate below the right one.
    pub(in crate::tool) fingerprint: &'static str,
    /// The certificate, armored.
    pub(in crate::tool) certificate: &'static [u8],
}

/// `HashiCorp`'s key expired in April 2026 and was renewed under the same fingerprint. The file
/// holds both generations of self-signatures: with the old ones alone new releases do not verify,
/// with the new ones alone old releases do not.
static TERRAFORM: Entry = Entry {
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
    version_question: &["version", "-json"],
    package: "github.com/hashicorp/terraform",
};

/// `.gpgsig` is the `OpenPGP` signature; `.sig` beside it belongs to cosign.
static OPENTOFU: Entry = Entry {
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
    version_question: &["version", "-json"],
    package: "github.com/opentofu/opentofu/cmd/tofu",
};

/// Signed with `OpenPGP` since January 2026 (v0.98.0); before, there are checksums only.
static TERRAGRUNT: Entry = Entry {
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
    version_question: &["--version"],
    package: "github.com/gruntwork-io/terragrunt",
};

/// The vendor's entry of `product`.
const fn entry(product: Product) -> &'static Entry {
    match product {
        Product::Terraform => &TERRAFORM,
        Product::OpenTofu => &OPENTOFU,
        Product::Terragrunt => &TERRAGRUNT,
    }
}

/// How the vendor of a product publishes its releases.
pub(in crate::tool) trait Vendored {
    /// Who signs its releases.
    fn signer(self) -> Signer;

    /// How its executable is wrapped.
    fn packaging(self) -> Packaging;

    /// The first version that has a signature, where earlier ones may have none.
    fn signed_since(self) -> Option<&'static Version>;

    /// Whether the signed file name contains the version. If it does not, a site can serve one
    /// release for another, each with a valid signature.
    fn names_version(self) -> bool;

    /// The arguments with which its executable prints its version.
    fn version_question(self) -> &'static [&'static str];

    /// The Go package that its executable is built of.
    fn package(self) -> &'static str;

    /// Where all its versions are listed, and whether in pages.
    fn index(self, mirror: Option<&Mirror>) -> (Url, bool);
}

impl Vendored for Product {
    fn signer(self) -> Signer {
        entry(self).signer
    }

    fn packaging(self) -> Packaging {
        entry(self).packaging
    }

    fn signed_since(self) -> Option<&'static Version> {
        entry(self).signed_since.as_ref()
    }

    fn names_version(self) -> bool {
        entry(self).file.contains("{version}")
    }

    fn version_question(self) -> &'static [&'static str] {
        entry(self).version_question
    }

    fn package(self) -> &'static str {
        entry(self).package
    }

    fn index(self, mirror: Option<&Mirror>) -> (Url, bool) {
        match entry(self).index {
            Index::Whole(url) => (located(url, mirror), false),
            Index::Paged(url) => (located(url, mirror), true),
        }
    }
}

/// Where the files of one release are.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::tool) struct Release {
    /// The archive's name, as the checksum file has it.
    pub(in crate::tool) archive_name: String,
    /// The archive.
    pub(in crate::tool) archive: Url,
    /// The checksum file.
    pub(in crate::tool) checksums: Url,
    /// Its signature: the first of these that exists.
    pub(in crate::tool) signatures: Vec<Url>,
    /// Whether it may have no signature. A mirror could leave it out and hand out anything, so only
    /// the vendor's own site, over TLS, may have none.
    pub(in crate::tool) may_be_unsigned: bool,
}

impl Release {
    /// Where the vendor, or the mirror, keeps `request` for `platform`.
    pub(in crate::tool) fn of(
        request: &ToolRequest,
        platform: Platform,
        mirror: Option<&Mirror>,
    ) -> Self {
        let entry = entry(request.product);
        let (version, platform) = (request.version.to_string(), platform.to_string());
        let name =
            |text: &str| text.replace("{version}", &version).replace("{platform}", &platform);
        let url = |file: &str| located(&format!("{}{file}", name(entry.releases)), mirror);
        let (archive_name, checksums) = (name(entry.file), name(entry.checksums));
        let since = request.product.signed_since();
        Self {
            archive: url(&archive_name),
            archive_name,
            signatures: entry.signatures.iter().map(|s| url(&format!("{checksums}{s}"))).collect(),
            checksums: url(&checksums),
            may_be_unsigned: mirror.is_none()
                && since.is_some_and(|since| request.version < *since),
        }
    }

    /// The same release where its archive is at `archive` and the other files are beside it.
    pub(in crate::tool) fn beside(self, archive: Url) -> Self {
        let sibling = |file: &Url| {
            let mut url = archive.clone();
            let name = file.path_segments().and_then(|mut segments| segments.next_back());
            if let Ok(mut segments) = url.path_segments_mut() {
                segments.pop().push(name.unwrap_or_default());
            }
            url
        };
        Self {
            archive_name: self.archive_name,
            checksums: sibling(&self.checksums),
            signatures: self.signatures.iter().map(sibling).collect(),
            archive,
            // Not the vendor's own site any more.
            may_be_unsigned: false,
        }
    }
}

/// `official`, or its URL on the mirror.
fn located(official: &str, mirror: Option<&Mirror>) -> Url {
    let official =
        Url::parse(official).expect("the table above holds URLs, and a version cannot break one");
    match mirror {
        None => official,
        Some(mirror) => mirror.locate(official),
    }
}

/// The URL of the checksum file of a release of `product`, or its directory if the file name does not
/// contain the version. For tests of what settings mean.
#[cfg(test)]
pub(crate) fn checksums_directory(sites: &crate::tool::Sites, product: Product) -> String {
    let version = Version::new(1, 0, 0);
    let request = ToolRequest { product, version };
    let platform = Platform { system: "linux", architecture: "amd64" };
    let release = Release::of(&request, platform, sites.mirror(product));
    let place = release.checksums.to_string();
    match product {
        Product::Terragrunt => place[..=place.rfind('/').unwrap()].to_owned(),
        _ => place,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls(request: &str, mirror: Option<&str>) -> Vec<String> {
        let mirror = mirror.map(|mirror| Mirror::Base(mirror.parse().unwrap()));
        let platform = Platform { system: "linux", architecture: "amd64" };
        let release = Release::of(&request.parse().unwrap(), platform, mirror.as_ref());
        let mut urls = vec![release.archive, release.checksums];
        urls.extend(release.signatures);
        urls.into_iter().map(String::from).collect()
    }

    #[test]
    fn release_urls_are_those_of_the_vendors() {
        assert_eq!(
            urls("1.9.8", None),
            [
                "https://releases.hashicorp.com/terraform/1.9.8/terraform_1.9.8_linux_amd64.zip",
                "https://releases.hashicorp.com/terraform/1.9.8/terraform_1.9.8_SHA256SUMS",
                "https://releases.hashicorp.com/terraform/1.9.8/terraform_1.9.8_SHA256SUMS.72D7468F.sig",
                "https://releases.hashicorp.com/terraform/1.9.8/terraform_1.9.8_SHA256SUMS.sig",
            ]
        );
        let base = "https://github.com/opentofu/opentofu/releases/download/v1.8.5";
        assert_eq!(
            urls("opentofu-1.8.5", None),
            ["_linux_amd64.zip", "_SHA256SUMS", "_SHA256SUMS.gpgsig"]
                .map(|name| format!("{base}/tofu_1.8.5{name}"))
        );
        let base = "https://github.com/gruntwork-io/terragrunt/releases/download/v0.99.1";
        assert_eq!(
            urls("terragrunt-0.99.1", None),
            ["terragrunt_linux_amd64", "SHA256SUMS", "SHA256SUMS.gpgsig"]
                .map(|name| format!("{base}/{name}"))
        );
    }

    #[test]
    fn checksum_file_and_signature_are_next_to_the_given_archive() {
        let platform = Platform { system: "linux", architecture: "amd64" };
        let release = Release::of(&"1.9.8".parse().unwrap(), platform, None);
        let archive: Url = "https://own.example/files/ours.zip?key=a".parse().unwrap();
        let release = release.beside(archive.clone());
        assert_eq!(
            (release.archive, release.archive_name.as_str()),
            (archive, "terraform_1.9.8_linux_amd64.zip")
        );
        let base = "https://own.example/files/terraform_1.9.8_SHA256SUMS";
        assert_eq!(release.checksums.as_str(), format!("{base}?key=a"));
        assert_eq!(release.signatures[1].as_str(), format!("{base}.sig?key=a"));
    }

    #[test]
    fn mirror_keeps_the_path_of_the_official_url() {
        for base in ["https://mirror.example/tools/", "https://mirror.example/tools"] {
            assert_eq!(
                urls("opentofu-1.8.5", Some(base))[1],
                "https://mirror.example/tools/opentofu/opentofu/releases/download/v1.8.5/tofu_1.8.5_SHA256SUMS"
            );
        }
        let mirror = Mirror::Base("http://127.0.0.1:1?key=a".parse().unwrap());
        assert_eq!(
            Product::OpenTofu.index(Some(&mirror)).0.as_str(),
            "http://127.0.0.1:1/tofu/api.json?key=a"
        );
    }

    #[test]
    fn release_may_be_unsigned_only_from_the_vendor_before_it_signed() {
        let platform = Platform { system: "linux", architecture: "amd64" };
        let mirror = Mirror::Base("https://mirror.example/".parse().unwrap());
        for (request, from_vendor) in [
            ("terragrunt-0.97.2", true),
            ("terragrunt-0.98.0-rc1", true),
            ("terragrunt-0.98.0", false),
            ("terragrunt-1.0.0", false),
            ("opentofu-1.6.0", false),
            ("1.0.11", false),
        ] {
            let request = request.parse().unwrap();
            let may = |mirror| Release::of(&request, platform, mirror).may_be_unsigned;
            assert_eq!((may(None), may(Some(&mirror))), (from_vendor, false), "{request}");
        }
    }
}
