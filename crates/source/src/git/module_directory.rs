//! Checks fetched files: the module's directory must be inside, and its files must not be Git LFS
//! pointers.

use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use super::failure::FetchError;

/// The beginning of every pointer, by the specification of Git LFS.
const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/spec/v1";

/// The largest size of a pointer, by the same specification.
const MAX_POINTER: u64 = 1024;

/// How many files an error names.
const NAMED_FILES: usize = 3;

/// Refuses a working directory that is not below the root by its name alone.
///
/// # Errors
/// When it is absolute or contains `..`.
pub(super) fn check_relative(directory: &str) -> Result<(), FetchError> {
    let path = Path::new(directory);
    if directory.contains('\0') {
        return Err(unusable(directory, "it contains a NUL character"));
    }
    if path.is_absolute() {
        return Err(unusable(directory, "it is absolute"));
    }
    if path.components().any(|component| component == Component::ParentDir) {
        return Err(unusable(directory, "it contains `..`"));
    }
    if path.components().any(|component| component.as_os_str().eq_ignore_ascii_case(".git")) {
        return Err(unusable(directory, "it leads into the repository's own data"));
    }
    Ok(())
}

/// The root of the fetched files and the module's directory in them, both without symbolic links.
///
/// # Errors
/// When the directory does not exist, is not a directory, is outside of the files, or has Git LFS
/// pointers.
pub fn module_directory(root: &Path, directory: &str) -> Result<(PathBuf, PathBuf), FetchError> {
    check_relative(directory)?;
    let (root, path) = resolve(root, directory)?;
    refuse_lfs_pointers(&path)?;
    Ok((root, path))
}

fn resolve(root: &Path, directory: &str) -> Result<(PathBuf, PathBuf), FetchError> {
    let real = |path: &Path| {
        path.canonicalize().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                unusable(directory, "the repository has no such directory")
            }
            _ => unusable(directory, &error.to_string()),
        })
    };
    let root = real(root)?;
    let path = real(&root.join(directory))?;
    if !path.starts_with(&root) {
        return Err(unusable(directory, "a symbolic link leads out of the repository"));
    }
    if path.starts_with(root.join(".git")) {
        return Err(unusable(directory, "it leads into the repository's own data"));
    }
    if !path.is_dir() {
        return Err(unusable(directory, "it is not a directory"));
    }
    Ok((root, path))
}

fn unusable(directory: &str, reason: &str) -> FetchError {
    FetchError::WorkingDirectory {
        directory: directory.escape_debug().to_string(),
        reason: reason.to_owned(),
    }
}

/// Refuses a module that has Git LFS pointers in place of its files: Terraform would read them as
/// configuration, or deploy them instead of the archive or image that they represent.
///
/// # Errors
/// When there is any, or a directory cannot be read.
fn refuse_lfs_pointers(directory: &Path) -> Result<(), FetchError> {
    let mut pointers = find_pointers(directory).map_err(|error| FetchError::Git {
        act: "look for Git LFS pointers".to_owned(),
        reason: error.to_string(),
    })?;
    if pointers.is_empty() {
        return Ok(());
    }
    // Files that Terraform reads are named first.
    pointers.sort_by_cached_key(|file| (!is_configuration(file), file.clone()));
    let count = pointers.len();
    let files = pointers
        .iter()
        .take(NAMED_FILES)
        .map(|file| {
            file.strip_prefix(directory)
                .unwrap_or(file)
                .to_string_lossy()
                .escape_debug()
                .to_string()
        })
        .collect();
    Err(FetchError::LfsPointers { files, count })
}

fn is_configuration(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    [".tf", ".tofu", ".tfvars", ".json", ".hcl"].iter().any(|ending| name.ends_with(ending))
}

fn find_pointers(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut pointers = Vec::new();
    // Not recursive, because directories can be nested deep.
    let mut waiting = vec![directory.to_owned()];
    while let Some(directory) = waiting.pop() {
        let entries = match std::fs::read_dir(&directory) {
            // Terraform cannot name what is deeper than a path can be long.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidFilename => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() && entry.file_name() != ".git" {
                waiting.push(entry.path());
            } else if kind.is_file() && entry.metadata()?.len() <= MAX_POINTER {
                pointers.extend(is_pointer(&entry.path())?.then(|| entry.path()));
            }
        }
    }
    Ok(pointers)
}

fn is_pointer(file: &Path) -> std::io::Result<bool> {
    let mut beginning = Vec::with_capacity(LFS_POINTER.len());
    let file = match File::open(file) {
        Err(error) if error.kind() == std::io::ErrorKind::InvalidFilename => return Ok(false),
        file => file?,
    };
    file.take(LFS_POINTER.len() as u64).read_to_end(&mut beginning)?;
    Ok(beginning == LFS_POINTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn working_directory_must_be_inside_the_clone() {
        let base = tempfile::tempdir().unwrap();
        let root = base.path().join("clone");
        std::fs::create_dir_all(root.join("modules/network")).unwrap();
        std::fs::create_dir_all(root.join(".git/hooks")).unwrap();
        std::fs::create_dir(base.path().join("clone-of-another")).unwrap();
        std::fs::write(root.join("main.tf"), "").unwrap();
        std::os::unix::fs::symlink("modules", root.join("inside")).unwrap();
        std::os::unix::fs::symlink("../clone-of-another", root.join("outside")).unwrap();
        std::os::unix::fs::symlink(".git", root.join("data")).unwrap();
        for good in ["", ".", "modules/network", "./modules/network/", "inside/network"] {
            let (clone, directory) = module_directory(&root, good).unwrap();
            assert!(directory.starts_with(clone), "{good}");
        }
        for bad in ["/etc", "..", "modules/../../x", "a/..", ".git/hooks", "modules\0"] {
            assert!(check_relative(bad).is_err(), "{bad}");
        }
        for bad in ["missing", "outside", "main.tf", "data/hooks"] {
            let error = module_directory(&root, bad).unwrap_err();
            assert!(error.to_string().contains(bad), "{error}");
        }
    }

    #[test]
    fn directories_of_any_depth_are_searched() {
        // In memory, if that is possible: a disk takes ten times as long.
        let in_memory = tempfile::tempdir_in("/dev/shm");
        let directory = in_memory.or_else(|_| tempfile::tempdir()).unwrap();
        let (top, outer) = (directory.path().join("a"), directory.path().join("outer"));
        std::fs::create_dir(&top).unwrap();
        std::fs::write(top.join("deep.zip"), LFS_POINTER).unwrap();
        for depth in 1..=20_000 {
            std::fs::create_dir(&outer).unwrap();
            std::fs::rename(&top, outer.join("a")).unwrap();
            std::fs::rename(&outer, &top).unwrap();
            if depth == 1000 {
                assert!(refuse_lfs_pointers(directory.path()).is_err());
            }
        }
        refuse_lfs_pointers(directory.path()).unwrap();
        // The directory for tests is removed with a recursion that is too deep for this one.
        butler_base::secret::wipe_directory(&top, butler_base::secret::Layout::default()).unwrap();
    }

    #[test]
    fn lfs_pointers_are_counted_and_configuration_is_named_first() {
        let directory = tempfile::tempdir().unwrap();
        let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
        refuse_lfs_pointers(directory.path()).unwrap();
        std::fs::write(directory.path().join("README.md"), format!("see: {pointer}")).unwrap();
        std::fs::write(directory.path().join("big"), format!("{pointer}{}", "x".repeat(2000)))
            .unwrap();
        refuse_lfs_pointers(directory.path()).unwrap();
        std::fs::create_dir(directory.path().join("sub")).unwrap();
        for name in ["a.zip", "b.zip", "sub/c.zip", "z.tf"] {
            std::fs::write(directory.path().join(name), pointer).unwrap();
        }
        let error = refuse_lfs_pointers(directory.path()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "4 files are only Git LFS pointers in the module: `z.tf`, `a.zip`, `b.zip`, …"
        );
    }
}
