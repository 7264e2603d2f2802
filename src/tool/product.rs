//! The tools that the runner can install; a product is a table entry, not a code path.
//!
//! An entry says what the product is called, who signs it, and where its vendor publishes what.
//! A mirror takes the place of the vendor's site and keeps the path of the official URL.

use url::Url;

use super::platform::Platform;
use super::sites::Mirror;
use crate::spec::{Product, ToolRequest};

/// What distinguishes one product from another.
struct Entry {
    signer: Signer,
    /// Where releases are: scheme, host and the directory of one version.
    releases: &'static str,
    /// What follows the name of the checksum file in the names of its signature, best first.
    signatures: &'static [&'static str],
    /// Where all versions are listed.
    index: &'static str,
}

/// The key that a vendor signs with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signer {
    /// The fingerprint of its primary key: what makes the certificate below the right one.
    pub(super) fingerprint: &'static str,
    /// The certificate, armored.
    pub(super) certificate: &'static [u8],
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
    // The name without the key's id may be by a key that was retired.
    signatures: &[".72D7468F.sig", ".sig"],
    index: "https://releases.hashicorp.com/terraform/index.json",
};

/// `.gpgsig` is the `OpenPGP` signature; `.sig` beside it belongs to cosign.
static OPENTOFU: Entry = Entry {
    signer: Signer {
        fingerprint: "E3E6E43D84CB852EADB0051D0C0AF313E5FD9F80",
        certificate: include_bytes!("keys/opentofu-E5FD9F80.asc"),
    },
    releases: "https://github.com/opentofu/opentofu/releases/download/v{version}/",
    signatures: &[".gpgsig"],
    index: "https://get.opentofu.org/tofu/api.json",
};

/// Signed with `OpenPGP` since January 2026.
static TERRAGRUNT: Entry = Entry {
    signer: Signer {
        fingerprint: "68C80F86DF98E710C0F22E2E577774ACA847CC49",
        certificate: include_bytes!("keys/terragrunt-A847CC49.asc"),
    },
    releases: "https://github.com/gruntwork-io/terragrunt/releases/download/v{version}/",
    signatures: &[".gpgsig"],
    index: "https://api.github.com/repos/gruntwork-io/terragrunt/releases",
};

impl Product {
    const fn entry(self) -> &'static Entry {
        match self {
            Self::Terraform => &TERRAFORM,
            Self::OpenTofu => &OPENTOFU,
            Self::Terragrunt => &TERRAGRUNT,
        }
    }

    /// Who signs its releases.
    pub(super) const fn signer(self) -> Signer {
        self.entry().signer
    }

    /// Where all its versions are listed.
    pub(super) fn index(self, mirror: Option<&Mirror>) -> Url {
        located(self.entry().index, mirror)
    }
}

/// Where the files of one release are.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Release {
    /// The archive's name, as the checksum file has it.
    pub(super) archive_name: String,
    /// The archive.
    pub(super) archive: Url,
    /// The checksum file.
    pub(super) checksums: Url,
    /// Its signature: the first of these that exists.
    pub(super) signatures: Vec<Url>,
}

impl Release {
    /// Where the vendor, or the mirror, keeps `request` for `platform`.
    pub(super) fn of(request: &ToolRequest, platform: Platform, mirror: Option<&Mirror>) -> Self {
        let entry = request.product.entry();
        let version = request.version.to_string();
        let directory = entry.releases.replace("{version}", &version);
        let url = |name: &str| located(&format!("{directory}{name}"), mirror);
        let archive_name = format!("{}_{version}_{platform}.zip", request.product.executable());
        let checksums = format!("{}_{version}_SHA256SUMS", request.product.executable());
        Self {
            archive: url(&archive_name),
            archive_name,
            signatures: entry.signatures.iter().map(|s| url(&format!("{checksums}{s}"))).collect(),
            checksums: url(&checksums),
        }
    }

    /// The same release where its archive is at `archive` and the other files are beside it.
    pub(super) fn beside(self, archive: Url) -> Self {
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
        }
    }
}

/// `official`, or where the mirror keeps it.
fn located(official: &str, mirror: Option<&Mirror>) -> Url {
    let official =
        Url::parse(official).expect("the table above holds URLs, and a version cannot break one");
    match mirror {
        None => official,
        Some(mirror) => mirror.locate(official),
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
    fn files_are_where_the_vendors_put_them() {
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
    }

    #[test]
    fn files_of_a_release_are_beside_an_archive_that_was_given() {
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
    fn mirror_takes_the_path_of_the_official_url() {
        for base in ["https://mirror.example/tools/", "https://mirror.example/tools"] {
            assert_eq!(
                urls("opentofu-1.8.5", Some(base))[1],
                "https://mirror.example/tools/opentofu/opentofu/releases/download/v1.8.5/tofu_1.8.5_SHA256SUMS"
            );
        }
        let mirror = Mirror::Base("http://127.0.0.1:1?key=a".parse().unwrap());
        assert_eq!(
            Product::OpenTofu.index(Some(&mirror)).as_str(),
            "http://127.0.0.1:1/tofu/api.json?key=a"
        );
    }
}
