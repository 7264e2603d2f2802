//! Writes a saved plan: beside its place, to the disk, and then into its place.

use std::fs::{File, Permissions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::digesting::{copy, digest};
use super::error::ArtifactError;
use super::manifest::{Entry, FILES, MANIFEST, MANIFEST_DIGEST, Manifest, PLAN};
use super::{Head, LOCK_FILE};
use butler_base::platform::fs::{PermissionsExt, sync_directory};

/// What goes into a saved plan.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'run> {
    /// Terraform's own plan.
    pub plan: &'run Path,
    /// The files that the plan created, by their paths in the module's directory.
    pub created: &'run [PathBuf],
}

/// Saves a plan as `path`, in the place of what is there. Mode 0600 from the beginning: plans hold
/// secrets in clear text.
///
/// # Errors
/// When something cannot be read or written. What was at `path` is as it was then.
pub fn save(path: &Path, head: &Head, parts: Parts<'_>) -> Result<(), ArtifactError> {
    let path = &std::path::absolute(path).map_err(ArtifactError::save(path))?;
    let beside = path.parent().unwrap_or(Path::new("/"));
    let mut sources = vec![Source::open(PLAN.to_owned(), parts.plan)?];
    let lock_file = head.directory.join(LOCK_FILE);
    if lock_file.is_file() {
        sources.push(Source::open(LOCK_FILE.to_owned(), &lock_file)?);
    }
    for created in parts.created {
        let name = created.to_str().ok_or_else(|| ArtifactError::Name { path: created.clone() })?;
        sources.push(Source::open(format!("{FILES}{name}"), &head.directory.join(created))?);
    }
    let entries = sources.iter().map(|source| source.entry.clone()).collect();
    let manifest = Manifest::new(head, entries)?;
    let failed = || ArtifactError::save(path);
    let file = tempfile::Builder::new()
        .prefix(".butler-plan-")
        .permissions(Permissions::from_mode(0o600))
        .tempfile_in(beside)
        .map_err(failed())?;
    write(file.as_file(), &manifest, sources).map_err(failed())?;
    file.as_file().sync_all().map_err(failed())?;
    file.persist(path).map_err(|error| ArtifactError::save(path)(error.error))?;
    sync_directory(beside).map_err(failed())
}

/// A file that goes in, and what the manifest says of it.
struct Source {
    file: File,
    entry: Entry,
}

impl Source {
    fn open(name: String, path: &Path) -> Result<Self, ArtifactError> {
        let open = || {
            let mut file = File::open(path)?;
            let executable = file.metadata()?.permissions().mode() & 0o100 != 0;
            let copied = copy(&mut file, &mut io::sink())?;
            file.seek(SeekFrom::Start(0))?;
            Ok(Self { file, entry: Entry::new(name, copied, executable) })
        };
        open().map_err(ArtifactError::save(path))
    }
}

fn write(file: &File, manifest: &Manifest, sources: Vec<Source>) -> io::Result<()> {
    let mut tar = tar::Builder::new(BufWriter::new(file));
    let json = serde_json::to_vec_pretty(manifest)?;
    append(&mut tar, MANIFEST, json.len() as u64, &json[..])?;
    let digest = format!("{}\n", digest(&json));
    append(&mut tar, MANIFEST_DIGEST, digest.len() as u64, digest.as_bytes())?;
    for Source { file, entry } in sources {
        // One that has grown meanwhile is cut, and one that was changed has a different digest: both
        // show when it is read.
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
