//! Compares paths by the directories to which they lead. Reads the file system, and changes nothing.

use std::path::{Component, Path, PathBuf};

/// Whether `path` is in the directory `other`, or contains it. Links are followed.
#[must_use]
pub fn leads_to(path: &Path, other: &Path) -> bool {
    is_in(path, other) || is_in(other, path)
}

/// Whether `path` is the directory `other`, or is in it. Links are followed.
#[must_use]
pub fn is_in(path: &Path, other: &Path) -> bool {
    real(path).starts_with(real(other))
}

/// `path` without links in the part that exists, and without `..`.
fn real(path: &Path) -> PathBuf {
    let resolved = |existing: &Path| {
        let mut real = existing.canonicalize().ok()?;
        for component in path.strip_prefix(existing).ok()?.components() {
            match component {
                Component::ParentDir => {
                    real.pop();
                }
                component => real.push(component),
            }
        }
        Some(real)
    };
    path.ancestors().find_map(resolved).unwrap_or_else(|| path.to_owned())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn paths_are_compared_by_where_they_lead() {
        let base = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(base.path().join("data/states")).unwrap();
        std::os::unix::fs::symlink(base.path().join("data"), base.path().join("link")).unwrap();
        let data = base.path().join("data");
        for (path, leads) in [
            ("", true),
            ("data", true),
            ("data/missing/a", true),
            ("link", true),
            ("link/missing", true),
            ("missing/../data", true),
            ("missing/../../a", false),
            ("data-of-another", false),
            ("missing", false),
        ] {
            assert_eq!(leads_to(&base.path().join(path), &data), leads, "{path}");
        }
        assert!(!is_in(base.path(), &data) && is_in(&data, base.path()));
        assert!(!is_in(&data.join("states/missing/../.."), &data.join("states")));
    }
}
