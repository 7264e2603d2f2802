//! Gathers releases for machines without network: a directory, or a tar of it, laid out as the
//! vendors' sites are.
//!
//! What is in it was verified on the way in, and is verified again by who installs from it: it holds
//! the checksum files and their signatures, and is trusted with no more than any other mirror. Each
//! file appears at once and whole; the lists of versions, which make a version be found, come last.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use url::Url;

use crate::blocking::blocking;
use crate::spec::{Product, ToolRequest};
use crate::tool::ToolOptions;
use crate::tool::digest::Sha256Sum;
use crate::tool::error::{Meant, ToolError};
use crate::tool::fetch::download::Fetcher;
use crate::tool::fetch::release::{self, VerifiedArchive, Wanted};
use crate::tool::vendor::platform::Platform;
use crate::tool::vendor::product::Release;

/// A bundle cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write `{}`", path.display())]
pub struct BundleError {
    /// What.
    pub path: PathBuf,
    /// What the operating system said.
    #[source]
    pub source: io::Error,
}

impl crate::error::Advice for BundleError {
    fn advice(&self) -> Option<String> {
        Some("name a place that is writable and has room with --output".to_owned())
    }
}

/// Writes the releases of `requests` for `platforms` to `output`: a tar where it is called so, else
/// a directory, which may hold a bundle already. `progress` gets a line for each step.
///
/// # Errors
/// When something cannot be downloaded, verified or written.
pub async fn bundle(
    requests: &[ToolRequest],
    platforms: &[Platform],
    output: &Path,
    options: &ToolOptions,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<(), ToolError> {
    if output.extension().is_none_or(|extension| extension != "tar") {
        return gather(requests, platforms, output, options, progress).await;
    }
    let failed = failing(output);
    let place = std::path::absolute(output).map_err(&failed)?;
    let parent = place.parent().unwrap_or(&place).to_owned();
    // Beside the tar, because that is where there has to be room.
    let staged = tempfile::Builder::new().prefix(".bundle-").tempdir_in(parent).map_err(&failed)?;
    gather(requests, platforms, staged.path(), options, progress).await?;
    progress(&format!("writing {}", output.display()));
    let written = blocking(move |_| write_tar(staged.path(), &place)).await;
    written.map_err(failed)?;
    Ok(())
}

fn failing(path: &Path) -> impl Fn(io::Error) -> BundleError {
    let path = path.to_owned();
    move |source| BundleError { path: path.clone(), source }
}

async fn gather(
    requests: &[ToolRequest],
    platforms: &[Platform],
    root: &Path,
    options: &ToolOptions,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<(), ToolError> {
    let mut versions: BTreeMap<Product, Vec<Entry>> = BTreeMap::new();
    for request in requests {
        let entry = one(request, platforms, root, options, progress).await?;
        versions.entry(request.product).or_default().push(entry);
    }
    for (product, entries) in versions {
        let path = place(root, &product.index(None).0);
        let known = std::fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok());
        let index = index(product, known, &entries);
        write(&path, |file| file.write_all(index.to_string().as_bytes()))
            .map_err(failing(&path))?;
        for entry in entries.iter().filter(|_| product == Product::Terraform) {
            let path = place(root, &entry.official.checksums).with_file_name("index.json");
            let text = entry.terraform().to_string();
            write(&path, |file| file.write_all(text.as_bytes())).map_err(failing(&path))?;
        }
    }
    Ok(())
}

/// Fetches one release.
async fn one(
    request: &ToolRequest,
    platforms: &[Platform],
    root: &Path,
    options: &ToolOptions,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<Entry, ToolError> {
    let releases = |platform: Platform| {
        let mirror = options.sites.mirror(request.product);
        let of = |mirror| Release::of(request, platform, mirror);
        (of(mirror), of(None))
    };
    let (asked, official) = releases(platforms[0]);
    // What nobody signed could not be installed from the bundle.
    let asked = Release { may_be_unsigned: false, ..asked };
    let fetcher = Fetcher::new(request.product, options);
    let listing = release::listing(request, &asked, &fetcher, options, progress).await?;
    let signature = listing.signature.as_ref().map(|(url, signature)| {
        let position = asked.signatures.iter().position(|asked| asked == url);
        (place(root, &official.signatures[position.unwrap_or(0)]), signature)
    });
    let mut builds = Vec::new();
    for platform in platforms {
        let (asked, official) = releases(*platform);
        let sum = release::sum_of(request, &asked, &listing)?;
        let path = place(root, &official.archive);
        if !is_there(&path, sum).await {
            let trusted = listing.trusted.clone();
            let wanted = Wanted { sum, meant: Meant::Signed, trusted };
            let directory = path.parent().unwrap_or(root);
            std::fs::create_dir_all(directory).map_err(failing(directory))?;
            // A fetcher of its own: an archive has as long as one of `tool install`.
            let fetcher = Fetcher::new(request.product, options);
            let archive =
                release::archive(&fetcher, &asked, wanted, options, directory, progress).await?;
            let (written, target) = (path.clone(), path.clone());
            blocking(move |_| keep(archive, &written)).await.map_err(failing(&target))?;
        }
        builds.push((*platform, official));
    }
    let checksums = (place(root, &official.checksums), &listing.bytes);
    for (path, bytes) in std::iter::once(checksums).chain(signature) {
        write(&path, |file| file.write_all(bytes)).map_err(failing(&path))?;
    }
    Ok(Entry { request: request.clone(), official, builds })
}

/// Where a file of the vendor's is in a bundle.
fn place(root: &Path, official: &Url) -> PathBuf {
    root.join(official.path().trim_start_matches('/'))
}

/// Whether the archive is there from an earlier time.
async fn is_there(path: &Path, sum: Sha256Sum) -> bool {
    let path = path.to_owned();
    blocking(move |abandoned| {
        File::open(path).is_ok_and(|file| Sha256Sum::of(file, abandoned).ok() == Some(sum))
    })
    .await
}

fn keep(mut archive: VerifiedArchive, path: &Path) -> io::Result<()> {
    archive.file.seek(SeekFrom::Start(0))?;
    write(path, |file| io::copy(&mut archive.file, file).map(drop))
}

/// Writes a file beside, and puts it in place when it is whole. Everybody may read it.
fn write(path: &Path, content: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let directory = path.parent().unwrap_or(path);
    std::fs::create_dir_all(directory)?;
    let mut file = tempfile::Builder::new()
        .prefix(".bundle-")
        .permissions(std::fs::Permissions::from_mode(0o644))
        .tempfile_in(directory)?;
    content(file.as_file_mut())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

fn write_tar(root: &Path, path: &Path) -> io::Result<()> {
    write(path, |file| {
        let mut tar = tar::Builder::new(file);
        // Nobody's name and no time: the same releases make the same tar.
        tar.mode(tar::HeaderMode::Deterministic);
        tar.append_dir_all(".", root)?;
        tar.finish()
    })
}

/// A release as the lists of versions name it.
struct Entry {
    request: ToolRequest,
    official: Release,
    builds: Vec<(Platform, Release)>,
}

impl Entry {
    fn terraform(&self) -> Value {
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

    fn files(&self) -> Vec<&str> {
        self.builds.iter().map(|(_, release)| release.archive_name.as_str()).collect()
    }
}

/// The list of versions, in the vendor's shape: what is known, and `entries`.
fn index(product: Product, known: Option<Value>, entries: &[Entry]) -> Value {
    let version = |entry: &Entry| entry.request.version.to_string();
    match product {
        Product::Terraform => {
            let mut index = known
                .filter(|known| known["versions"].is_object())
                .unwrap_or_else(|| json!({"name": "terraform", "versions": {}}));
            for entry in entries {
                index["versions"][version(entry)] = entry.terraform();
            }
            index
        }
        Product::OpenTofu => {
            let known = known.map(|known| known["versions"].clone());
            let added = |entry| json!({"id": version(entry), "files": entry.files()});
            json!({"versions": listed(known, "id", entries.iter().map(added))})
        }
        Product::Terragrunt => {
            let added = |entry: &Entry| {
                let tag = format!("v{}", entry.request.version);
                let assets = entry.files().into_iter().map(|name| json!({"name": name}));
                let prerelease = !entry.request.version.pre.is_empty();
                json!({
                    "tag_name": tag, "draft": false, "prerelease": prerelease,
                    "assets": assets.collect::<Vec<_>>(),
                })
            };
            Value::Array(listed(known, "tag_name", entries.iter().map(added)))
        }
    }
}

/// What is known and not among `added`, after that.
fn listed(known: Option<Value>, name: &str, added: impl Iterator<Item = Value>) -> Vec<Value> {
    let mut list: Vec<Value> = added.collect();
    let Some(Value::Array(known)) = known else { return list };
    for entry in known {
        if list.iter().all(|added| added[name] != entry[name]) {
            list.push(entry);
        }
    }
    list
}
