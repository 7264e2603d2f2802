//! Where installed tools are kept: `<cache>/<product>/<version>/<executable>`, a record beside it.
//!
//! A version is there or it is not: its directory appears in one rename, with everything in it
//! synced. An executable is handed out only if it is the one that was verified. What others could
//! have put there is refused. The cache's own directory may be writable for others, as the empty
//! volumes of Kubernetes are; it is warned about, and everything below it has to be the user's.

use std::fs::{DirBuilder, File, Metadata, Permissions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use semver::Version;
use tokio_util::sync::CancellationToken;

use crate::tool::choice::path;
use crate::tool::digest::Sha256Sum;
use crate::tool::error::ToolError;
use crate::tool::fetch::release::VerifiedArchive;
use crate::tool::store::archive;
use crate::tool::store::error::CacheError;
use crate::tool::store::record::{self, Identity, Record};
use crate::tool::store::traces::partial_prefix;
use crate::tool::store::usage::Unused;
use crate::tool::vendor::platform::Platform;
use crate::tool::vendor::product::Vendored as _;
use butler_base::platform::fs::{
    CHANGES_SHOW, DirBuilderExt, MetadataExt, PermissionsExt, sync_directory,
};
use butler_base::trust;
use butler_protocol::spec::Product;
use butler_protocol::spec::ToolRequest;

pub(in crate::tool) use butler_base::trust::make_private;

/// The record's name, in the directory of its version.
pub(in crate::tool) const RECORD: &str = "install.json";

/// What the cache has of a version.
#[derive(Debug, Eq, PartialEq)]
pub(in crate::tool) enum Lookup {
    /// The executable, as it was verified.
    Installed(PathBuf),
    /// Nothing, or nothing whole.
    Missing,
    /// An executable that is not the one that was verified.
    Tampered(PathBuf),
}

/// The cache of one user.
#[derive(Clone, Debug)]
pub(in crate::tool) struct Cache {
    root: PathBuf,
    platform: Platform,
}

impl Cache {
    /// The cache below `root`, which need not exist.
    pub(in crate::tool) fn new(root: &Path, platform: Platform) -> Result<Self, CacheError> {
        let root = std::path::absolute(root)
            .map_err(|source| CacheError::Read { path: root.to_owned(), source })?;
        Ok(Self { root, platform })
    }

    /// The cache's own directory.
    pub(in crate::tool) fn root(&self) -> &Path {
        &self.root
    }

    /// The directory of a product.
    pub(in crate::tool) fn product(&self, product: Product) -> PathBuf {
        self.root.join(product.name())
    }

    /// The directory of `request`, installed or not.
    pub(in crate::tool) fn version(&self, request: &ToolRequest) -> PathBuf {
        self.product(request.product).join(request.version.to_string())
    }

    /// The executable of `request`, whether or not it is there.
    pub(in crate::tool) fn executable(&self, request: &ToolRequest) -> PathBuf {
        self.version(request).join(request.product.file_name())
    }

    /// The file whose lock is the right to install `request`.
    pub(in crate::tool) fn lock_file(&self, request: &ToolRequest) -> PathBuf {
        self.product(request.product).join(format!(".{}.lock", request.version))
    }

    /// The directory with a file for each process that uses `request`.
    pub(in crate::tool) fn users(&self, request: &ToolRequest) -> PathBuf {
        self.product(request.product).join(format!(".{}.users", request.version))
    }

    /// What was done with versions of `product`, the latest last.
    pub(in crate::tool) fn journal(&self, product: Product) -> PathBuf {
        self.product(product).join("history.json")
    }

    /// What remembers the versions of executables on PATH.
    pub(in crate::tool) fn path_memory(&self) -> PathBuf {
        self.root.join("path-versions.json")
    }

    /// The versions of `product` that a run may choose among; whether they are sound shows on use.
    /// Where they cannot be read there are none: a run that wants one fails when it looks it up.
    pub(in crate::tool) fn versions(&self, product: Product) -> Vec<Version> {
        let directories = self.directories(product).unwrap_or_else(|error| {
            tracing::warn!(
                error = butler_base::error::chain(&error),
                "cannot say what is installed"
            );
            Vec::new()
        });
        let held = directories.into_iter().filter(|request| self.holds(request));
        held.map(|request| request.version).collect()
    }

    /// Makes the directory of the users of `request`. Nothing in it is secret, and whoever may run
    /// the version has to be able to say so.
    pub(in crate::tool) fn make_users(&self, request: &ToolRequest) -> io::Result<()> {
        make_private(&self.product(request.product))?;
        match DirBuilder::new().mode(0o755).create(self.users(request)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        }
    }

    /// What is remembered of `request`, if it is installed for this platform.
    pub(in crate::tool) fn record(&self, request: &ToolRequest) -> Option<Record> {
        self.record_of_any_platform(request).filter(|record| self.is_for_this_platform(record))
    }

    /// What is remembered of `request`, for whatever platform it is.
    pub(in crate::tool) fn record_of_any_platform(&self, request: &ToolRequest) -> Option<Record> {
        record::read(&self.version(request).join(RECORD))
    }

    /// Whether what `record` is about runs here.
    pub(in crate::tool) fn is_for_this_platform(&self, record: &Record) -> bool {
        record.platform == self.platform.to_string()
    }

    /// Has whoever looks `request` up next read all of it, whatever its file looks like.
    pub(in crate::tool) fn doubt(&self, request: &ToolRequest) {
        let path = self.version(request).join(RECORD);
        let Some(record) = record::read::<Record>(&path) else { return };
        let identity = record.identity.unlike_any();
        if let Err(error) = record::write(&path, &Record { identity, ..record }) {
            tracing::debug!(path = %path.display(), %error, "cannot update the record");
        }
    }

    /// Whether `request` is installed; whether it is sound shows on use.
    pub(in crate::tool) fn holds(&self, request: &ToolRequest) -> bool {
        self.record(request).is_some()
    }

    /// Looks `request` up, and checks the executable against the sum that was verified: in full
    /// when its file looks different from what was recorded.
    pub(in crate::tool) fn lookup(
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
        let path = directory.join(request.product.file_name());
        match inspect(&path)? {
            Some(metadata) if metadata.is_file() => {
                check(&path, &record_path, record, &metadata, abandoned)
            }
            _ => Ok(Lookup::Missing),
        }
    }

    /// Makes the directory of `product` (and the cache), private to the user where they are new.
    pub(in crate::tool) fn prepare(&self, product: Product) -> Result<PathBuf, CacheError> {
        let directory = self.product(product);
        make_private(&directory)
            .map_err(|source| CacheError::Write { path: directory.clone(), source })?;
        inspect_root(&self.root)?;
        inspect(&directory)?;
        Ok(directory)
    }

    /// Installs `request` from its archive. Needs the version's lock.
    pub(in crate::tool) fn install(
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
        let name = request.product.file_name();
        let path = staged.path().join(&name);
        let mut file = File::create_new(&path).map_err(write(&path))?;
        let packaging = request.product.packaging();
        let sum = archive::unpack(packaging, &archive.file, &name, (&mut file, &path), abandoned)?;
        // Whatever the umask: everybody may run it, nobody but its owner may change it.
        file.set_permissions(Permissions::from_mode(0o755)).map_err(write(&path))?;
        file.sync_all().map_err(write(&path))?;
        let is_named = archive.trusted.fingerprint().is_some() && request.product.names_version();
        let record = Record {
            platform: self.platform.to_string(),
            executable_sha256: sum,
            archive_sha256: archive.sha256,
            archive_url: archive.url.clone(),
            signer: archive.trusted,
            installed_at: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            identity: Identity::from(&file.metadata().map_err(write(&path))?),
        };
        drop(file);
        // Where nothing that was signed says which version it is.
        if !is_named {
            path::confirm(request, &path, &archive.url, abandoned)?;
        }
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

    /// Whether there is anything that is called `request`, sound or not.
    pub(in crate::tool) fn has(&self, request: &ToolRequest) -> Result<bool, CacheError> {
        inspect_root(&self.root)?;
        if inspect(&self.product(request.product))?.is_none() {
            return Ok(false);
        }
        Ok(std::fs::symlink_metadata(self.version(request)).is_ok())
    }

    /// How much room `request` takes, in bytes.
    pub(in crate::tool) fn size(&self, request: &ToolRequest) -> u64 {
        size(&self.version(request))
    }

    /// Removes `request`: in one rename while nobody can begin to use it, and then for good. Returns
    /// how much room it took. Needs the version's lock.
    pub(in crate::tool) fn remove(
        &self,
        request: &ToolRequest,
        unused: Unused,
    ) -> Result<u64, CacheError> {
        self.clean(request)?;
        let directory = self.version(request);
        let write = |source| CacheError::Write { path: directory.clone(), source };
        let bytes = size(&directory);
        let discarded = self.beside(request).map_err(write)?;
        std::fs::rename(&directory, discarded.path().join("removed")).map_err(write)?;
        drop(unused);
        let path = discarded.path().to_owned();
        if let Err(error) =
            sync_directory(&self.product(request.product)).and_then(|()| discarded.close())
        {
            tracing::warn!(path = %path.display(), %error, "cannot delete all of what was removed");
        }
        Ok(bytes)
    }

    /// A private directory beside the version's, deleted when it is dropped.
    pub(in crate::tool) fn beside(&self, request: &ToolRequest) -> io::Result<tempfile::TempDir> {
        tempfile::Builder::new()
            .prefix(&partial_prefix(request))
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(self.product(request.product))
    }

    /// Deletes what earlier installations of `request` left when they were killed.
    fn clean(&self, request: &ToolRequest) -> Result<(), CacheError> {
        for path in self.partial(request)? {
            std::fs::remove_dir_all(&path).map_err(|source| CacheError::Write { path, source })?;
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
    if CHANGES_SHOW && Identity::from(metadata) == record.identity {
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

/// How much room `path` and what is below it takes, in bytes; links count for nothing.
pub(in crate::tool) fn size(path: &Path) -> u64 {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
            entries.map(|entry| size(&entry.path())).sum()
        }
        Ok(metadata) if metadata.is_file() => metadata.len(),
        _ => 0,
    }
}

/// Refuses a cache that belongs to somebody else, who could exchange what is below it at any time.
pub(in crate::tool) fn inspect_root(root: &Path) -> Result<(), CacheError> {
    trust::inspect_root(root).map_err(|distrust| CacheError::of(root, distrust))
}

/// What is at `path`, links not followed; refused if somebody else could have put it there.
pub(in crate::tool) fn inspect(path: &Path) -> Result<Option<Metadata>, CacheError> {
    trust::inspect(path).map_err(|distrust| CacheError::of(path, distrust))
}

#[cfg(test)]
impl Cache {
    /// Makes it look as if `request` were installed; its executable is empty.
    pub(in crate::tool) fn pretend(&self, request: &ToolRequest) {
        let version = self.prepare(request.product).unwrap().join(request.version.to_string());
        make_private(&version).unwrap();
        let path = version.join(request.product.file_name());
        std::fs::write(&path, "").unwrap();
        let sum = Sha256Sum::of(io::empty(), &CancellationToken::new()).unwrap();
        let record = Record {
            platform: self.platform.to_string(),
            executable_sha256: sum,
            archive_sha256: sum,
            archive_url: String::new(),
            signer: record::Trusted::Checksum,
            installed_at: String::new(),
            identity: Identity::from(&path.metadata().unwrap()),
        };
        record::write(&version.join(RECORD), &record).unwrap();
    }
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
                assert!(error.to_string().contains(trust::FOREIGN), "{error}");
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
        on("amd64").pretend(&"1.9.8".parse().unwrap());
        for (architecture, there) in [("amd64", true), ("arm64", false)] {
            let cache = on(architecture);
            let found = cache.lookup(&"1.9.8".parse().unwrap(), &CancellationToken::new()).unwrap();
            assert_eq!(found != Lookup::Missing, there, "{architecture}");
            assert_eq!(!cache.versions(Product::Terraform).is_empty(), there);
        }
    }
}
