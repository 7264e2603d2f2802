//! The URLs of the files of a release, on the vendor's site or on a mirror.

#[cfg(test)]
use semver::Version;
use url::Url;

use crate::tool::fetch::sites::Mirror;
use crate::tool::vendor::platform::Platform;
use crate::tool::vendor::product::{Vendored as _, locate, product_data};
#[cfg(test)]
use butler_protocol::spec::Product;
use butler_protocol::spec::ToolRequest;

/// The URLs of the files of one release.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::tool) struct Release {
    /// The archive's name, as the checksum file has it.
    pub(in crate::tool) archive_name: String,
    /// The archive.
    pub(in crate::tool) archive: Url,
    /// The checksum file.
    pub(in crate::tool) checksums: Url,
    /// Its signatures; the first one that exists is used.
    pub(in crate::tool) signatures: Vec<Url>,
    /// Whether it may be unsigned. A mirror could omit the signature and serve any file, so this is
    /// allowed only on the vendor's own site, over TLS.
    pub(in crate::tool) may_be_unsigned: bool,
}

impl Release {
    /// The URLs of `request` for `platform` on the vendor's site or on the mirror.
    pub(in crate::tool) fn of(
        request: &ToolRequest,
        platform: Platform,
        mirror: Option<&Mirror>,
    ) -> Self {
        let data = product_data(request.product);
        let (version, platform) = (request.version.to_string(), platform.to_string());
        let name =
            |text: &str| text.replace("{version}", &version).replace("{platform}", &platform);
        let url = |file: &str| locate(&format!("{}{file}", name(data.releases)), mirror);
        let (archive_name, checksums) = (name(data.file), name(data.checksums));
        let since = request.product.signed_since();
        Self {
            archive: url(&archive_name),
            archive_name,
            signatures: data.signatures.iter().map(|s| url(&format!("{checksums}{s}"))).collect(),
            checksums: url(&checksums),
            may_be_unsigned: mirror.is_none()
                && since.is_some_and(|since| request.version < *since),
        }
    }

    /// The same release with the archive at `archive`, and the other files in the same directory.
    pub(in crate::tool) fn next_to(self, archive: Url) -> Self {
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
            // It is not on the vendor's own site.
            may_be_unsigned: false,
        }
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
        let release = release.next_to(archive.clone());
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
