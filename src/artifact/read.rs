//! Reads a saved plan: all of it is checked before anything is used.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::Head;
use super::digesting::{copy, digest};
use super::error::ArtifactError;
use super::manifest::{Entry, MANIFEST, MANIFEST_DIGEST, Manifest, PLAN};

/// The largest manifest, in bytes: room for a hundred thousand files.
const LARGEST_MANIFEST: u64 = 32 * 1024 * 1024;

/// What Terraform's own plan begins with: it is a zip.
const ZIP: &[u8] = b"PK\x03\x04";

/// A saved plan, each part of which has the digest that its manifest says.
#[derive(Debug)]
pub struct Artifact {
    pub(super) path: PathBuf,
    file: File,
    head: Head,
    entries: Vec<Placed>,
}

/// An entry, and where its content begins in the file.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) entry: Entry,
    offset: u64,
}

impl Artifact {
    /// Opens and checks the file `path`. Nothing else is touched.
    ///
    /// # Errors
    /// When it cannot be read, is not a saved plan, has a later format, or is not as it was written.
    pub fn open(path: &Path) -> Result<Self, ArtifactError> {
        // Not a pipe or a device, which cannot be read twice.
        if !std::fs::metadata(path).map_err(ArtifactError::read(path))?.is_file() {
            return Err(ArtifactError::NotAPlan { path: path.to_owned() });
        }
        let mut file = File::open(path).map_err(ArtifactError::read(path))?;
        refuse_others(&mut file, path)?;
        let Contents { head, entries } = check(&file, path)?;
        Ok(Self { path: path.to_owned(), file, head, entries })
    }

    /// The topic, which is the heading in `--help`.
    #[must_use]
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Refuses to be applied in any directory but the one that it was made in: the plan holds
    /// absolute paths.
    ///
    /// # Errors
    /// When `directory` is another one.
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

    pub(super) fn entries(&self) -> &[Placed] {
        &self.entries
    }

    /// The entry with Terraform's own plan.
    pub(super) fn plan(&self) -> Option<&Placed> {
        self.entries.iter().find(|placed| placed.entry.name == PLAN)
    }

    /// Copies the content of an entry into `into`, and makes sure that it is still what it was.
    pub(super) fn copy(&self, placed: &Placed, into: &mut impl Write) -> io::Result<()> {
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

/// Distinguishes a file that is not a saved plan from a damaged one.
fn refuse_others(file: &mut File, path: &Path) -> Result<(), ArtifactError> {
    let mut begin = Vec::new();
    let read = file.take(MANIFEST.len() as u64 + 1).read_to_end(&mut begin);
    read.and_then(|_| file.seek(SeekFrom::Start(0))).map_err(ArtifactError::read(path))?;
    let path = path.to_owned();
    match begin {
        begin if begin.starts_with(ZIP) => Err(ArtifactError::Terraforms { path }),
        begin if begin != format!("{MANIFEST}\0").as_bytes() => {
            Err(ArtifactError::NotAPlan { path })
        }
        _ => Ok(()),
    }
}

struct Contents {
    head: Head,
    entries: Vec<Placed>,
}

fn check(file: &File, path: &Path) -> Result<Contents, ArtifactError> {
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
    next(MANIFEST)?.take(LARGEST_MANIFEST).read_to_end(&mut json).map_err(broken)?;
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
        entries.push(Placed { entry, offset });
    }
    match found.next() {
        None => Ok(Contents { head, entries }),
        Some(_) => Err(damaged("it contains more entries than its manifest lists")),
    }
}
