//! Finds the version files that apply to a directory: its own, and those above it in its repository.
//!
//! Other users must not choose the version, although they may be able to write to a directory further up,
//! such as `/tmp`. So the search stops at the root of the repository and at the first directory of
//! another owner; without a repository, it only looks at the directory itself. A symbolic link counts only
//! if it points to a version file in the same repository: its content may be quoted in messages, and
//! a link could point to any file that the runner's user can read. Version files that do not count because of another
//! owner are named, because the user has probably written them.

use std::fmt;
use std::path::{Path, PathBuf};

use super::module::ModuleError;
use butler_base::platform::fs::MetadataExt;
use butler_protocol::spec::{VersionFile, VersionFileKind};

/// The largest version file that is read, in bytes.
const MAX_SIZE: u64 = 64 * 1024;

/// The version files of a directory.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct VersionFiles {
    /// Those that count, in order of precedence: files in nearer directories first, and in one directory in the
    /// order of [`VersionFileKind::ALL`].
    pub counted: Vec<VersionFile>,
    /// Those in the same repository that do not count, in the same order.
    pub ignored: Vec<IgnoredVersionFile>,
    /// Files of other version managers that name a version of a tool and are not read, nearer ones first: their paths
    /// relative to the directory.
    pub unread: Vec<String>,
}

/// Files of other version managers that have a format of their own.
const UNREAD: [&str; 7] = [
    "mise.toml",
    ".mise.toml",
    "mise.local.toml",
    ".config/mise.toml",
    ".mise/config.toml",
    ".tfswitch.toml",
    ".tgswitch.toml",
];

/// A version file that does not count, because a directory between it and the module belongs to another user.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct IgnoredVersionFile {
    /// Its path relative to the directory that it would apply to.
    pub place: String,
    /// The nearest directory of another user.
    pub directory: PathBuf,
    /// The id of that user.
    pub owner: u32,
    /// The id of the user to whom the module's directory belongs.
    pub expected: u32,
}

impl fmt::Display for IgnoredVersionFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, directory, owner, expected } = self;
        write!(
            formatter,
            "the version file `{place}` is ignored: `{}` belongs to the user {owner}, and the module's directory to the user {expected}",
            directory.display()
        )
    }
}

impl IgnoredVersionFile {
    /// What to do about it.
    pub const ADVICE: &'static str =
        "give all directories of the repository the same owner, or name the version in the run";
}

/// The version files of `directory`.
///
/// # Errors
/// When the directory or one of the files cannot be read.
pub fn version_files(directory: &Path) -> Result<VersionFiles, ModuleError> {
    let failed = |source| ModuleError::Read { path: directory.to_owned(), source };
    let start = directory.canonicalize().map_err(failed)?;
    let repository = repository_root(&start).map_err(failed)?;
    let top = repository.as_deref().unwrap_or(&start);
    let (mut found, mut unread) = (Vec::new(), Vec::new());
    for (height, directory) in start.ancestors().enumerate() {
        for name in UNREAD.iter().filter(|name| names_a_tool(&directory.join(name))) {
            unread.push(format!("{}{name}", "../".repeat(height)));
        }
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
    let ignored = if repository.is_some() { Vec::new() } else { ignored_files(&start) };
    Ok(VersionFiles { counted: found, ignored, unread })
}

/// Whether a file of another version manager names a version of a tool: with the name of the tool as a key, or with the
/// key `version` in a file that is for one tool.
fn names_a_tool(path: &Path) -> bool {
    let names = ["terraform", "opentofu", "tofu", "terragrunt"];
    let is_small = path.metadata().is_ok_and(|it| it.is_file() && it.len() <= MAX_SIZE);
    let Some(text) = is_small.then(|| std::fs::read_to_string(path).ok()).flatten() else {
        return false;
    };
    let is_of_one = path.to_string_lossy().ends_with("switch.toml");
    let mut keys = text.lines().filter_map(|line| Some(line.split_once('=')?.0));
    keys.any(|key| {
        // mise has names with a backend in front of them: `"aqua:opentofu/opentofu"`.
        let key = key.trim().trim_matches(['"', '\'']);
        let last = key.rsplit([':', '/']).next().unwrap_or(key);
        if is_of_one { key == "version" } else { names.contains(&last) }
    })
}

/// The version files between `start` and the root of a repository in which a directory has another owner.
fn ignored_files(start: &Path) -> Vec<IgnoredVersionFile> {
    let owner = |path: &Path| path.metadata().ok().map(|metadata| metadata.uid());
    let is_root = |path: &&Path| path.join(".git").symlink_metadata().is_ok();
    let (Some(expected), Some(root)) = (owner(start), start.ancestors().find(is_root)) else {
        return Vec::new();
    };
    let of_other = start.ancestors().find_map(|path| {
        owner(path).filter(|owner| *owner != expected).map(|owner| (path.to_owned(), owner))
    });
    let Some((directory, owner)) = of_other else { return Vec::new() };
    let mut ignored = Vec::new();
    for (height, path) in start.ancestors().enumerate().skip(1) {
        for kind in VersionFileKind::ALL.iter().filter(|kind| path.join(kind.name()).is_file()) {
            let place = format!("{}{}", "../".repeat(height), kind.name());
            ignored.push(IgnoredVersionFile {
                place,
                directory: directory.clone(),
                owner,
                expected,
            });
        }
        if path == root {
            break;
        }
    }
    ignored
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
        version_files(directory).unwrap().counted.into_iter().map(|file| file.place).collect()
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
        let tree = tree(&[
            ".git/",
            ".terraform-version",
            "a/.opentofu-version",
            "a/b/c/.tool-versions",
            "a/b/d/",
        ]);
        let module = tree.path().join("a/b/c");
        assert_eq!(version_files(&module).unwrap().ignored, []);
        // Only root can change the owner of a directory, so only root can test this.
        if std::os::unix::fs::chown(tree.path(), Some(12345), None).is_ok() {
            assert_eq!(places(&module), [".tool-versions"]);
            let ignored = version_files(&module).unwrap().ignored;
            let ignored_places: Vec<_> = ignored.iter().map(|file| file.place.as_str()).collect();
            assert_eq!(ignored_places, ["../../.opentofu-version", "../../../.terraform-version"]);
            let own = module.metadata().unwrap().uid();
            let expected = format!(
                "the version file `../../.opentofu-version` is ignored: `{}` belongs to the user 12345, \
                 and the module's directory to the user {own}",
                tree.path().canonicalize().unwrap().display()
            );
            assert_eq!(ignored[0].to_string(), expected);
            let other = version_files(&tree.path().join("a/b/d")).unwrap();
            assert!(other.counted.is_empty() && other.ignored.len() == 2, "{other:?}");
            // A directory in between is enough.
            std::os::unix::fs::chown(tree.path(), Some(own), None).unwrap();
            std::os::unix::fs::chown(tree.path().join("a"), Some(12345), None).unwrap();
            assert_eq!(version_files(&module).unwrap().ignored.len(), 2);
            // The files above a directory that is not in a repository are of no interest.
            std::fs::remove_dir(tree.path().join(".git")).unwrap();
            assert_eq!(version_files(&module).unwrap().ignored, []);
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
    fn files_of_other_version_managers_are_read_or_named() {
        let tree = tree(&[".git/", "a/.tfswitchrc", "a/.tgswitchrc", "a/.tool-versions"]);
        let module = tree.path().join("a");
        assert_eq!(places(&module), [".tool-versions", ".tfswitchrc", ".tgswitchrc"]);
        for (name, text, is_named) in [
            ("a/mise.toml", "[tools]\nnode = \"22\"\nterraform = \"1.9.8\"\n", true),
            ("a/.mise.toml", "[tools]\n\"aqua:opentofu/opentofu\" = '1.8.3'\n", true),
            ("mise.toml", "[tools]\nterraform = \"1\"\n", true),
            ("a/.config/mise.toml", "[tools]\nnode = \"22\" # terraform\n", false),
            ("a/.tfswitch.toml", "bin = \"/x\"\nversion = \"1.9.8\"\n", true),
            ("a/.tgswitch.toml", "bin = \"/x\"\n", false),
            ("a/other.toml", "terraform = 1\n", false),
        ] {
            let path = tree.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
            let unread = version_files(&module).unwrap().unread;
            let place = name.strip_prefix("a/").map_or(format!("../{name}"), str::to_owned);
            assert_eq!(unread.contains(&place), is_named, "{name}: {unread:?}");
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
