//! Finds the version files that apply to a directory: its own, and those above it in its repository.
//!
//! Other users must not choose the version, although they may be able to write to a directory further up,
//! such as `/tmp`. So the search stops at the root of the repository and at the first directory of
//! another owner; without a repository, it only looks at the directory itself. A symbolic link counts only
//! if it points to a version file in the same repository: its content may be quoted in messages, and
//! a link could point to any file that the runner's user can read.

use std::path::{Path, PathBuf};

use super::module::ModuleError;
use butler_base::platform::fs::MetadataExt;
use butler_protocol::spec::{VersionFile, VersionFileKind};

/// The largest version file that is read, in bytes.
const MAX_SIZE: u64 = 64 * 1024;

/// The version files of `directory`, in order of precedence: files in nearer directories first, and in
/// one directory in the order of [`VersionFileKind::ALL`].
///
/// # Errors
/// When the directory or one of the files cannot be read.
pub fn version_files(directory: &Path) -> Result<Vec<VersionFile>, ModuleError> {
    let failed = |source| ModuleError::Read { path: directory.to_owned(), source };
    let start = directory.canonicalize().map_err(failed)?;
    let repository = repository_root(&start).map_err(failed)?;
    let top = repository.as_deref().unwrap_or(&start);
    let mut found = Vec::new();
    for (height, directory) in start.ancestors().enumerate() {
        for kind in VersionFileKind::ALL {
            if let Some(target) =
                resolve_version_file(&directory.join(kind.name()), repository.as_deref())
                && let Some(text) = read(&target)?
            {
                let place = format!("{}{}", "../".repeat(height), kind.name());
                found.push(VersionFile { kind, place, text });
            }
        }
        if directory == top {
            break;
        }
    }
    Ok(found)
}

/// The root of the repository of `start`, if all directories in between have the same owner.
fn repository_root(start: &Path) -> std::io::Result<Option<PathBuf>> {
    let owner = start.metadata()?.uid();
    let root = start
        .ancestors()
        .take_while(|path| path.metadata().is_ok_and(|metadata| metadata.uid() == owner))
        .find(|path| path.join(".git").symlink_metadata().is_ok());
    Ok(root.map(Path::to_owned))
}

/// The target of `path`, if it is a version file in the repository (if there is a repository).
fn resolve_version_file(path: &Path, repository: Option<&Path>) -> Option<PathBuf> {
    let target = path.canonicalize().ok()?;
    let named = VersionFileKind::ALL.iter().any(|kind| target.ends_with(kind.name()));
    let inside = repository.is_none_or(|root| target.starts_with(root));
    (named && inside && target.is_file()).then_some(target)
}

/// The file's text; `None` if it is too large. Bytes that are not UTF-8 are not a version either.
fn read(path: &Path) -> Result<Option<String>, ModuleError> {
    let failed = |source| ModuleError::Read { path: path.to_owned(), source };
    let size = std::fs::metadata(path).map_err(failed)?.len();
    if size > MAX_SIZE {
        tracing::warn!(path = %path.display(), size, "too large for a version file");
        return Ok(None);
    }
    let bytes = std::fs::read(path).map_err(failed)?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A directory with these files; a name that ends in `/` is a directory.
    fn tree(files: &[&str]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        for name in files {
            let path = directory.path().join(name);
            std::fs::create_dir_all(if name.ends_with('/') {
                &path
            } else {
                path.parent().unwrap()
            })
            .unwrap();
            if !name.ends_with('/') {
                std::fs::write(path, format!("of {name}")).unwrap();
            }
        }
        directory
    }

    fn places(directory: &Path) -> Vec<String> {
        version_files(directory).unwrap().into_iter().map(|file| file.place).collect()
    }

    #[test]
    fn nearer_version_files_come_first_and_files_above_the_repository_are_ignored() {
        let tree = tree(&[
            ".terraform-version",
            "repository/.git/",
            "repository/.tool-versions",
            "repository/a/.opentofu-version",
            "repository/a/.terragrunt-version",
            "repository/a/b/.terraform-version",
            "repository/a/b/.tool-versions",
            "repository/c/.terraform-version",
        ]);
        assert_eq!(
            places(&tree.path().join("repository/a/b")),
            [
                ".terraform-version",
                ".tool-versions",
                "../.opentofu-version",
                "../.terragrunt-version",
                "../../.tool-versions"
            ]
        );
    }

    #[test]
    fn without_a_repository_only_the_directory_itself_is_searched() {
        let tree = tree(&[".terraform-version", "a/.tool-versions"]);
        assert_eq!(places(&tree.path().join("a")), [".tool-versions"]);
    }

    #[test]
    fn version_files_of_another_users_repository_are_ignored() {
        let tree = tree(&[".git/", ".terraform-version", "a/.tool-versions"]);
        // Only root can change the owner of a directory, so only root can test this.
        if std::os::unix::fs::chown(tree.path(), Some(12345), None).is_ok() {
            assert_eq!(places(&tree.path().join("a")), [".tool-versions"]);
        }
    }

    #[test]
    fn link_is_followed_only_to_a_version_file_in_the_repository() {
        let tree = tree(&[
            "outside/.terraform-version",
            "secret",
            "repository/.git/",
            "repository/shared/.terraform-version",
            "repository/a/",
        ]);
        let link = tree.path().join("repository/a/.terraform-version");
        for (target, counts) in [
            ("../shared/.terraform-version", true),
            ("../../outside/.terraform-version", false),
            ("../../secret", false),
            ("/dev/zero", false),
        ] {
            symlink(target, &link).unwrap();
            assert_eq!(!places(link.parent().unwrap()).is_empty(), counts, "{target}");
            std::fs::remove_file(&link).unwrap();
        }
    }

    #[test]
    fn endless_version_file_is_skipped() {
        let tree = tree(&[".tool-versions"]);
        let file = std::fs::File::create(tree.path().join(".terraform-version")).unwrap();
        file.set_len(1 << 40).unwrap();
        assert_eq!(places(tree.path()), [".tool-versions"]);
    }
}
