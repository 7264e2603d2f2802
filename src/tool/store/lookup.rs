//! Looks up installed versions and checks that they are still the ones that were verified.

use std::fs::{File, Metadata};
use std::path::{Path, PathBuf};

use semver::Version;
use tokio_util::sync::CancellationToken;

use crate::tool::digest::Sha256Sum;
use crate::tool::store::cache::{Cache, RECORD, inspect, inspect_root};
use crate::tool::store::error::CacheError;
use crate::tool::store::record::{self, Identity, Record};
use butler_base::platform::fs::{CHANGES_SHOW, MetadataExt};
use butler_protocol::spec::{Product, ToolRequest};

/// The result of a lookup.
#[derive(Debug, Eq, PartialEq)]
pub(in crate::tool) enum Lookup {
    /// The executable, as it was verified.
    Installed(PathBuf),
    /// The version is missing or incomplete.
    Missing,
    /// An executable that is not the one that was verified.
    Tampered(PathBuf),
}

impl Cache {
    /// The installed versions of `product`, not checked for changes. Empty if the cache cannot be
    /// read: then the lookup of a version fails.
    pub(in crate::tool) fn versions(&self, product: Product) -> Vec<Version> {
        let directories = self.directories(product).unwrap_or_else(|error| {
            tracing::warn!(
                error = butler_base::error::chain(&error),
                "cannot list the installed versions"
            );
            Vec::new()
        });
        let installed = directories.into_iter().filter(|request| self.is_installed(request));
        installed.map(|request| request.version).collect()
    }

    /// Looks `request` up, and checks that the executable is the verified one. Computes its checksum only
    /// if the metadata of the file changed.
    pub(in crate::tool) fn lookup(
        &self,
        request: &ToolRequest,
        abandoned: &CancellationToken,
    ) -> Result<Lookup, CacheError> {
        inspect_root(self.root())?;
        let directory = self.version(request);
        for path in [&self.product(request.product), &directory] {
            match inspect(path)? {
                Some(metadata) if metadata.is_dir() => {}
                Some(_) => {
                    return Err(CacheError::Unsafe {
                        path: path.clone(),
                        fault: "it is not a directory",
                    });
                }
                None => return Ok(Lookup::Missing),
            }
        }
        let record_path = directory.join(RECORD);
        let record = inspect(&record_path)?.and_then(|_| record::read::<Record>(&record_path));
        let Some(record) = record.filter(|record| record.platform == self.platform().to_string())
        else {
            return Ok(Lookup::Missing);
        };
        let path = directory.join(request.product.file_name());
        match inspect(&path)? {
            Some(metadata) if metadata.is_file() => {
                check_executable(&path, &record_path, record, &metadata, abandoned)
            }
            _ => Ok(Lookup::Missing),
        }
    }
}

/// Checks an executable against its record. Computes its checksum only if its metadata changed.
fn check_executable(
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
    tracing::debug!(path = %path.display(), "the metadata of the file changed; computing its checksum");
    let read = |source| CacheError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(read)?;
    let before = Identity::from(&file.metadata().map_err(read)?);
    let sum = Sha256Sum::of(&file, abandoned).map_err(read)?;
    if sum != record.executable_sha256 || metadata.mode() & 0o100 == 0 {
        return Ok(Lookup::Tampered(path.to_owned()));
    }
    // In a read-only cache, the checksum is computed again each time.
    if let Err(error) = record::write(record_path, &Record { identity: before, ..record }) {
        tracing::debug!(path = %record_path.display(), %error, "cannot update the record");
    }
    found(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::vendor::platform::Platform;
    use butler_base::trust;

    #[test]
    fn cache_of_another_user_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let cache =
            Cache::new(directory.path(), Platform { system: "linux", architecture: "amd64" });
        let cache = cache.unwrap();
        let product = cache.prepare(Product::Terraform).unwrap();
        let request = "1.9.8".parse().unwrap();
        let lookup = || cache.lookup(&request, &CancellationToken::new());
        assert_eq!(lookup().unwrap(), Lookup::Missing);
        // Only root can change the owner of a file, so only root can test this.
        for path in [product.as_path(), directory.path()] {
            if std::os::unix::fs::chown(path, Some(12345), None).is_ok() {
                let error = lookup().unwrap_err();
                assert!(error.to_string().contains(trust::OTHER_OWNER), "{error}");
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
    fn record_for_another_platform_is_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let on = |architecture| {
            Cache::new(directory.path(), Platform { system: "linux", architecture }).unwrap()
        };
        on("amd64").install_stub(&"1.9.8".parse().unwrap());
        for (architecture, there) in [("amd64", true), ("arm64", false)] {
            let cache = on(architecture);
            let found = cache.lookup(&"1.9.8".parse().unwrap(), &CancellationToken::new()).unwrap();
            assert_eq!(found != Lookup::Missing, there, "{architecture}");
            assert_eq!(!cache.versions(Product::Terraform).is_empty(), there);
        }
    }
}
