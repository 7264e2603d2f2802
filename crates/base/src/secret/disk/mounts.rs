//! Finds the mounts below a directory. The content of a mount does not belong to the run.
//!
//! A bind mount can be on the same device as its parent directory. The mounts are therefore read
//! from the system's list if it exists. On all systems, a directory on another device counts as a
//! mount.

use std::fs::FileType;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::platform::fs::MetadataExt;
use crate::platform::os_string;

/// Linux's list of the mounts of a process (proc(5)).
const MOUNTS: &str = "/proc/self/mountinfo";

/// The mounts below a directory.
#[derive(Debug)]
pub(in crate::secret) struct Mounts {
    device: Option<u64>,
    /// The mount points; none if the system does not have a list of them.
    points: Option<Vec<PathBuf>>,
}

impl Mounts {
    /// Finds the mounts below `root`.
    ///
    /// # Errors
    /// If the system's list exists but cannot be read.
    pub(in crate::secret) fn below(root: &Path) -> std::io::Result<Self> {
        let device = std::fs::symlink_metadata(root).ok().map(|found| found.dev());
        let points = match std::fs::read(MOUNTS) {
            Ok(list) => Some(points_below(root, &list)),
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) =>
            {
                None
            }
            Err(error) => return Err(error),
        };
        Ok(Self { device, points })
    }

    /// Whether the list of the system proves that the directory does not contain a mount.
    pub(in crate::secret) fn is_empty(&self) -> bool {
        self.points.as_ref().is_some_and(Vec::is_empty)
    }

    /// Whether `path`, an entry of a directory that is not on a mount, is a mount point.
    pub(in crate::secret) fn is_mount_point(&self, path: &Path, kind: FileType) -> bool {
        let listed = self.points.iter().flatten().any(|point| point == path);
        // A listed mount is not accessed: the call blocks if the server of a network file system
        // does not respond.
        listed
            || (kind.is_dir()
                && std::fs::symlink_metadata(path).is_ok_and(|it| Some(it.dev()) != self.device))
    }
}

/// The mount points of `list` below `root`, as paths that begin with `root`.
fn points_below(root: &Path, list: &[u8]) -> Vec<PathBuf> {
    let real = std::fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
    list.split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4))
        .map(unescaped)
        .filter_map(|point| Some(root.join(point.strip_prefix(&real).ok()?)))
        .filter(|point| point != root)
        .collect()
}

/// Decodes a path in which spaces, tabs, newlines and backslashes are escaped as a backslash and
/// three octal digits.
fn unescaped(text: &[u8]) -> PathBuf {
    let mut path = Vec::new();
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(escaped) if byte == b'\\' => {
                path.push(escaped);
                rest = &after[3..];
            }
            _ => {
                path.push(byte);
                rest = after;
            }
        }
    }
    PathBuf::from(os_string(path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn mounts_are_found_through_any_path_of_the_directory() {
        let base = tempfile::tempdir().unwrap();
        let real = std::fs::canonicalize(base.path()).unwrap().join("run");
        std::fs::create_dir(&real).unwrap();
        let alias = base.path().join("alias");
        symlink(&real, &alias).unwrap();
        let line = |point: &str| {
            format!(
                "36 35 98:0 /a {}{point} rw,noatime master:1 - ext3 /dev/root rw\n",
                real.display()
            )
        };
        let list: String = ["", "/source/a\\040b\\134c", "-of-another", "/data"].map(line).concat();
        for root in [&real, &alias] {
            let points = points_below(root, list.as_bytes());
            assert_eq!(points, [root.join("source/a b\\c"), root.join("data")]);
        }
    }
}
