//! The lists of versions in a bundle, in the vendors' formats; without them a version is not found.
//!
//! An existing bundle grows: the entries of its lists stay, including other platforms of the same
//! version. A list of unknown format is not replaced.

use serde_json::{Value, json};
use url::Url;

use crate::tool::vendor::platform::Platform;
use crate::tool::vendor::release_urls::Release;
use butler_protocol::spec::{Product, ToolRequest};

/// A release in the lists of versions.
pub(super) struct BundledRelease {
    pub(super) request: ToolRequest,
    pub(super) official: Release,
    pub(super) builds: Vec<(Platform, Release)>,
}

impl BundledRelease {
    /// The entry in the list of versions of Terraform.
    fn to_terraform_entry(&self) -> Value {
        let version = self.request.version.to_string();
        let name = |url: &Url| {
            url.path_segments()
                .and_then(|mut parts| parts.next_back())
                .unwrap_or_default()
                .to_owned()
        };
        let builds = self.builds.iter().map(|(platform, release)| {
            json!({
                "name": "terraform", "version": version,
                "os": platform.system, "arch": platform.architecture,
                "filename": release.archive_name, "url": release.archive.as_str(),
            })
        });
        let signatures: Vec<_> = self.official.signatures.iter().map(name).collect();
        json!({
            "name": "terraform", "version": version,
            "shasums": name(&self.official.checksums),
            "shasums_signature": signatures.first(), "shasums_signatures": signatures,
            "builds": builds.collect::<Vec<_>>(),
        })
    }

    fn file_names(&self) -> Vec<&str> {
        self.builds.iter().map(|(_, release)| release.archive_name.as_str()).collect()
    }
}

/// Whether this can be the list of versions of `product`.
pub(super) fn is_list(product: Product, list: &Value) -> bool {
    match product {
        Product::Terraform => list["versions"].is_object(),
        Product::OpenTofu => list["versions"].is_array(),
        Product::Terragrunt => list.is_array(),
    }
}

/// The list of versions: `entries`, and the other versions of the list `known`.
pub(super) fn list(product: Product, known: Option<Value>, entries: &[BundledRelease]) -> Value {
    let version = |entry: &BundledRelease| entry.request.version.to_string();
    match product {
        Product::Terraform => {
            let mut list = known.unwrap_or_else(|| json!({"name": "terraform", "versions": {}}));
            for entry in entries {
                let mut added = entry.to_terraform_entry();
                let known = &list["versions"][version(entry)];
                merge_files(&mut added, known, "builds", "filename");
                list["versions"][version(entry)] = added;
            }
            list
        }
        Product::OpenTofu => {
            let known = known.map(|known| known["versions"].clone());
            let added = |entry| json!({"id": version(entry), "files": entry.file_names()});
            let added = entries.iter().map(added);
            json!({"versions": merge_versions(known, "id", ("files", ""), added)})
        }
        Product::Terragrunt => {
            let added = |entry: &BundledRelease| {
                let tag = format!("v{}", entry.request.version);
                let assets = entry.file_names().into_iter().map(|name| json!({"name": name}));
                let prerelease = !entry.request.version.pre.is_empty();
                json!({
                    "tag_name": tag, "draft": false, "prerelease": prerelease,
                    "assets": assets.collect::<Vec<_>>(),
                })
            };
            let added = entries.iter().map(added);
            Value::Array(merge_versions(known, "tag_name", ("assets", "name"), added))
        }
    }
}

/// The version of `entry` in a list of versions of Terraform.
pub(super) fn version_of<'list>(list: &'list Value, entry: &BundledRelease) -> &'list Value {
    &list["versions"][entry.request.version.to_string()]
}

/// `added`, followed by the `known` versions that are not among them. `name` is the key of a version's
/// name, `files` the keys of its files and of their names.
fn merge_versions(
    known: Option<Value>,
    name: &str,
    files: (&str, &str),
    added: impl Iterator<Item = Value>,
) -> Vec<Value> {
    let mut list: Vec<Value> = added.collect();
    let Some(Value::Array(known)) = known else { return list };
    for entry in known {
        match list.iter_mut().find(|added| added[name] == entry[name]) {
            Some(added) => merge_files(added, &entry, files.0, files.1),
            None => list.push(entry),
        }
    }
    list
}

/// Adds the other files of the `known` version to `version`. Files are strings, or objects whose name
/// is at the key `name`.
fn merge_files(version: &mut Value, known: &Value, files: &str, name: &str) {
    let name_of = |file: &Value| if name.is_empty() { file.clone() } else { file[name].clone() };
    let (Some(list), Some(known)) = (version[files].as_array_mut(), known[files].as_array()) else {
        return;
    };
    for file in known {
        if list.iter().all(|added| name_of(added) != name_of(file)) {
            list.push(file.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(version: &str, platform: &str) -> BundledRelease {
        let request: ToolRequest = version.parse().unwrap();
        let platform = platform.parse().unwrap();
        let official = Release::of(&request, platform, None);
        BundledRelease { request, builds: vec![(platform, official.clone())], official }
    }

    #[test]
    fn list_keeps_known_versions_and_platforms() {
        for (first, other, files) in [
            ("1.9.8", "1.9.9", "/versions/1.9.8/builds"),
            ("opentofu-1.8.5", "opentofu-1.8.6", "/versions/0/files"),
            ("terragrunt-0.99.1", "terragrunt-0.99.2", "/0/assets"),
        ] {
            let product = entry(first, "linux_amd64").request.product;
            let mut known = None;
            for (version, platform) in [
                (other, "linux_amd64"),
                (first, "linux_amd64"),
                (first, "linux_arm64"),
                (first, "linux_amd64"),
            ] {
                let grown = list(product, known, &[entry(version, platform)]);
                assert!(is_list(product, &grown));
                known = Some(grown);
            }
            let known = known.unwrap();
            let files = known.pointer(files).unwrap().to_string();
            assert_eq!(files.matches("linux_").count() % 2, 0, "{files}");
            assert_eq!(
                known.pointer("/versions").unwrap_or(&known).as_array().map_or(2, Vec::len),
                2
            );
            for platform in ["linux_amd64", "linux_arm64"] {
                assert!(files.contains(platform), "{files}");
            }
        }
    }
}
