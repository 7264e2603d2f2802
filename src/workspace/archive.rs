//! Unpacks the archive of a module's files into the directory where a clone would be.
//!
//! The archive can be hostile: no entry may leave the directory, and only files, directories and symbolic
//! links inside it exist afterwards. Links are created last, so no entry is written through one.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use tar::{Entry, EntryType};
use tokio_util::sync::CancellationToken;

use butler_base::error::visible;
use butler_base::platform::fs::{OpenOptionsExt, check_out_link};

/// How much of an entry's name a message shows, in characters.
const SHOWN_NAME: usize = 200;

/// Why an archive was not unpacked.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The archive is damaged.
    #[error("the archive of the module's files cannot be read")]
    Read(#[source] io::Error),
    /// The archive has an entry that is not allowed.
    #[error("the archive of the module's files contains `{name}`, which {problem}")]
    Forbidden {
        /// The entry, shortened.
        name: String,
        /// What is not allowed.
        problem: &'static str,
    },
    /// A file cannot be written.
    #[error("cannot write `{}` of the module", path.display())]
    Write {
        /// The path in the module's directory.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
}

impl butler_base::error::Advice for ArchiveError {
    fn advice(&self) -> Option<String> {
        match self {
            Self::Read(_) | Self::Forbidden { .. } => {
                Some("the registry must send a plain tar of the files of a commit".to_owned())
            }
            Self::Write { .. } => Some("check that --work-dir is writable and has room".to_owned()),
        }
    }
}

/// Unpacks the tar `archive` into the new directory `destination`. Files get the mode 0644, or 0755 if
/// they are executable. The caller must remove the files that a failure leaves there.
///
/// # Errors
/// When the archive is damaged or has a forbidden entry, when a file cannot be written, or when `abandoned` is
/// cancelled.
pub fn unpack(
    archive: impl Read,
    destination: &Path,
    abandoned: &CancellationToken,
) -> Result<(), ArchiveError> {
    let mut archive = tar::Archive::new(Abandonable { archive, abandoned });
    std::fs::create_dir(destination).map_err(write_error(Path::new(".")))?;
    let mut links = Vec::new();
    for entry in archive.entries().map_err(ArchiveError::Read)? {
        let mut entry = entry.map_err(ArchiveError::Read)?;
        let name = entry.path().map_err(ArchiveError::Read)?.into_owned();
        let forbid = |problem| forbidden(&name, problem);
        let path = inside(&name).ok_or_else(|| forbid("leads out of its directory"))?;
        match entry.header().entry_type() {
            // The commit id, as `git archive` writes it.
            EntryType::XGlobalHeader => {}
            EntryType::Directory => {
                std::fs::create_dir_all(destination.join(&path)).map_err(write_error(&path))?;
            }
            _ if path.as_os_str().is_empty() => return Err(forbid("has no name")),
            EntryType::Regular => write_file(&mut entry, destination, &path)?,
            EntryType::Symlink => {
                let target = entry.link_name().map_err(ArchiveError::Read)?;
                let target = target.ok_or_else(|| forbid("is a link without a target"))?;
                if !stays_inside(&path, &target) {
                    return Err(forbid("is a link that leads out of the directory, or may do so"));
                }
                // Now, because a link could be in the place of the directory later.
                create_parent(destination, &path)?;
                links.push((path, target.into_owned()));
            }
            EntryType::Link => return Err(forbid("is a hard link")),
            _ => return Err(forbid("is neither a file nor a directory nor a symbolic link")),
        }
    }
    for (path, target) in links {
        check_out_link(&target, &destination.join(&path)).map_err(write_error(&path))?;
    }
    Ok(())
}

fn write_file(
    entry: &mut Entry<'_, impl Read>,
    destination: &Path,
    path: &Path,
) -> Result<(), ArchiveError> {
    let is_executable = entry.header().mode().map_err(ArchiveError::Read)? & 0o100 != 0;
    let file = create_parent(destination, path)?;
    let mut options = File::options();
    options.write(true).create_new(true).mode(if is_executable { 0o755 } else { 0o644 });
    let mut file = options.open(file).map_err(write_error(path))?;
    // The iterator over the entries fails if the content is incomplete.
    io::copy(entry, &mut file).map_err(write_error(path))?;
    Ok(())
}

/// The path of a new entry below `destination`, in a directory that exists.
fn create_parent(destination: &Path, path: &Path) -> Result<PathBuf, ArchiveError> {
    let path_in_destination = destination.join(path);
    let parent = path_in_destination.parent().unwrap_or(destination);
    std::fs::create_dir_all(parent).map_err(write_error(path))?;
    Ok(path_in_destination)
}

/// `name` as a path that only goes down. `None` if it is absolute or contains `..`.
fn inside(name: &Path) -> Option<PathBuf> {
    let mut path = PathBuf::new();
    for component in name.components() {
        match component {
            Component::Normal(part) => path.push(part),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

/// Whether the link `path` leads to a place in the directory, also if other links are on the way. It does
/// if it goes up only at its beginning, where all directories are real, and not above the root: every link
/// further down leads to a place in the directory by the same rule.
fn stays_inside(path: &Path, target: &Path) -> bool {
    let depth = path.components().count() - 1;
    let mut ups = 0;
    let mut has_gone_down = false;
    for component in target.components() {
        match component {
            Component::Normal(_) => has_gone_down = true,
            Component::CurDir => {}
            Component::ParentDir if !has_gone_down => ups += 1,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    ups <= depth
}

fn forbidden(name: &Path, problem: &'static str) -> ArchiveError {
    let name = name.to_string_lossy();
    ArchiveError::Forbidden { name: visible(&name).take(SHOWN_NAME).collect(), problem }
}

fn write_error(path: &Path) -> impl FnOnce(io::Error) -> ArchiveError {
    let path = path.to_owned();
    |source| ArchiveError::Write { path, source }
}

/// Fails once the work is abandoned, so that the directory can be removed.
struct Abandonable<'token, R> {
    archive: R,
    abandoned: &'token CancellationToken,
}

impl<R: Read> Read for Abandonable<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.abandoned.is_cancelled() {
            return Err(io::Error::other("the run has ended"));
        }
        self.archive.read(buffer)
    }
}

#[cfg(test)]
#[path = "archive_tests.rs"]
mod tests;
