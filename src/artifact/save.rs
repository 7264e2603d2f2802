//! Writes a saved plan: to a temporary file, which is synced and renamed.

use std::fs::{File, Permissions};
use std::io::{self, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::digest::{copy, digest};
use super::error::ArtifactError;
use super::manifest::{FILES, MANIFEST, MANIFEST_DIGEST, Manifest, ManifestEntry, PLAN};
use super::read::check_replaceable;
use super::{Head, LOCK_FILE, Snapshot};
use butler_base::platform::fs::{MetadataExt, PermissionsExt, sync_directory};
use butler_base::trust::{self, OTHER_OWNER};

/// The files of a saved plan.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'run> {
    /// Terraform's own plan.
    pub plan: &'run Path,
    /// The files that the plan created, by their paths in the module's directory.
    pub created: &'run [PathBuf],
    /// The files of the module before `init`, with their contents.
    pub before: &'run Snapshot,
    /// The user of the tools, if they have one of their own: a file of another user is not one of theirs.
    pub owner: Option<u32>,
}

/// Saves a plan as `path`, and replaces an older saved plan. The mode is 0600 from the beginning, because
/// plans contain secrets in clear text.
///
/// # Errors
/// When a file cannot be read or written, or `path` is something else than a saved plan. Then the file at `path` is
/// unchanged.
pub fn save(path: &Path, head: &Head, parts: Parts<'_>) -> Result<(), ArtifactError> {
    let path = &std::path::absolute(path).map_err(ArtifactError::save(path))?;
    let directory = path.parent().unwrap_or(Path::new("/"));
    let open = |name, path: &Path| EntrySource::open(name, path, parts.owner);
    let mut sources = vec![open(PLAN.to_owned(), parts.plan)?];
    let lock_file = head.directory.join(LOCK_FILE);
    if lock_file.is_file() {
        sources.push(open(LOCK_FILE.to_owned(), &lock_file)?);
    }
    for created in parts.created {
        let name = created.to_str().ok_or_else(|| ArtifactError::Name { path: created.clone() })?;
        sources.push(open(format!("{FILES}{name}"), &head.directory.join(created))?);
    }
    for EntrySource { entry, .. } in &mut sources {
        let before = entry.module_path().and_then(|path| parts.before.digest(&path));
        entry.sha256_before = before.filter(|sha256| *sha256 != entry.sha256).map(str::to_owned);
    }
    let entries = sources.iter().map(|source| source.entry.clone()).collect();
    let manifest = Manifest::new(head, entries)?;
    let failed = || ArtifactError::save(path);
    let file = tempfile::Builder::new()
        .prefix(".butler-plan-")
        .permissions(Permissions::from_mode(0o600))
        .tempfile_in(directory)
        .map_err(failed())?;
    write(file.as_file(), &manifest, sources).map_err(failed())?;
    file.as_file().sync_all().map_err(failed())?;
    // It can have been written since the command line was read.
    check_replaceable(path)?;
    file.persist(path).map_err(|error| ArtifactError::save(path)(error.error))?;
    sync_directory(directory).map_err(failed())
}

/// A file to add, and its entry in the manifest.
struct EntrySource {
    file: File,
    entry: ManifestEntry,
}

impl EntrySource {
    fn open(name: String, path: &Path, owner: Option<u32>) -> Result<Self, ArtifactError> {
        let open = || {
            let mut file = trust::open_regular(path)?;
            let found = file.metadata()?;
            // A directory on the way can have been replaced by a link since it was listed.
            if owner.is_some_and(|owner| found.uid() != owner) {
                return Err(io::Error::new(ErrorKind::PermissionDenied, OTHER_OWNER));
            }
            let executable = found.permissions().mode() & 0o100 != 0;
            let copied = copy(&mut file, &mut io::sink())?;
            file.seek(SeekFrom::Start(0))?;
            Ok(Self { file, entry: ManifestEntry::new(name, copied, executable) })
        };
        open().map_err(ArtifactError::save(path))
    }
}

fn write(file: &File, manifest: &Manifest, sources: Vec<EntrySource>) -> io::Result<()> {
    let mut tar = tar::Builder::new(BufWriter::new(file));
    let json = serde_json::to_vec_pretty(manifest)?;
    append(&mut tar, MANIFEST, json.len() as u64, &json[..])?;
    let digest = format!("{}\n", digest(&json));
    append(&mut tar, MANIFEST_DIGEST, digest.len() as u64, digest.as_bytes())?;
    for EntrySource { file, entry } in sources {
        // A file that grew since then is truncated, and a file that was changed has a different digest.
        // `Artifact::open` detects both.
        append(&mut tar, &entry.name, entry.size, file.take(entry.size))?;
    }
    tar.into_inner()?.flush()
}

fn append(
    tar: &mut tar::Builder<impl Write>,
    name: &str,
    size: u64,
    content: impl Read,
) -> io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_size(size);
    header.set_mode(0o600);
    tar.append_data(&mut header, name, content)
}
