//! Overwrites files with zeros before they are removed, and reports failures.
//!
//! Symbolic links are not followed. A file with another hard link is not overwritten, because its
//! content may belong to another program. Mounted file systems are not entered. A missing file is
//! not an error.

use std::cell::Cell;
use std::fs::FileType;
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::mounts::Mounts;
use crate::platform::fs::{
    MetadataExt, OFlag, OpenOptionsExt, PermissionsExt, has_other_names, remove_file,
};

/// The time limit for overwriting the files that the run wrote into a checkout. A module can write
/// gigabytes, and the final status is delayed until the wipe ends. After the limit, files are
/// removed without being overwritten.
const CHANGED_LIMIT: Duration = Duration::from_secs(2);

/// The size limit for overwriting a file of a checkout, in bytes. Larger files are unlikely to be
/// text that contains secrets.
const LARGEST_CHANGED: u64 = 64 * 1024 * 1024;

/// The most directories below each other before one of them is moved up: a module can nest them deeper than a path can be
/// long, and a walk that descended into each of them would need a file descriptor for each.
pub(super) const DEEPEST: usize = 64;

/// The beginning of the names of directories that were moved up.
const MOVED: &str = ".deep-";

/// The name of Terraform's data directory.
const DATA_DIRECTORY: &str = ".terraform";

/// The suffix of files that are removed last.
const LOCK: &str = ".lock";

/// A file or directory could not be created or wiped.
#[derive(Debug, thiserror::Error)]
#[error("cannot {act} `{}`", path.display())]
pub struct WipeError {
    /// The action that failed, such as `create`, `overwrite` or `remove`.
    pub act: &'static str,
    /// The path.
    pub path: PathBuf,
    /// The error of the operating system.
    #[source]
    pub source: std::io::Error,
}

impl WipeError {
    pub(in crate::secret) fn new(act: &'static str, path: &Path, source: std::io::Error) -> Self {
        Self { act, path: path.to_owned(), source }
    }
}

/// The parts of a private directory that are not secret and can be huge.
#[derive(Clone, Copy, Debug, Default)]
pub struct Layout {
    /// Names of directories that are removed without being overwritten, such as provider binaries. In the checkout,
    /// only those directly in Terraform's data directory.
    pub public: &'static [&'static str],
    /// A directory at the top, the checkout, and a file at the top that was created when the
    /// checkout was complete. In the checkout, only files that are newer than that file are
    /// overwritten. If the file does not exist, no file of the checkout is overwritten.
    pub changed: Option<(&'static str, &'static str)>,
}

/// Overwrites and removes a file; a missing file is not an error.
///
/// # Errors
/// If it cannot be overwritten (it is still removed) or removed.
pub fn wipe_file(path: &Path) -> Result<(), WipeError> {
    let overwritten = unless_gone("overwrite", path, overwrite_file(path));
    overwritten.and(unless_gone("remove", path, remove_file(path)))
}

/// Overwrites and removes the directory `root` with its content. The parts of `layout` are removed
/// after everything else, without being overwritten. Lock files at the top are removed last, so
/// that other processes can tell until the end that the directory is in use. Mounts below `root`
/// remain.
///
/// # Errors
/// The first file that could not be overwritten or removed; the rest is still wiped.
pub fn wipe_directory(root: &Path, layout: Layout) -> Result<(), WipeError> {
    // An empty directory does not need a file descriptor, which may not be available.
    if std::fs::remove_dir(root).is_ok() {
        return Ok(());
    }
    let wipe = Wipe::of(root, layout)?;
    let private = wipe.private();
    let changed = wipe.changed();
    private.and(changed).and(wipe.rest())
}

/// Removes a directory with its content, without overwriting it. Its depth has no limit: the standard library recurses,
/// so that a tree that is deep enough ends the process. A missing directory is not an error. Mounts below it remain.
///
/// # Errors
/// The first entry that could not be removed; the rest is still removed.
pub fn remove_directory(root: &Path) -> std::io::Result<()> {
    let removed = match std::fs::symlink_metadata(root) {
        Ok(found) => {
            Wipe::of(root, Layout::default()).and_then(|wipe| wipe.remove(root, found.file_type()))
        }
        Err(error) => unless_gone("look at", root, Err(error)),
    };
    removed.map_err(|error| std::io::Error::new(error.source.kind(), error))
}

/// Overwrites and removes the content of `root` except for locks and the parts of `layout`; those
/// and `root` itself remain unchanged.
///
/// # Errors
/// The first file that could not be overwritten or removed; the rest is still wiped.
pub(in crate::secret) fn wipe_private(root: &Path, layout: Layout) -> Result<(), WipeError> {
    Wipe::of(root, layout)?.private()
}

/// Wipes only the checkout in `root`, as [`wipe_directory`] does.
///
/// # Errors
/// The first file that could not be overwritten or removed; the rest is still wiped.
pub(in crate::secret) fn wipe_checkout(root: &Path, layout: Layout) -> Result<(), WipeError> {
    let Some((checkout, _)) = layout.changed else { return Ok(()) };
    let (wipe, checkout) = (Wipe::of(root, layout)?, root.join(checkout));
    let changed = wipe.changed();
    changed.and(wipe.each_entry(root, &mut |path, kind| {
        if path == checkout { wipe.remove(path, kind) } else { Ok(()) }
    }))
}

/// An action on an entry of a directory.
type Act<'act> = &'act mut dyn FnMut(&Path, FileType) -> Result<(), WipeError>;

/// The wipe of one directory.
struct Wipe<'root> {
    root: &'root Path,
    layout: Layout,
    mounts: Mounts,
    /// How many directories were moved up.
    moved: Cell<u64>,
}

impl<'root> Wipe<'root> {
    fn of(root: &'root Path, layout: Layout) -> Result<Self, WipeError> {
        let mounts =
            Mounts::below(root).map_err(|error| WipeError::new("find mounts in", root, error))?;
        Ok(Self { root, layout, mounts, moved: Cell::new(0) })
    }

    /// Wipes everything except for locks and the parts of the layout.
    fn private(&self) -> Result<(), WipeError> {
        let mark = self.layout.changed.map(|(_, mark)| self.root.join(mark));
        self.each_entry(self.root, &mut |path, kind| {
            // Other processes read the owner from a lock file until the directory is removed.
            if is_lock(path) || mark.as_deref() == Some(path) {
                Ok(())
            } else {
                self.wipe_entry(path, kind)
            }
        })
    }

    fn wipe_entry(&self, path: &Path, kind: FileType) -> Result<(), WipeError> {
        if kind.is_file() {
            return wipe_file(path);
        }
        if !kind.is_dir() {
            return unless_gone("remove", path, remove_file(path));
        }
        if self.is_public(path) {
            return Ok(());
        }
        self.each_below(
            path,
            &mut |path, kind| {
                if kind.is_file() {
                    wipe_file(path)
                } else {
                    unless_gone("remove", path, remove_file(path))
                }
            },
            &|path| !self.is_public(path),
            &|path| {
                // The removal fails if the directory contains public files; `rest` removes both later.
                let _ = std::fs::remove_dir(path);
                Ok(())
            },
        )
    }

    fn is_public(&self, path: &Path) -> bool {
        self.layout.public.iter().any(|name| path.file_name() == Some(name.as_ref()))
    }

    /// Whether this is one of the public directories in Terraform's data directory.
    fn is_downloaded(&self, path: &Path) -> bool {
        let parent = path.parent().and_then(Path::file_name);
        self.is_public(path) && parent == Some(DATA_DIRECTORY.as_ref())
    }

    /// Overwrites the files of a checkout that the run wrote, but not those that git checked out.
    /// Compares change times, because a module can set back the modification time of a file but not
    /// its change time.
    fn changed(&self) -> Result<(), WipeError> {
        let Some((directory, mark)) = self.layout.changed else { return Ok(()) };
        let (directory, mark) = (self.root.join(directory), self.root.join(mark));
        let since = match std::fs::symlink_metadata(&mark) {
            Ok(mark) => (mark.ctime(), mark.ctime_nsec()),
            Err(error) => return unless_gone("look at", &mark, Err(error)),
        };
        if std::fs::symlink_metadata(&directory)
            .is_ok_and(|found| self.mounts.is_mount_point(&directory, found.file_type()))
        {
            return Err(mounted(&directory));
        }
        let mut changed =
            Changed { wipe: self, since, deadline: Instant::now() + CHANGED_LIMIT, left_out: 0 };
        let result = changed.overwrite(&directory);
        if changed.left_out > 0 {
            tracing::warn!(
                files = changed.left_out,
                "not all files that the module wrote were overwritten before they were removed: they are too large or too many"
            );
        }
        result
    }

    /// Removes the rest, and the directory itself.
    fn rest(&self) -> Result<(), WipeError> {
        // If an entry cannot be removed, the directory keeps its locks, so that a later run finds
        // it.
        self.each_entry(self.root, &mut |path, kind| {
            if is_lock(path) { Ok(()) } else { self.remove(path, kind) }
        })?;
        let locks = self.each_entry(self.root, &mut |path, kind| self.remove(path, kind));
        locks.and(unless_gone("remove", self.root, std::fs::remove_dir(self.root)))
    }

    /// Removes `path` and its content. If an entry cannot be removed, the others are still removed.
    fn remove(&self, path: &Path, kind: FileType) -> Result<(), WipeError> {
        if !kind.is_dir() {
            return unless_gone("remove", path, remove_file(path));
        }
        self.each_below(
            path,
            &mut |path, _| unless_gone("remove", path, remove_file(path)),
            &|_| true,
            &|path| unless_gone("remove", path, std::fs::remove_dir(path)),
        )
    }

    /// Calls `act` for each file below `top`, and `leave` for each directory after everything in it, as far as `enters`
    /// allows. Returns the first error. Directories that are nested too deep are moved up.
    fn each_below(
        &self,
        top: &Path,
        act: Act<'_>,
        enters: &dyn Fn(&Path) -> bool,
        leave: &dyn Fn(&Path) -> Result<(), WipeError>,
    ) -> Result<(), WipeError> {
        let mut result = Ok(());
        // Not recursive, because the depth has no limit.
        let mut waiting = vec![(top.to_owned(), 0, false)];
        while let Some((directory, depth, is_done)) = waiting.pop() {
            if is_done {
                result = result.and(leave(&directory));
                continue;
            }
            let mut inner = Vec::new();
            let done = self.each_entry(&directory, &mut |path, kind| {
                if !kind.is_dir() {
                    return act(path, kind);
                }
                inner.extend(enters(path).then(|| path.to_owned()));
                Ok(())
            });
            result = result.and(done);
            waiting.push((directory, depth, true));
            let inner = inner.into_iter().map(|path| self.near(top, path, depth + 1));
            waiting.extend(inner);
        }
        result
    }

    /// A directory with its depth below `top`, after it was moved up if it is too deep.
    fn near(&self, top: &Path, path: PathBuf, depth: usize) -> (PathBuf, usize, bool) {
        // A mount below it would move with it, and would not be known by its path any more.
        if depth <= DEEPEST || !self.mounts.is_empty() {
            return (path, depth, false);
        }
        let free = std::iter::repeat_with(|| {
            self.moved.set(self.moved.get() + 1);
            top.join(format!("{MOVED}{}", self.moved.get()))
        });
        let mut free = free.filter(|path| std::fs::symlink_metadata(path).is_err());
        allow_owner(&path, 0o700);
        match free.next() {
            Some(target) if std::fs::rename(&path, &target).is_ok() => (target, 1, false),
            _ => (path, depth, false),
        }
    }

    /// Calls `act` for each entry of `directory`, and returns the first error. A missing directory
    /// is not an error. A mount point is an error and is not passed to `act`.
    fn each_entry(&self, directory: &Path, act: Act<'_>) -> Result<(), WipeError> {
        // The entries of a directory that a module made read-only could not be removed.
        allow_owner(directory, 0o700);
        let entries = match std::fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) => return unless_gone("read", directory, Err(error)),
        };
        let mut result = Ok(());
        for entry in entries {
            let done = entry
                .and_then(|entry| Ok((entry.path(), entry.file_type()?)))
                .map_err(|error| WipeError::new("read", directory, error))
                .and_then(|(path, kind)| {
                    if self.mounts.is_mount_point(&path, kind) {
                        Err(mounted(&path))
                    } else {
                        act(&path, kind)
                    }
                });
            result = result.and(done);
        }
        result
    }
}

fn mounted(path: &Path) -> WipeError {
    let error = std::io::Error::new(ErrorKind::ResourceBusy, "something is mounted there");
    WipeError::new("remove", path, error)
}

fn is_lock(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(LOCK.as_bytes())
}

/// An error of `act` on `path`, unless `path` does not exist.
fn unless_gone(
    act: &'static str,
    path: &Path,
    result: std::io::Result<()>,
) -> Result<(), WipeError> {
    match result {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(WipeError::new(act, path, error)),
        _ => Ok(()),
    }
}

/// Adds `rights` to those of a file or directory, but not to those of a symbolic link.
fn allow_owner(path: &Path, rights: u32) {
    if let Ok(metadata) = std::fs::symlink_metadata(path)
        && !metadata.is_symlink()
        && metadata.mode() & rights != rights
    {
        let mode = PermissionsExt::from_mode(metadata.mode() & 0o7777 | rights);
        let _ = std::fs::set_permissions(path, mode);
    }
}

struct Changed<'wipe> {
    wipe: &'wipe Wipe<'wipe>,
    since: (i64, i64),
    deadline: Instant,
    left_out: usize,
}

impl Changed<'_> {
    fn overwrite(&mut self, root: &Path) -> Result<(), WipeError> {
        let wipe = self.wipe;
        let mut act = |path: &Path, kind: FileType| {
            let found = match std::fs::symlink_metadata(path) {
                Ok(found) => found,
                Err(error) => return unless_gone("overwrite", path, Err(error)),
            };
            if !kind.is_file() || (found.ctime(), found.ctime_nsec()) < self.since {
                return Ok(());
            }
            let too_much = Instant::now() >= self.deadline || found.len() > LARGEST_CHANGED;
            if too_much && !is_terraforms(path) {
                self.left_out += 1;
                return Ok(());
            }
            unless_gone("overwrite", path, overwrite_file(path))
        };
        wipe.each_below(root, &mut act, &|path| !wipe.is_downloaded(path), &|_| Ok(()))
    }
}

/// Whether this is a state or Terraform's crash log: these contain secrets.
fn is_terraforms(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.contains(".tfstate") || name == "crash.log"
}

/// Overwrites one file with zeros and syncs it; the caller removes it.
///
/// # Errors
/// If the file cannot be opened, written or synced.
fn overwrite_file(path: &Path) -> std::io::Result<()> {
    static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
    let metadata = std::fs::symlink_metadata(path)?;
    if metadata.len() == 0 || has_other_names(path, &metadata)? {
        return Ok(());
    }
    allow_owner(path, 0o200);
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .custom_flags(OFlag::O_NOFOLLOW.bits())
        .open(path)?;
    file.seek(SeekFrom::Start(0))?;
    let mut left = metadata.len();
    while left > 0 {
        let size = left.min(ZEROS.len() as u64);
        file.write_all(&ZEROS[..usize::try_from(size).expect("at most 64 KiB")])?;
        left -= size;
    }
    file.sync_data()
}
