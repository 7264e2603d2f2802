//! The paths of the tool cache, `<cache>/<product>/<version>/<executable>` with a record next to
//! it, and the rules for its owner.
//!
//! Files that another user could have written are refused. The directory of the cache itself may be
//! writable for others, as `emptyDir` volumes of Kubernetes are: the runner warns about it, and
//! everything below must belong to the user.

use std::fs::{DirBuilder, Metadata, Permissions};
use std::io;
use std::path::{Path, PathBuf};

use crate::tool::error::ToolError;
use crate::tool::options::ToolOptions;
use crate::tool::store::error::CacheError;
use crate::tool::store::record::{self, Record};
use crate::tool::vendor::platform::Platform;
use butler_base::platform::fs::{DirBuilderExt, PermissionsExt};
use butler_base::trust;
use butler_protocol::spec::{Product, ToolRequest};

pub(in crate::tool) use butler_base::trust::make_private;

/// The record's name, in the directory of its version.
pub(in crate::tool) const RECORD: &str = "install.json";

/// The prefix of incomplete directories.
pub(in crate::tool) const PARTIAL: &str = ".partial-";

/// The prefix of notes that are being written.
pub(in crate::tool) const UNFINISHED_NOTE: &str = ".new-";

/// The file whose lock shows whether a version is used, in the directory of its users.
pub(in crate::tool) const USED: &str = "used";

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

    /// The cache that `options` name, for the platform of this machine.
    pub(in crate::tool) fn of(options: &ToolOptions) -> Result<Self, ToolError> {
        Ok(Self::new(&options.cache, Platform::current()?)?)
    }

    /// The platform whose executables this cache looks up and installs.
    pub(in crate::tool) fn platform(&self) -> Platform {
        self.platform
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

    /// The path of the executable of `request`, installed or not.
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

    /// The file whose lock shows whether `request` is used, and whose modification time is its last use.
    pub(in crate::tool) fn used_file(&self, request: &ToolRequest) -> PathBuf {
        self.users(request).join(USED)
    }

    /// The history of `product`.
    pub(in crate::tool) fn history_file(&self, product: Product) -> PathBuf {
        self.product(product).join("history.json")
    }

    /// The file with the versions of executables on PATH.
    pub(in crate::tool) fn path_memory(&self) -> PathBuf {
        self.root.join("path-versions.json")
    }

    /// Creates the directory of the users of `request`. It is readable for all users, because each user
    /// who may run the version must be able to lock the file in it.
    pub(in crate::tool) fn create_users_directory(&self, request: &ToolRequest) -> io::Result<()> {
        make_private(&self.product(request.product))?;
        match DirBuilder::new().mode(0o755).create(self.users(request)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        }
    }

    /// The record of `request`, if it is installed for this platform.
    pub(in crate::tool) fn record(&self, request: &ToolRequest) -> Option<Record> {
        self.record_of_any_platform(request).filter(|record| self.is_for_this_platform(record))
    }

    /// The record of `request`, for any platform.
    pub(in crate::tool) fn record_of_any_platform(&self, request: &ToolRequest) -> Option<Record> {
        record::read(&self.version(request).join(RECORD))
    }

    /// Whether `record` is for the platform of this cache.
    pub(in crate::tool) fn is_for_this_platform(&self, record: &Record) -> bool {
        record.platform == self.platform.to_string()
    }

    /// Makes the next lookup of `request` compute its checksum, even if the metadata is unchanged.
    pub(in crate::tool) fn force_rehash(&self, request: &ToolRequest) {
        let path = self.version(request).join(RECORD);
        let Some(record) = record::read::<Record>(&path) else { return };
        let identity = record.identity.invalidated();
        if let Err(error) = record::write(&path, &Record { identity, ..record }) {
            tracing::debug!(path = %path.display(), %error, "cannot update the record");
        }
    }

    /// Whether `request` is installed. The executable is not checked.
    pub(in crate::tool) fn is_installed(&self, request: &ToolRequest) -> bool {
        self.record(request).is_some()
    }

    /// Creates the directory of `product` and the cache. New directories are private to the user.
    pub(in crate::tool) fn prepare(&self, product: Product) -> Result<PathBuf, CacheError> {
        let directory = self.product(product);
        make_private(&directory)
            .map_err(|source| CacheError::Write { path: directory.clone(), source })?;
        inspect_root(&self.root)?;
        inspect(&directory)?;
        Ok(directory)
    }

    /// Whether the directory of `request` exists, complete or not.
    pub(in crate::tool) fn has_directory(&self, request: &ToolRequest) -> Result<bool, CacheError> {
        inspect_root(&self.root)?;
        if inspect(&self.product(request.product))?.is_none() {
            return Ok(false);
        }
        Ok(std::fs::symlink_metadata(self.version(request)).is_ok())
    }

    /// The size of `request` on disk, in bytes.
    pub(in crate::tool) fn size(&self, request: &ToolRequest) -> u64 {
        size(&self.version(request))
    }

    /// A private directory next to that of the version, deleted when it is dropped.
    pub(in crate::tool) fn staging_directory(
        &self,
        request: &ToolRequest,
    ) -> io::Result<tempfile::TempDir> {
        tempfile::Builder::new()
            .prefix(&partial_prefix(request))
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(self.product(request.product))
    }
}

/// The prefix of incomplete directories of `request`. The `~`, which no version contains, keeps the
/// prefixes of versions apart.
pub(in crate::tool) fn partial_prefix(request: &ToolRequest) -> String {
    format!("{PARTIAL}{}~", request.version)
}

/// The size of all files at and below `path`, in bytes, without links.
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

/// Refuses a cache of another user, who could replace any file below it.
pub(in crate::tool) fn inspect_root(root: &Path) -> Result<(), CacheError> {
    trust::inspect_root(root).map_err(|distrust| CacheError::of(root, distrust))
}

/// The metadata of `path`, without following links; an error if another user could have written it.
pub(in crate::tool) fn inspect(path: &Path) -> Result<Option<Metadata>, CacheError> {
    trust::inspect(path).map_err(|distrust| CacheError::of(path, distrust))
}

#[cfg(test)]
impl Cache {
    /// Creates the files of an installed `request` with an empty executable.
    pub(in crate::tool) fn install_stub(&self, request: &ToolRequest) {
        use crate::tool::digest::Sha256Sum;
        use crate::tool::store::record::Identity;
        use tokio_util::sync::CancellationToken;

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
