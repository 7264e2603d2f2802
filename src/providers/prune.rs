//! Frees space in a provider cache.
//!
//! The modification time of a package's directory is its last use; each use sets it. A package is
//! removed in one rename. Runs have hard links or copies of the files that they use, so a removal
//! does not affect them.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::bookkeeping;
use super::error::ProvidersError;
use super::package::{self, Package};
use butler_base::trust;

/// The removed packages, or with `dry_run` those that would be removed.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Pruned {
    /// The packages, the least recently used first.
    pub removed: Vec<PrunedPackage>,
    /// How many bytes are left in all others.
    pub left: u64,
}

impl Pruned {
    /// How many bytes were removed, or would be.
    #[must_use]
    pub fn freed(&self) -> u64 {
        self.removed.iter().map(|removed| removed.size).sum()
    }
}

/// A provider's package.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PrunedPackage {
    /// The provider's address, such as `registry.terraform.io/hashicorp/aws`.
    pub provider: String,
    /// Its version.
    pub version: String,
    /// Its platform, such as `linux_amd64`.
    pub platform: String,
    /// Its directory.
    pub path: PathBuf,
    /// How many bytes its files have.
    pub size: u64,
    /// When a run used it last.
    pub last_used: SystemTime,
}

/// Removes from the provider cache at `directory` the packages that no run used for `unused_for`,
/// and then the least recently used ones, until no more than `larger_than` bytes are left. With
/// `dry_run`, only reports them. A missing cache is empty.
///
/// Runs in progress are not affected.
///
/// # Errors
/// When the cache belongs to another user or cannot be read, or at the first package that cannot
/// be removed.
pub fn prune(
    directory: &Path,
    unused_for: Option<Duration>,
    larger_than: Option<u64>,
    dry_run: bool,
) -> Result<Pruned, ProvidersError> {
    trust::inspect_root(directory).map_err(ProvidersError::distrust(directory))?;
    let mut found: Vec<_> = package::all(directory)?
        .into_iter()
        .filter_map(|package| Some((inspect_package(directory, &package)?, package)))
        .collect();
    found.sort_by_key(|(it, _)| it.last_used);
    let now = SystemTime::now();
    let mut left: u64 = found.iter().map(|(it, _)| it.size).sum();
    let mut pruned = Pruned::default();
    for (it, package) in found {
        let unused = now.duration_since(it.last_used).unwrap_or_default();
        let is_old = unused_for.is_some_and(|limit| unused > limit);
        if is_old || larger_than.is_some_and(|limit| left > limit) {
            if !dry_run {
                bookkeeping::remove_package(directory, &package)?;
            }
            left -= it.size;
            pruned.removed.push(it);
        }
    }
    if !dry_run {
        bookkeeping::remove_leftovers(directory);
    }
    Ok(Pruned { left, ..pruned })
}

fn inspect_package(root: &Path, package: &Package) -> Option<PrunedPackage> {
    let path = package.below(root);
    let last_used = path.symlink_metadata().ok()?.modified().ok()?;
    Some(PrunedPackage {
        provider: package.provider(),
        version: package.version().to_owned(),
        platform: package.platform().to_owned(),
        size: size(&path),
        path,
        last_used,
    })
}

/// How many bytes are in all files below `directory`; broken packages have a size too.
fn size(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => size(&entry.path()),
            Ok(found) => found.len(),
            Err(_) => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "registry.terraform.io/example";

    /// A cache with packages of one file of `size` bytes each, last used this many days ago.
    fn cache(packages: &[(&str, u64, u64)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, size, days) in packages {
            let path = root.path().join(HOST).join(name).join("1.0.0/linux_amd64");
            std::fs::create_dir_all(&path).unwrap();
            std::fs::File::create(path.join("provider")).unwrap().set_len(*size).unwrap();
            let used = SystemTime::now() - Duration::from_hours(24 * days);
            std::fs::File::open(path).unwrap().set_modified(used).unwrap();
        }
        root
    }

    fn names(pruned: &Pruned) -> Vec<&str> {
        pruned.removed.iter().map(|it| it.provider.rsplit('/').next().unwrap()).collect()
    }

    #[test]
    fn least_recently_used_packages_are_removed_first_and_a_dry_run_removes_nothing() {
        let root = cache(&[("new", 100, 0), ("old", 100, 40), ("older", 100, 50)]);
        let days = Some(Duration::from_hours(24 * 30));
        for (unused_for, larger_than, expected, left) in [
            (None, None, &[][..], 300),
            (days, None, &["older", "old"], 100),
            (None, Some(250), &["older"], 200),
            (None, Some(100), &["older", "old"], 100),
            (days, Some(99), &["older", "old", "new"], 0),
            (Some(Duration::from_hours(24 * 45)), Some(200), &["older"], 200),
        ] {
            let would = prune(root.path(), unused_for, larger_than, true).unwrap();
            assert_eq!((names(&would), would.left), (expected.to_vec(), left));
            assert_eq!(would.freed(), 300 - left);
        }
        let done = prune(root.path(), days, None, false).unwrap();
        assert_eq!(names(&done), ["older", "old"]);
        let left: Vec<_> =
            package::all(root.path()).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(left, [format!("{HOST}/new 1.0.0")]);
        assert!(!root.path().join(HOST).join("old").exists(), "nothing empty is left");
        assert_eq!(prune(root.path(), days, None, false).unwrap().removed, []);
    }

    #[test]
    fn locks_and_checksums_of_missing_packages_are_removed() {
        let root = cache(&[("new", 100, 0), ("old", 100, 40)]);
        let books = root.path().join(".butler-runner");
        std::fs::create_dir(&books).unwrap();
        let key = |name: &str| format!("registry.terraform.io~example~{name}~1.0.0~linux_amd64");
        let names = ["new", "old", "held", "gone"].map(|name| format!("{}.lock", key(name)));
        for name in names.iter().chain([&format!("{}.sum", key("old")), &"other.lock".to_owned()]) {
            std::fs::write(books.join(name), "").unwrap();
        }
        let held = std::fs::File::open(books.join(&names[2])).unwrap();
        held.lock().unwrap();
        prune(root.path(), Some(Duration::from_hours(24)), None, false).unwrap();
        let left = std::fs::read_dir(&books).unwrap();
        let mut left: Vec<_> =
            left.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        left.sort();
        assert_eq!(left, ["other.lock", &names[2], &names[0]]);
    }

    #[test]
    fn files_that_are_not_packages_are_not_removed() {
        let root = tempfile::tempdir().unwrap();
        for path in ["a/b/c", "a/b/c/d/e/f", ".hidden/a/b/c/d", "a/b c/d/e/f"] {
            std::fs::create_dir_all(root.path().join(path)).unwrap();
        }
        std::fs::write(root.path().join("a/b/c/file"), "").unwrap();
        let pruned = prune(root.path(), None, Some(0), false).unwrap();
        assert_eq!(pruned, Pruned::default());
        assert!(root.path().join("a/b/c/file").exists());
        let missing = root.path().join("missing");
        assert_eq!(prune(&missing, None, Some(0), false).unwrap(), Pruned::default());
        assert!(!missing.exists());
    }
}
