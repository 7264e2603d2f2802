//! Downloads, verifies and writes the releases of a bundle.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::error::{BundleError, cannot_write};
use super::lists::{self, BundledRelease};
use super::output::{StagingDirectory, UNFINISHED, lock_directory, write, write_tar};
use crate::tool::digest::Sha256Sum;
use crate::tool::error::{ChecksumSource, ToolError};
use crate::tool::fetch::download::Fetcher;
use crate::tool::fetch::release::{self, ExpectedChecksum, VerifiedArchive};
use crate::tool::options::ToolOptions;
use crate::tool::vendor::platform::Platform;
use crate::tool::vendor::product::Vendored as _;
use crate::tool::vendor::release_urls::Release;
use butler_base::blocking::blocking;
use butler_protocol::spec::{Product, ToolRequest};

/// The directories at the top of a bundle: the first parts of the vendors' paths.
const TOP_DIRECTORIES: [&str; 5] = ["gruntwork-io", "opentofu", "repos", "terraform", "tofu"];

/// Writes the releases of `requests` for `platforms` to `output`: a tar if its name ends in `.tar`,
/// otherwise a directory, which may contain a bundle already. `progress` gets a line for each step.
///
/// May be dropped at any point: a tar is complete or absent, and each file in a directory is complete.
///
/// # Errors
/// When something cannot be downloaded, verified or written.
pub async fn write_bundle(
    requests: &[ToolRequest],
    platforms: &[Platform],
    output: &Path,
    options: &ToolOptions,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<(), ToolError> {
    // Newest first, so that the same releases make the same bundle.
    let mut requests = requests.to_vec();
    requests
        .sort_by(|one, other| (one.product, &other.version).cmp(&(other.product, &one.version)));
    requests.dedup();
    let checked = output.to_owned();
    blocking(move |_| check_output(&checked)).await?;
    if output.extension().is_none_or(|extension| extension != "tar") {
        return write_directory(&requests, platforms, output, options, progress).await;
    }
    let failed = cannot_write(output);
    let target = std::path::absolute(output).map_err(&failed)?;
    let staged = StagingDirectory::beside(target.parent().unwrap_or(&target)).map_err(&failed)?;
    let content = staged.path().join("content");
    write_directory(&requests, platforms, &content, options, progress).await?;
    progress(&format!("writing {}", output.display()));
    let made = staged.path().join("bundle.tar");
    let written = blocking(move |abandoned| {
        write(&made, |file| write_tar(&content, file, abandoned))?;
        std::fs::rename(&made, &target)
    });
    written.await.map_err(failed)?;
    Ok(())
}

/// Refuses to write over anything but a bundle: a mistake in `--output` must not destroy other files.
fn check_output(output: &Path) -> Result<(), BundleError> {
    let Ok(metadata) = output.metadata() else { return Ok(()) };
    let is_bundle = if metadata.is_dir() {
        is_bundle_or_empty(output)
    } else {
        metadata.len() == 0 || is_tar_of_bundle(output)
    };
    if is_bundle { Ok(()) } else { Err(BundleError::NotBundle { path: output.to_owned() }) }
}

/// Whether a directory is empty, has a list of versions, or has only the beginning of a bundle that was not completed.
fn is_bundle_or_empty(directory: &Path) -> bool {
    let has_list = Product::ALL.into_iter().any(|it| list_path(directory, it).is_file());
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    has_list || names.all(|name| name.starts_with('.') || TOP_DIRECTORIES.contains(&&*name))
}

/// Whether a file is a tar with a list of versions.
fn is_tar_of_bundle(path: &Path) -> bool {
    let lists = Product::ALL.map(|product| list_path(Path::new(""), product));
    let Ok(file) = File::open(path) else { return false };
    let mut archive = tar::Archive::new(file);
    let Ok(entries) = archive.entries_with_seek() else { return false };
    let mut entries = entries.map_while(Result::ok);
    entries.any(|entry| entry.path().is_ok_and(|path| lists.iter().any(|list| *path == **list)))
}

async fn write_directory(
    requests: &[ToolRequest],
    platforms: &[Platform],
    root: &Path,
    options: &ToolOptions,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<(), ToolError> {
    let _lock = lock_directory(root, options.timeout, progress).await?;
    let mut versions: BTreeMap<Product, (Option<Value>, Vec<BundledRelease>)> = BTreeMap::new();
    for request in requests {
        // Before any download: a list of unknown format cannot be extended.
        let known = existing_list(root, request.product)?;
        versions.entry(request.product).or_insert_with(|| (known, Vec::new()));
    }
    for request in requests {
        let entry = add_release(request, platforms, root, options, progress).await?;
        versions.entry(request.product).or_default().1.push(entry);
    }
    for (product, (known, entries)) in versions {
        let list = lists::list(product, known, &entries);
        write_file(&list_path(root, product), list.to_string().as_bytes())?;
        for entry in entries.iter().filter(|_| product == Product::Terraform) {
            let path = path_in_bundle(root, &entry.official.checksums).with_file_name("index.json");
            write_file(&path, lists::version_of(&list, entry).to_string().as_bytes())?;
        }
    }
    Ok(())
}

/// The path of the list of versions of `product`.
fn list_path(root: &Path, product: Product) -> PathBuf {
    path_in_bundle(root, &product.index(None).0)
}

/// The list of versions of `product` in an existing bundle.
fn existing_list(root: &Path, product: Product) -> Result<Option<Value>, BundleError> {
    let path = list_path(root, product);
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(BundleError::List { path, source: Some(source) }),
    };
    match serde_json::from_slice(&text) {
        Ok(list) if lists::is_list(product, &list) => Ok(Some(list)),
        Ok(_) => Err(BundleError::List { path, source: None }),
        Err(error) => Err(BundleError::List { path, source: Some(error.into()) }),
    }
}

/// Fetches one release and adds its files, but not its entries in the lists of versions.
async fn add_release(
    request: &ToolRequest,
    platforms: &[Platform],
    root: &Path,
    options: &ToolOptions,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<BundledRelease, ToolError> {
    let releases = |platform: Platform| {
        let mirror = options.sites.mirror(request.product);
        let of = |mirror| Release::of(request, platform, mirror);
        (of(mirror), of(None))
    };
    let (requested, official) = releases(platforms[0]);
    let may_be_unsigned = requested.may_be_unsigned;
    // An unsigned release could not be installed from the bundle.
    let requested = Release { may_be_unsigned: false, ..requested };
    let fetcher = Fetcher::new(request.product, options);
    let checksum_file = match release::fetch_checksum_file(
        request, &requested, &fetcher, options, progress,
    )
    .await
    {
        Err(ToolError::Unsigned { request, .. }) if may_be_unsigned => {
            return Err(BundleError::Unsigned { request }.into());
        }
        checksum_file => checksum_file?,
    };
    let signature = checksum_file.signature.as_ref().map(|(url, signature)| {
        let position = requested.signatures.iter().position(|requested| requested == url);
        (path_in_bundle(root, &official.signatures[position.unwrap_or(0)]), signature)
    });
    let mut builds = Vec::new();
    for platform in platforms {
        let (requested, official) = releases(*platform);
        let sum = release::archive_checksum(request, &requested, &checksum_file)?;
        let path = path_in_bundle(root, &official.archive);
        if !is_complete(&path, sum).await {
            let trusted = checksum_file.trusted.clone();
            let wanted = ExpectedChecksum { sum, origin: ChecksumSource::Signed, trusted };
            let directory = path.parent().unwrap_or(root);
            std::fs::create_dir_all(directory).map_err(cannot_write(directory))?;
            // A fetcher of its own, because each archive has the whole timeout, as with `tool install`.
            let fetcher = Fetcher::new(request.product, options);
            let archive =
                release::fetch_archive(&fetcher, &requested, wanted, options, directory, progress)
                    .await?;
            let (written, target) = (path.clone(), path.clone());
            let to_confirm = (!request.product.names_version()).then(|| request.clone());
            let is_here = Platform::current().is_ok_and(|here| here == *platform);
            if to_confirm.is_some() && !is_here {
                progress(&format!(
                    "cannot start {request} for {platform} on this machine to check its version; the machine that installs it does so"
                ));
            }
            blocking(move |abandoned| {
                if let Some(request) = to_confirm.filter(|_| is_here) {
                    confirm_bundled_version(&request, &archive, &written, abandoned)?;
                }
                store_archive(archive, &written)
                    .map_err(|source| cannot_write(&target)(source).into())
            })
            .await
            .map_err(|error: ToolError| error)?;
        }
        builds.push((*platform, official));
    }
    let checksums = (path_in_bundle(root, &official.checksums), &checksum_file.bytes);
    for (path, bytes) in std::iter::once(checksums).chain(signature) {
        write_file(&path, bytes)?;
    }
    Ok(BundledRelease { request: request.clone(), official, builds })
}

/// The path in the bundle of a file of the vendor's site.
fn path_in_bundle(root: &Path, official: &Url) -> PathBuf {
    root.join(official.path().trim_start_matches('/'))
}

/// Whether an earlier call wrote the archive.
async fn is_complete(path: &Path, sum: Sha256Sum) -> bool {
    let path = path.to_owned();
    blocking(move |abandoned| {
        File::open(path).is_ok_and(|file| Sha256Sum::of(file, abandoned).ok() == Some(sum))
    })
    .await
}

/// Checks the version of an unpacked executable by starting it, if its signed file name does not
/// contain the version.
fn confirm_bundled_version(
    request: &ToolRequest,
    archive: &VerifiedArchive,
    path: &Path,
    abandoned: &CancellationToken,
) -> Result<(), ToolError> {
    let failed = cannot_write(path);
    let copied = executable(archive, path.parent().unwrap_or(path)).map_err(failed)?;
    crate::tool::version_query::confirm_version(request, &copied, &archive.url, abandoned)
}

/// A copy that can be started, because it is no longer open for writing.
fn executable(archive: &VerifiedArchive, directory: &Path) -> io::Result<tempfile::TempPath> {
    use butler_base::platform::fs::PermissionsExt;
    let mut copy = tempfile::Builder::new()
        .prefix(UNFINISHED)
        .permissions(std::fs::Permissions::from_mode(0o700))
        .tempfile_in(directory)?;
    let mut file = &archive.file;
    file.seek(SeekFrom::Start(0))?;
    io::copy(&mut file, &mut copy)?;
    Ok(copy.into_temp_path())
}

/// Writes the archive. The caller created the directory: after a cancellation, this must not create it.
fn store_archive(mut archive: VerifiedArchive, path: &Path) -> io::Result<()> {
    archive.file.seek(SeekFrom::Start(0))?;
    write(path, |file| io::copy(&mut archive.file, file).map(drop))
}

fn write_file(path: &Path, content: &[u8]) -> Result<(), BundleError> {
    let written = std::fs::create_dir_all(path.parent().unwrap_or(path))
        .and_then(|()| write(path, |file| file.write_all(content)));
    written.map_err(cannot_write(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bundles_are_written_over() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        for (name, content) in [
            ("bundle/terraform/index.json", "{}"),
            ("bundle/notes.txt", ""),
            ("begun/opentofu/opentofu/x", ""),
            ("begun/.lock", ""),
            ("other/terraform/main.tf", ""),
            ("other/thesis.doc", ""),
            ("empty.tar", ""),
            ("thesis.tar", "not a tar"),
        ] {
            std::fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            std::fs::write(path(name), content).unwrap();
        }
        std::fs::create_dir(path("new")).unwrap();
        for (name, directory) in [("bundle.tar", "bundle"), ("other.tar", "other")] {
            let mut file = File::create(path(name)).unwrap();
            write_tar(&path(directory), &mut file, &CancellationToken::new()).unwrap();
        }
        for (name, is_allowed) in [
            ("missing", true),
            ("missing.tar", true),
            ("new", true),
            ("bundle", true),
            ("begun", true),
            ("other", false),
            ("empty.tar", true),
            ("bundle.tar", true),
            ("other.tar", false),
            ("thesis.tar", false),
        ] {
            assert_eq!(check_output(&path(name)).is_ok(), is_allowed, "{name}");
        }
    }
}
