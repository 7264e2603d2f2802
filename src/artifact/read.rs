//! Reads a saved plan. The whole file is checked before any part is used.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::Head;
use super::digest::{copy, digest};
use super::error::ArtifactError;
use super::manifest::{MANIFEST, MANIFEST_DIGEST, Manifest, ManifestEntry, PLAN};
use butler_protocol::spec::Operation;

/// The largest manifest, in bytes: room for a hundred thousand files.
const MAX_MANIFEST: u64 = 32 * 1024 * 1024;

/// The beginning of a plan file of Terraform, which is a zip archive.
const ZIP: &[u8] = b"PK\x03\x04";

/// A saved plan. All of its parts have the digests in its manifest.
#[derive(Debug)]
pub struct Artifact {
    pub(super) path: PathBuf,
    file: File,
    head: Head,
    entries: Vec<LocatedEntry>,
}

/// An entry, and the offset of its content in the file.
#[derive(Debug)]
pub(super) struct LocatedEntry {
    pub(super) entry: ManifestEntry,
    offset: u64,
}

impl Artifact {
    /// Opens and checks the file `path`.
    ///
    /// # Errors
    /// When it cannot be read, is not a saved plan, has a later format, or is damaged.
    pub fn open(path: &Path) -> Result<Self, ArtifactError> {
        // Not a pipe or a device, which cannot be read twice.
        if !std::fs::metadata(path).map_err(ArtifactError::read(path))?.is_file() {
            return Err(ArtifactError::NotAPlan { path: path.to_owned() });
        }
        let mut file = File::open(path).map_err(ArtifactError::read(path))?;
        check_kind(&mut file, path)?;
        let Contents { head, entries } = check_content(&file, path)?;
        Ok(Self { path: path.to_owned(), file, head, entries })
    }

    /// The operation, tool and directory of the plan.
    #[must_use]
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Checks that the plan was made in `directory`, because it contains absolute paths.
    ///
    /// # Errors
    /// When it was made in another directory.
    pub fn check_directory(&self, directory: &Path) -> Result<(), ArtifactError> {
        let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if real(directory) == real(&self.head.directory) {
            return Ok(());
        }
        Err(ArtifactError::Directory {
            made: self.head.directory.clone(),
            here: directory.to_owned(),
            file: self.path.clone(),
        })
    }

    /// Checks that the plan is for `operation`: a plan that destroys everything is not applied by mistake.
    ///
    /// # Errors
    /// When it is for another operation.
    pub fn check_operation(&self, operation: Operation) -> Result<(), ArtifactError> {
        if self.head.operation == operation {
            return Ok(());
        }
        let (file, made) = (self.path.clone(), self.head.operation);
        Err(ArtifactError::Operation { file, made, wanted: operation })
    }

    pub(super) fn entries(&self) -> &[LocatedEntry] {
        &self.entries
    }

    /// The entry with Terraform's own plan.
    pub(super) fn plan(&self) -> Option<&LocatedEntry> {
        self.entries.iter().find(|placed| placed.entry.name == PLAN)
    }

    /// Copies the content of an entry into `into`, and checks its digest again.
    pub(super) fn copy(&self, placed: &LocatedEntry, into: &mut impl Write) -> io::Result<()> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(placed.offset))?;
        let copied = copy(&mut BufReader::new(file).take(placed.entry.size), into)?;
        if copied.sha256 == placed.entry.sha256 {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the saved plan changed while it was being read",
        ))
    }
}

/// Whether a plan can be saved as `path`: nothing is there, or an empty file, or a saved plan, which may be damaged.
///
/// # Errors
/// When something else is there, or it cannot be read.
pub fn check_replaceable(path: &Path) -> Result<(), ArtifactError> {
    let occupied = || ArtifactError::Occupied { path: path.to_owned() };
    let found = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found.map_err(ArtifactError::read(path))?,
    };
    // A link whose target does not exist is something too.
    let target = if found.is_symlink() { std::fs::metadata(path).ok() } else { Some(found) };
    match target {
        Some(target) if target.is_file() && target.len() == 0 => Ok(()),
        Some(target) if target.is_file() => {
            let mut file = File::open(path).map_err(ArtifactError::read(path))?;
            check_kind(&mut file, path).map_err(|error| match error {
                error @ ArtifactError::Read { .. } => error,
                _ => occupied(),
            })
        }
        _ => Err(occupied()),
    }
}

/// Distinguishes a file that is not a saved plan from a damaged one.
fn check_kind(file: &mut File, path: &Path) -> Result<(), ArtifactError> {
    let mut begin = Vec::new();
    let read = file.take(MANIFEST.len() as u64 + 1).read_to_end(&mut begin);
    read.and_then(|_| file.seek(SeekFrom::Start(0))).map_err(ArtifactError::read(path))?;
    let path = path.to_owned();
    match begin {
        begin if begin.starts_with(ZIP) => Err(ArtifactError::TerraformPlan { path }),
        begin if begin != format!("{MANIFEST}\0").as_bytes() => {
            Err(ArtifactError::NotAPlan { path })
        }
        _ => Ok(()),
    }
}

struct Contents {
    head: Head,
    entries: Vec<LocatedEntry>,
}

fn check_content(file: &File, path: &Path) -> Result<Contents, ArtifactError> {
    let damaged = |what: &str| ArtifactError::damaged(path, what);
    let broken = |error: io::Error| ArtifactError::damaged(path, error.to_string());
    let mut archive = tar::Archive::new(BufReader::new(file));
    let mut found = archive.entries().map_err(broken)?;
    let mut next = |name: &str| -> Result<_, ArtifactError> {
        let cut = || damaged("it ends before its last entry");
        let entry = found.next().ok_or_else(cut)?.map_err(broken)?;
        let is_file = entry.header().entry_type() == tar::EntryType::Regular;
        if !is_file || *entry.path_bytes() != *name.as_bytes() {
            let given = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            let given: String = butler_base::error::visible(&given).collect();
            return Err(damaged(&format!("it contains `{given}` instead of the file `{name}`")));
        }
        Ok(entry)
    };
    let mut json = Vec::new();
    next(MANIFEST)?.take(MAX_MANIFEST).read_to_end(&mut json).map_err(broken)?;
    let mut expected = String::new();
    next(MANIFEST_DIGEST)?.take(1024).read_to_string(&mut expected).map_err(broken)?;
    if expected != format!("{}\n", digest(&json)) {
        return Err(damaged("its manifest has a different digest"));
    }
    let (manifest, head) = Manifest::read(&json, path)?;
    let mut entries = Vec::new();
    for entry in manifest.entries {
        let mut content = next(&entry.name)?;
        let offset = content.raw_file_position();
        let copied = copy(&mut content, &mut io::sink()).map_err(broken)?;
        if (copied.size, &copied.sha256) != (entry.size, &entry.sha256) {
            return Err(damaged(&format!("`{}` has a different digest", entry.name)));
        }
        entries.push(LocatedEntry { entry, offset });
    }
    match found.next() {
        None => Ok(Contents { head, entries }),
        Some(_) => Err(damaged("it contains more entries than its manifest lists")),
    }
}
