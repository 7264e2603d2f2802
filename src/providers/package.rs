//! One provider's package: its path in a cache, its files, and its checksum.
//!
//! The layout is that of Terraform's own plugin cache, so that a directory which was filled by
//! `terraform providers mirror` and unpacked, or by Terraform itself, can be named as a cache.

use std::collections::BTreeSet;
use std::fs::{File, FileType, Permissions};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::error::ProvidersError;
use butler_base::platform::fs::{PermissionsExt, sync_directory};
use butler_base::trust;

/// `OpenTofu` locks each package by a file in it, which is not a part of the package.
const LOCK: &str = ".lock";

/// How many bytes of a file are read at once.
const CHUNK: usize = 256 * 1024;

/// The depth of a package below the cache, in directories.
const DEPTH: usize = 5;

/// The largest number of files in a package; real ones have a few.
const MAX_FILES: usize = 10_000;

/// A package: its path `HOST/NAMESPACE/NAME/VERSION/PLATFORM`, as in Terraform's plugin cache.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Package {
    path: PathBuf,
}

impl Package {
    /// The package of the provider at `address`, such as `registry.terraform.io/hashicorp/aws`, for
    /// this platform. `None` if one of the two could lead out of the cache.
    pub(super) fn new(address: &str, version: &str) -> Option<Self> {
        Self::at(Path::new(address).join(version).join(platform()))
    }

    /// The package at a path below a cache; `None` if the path is not that of a package.
    pub(super) fn at(path: PathBuf) -> Option<Self> {
        let plain = |component: Component<'_>| match component {
            Component::Normal(name) => name.to_str().is_some_and(|name| {
                let is_plain = |c: char| c.is_alphanumeric() || "-_.+:".contains(c);
                !name.starts_with('.') && name.chars().all(is_plain)
            }),
            _ => false,
        };
        let parts = path.components().count() == DEPTH && path.components().all(plain);
        parts.then_some(Self { path })
    }

    /// Its path below `root`.
    pub(super) fn below(&self, root: &Path) -> PathBuf {
        root.join(&self.path)
    }

    /// Whether the package exists below `root`.
    ///
    /// # Errors
    /// When another user could have written it, or it is not a directory.
    pub(super) fn exists(&self, root: &Path) -> Result<bool, ProvidersError> {
        let mut path = root.to_owned();
        for part in &self.path {
            path.push(part);
            match trust::inspect(&path).map_err(ProvidersError::distrust(&path))? {
                None => return Ok(false),
                Some(found) if found.is_dir() => {}
                Some(_) => {
                    return Err(ProvidersError::Unsafe { path, fault: "it is not a directory" });
                }
            }
        }
        Ok(true)
    }

    fn parts(&self) -> impl Iterator<Item = &str> {
        self.path.iter().filter_map(|part| part.to_str())
    }

    /// The provider's address.
    pub(super) fn provider(&self) -> String {
        self.parts().take(3).collect::<Vec<_>>().join("/")
    }

    /// The provider's version.
    pub(super) fn version(&self) -> &str {
        self.parts().nth(3).unwrap_or_default()
    }

    /// The platform, such as `linux_amd64`.
    pub(super) fn platform(&self) -> &str {
        self.parts().nth(4).unwrap_or_default()
    }

    /// A unique file name for this package.
    pub(super) fn key(&self) -> String {
        self.parts().collect::<Vec<_>>().join("~")
    }

    /// The package that has this key.
    pub(super) fn of_key(key: &str) -> Option<Self> {
        Self::at(key.replace('~', "/").into())
    }
}

/// For messages: address and version.
impl std::fmt::Display for Package {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} {}", self.provider(), self.version())
    }
}

/// All packages below `root`, for all platforms.
///
/// # Errors
/// When `root` cannot be read; unreadable directories below it are skipped.
pub(super) fn all(root: &Path) -> Result<Vec<Package>, ProvidersError> {
    search(root, FileType::is_dir)
}

/// All packages, including links, as Terraform creates them.
///
/// # Errors
/// When `root` cannot be read; unreadable directories below it are skipped.
pub(super) fn all_with_links(root: &Path) -> Result<Vec<Package>, ProvidersError> {
    search(root, |kind| kind.is_dir() || kind.is_symlink())
}

fn search(
    root: &Path,
    is_package: impl Fn(&FileType) -> bool,
) -> Result<Vec<Package>, ProvidersError> {
    let mut level = vec![PathBuf::new()];
    for depth in 1..=DEPTH {
        let mut next = Vec::new();
        for path in level {
            let directory = root.join(&path);
            let entries = match std::fs::read_dir(&directory) {
                Ok(entries) => entries,
                Err(error) if depth == 1 && error.kind() != io::ErrorKind::NotFound => {
                    return Err(ProvidersError::read(&directory)(error));
                }
                Err(_) => continue,
            };
            let counts = |kind: FileType| {
                if depth == DEPTH { is_package(&kind) } else { kind.is_dir() }
            };
            let below = entries.flatten().filter(|it| it.file_type().is_ok_and(counts));
            next.extend(below.map(|entry| path.join(entry.file_name())));
        }
        level = next;
    }
    let mut packages: Vec<_> = level.into_iter().filter_map(Package::at).collect();
    packages.sort();
    Ok(packages)
}

/// The names of all files in the package at `directory`, relative to it.
///
/// # Errors
/// When one of them, or a directory, may belong to another user, is a link, or is not a regular file.
pub(super) fn files(directory: &Path) -> Result<BTreeSet<PathBuf>, ProvidersError> {
    let mut files = BTreeSet::new();
    let mut directories = vec![PathBuf::new()];
    while let Some(inner) = directories.pop() {
        let path = directory.join(&inner);
        for entry in std::fs::read_dir(&path).map_err(ProvidersError::read(&path))? {
            let name = entry.map_err(ProvidersError::read(&path))?.file_name();
            let (path, inner) = (path.join(&name), inner.join(&name));
            if inner == Path::new(LOCK) {
                continue;
            }
            let refused = |fault| ProvidersError::Unsafe { path: path.clone(), fault };
            match trust::inspect(&path).map_err(ProvidersError::distrust(&path))? {
                Some(found) if found.is_dir() => directories.push(inner),
                Some(found) if found.is_file() => drop(files.insert(inner)),
                Some(_) => return Err(refused("it is not a regular file")),
                None => {}
            }
            if files.len() + directories.len() > MAX_FILES {
                return Err(refused("its directory contains too many files"));
            }
        }
    }
    Ok(files)
}

/// The checksum of the package at `directory` as Terraform's lock files write it: `h1:...`, the
/// `dirhash` of Go modules.
///
/// # Errors
/// When it cannot be read; with [`io::ErrorKind::Interrupted`] when `abandoned` is cancelled.
pub(super) fn sum(
    directory: &Path,
    files: &BTreeSet<PathBuf>,
    abandoned: &CancellationToken,
) -> io::Result<String> {
    // In the order of whole names, not of their parts.
    let mut names: Vec<&str> = files.iter().filter_map(|name| name.to_str()).collect();
    if names.len() != files.len() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    names.sort_unstable();
    let mut all = Sha256::new();
    let mut chunk = vec![0; CHUNK];
    for name in names {
        let mut file = File::open(directory.join(name))?;
        let mut one = Sha256::new();
        loop {
            if abandoned.is_cancelled() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            match file.read(&mut chunk)? {
                0 => break,
                read => one.update(&chunk[..read]),
            }
        }
        all.update(format!("{}  {name}\n", hex::encode(one.finalize())));
    }
    Ok(format!("h1:{}", STANDARD.encode(all.finalize())))
}

/// Puts the files of the package at `from` below `to`, which must not exist. If `linked` is set and
/// both are on one file system, hard links are created; otherwise the files are copied, and the
/// copies are writable.
pub(super) fn link_or_copy(
    from: &Path,
    files: &BTreeSet<PathBuf>,
    to: &Path,
    linked: bool,
) -> io::Result<()> {
    trust::make_private(to)?;
    for name in files {
        let (from, to) = (from.join(name), to.join(name));
        if let Some(parent) = to.parent() {
            trust::make_private(parent)?;
        }
        if linked {
            match std::fs::hard_link(&from, &to) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {}
                linked => {
                    linked?;
                    continue;
                }
            }
        }
        std::fs::copy(&from, &to)?;
        let mode = to.metadata()?.permissions().mode();
        std::fs::set_permissions(&to, Permissions::from_mode(mode | 0o200))?;
    }
    Ok(())
}

/// Makes `files` of the package at `directory` read-only and syncs them to disk. Other hard links to
/// them become read-only too.
pub(super) fn seal(directory: &Path, files: &BTreeSet<PathBuf>) -> io::Result<()> {
    for name in files {
        let file = File::open(directory.join(name))?;
        let mode = file.metadata()?.permissions().mode();
        file.set_permissions(Permissions::from_mode(mode & !0o222))?;
        file.sync_all()?;
    }
    sync_directory(directory)
}

/// Removes write access for others from the package at `directory`: some archives grant it, and a
/// package that all users can write to would not be used again.
pub(super) fn remove_write_access_for_others(directory: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let (path, found) = (entry.path(), entry.metadata()?);
        let mode = found.permissions().mode();
        if !found.is_symlink() && mode & 0o002 != 0 {
            std::fs::set_permissions(&path, Permissions::from_mode(mode & !0o002))?;
        }
        if found.is_dir() {
            remove_write_access_for_others(&path)?;
        }
    }
    Ok(())
}

/// Terraform's name of this platform.
fn platform() -> String {
    let system = match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    };
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    };
    format!("{system}_{architecture}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_valid_address_and_version_make_a_package() {
        let package = Package::new("registry.terraform.io/hashicorp/aws", "5.31.0").unwrap();
        assert_eq!(package.to_string(), "registry.terraform.io/hashicorp/aws 5.31.0");
        assert_eq!(package.platform(), platform());
        for (address, version) in [
            ("registry.terraform.io/hashicorp", "5.31.0"),
            ("registry.terraform.io/hashicorp/aws/x", "5.31.0"),
            ("registry.terraform.io/../aws", "5.31.0"),
            ("/registry.terraform.io/hashicorp", "5.31.0"),
            ("registry.terraform.io/hashicorp/.aws", "5.31.0"),
            ("registry.terraform.io/hashicorp/a ws", "5.31.0"),
            ("registry.terraform.io/hashicorp/aws", ".."),
            ("registry.terraform.io/hashicorp/aws", "/5.31.0"),
            ("", ""),
        ] {
            assert_eq!(Package::new(address, version), None, "{address} {version}");
        }
    }

    #[test]
    fn checksum_is_that_of_gos_dirhash() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("a")).unwrap();
        for (name, text) in [("a/b", "inner"), ("a-b", "beside"), ("provider", "binary")] {
            std::fs::write(directory.path().join(name), text).unwrap();
        }
        std::fs::write(directory.path().join(LOCK), "").unwrap();
        let files = files(directory.path()).unwrap();
        let sum = sum(directory.path(), &files, &CancellationToken::new()).unwrap();
        // printf inner | sha256sum and so on, `  NAME` added, sorted by name, summed up again.
        assert_eq!(sum, "h1:ZV2MEO92gYxNtj/+/Kf2VRfWVbAIMVM+IemW2QRIYtM=");
    }

    #[test]
    fn package_with_a_link_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc/passwd", directory.path().join("README")).unwrap();
        let error = files(directory.path()).unwrap_err();
        assert!(error.to_string().contains("it is a symbolic link"), "{error}");
    }
}
