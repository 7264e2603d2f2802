//! Where installed tools are kept: `<cache>/<product>/<version>/<executable>`, a record beside it.
//!
//! A version is there or it is not: its directory appears in one rename, with everything in it
//! synced. An executable is handed out only if it is the one that was verified. What others could
//! have put there is refused. The cache's own directory may be writable for others, as the empty
//! volumes of Kubernetes are; it is warned about, and everything below it has to be the user's.

use std::fs::{DirBuilder, File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use semver::Version;
use tokio_util::sync::CancellationToken;

use super::archive;
use super::digest::Sha256Sum;
use super::error::ToolError;
use super::platform::Platform;
use super::record::{self, Identity, Record};
use super::release::VerifiedArchive;
use crate::spec::Product;
use crate::spec::ToolRequest;

/// The record's name, in the directory of its version.
pub(super) const RECORD: &str = "install.json";

/// Why the cache cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// Something in the cache cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// What.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// Something cannot be written to the cache.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// What.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// Another run holds the lock of a version for too long.
    #[error("another run has been installing this version for too long: `{}` is locked", path.display())]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// Somebody else could have put it there.
    #[error("not using `{}`: {fault}", path.display())]
    Unsafe {
        /// What.
        path: PathBuf,
        /// What is wrong with it.
        fault: &'static str,
    },
}

impl crate::error::Advice for CacheError {
    fn advice(&self) -> Option<String> {
        Some(match self {
            Self::Read { .. } | Self::Write { .. } => {
                "name a directory that is writable and has room with --cache-dir".to_owned()
            }
            Self::Locked { .. } => {
                "end the run that holds the lock, or use another --cache-dir".to_owned()
            }
            Self::Unsafe { path, .. } => format!(
                "remove `{}`, or use a --cache-dir of your own: it has to belong to you or to root, and others must not be able to write to it",
                path.display()
            ),
        })
    }
}

/// What the cache has of a version.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Lookup {
    /// The executable, as it was verified.
    Installed(PathBuf),
    /// Nothing, or nothing whole.
    Missing,
    /// An executable that is not the one that was verified.
    Tampered(PathBuf),
}

/// The cache of one user.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    root: PathBuf,
    platform: Platform,
}

impl Cache {
    /// The cache below `root`, which need not exist.
    pub(super) fn new(root: &Path, platform: Platform) -> Result<Self, CacheError> {
        let root = std::path::absolute(root)
            .map_err(|source| CacheError::Read { path: root.to_owned(), source })?;
        Ok(Self { root, platform })
    }

    /// The directory of a product.
    pub(super) fn product(&self, product: Product) -> PathBuf {
        self.root.join(product.name())
    }

    fn version(&self, request: &ToolRequest) -> PathBuf {
        self.product(request.product).join(request.version.to_string())
    }

    /// The file whose lock is the right to install `request`.
    pub(super) fn lock_file(&self, request: &ToolRequest) -> PathBuf {
        self.product(request.product).join(format!(".{}.lock", request.version))
    }

    /// The directory with a file for each process that uses `request`.
    pub(super) fn users(&self, request: &ToolRequest) -> PathBuf {
        self.product(request.product).join(format!(".{}.users", request.version))
    }

    /// What was done with versions of `product`, the latest last.
    pub(super) fn journal(&self, product: Product) -> PathBuf {
        self.product(product).join("history.json")
    }

    /// What remembers the versions of executables on PATH.
    pub(super) fn path_memory(&self) -> PathBuf {
        self.root.join("path-versions.json")
    }

    /// The versions of `product` that are installed; whether they are sound shows on use.
    pub(super) fn versions(&self, product: Product) -> Vec<Version> {
        let entries = std::fs::read_dir(self.product(product)).into_iter().flatten().flatten();
        let versions = entries.filter_map(|entry| {
            let record: Record = record::read(&entry.path().join(RECORD))?;
            (record.platform == self.platform.to_string())
                .then(|| entry.file_name().to_str()?.parse().ok())?
        });
        versions.collect()
    }

    /// Looks `request` up, and checks the executable against the sum that was verified: in full
    /// when its file looks different from what was recorded.
    pub(super) fn lookup(
        &self,
        request: &ToolRequest,
        abandoned: &CancellationToken,
    ) -> Result<Lookup, CacheError> {
        inspect_root(&self.root)?;
        let directory = self.version(request);
        for path in [&self.product(request.product), &directory] {
            match inspect(path)? {
                Some(metadata) if metadata.is_dir() => {}
                Some(_) => {
                    return Err(CacheError::Unsafe {
                        path: path.clone(),
                        fault: "it is no directory",
                    });
                }
                None => return Ok(Lookup::Missing),
            }
        }
        let record_path = directory.join(RECORD);
        let record = inspect(&record_path)?.and_then(|_| record::read::<Record>(&record_path));
        let Some(record) = record.filter(|record| record.platform == self.platform.to_string())
        else {
            return Ok(Lookup::Missing);
        };
        let path = directory.join(request.product.executable());
        match inspect(&path)? {
            Some(metadata) if metadata.is_file() => {
                check(&path, &record_path, record, &metadata, abandoned)
            }
            _ => Ok(Lookup::Missing),
        }
    }

    /// Makes the directory of `product` (and the cache), private to the user where they are new.
    pub(super) fn prepare(&self, product: Product) -> Result<PathBuf, CacheError> {
        let directory = self.product(product);
        make_private(&directory)
            .map_err(|source| CacheError::Write { path: directory.clone(), source })?;
        inspect_root(&self.root)?;
        inspect(&directory)?;
        Ok(directory)
    }

    /// Installs `request` from its archive. Needs the version's lock.
    pub(super) fn install(
        &self,
        request: &ToolRequest,
        archive: VerifiedArchive,
        abandoned: &CancellationToken,
    ) -> Result<PathBuf, ToolError> {
        let product = self.prepare(request.product)?;
        self.clean(request)?;
        let write = |path: &Path| {
            let path = path.to_owned();
            |source| CacheError::Write { path, source }
        };
        let staged = self.beside(request).map_err(write(&product))?;
        let name = request.product.executable();
        let path = staged.path().join(name);
        let mut file = File::create_new(&path).map_err(write(&path))?;
        let sum = archive::unpack(&archive.file, name, (&mut file, &path), abandoned)?;
        // Whatever the umask: everybody may run it, nobody but its owner may change it.
        file.set_permissions(Permissions::from_mode(0o755)).map_err(write(&path))?;
        file.sync_all().map_err(write(&path))?;
        let record = Record {
            platform: self.platform.to_string(),
            executable_sha256: sum,
            archive_sha256: archive.sha256,
            archive_url: archive.url,
            signer: archive.trusted,
            installed_at: humantime::format_rfc3339_seconds(std::time::SystemTime::now())
                .to_string(),
            identity: Identity::from(&file.metadata().map_err(write(&path))?),
        };
        drop(file);
        record::write(&staged.path().join(RECORD), &record).map_err(write(&path))?;
        sync_directory(staged.path()).map_err(write(&path))?;

        let directory = self.version(request);
        if std::fs::symlink_metadata(&directory).is_ok() {
            // What was refused goes away in one rename too, and is deleted from there.
            let discarded = self.beside(request).map_err(write(&product))?;
            std::fs::rename(&directory, discarded.path().join("refused"))
                .map_err(write(&directory))?;
        }
        std::fs::rename(staged.path(), &directory).map_err(write(&directory))?;
        // Only the name is gone that the guard would delete.
        let _ = staged.keep();
        sync_directory(&product).map_err(write(&product))?;
        Ok(directory.join(name))
    }

    /// A private directory beside the version's, deleted when it is dropped.
    fn beside(&self, request: &ToolRequest) -> io::Result<tempfile::TempDir> {
        tempfile::Builder::new()
            .prefix(&partial(request))
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(self.product(request.product))
    }

    /// Deletes what earlier installations of `request` left when they were killed.
    fn clean(&self, request: &ToolRequest) -> Result<(), CacheError> {
        let directory = self.product(request.product);
        let read = |source| CacheError::Read { path: directory.clone(), source };
        for entry in std::fs::read_dir(&directory).map_err(read)? {
            let entry = entry.map_err(read)?;
            if entry.file_name().to_string_lossy().starts_with(&partial(request)) {
                let path = entry.path();
                std::fs::remove_dir_all(&path)
                    .map_err(|source| CacheError::Write { path, source })?;
            }
        }
        Ok(())
    }
}

/// Checks an executable against the sum in its record: in full when it looks different.
fn check(
    path: &Path,
    record_path: &Path,
    record: Record,
    metadata: &Metadata,
    abandoned: &CancellationToken,
) -> Result<Lookup, CacheError> {
    let found = |path: &Path| Ok(Lookup::Installed(path.to_owned()));
    if Identity::from(metadata) == record.identity {
        return found(path);
    }
    tracing::debug!(path = %path.display(), "looks different from what was recorded: summing it up");
    let read = |source| CacheError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(read)?;
    let before = Identity::from(&file.metadata().map_err(read)?);
    let sum = Sha256Sum::of(&file, abandoned).map_err(read)?;
    if sum != record.executable_sha256 || metadata.mode() & 0o100 == 0 {
        return Ok(Lookup::Tampered(path.to_owned()));
    }
    // A read-only cache only costs that this is done again.
    if let Err(error) = record::write(record_path, &Record { identity: before, ..record }) {
        tracing::debug!(path = %record_path.display(), %error, "cannot update the record");
    }
    found(path)
}

/// How the names of half-made directories begin. No version has a `~`, so one version's are not
/// taken for another's.
fn partial(request: &ToolRequest) -> String {
    format!(".partial-{}~", request.version)
}

/// Refuses a cache that belongs to somebody else, who could exchange what is below it at any time.
/// The root itself may be a link: the user named it.
fn inspect_root(root: &Path) -> Result<(), CacheError> {
    let metadata = match std::fs::metadata(root) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(CacheError::Read { path: root.to_owned(), source }),
    };
    if is_foreign(&metadata) {
        return Err(CacheError::Unsafe { path: root.to_owned(), fault: FOREIGN });
    }
    // With the sticky bit, others can add to a directory but not exchange what is ours.
    if metadata.mode() & 0o1002 == 0o002 {
        tracing::warn!(path = %root.display(), "every user may write to the cache's directory");
    }
    Ok(())
}

const FOREIGN: &str = "it belongs to another user";

fn is_foreign(metadata: &Metadata) -> bool {
    metadata.uid() != 0 && metadata.uid() != nix::unistd::geteuid().as_raw()
}

/// What is at `path`, links not followed; refused if somebody else could have put it there.
///
/// Groups may write: a volume of a Kubernetes pod belongs to the pod's group, and is made writable
/// for it whenever it is mounted.
pub(super) fn inspect(path: &Path) -> Result<Option<Metadata>, CacheError> {
    let metadata = match std::fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(CacheError::Read { path: path.to_owned(), source }),
    };
    let refused = |fault| Err(CacheError::Unsafe { path: path.to_owned(), fault });
    if is_foreign(&metadata) {
        return refused(FOREIGN);
    }
    if metadata.is_symlink() {
        return refused("it is a symbolic link");
    }
    if metadata.mode() & 0o002 != 0 {
        return refused("every user may write to it");
    }
    Ok(Some(metadata))
}

/// Makes a directory and those above it, as far as they are not there, private to the user.
pub(super) fn make_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_another_user_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let cache =
            Cache::new(directory.path(), Platform { system: "linux", architecture: "amd64" });
        let cache = cache.unwrap();
        let product = cache.prepare(Product::Terraform).unwrap();
        let request = "1.9.8".parse().unwrap();
        let lookup = || cache.lookup(&request, &CancellationToken::new());
        assert_eq!(lookup().unwrap(), Lookup::Missing);
        // Only root can give files away; for others the rule is held by what root runs.
        for path in [product.as_path(), directory.path()] {
            if std::os::unix::fs::chown(path, Some(12345), None).is_ok() {
                let error = lookup().unwrap_err();
                assert!(error.to_string().contains(FOREIGN), "{error}");
                assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
                std::os::unix::fs::chown(path, Some(0), None).unwrap();
            }
        }
    }

    #[test]
    fn link_in_place_of_a_directory_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let elsewhere = directory.path().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        let root = directory.path().join("cache");
        std::fs::create_dir(&root).unwrap();
        std::os::unix::fs::symlink(&elsewhere, root.join("terraform")).unwrap();
        let cache = Cache::new(&root, Platform { system: "linux", architecture: "amd64" }).unwrap();
        let error = cache.lookup(&"1.9.8".parse().unwrap(), &CancellationToken::new()).unwrap_err();
        assert!(matches!(error, CacheError::Unsafe { .. }), "{error}");
    }

    #[test]
    fn record_for_another_platform_counts_for_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let on = |architecture| {
            Cache::new(directory.path(), Platform { system: "linux", architecture }).unwrap()
        };
        let version = on("amd64").prepare(Product::Terraform).unwrap().join("1.9.8");
        make_private(&version).unwrap();
        let path = version.join("terraform");
        std::fs::write(&path, "").unwrap();
        let sum = Sha256Sum::of(io::empty(), &CancellationToken::new()).unwrap();
        let record = Record {
            platform: "linux_amd64".to_owned(),
            executable_sha256: sum,
            archive_sha256: sum,
            archive_url: String::new(),
            signer: record::Trusted::Checksum,
            installed_at: String::new(),
            identity: Identity::from(&path.metadata().unwrap()),
        };
        record::write(&version.join(RECORD), &record).unwrap();
        for (architecture, there) in [("amd64", true), ("arm64", false)] {
            let cache = on(architecture);
            let found = cache.lookup(&"1.9.8".parse().unwrap(), &CancellationToken::new()).unwrap();
            assert_eq!(found != Lookup::Missing, there, "{architecture}");
            assert_eq!(!cache.versions(Product::Terraform).is_empty(), there);
        }
    }
}
