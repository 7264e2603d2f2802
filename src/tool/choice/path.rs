//! Tools on PATH: finds an executable and its version.
//!
//! An executable is started once to print its version. The cache stores the version as long as the metadata of the file is the same. For an executable that a runner installed
//! itself, as in an image, the record is read instead. A script is started each time, because the
//! version that it starts may change while the script does not. An executable that may be a shim
//! ([`package`]) is checked again in the directory of the run. Executables that cannot be started
//! are skipped, because they belong to another program.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};

use semver::Version;
use serde::{Deserialize, Serialize};

use crate::tool::choice::package;
use crate::tool::store::cache::{inspect, make_private};
use crate::tool::store::record::{self, Identity};
use crate::tool::store::recorded_version::recorded_version;
use crate::tool::vendor::product::Vendored as _;
use crate::tool::version_query::{Printed, query_version};
use butler_base::platform::fs::{AccessFlags, access};
use butler_protocol::spec::Product;

/// The largest number of executables whose versions are stored.
const MAX_STORED: usize = 64;

/// An executable on PATH and its version.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::tool) struct FoundTool {
    pub(in crate::tool) path: PathBuf,
    pub(in crate::tool) version: Version,
    /// Whether it is the product itself and not a shim, so that it has this version in any directory.
    pub(in crate::tool) is_itself: bool,
}

/// The directories to search, and the file that stores the versions of executables.
pub(in crate::tool) struct SearchPath<'a> {
    path: Option<&'a OsStr>,
    memory: PathBuf,
}

/// The version of an executable whose file has this metadata.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct StoredVersion {
    identity: Identity,
    version: Version,
    /// The name of the product, which the executable has printed.
    product: String,
    is_itself: bool,
}

impl<'a> SearchPath<'a> {
    /// Searches `path`, a list as in the PATH variable; stores versions in the file `memory`.
    pub(in crate::tool) fn new(path: Option<&'a OsStr>, memory: PathBuf) -> Self {
        Self { path, memory }
    }

    /// The first executable of `product` that `wanted` accepts.
    pub(in crate::tool) async fn find(
        &self,
        product: Product,
        mut wanted: impl FnMut(&FoundTool) -> bool,
    ) -> Option<FoundTool> {
        for path in self.candidates(product) {
            if let Some(found) = self.inspect_executable(path, product).await
                && wanted(&found)
            {
                return Some(found);
            }
        }
        None
    }

    /// Learns the version of the first executable of the first of `products` that is there at all.
    /// A script is not started, because its version is not stored.
    pub(in crate::tool) async fn learn(&self, products: &[Product]) {
        for product in products {
            if let Some(path) = self.candidates(*product).into_iter().next() {
                if !is_script(&path) {
                    self.inspect_executable(path, *product).await;
                }
                return;
            }
        }
    }

    /// The executables with the right name. Relative directories in PATH are skipped, because they depend
    /// on where the runner was started.
    fn candidates(&self, product: Product) -> Vec<PathBuf> {
        std::env::split_paths(self.path.unwrap_or_default())
            .filter(|directory| directory.is_absolute())
            .map(|directory| directory.join(product.file_name()))
            .filter(|path| path.is_file() && access(path, AccessFlags::X_OK).is_ok())
            .collect()
    }

    async fn inspect_executable(&self, path: PathBuf, product: Product) -> Option<FoundTool> {
        if let Some(version) = recorded_version(&path, product) {
            return Some(FoundTool { path, version, is_itself: true });
        }
        let identity = Identity::from(&std::fs::metadata(&path).ok()?);
        if let Some(stored_version) =
            path.to_str().and_then(|path| self.stored_versions().remove(path))
            && stored_version.identity == identity
            && stored_version.product == product.name()
        {
            let StoredVersion { version, is_itself, .. } = stored_version;
            return Some(FoundTool { path, version, is_itself });
        }
        match query_version(&path, product, self.path.unwrap_or_default()).await {
            Ok(Ok(printed)) if !printed.is_of(product) => {
                let printed = printed.describe();
                tracing::warn!("not using `{}`: it is {printed}, not {product}", path.display());
                None
            }
            Ok(Ok(Printed { version, .. })) => {
                let is_itself =
                    package::package_of_executable(&path).as_deref() == Some(product.package());
                if !is_script(&path) {
                    let (version, product) = (version.clone(), product.name().to_owned());
                    let stored = StoredVersion { identity, version, product, is_itself };
                    self.store_version(&path, stored);
                }
                Some(FoundTool { path, version, is_itself })
            }
            Ok(Err(why)) => {
                tracing::warn!(
                    "not using `{}`: it does not print its version: {why}",
                    path.display()
                );
                None
            }
            Err(error) => {
                tracing::warn!(path = %path.display(), error = butler_base::error::chain(&error), "cannot be started to read its version; skipping it");
                None
            }
        }
    }

    fn stored_versions(&self) -> BTreeMap<String, StoredVersion> {
        match inspect(&self.memory) {
            Ok(Some(_)) => record::read(&self.memory).unwrap_or_default(),
            _ => BTreeMap::new(),
        }
    }

    /// Of two concurrent writers, one may lose its entry. Then the executable is started again.
    fn store_version(&self, path: &Path, stored_version: StoredVersion) {
        let Some(path) = path.to_str() else { return };
        let mut stored = self.stored_versions();
        stored.retain(|known, _| Path::new(known).exists());
        while stored.len() >= MAX_STORED {
            stored.pop_first();
        }
        stored.insert(path.to_owned(), stored_version);
        if let Err(error) = make_private(self.memory.parent().unwrap_or(&self.memory))
            .and_then(|()| record::write(&self.memory, &stored))
        {
            tracing::debug!(path = %self.memory.display(), %error, "cannot store the version");
        }
    }
}

fn is_script(path: &Path) -> bool {
    let mut start = [0; 2];
    std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_err()
        || start == *b"#!"
}

#[cfg(test)]
#[path = "path_tests.rs"]
mod tests;
