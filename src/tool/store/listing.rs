//! Lists the content of the cache other than complete versions: incomplete directories, unfinished
//! files, and the locks and notes of versions that are gone. None of it is ever treated as
//! installed.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use semver::Version;

use crate::tool::store::cache::{Cache, PARTIAL, UNFINISHED_NOTE, inspect_root, partial_prefix};
use crate::tool::store::error::CacheError;
use crate::tool::store::record;
use butler_protocol::spec::{Product, ToolRequest};

impl Cache {
    /// The incomplete directories of `request`, of the process with its lock or of killed processes.
    pub(in crate::tool) fn partial(
        &self,
        request: &ToolRequest,
    ) -> Result<Vec<PathBuf>, CacheError> {
        let entries = entries(&self.product(request.product))?.into_iter();
        let partial = entries.filter(|(name, _)| name.starts_with(&partial_prefix(request)));
        Ok(partial.map(|(_, path)| path).collect())
    }

    /// The directories of versions of `product`, complete or not.
    pub(in crate::tool) fn directories(
        &self,
        product: Product,
    ) -> Result<Vec<ToolRequest>, CacheError> {
        inspect_root(self.root())?;
        let entries = entries(&self.product(product))?.into_iter();
        let directories = entries.filter(|(_, path)| path.is_dir());
        Ok(directories
            .filter_map(|(name, _)| Some(ToolRequest { product, version: name.parse().ok()? }))
            .collect())
    }

    /// The versions of `product` with an incomplete directory, notes, or a lock file.
    pub(in crate::tool) fn tracked_versions(
        &self,
        product: Product,
    ) -> Result<BTreeSet<Version>, CacheError> {
        let entries = entries(&self.product(product))?.into_iter();
        let versions = entries.filter_map(|(name, _)| {
            let partial = name.strip_prefix(PARTIAL).and_then(|name| Some(name.split_once('~')?.0));
            let hidden = || name.strip_prefix('.');
            let known =
                || hidden()?.strip_suffix(".users").or_else(|| hidden()?.strip_suffix(".lock"));
            partial.or_else(known)?.parse().ok()
        });
        Ok(versions.collect())
    }

    /// Unfinished files of `product` that were last written before `then`.
    pub(in crate::tool) fn unfinished(
        &self,
        product: Product,
        then: SystemTime,
    ) -> Result<Vec<PathBuf>, CacheError> {
        let versions = self.directories(product)?.into_iter();
        let mut directories: Vec<_> =
            versions.flat_map(|request| [self.version(&request), self.users(&request)]).collect();
        directories.extend([self.root().to_owned(), self.product(product)]);
        let mut files = Vec::new();
        for directory in directories {
            files.extend(entries(&directory)?);
        }
        files.retain(|(name, path)| {
            let modified = || std::fs::symlink_metadata(path)?.modified();
            [record::UNFINISHED, UNFINISHED_NOTE].iter().any(|prefix| name.starts_with(prefix))
                && modified().is_ok_and(|modified| modified < then)
        });
        Ok(files.into_iter().map(|(_, path)| path).collect())
    }
}

/// The entries of `directory` with valid UTF-8 names, and their paths. A missing directory is empty.
fn entries(directory: &Path) -> Result<Vec<(String, PathBuf)>, CacheError> {
    let read = || std::fs::read_dir(directory)?.collect::<io::Result<Vec<_>>>();
    let entries = match read() {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(source) => return Err(CacheError::Read { path: directory.to_owned(), source }),
    };
    let named = entries
        .into_iter()
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())));
    Ok(named.collect())
}
