//! The plugin cache of one `init`: packages from the provider cache, and new packages for it.
//!
//! The view is in the module's data directory and is Terraform's plugin cache during `init` only.
//! Afterwards its packages are moved to where Terraform looks for them. So the data directory has
//! no links into the cache that would dangle after the cache is pruned or the directory is moved.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio_util::sync::CancellationToken;

use super::bookkeeping;
use super::error::ProvidersError;
use super::lock;
use super::locked::{self, LOCK_FILE, Locked};
use super::package::{self, Package};
use butler_base::blocking::blocking;
use butler_base::error::chain;
use butler_base::platform::fs::{open_directory, sync_directory};
use butler_base::trust;

/// The view's name in the data directory.
pub const VIEW: &str = "provider-cache";

/// The directory of Terraform's packages in the data directory.
const PROVIDERS: &str = "providers";

/// How often a package is moved into a cache whose empty directories another process removes.
const ATTEMPTS: usize = 5;

/// The directories of an `init`.
#[derive(Clone, Debug)]
pub struct Directories {
    /// The provider cache; need not exist.
    pub cache: PathBuf,
    /// The module.
    pub module: PathBuf,
    /// Terraform's data directory for it; need not exist.
    pub data: PathBuf,
    /// Whether packages are copied: hard links would let the user of the directory, or an isolated
    /// module, change the cache.
    pub copies: bool,
}

/// The plugin cache of one `init`.
#[derive(Debug)]
pub struct View {
    directories: Directories,
    /// The packages from the cache whose checksums are in the lock file.
    cached: BTreeSet<Package>,
    /// The locks of the missing packages that this run downloads.
    locks: Vec<File>,
    /// Whether packages can be added to the cache.
    is_writable: bool,
    /// Whether Terraform may still have links into the view.
    is_open: bool,
    /// Warnings about the cache for the run's log.
    pub warnings: Vec<String>,
}

/// The result of a lookup in the cache.
enum Lookup {
    Linked,
    Missing,
    Refused(String),
}

impl View {
    /// Creates the view of an `init`. If another run is downloading a missing package, reports that
    /// to `progress` and waits for it, for at most `timeout`.
    ///
    /// # Errors
    /// When the cache is missing and cannot be created, it belongs to another user, or the view cannot
    /// be created. The run can continue without it.
    pub async fn open(
        directories: Directories,
        timeout: Duration,
        progress: &(dyn Fn(&str) + Sync),
    ) -> Result<Self, ProvidersError> {
        let mut view = Self::prepare(directories)?;
        let missing = view.fill(locked::read(&view.directories.module)).await;
        if view.is_writable {
            let waiting = tokio::time::timeout(timeout, view.wait(missing, progress));
            if let Err(_late) = waiting.await {
                let late = "timed out while waiting for another run's init on the provider cache; continuing without it";
                view.warnings.push(late.to_owned());
            }
        }
        Ok(view)
    }

    fn prepare(directories: Directories) -> Result<Self, ProvidersError> {
        let cache = &directories.cache;
        let opened = bookkeeping::open(cache);
        let mut warnings = Vec::new();
        let is_writable = match opened {
            Ok(()) => true,
            // The read-only cache of an image is still useful.
            Err(error @ ProvidersError::Write { .. }) if cache.is_dir() => {
                trust::inspect_root(cache).map_err(ProvidersError::distrust(cache))?;
                let error = chain(&error);
                warnings.push(format!("cannot add packages to the provider cache: {error}"));
                false
            }
            Err(error) => return Err(error),
        };
        let (cached, locks) = (BTreeSet::new(), Vec::new());
        let view = Self { directories, cached, locks, is_writable, is_open: true, warnings };
        let path = view.path();
        let write = ProvidersError::write(&path);
        if path.is_dir() {
            // A killed run left the view: links into it must not dangle.
            view.move_out();
        }
        std::fs::create_dir_all(&view.directories.data).map_err(&write)?;
        trust::make_private(&path).map_err(&write)?;
        Ok(view)
    }

    /// The plugin cache for `init`.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.directories.data.join(VIEW)
    }

    /// Links the packages of `locked` that the cache has into the view. Returns the missing ones.
    async fn fill(&mut self, locked: Vec<Locked>) -> Vec<Locked> {
        let directories = self.directories.clone();
        let linking = blocking(move |abandoned| {
            let link = |locked: Locked| (link_package(&directories, &locked, abandoned), locked);
            locked.into_iter().map(link).collect::<Vec<_>>()
        });
        let mut missing = Vec::new();
        for (found, locked) in linking.await {
            match found {
                Lookup::Linked => drop(self.cached.insert(locked.package)),
                Lookup::Missing => missing.push(locked),
                Lookup::Refused(reason) => self.warnings.push(format!(
                    "{} in the provider cache cannot be used: {reason}",
                    locked.package
                )),
            }
        }
        missing
    }

    /// Locks the missing packages, unless other runs downloaded them in the meantime.
    async fn wait(&mut self, missing: Vec<Locked>, progress: &(dyn Fn(&str) + Sync)) {
        // All runs take locks in the order of the packages, so there is no deadlock.
        for locked in missing {
            let package = &locked.package;
            let path = bookkeeping::lock_file(&self.directories.cache, package);
            let waits = || {
                progress(&format!(
                    "Waiting for another run's init on the provider cache: it downloads {package}"
                ));
            };
            match lock::acquire(&path, waits).await {
                Ok(lock) if self.fill(vec![locked]).await.is_empty() => {
                    drop(lock);
                }
                Ok(lock) => self.locks.push(lock),
                Err(error) => {
                    tracing::debug!(path = %path.display(), %error, "cannot lock the file; continuing without a lock");
                }
            }
        }
    }

    /// Ends the view after `init`: moves its packages to Terraform's own directory and, if `init`
    /// succeeded, adds the new ones to the cache. Returns warnings.
    ///
    /// If the future is dropped, packages may be missing in the cache.
    pub async fn close(mut self, init_succeeded: bool) -> Vec<String> {
        let moved = self.move_out();
        self.is_open = false;
        if !init_succeeded || !self.is_writable {
            return Vec::new();
        }
        blocking(move |abandoned| {
            let mut warnings = Vec::new();
            let locked = locked::read(&self.directories.module);
            for Locked { package, sums } in locked {
                if !moved.contains(&package) || self.cached.contains(&package) {
                    continue;
                }
                match self.add_to_cache(&package, &sums, abandoned) {
                    Ok(false) => {}
                    Ok(true) => warnings.push(format!(
                        "{package} in the provider cache did not match {LOCK_FILE} and was replaced by the downloaded package"
                    )),
                    Err(error) => {
                        let error = chain(&error);
                        warnings.push(format!("cannot add {package} to the provider cache: {error}"));
                    }
                }
            }
            warnings
        })
        .await
    }

    /// Moves everything in the view to where Terraform has a link to it, and removes the view.
    fn move_out(&self) -> BTreeSet<Package> {
        let view = self.path();
        let mut moved = BTreeSet::new();
        let mut all_moved = true;
        for package in package::all_with_links(&view).unwrap_or_default() {
            let (from, to) =
                (package.below(&view), package.below(&self.directories.data.join(PROVIDERS)));
            if !to.is_symlink() {
                continue;
            }
            let result = std::fs::remove_file(&to).and_then(|()| std::fs::rename(&from, &to));
            if let Err(error) = result {
                tracing::warn!(path = %to.display(), %error, "cannot move a provider's package");
                all_moved = false;
            } else {
                moved.insert(package);
            }
        }
        if all_moved && let Err(error) = std::fs::remove_dir_all(&view) {
            tracing::warn!(path = %view.display(), %error, "cannot remove the plugin cache directory of init");
        }
        moved
    }

    /// Adds a downloaded package to the cache. Returns whether it replaced another one.
    fn add_to_cache(
        &self,
        package: &Package,
        sums: &[String],
        abandoned: &CancellationToken,
    ) -> Result<bool, ProvidersError> {
        let cache = &self.directories.cache;
        let from = package.below(&self.directories.data.join(PROVIDERS));
        package::remove_write_access_for_others(&from).map_err(ProvidersError::write(&from))?;
        let files = package::files(&from)?;
        let sum = package::sum(&from, &files, abandoned).map_err(ProvidersError::read(&from))?;
        if !sums.contains(&sum) {
            tracing::debug!(%package, "the package that init left does not match the lock file");
            return Ok(false);
        }
        let to = package.below(cache);
        let exists = to.symlink_metadata().is_ok();
        if exists {
            let files = package.exists(cache).and_then(|_| package::files(&to));
            let found = files.map(|files| package::sum(&to, &files, abandoned));
            if let Ok(Ok(found)) = found {
                if found == sum {
                    record_use(&to);
                    return Ok(false);
                }
                if bookkeeping::stored_sum(cache, package).is_some_and(|stored| stored == found) {
                    tracing::debug!(%package, "the cached package matches another lock file");
                    return Ok(false);
                }
            }
        }
        let staging = bookkeeping::staging_directory(cache)?;
        let whole = staging.path().join("package");
        package::link_or_copy(&from, &files, &whole, !self.directories.copies)
            .and_then(|()| package::seal(&whole, &files))
            .map_err(ProvidersError::write(&whole))?;
        bookkeeping::store_sum(cache, package, &sum)?;
        if exists {
            bookkeeping::remove_package(cache, package)?;
        }
        let parent = to.parent().unwrap_or(cache);
        let mut attempts = 0..ATTEMPTS;
        loop {
            let renamed = trust::make_private(parent)
                .and_then(|()| std::fs::rename(&whole, &to))
                .and_then(|()| sync_directory(parent));
            match renamed {
                // Another process prunes the cache, and has just removed the empty directory.
                Err(error)
                    if error.kind() == io::ErrorKind::NotFound && attempts.next().is_some() => {}
                // Another process was first.
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => return Ok(false),
                renamed => {
                    return renamed.map(|()| exists).map_err(ProvidersError::write(&to));
                }
            }
        }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if self.is_open {
            self.move_out();
        }
    }
}

/// Links a package into the view, if the cache has it with a checksum of the lock file.
fn link_package(
    directories: &Directories,
    locked: &Locked,
    abandoned: &CancellationToken,
) -> Lookup {
    let Locked { package, sums } = locked;
    let from = package.below(&directories.cache);
    let to = package.below(&directories.data.join(VIEW));
    let files = match package.exists(&directories.cache) {
        Ok(false) => return Lookup::Missing,
        Ok(true) => package::files(&from),
        Err(error) => Err(error),
    };
    let files = match files {
        Ok(files) => files,
        Err(error) => return Lookup::Refused(chain(&error)),
    };
    // The files are linked first, so that the checksum is that of the files that the run uses.
    let sum = package::link_or_copy(&from, &files, &to, !directories.copies)
        .and_then(|()| package::sum(&to, &files, abandoned));
    if sum.as_ref().is_ok_and(|sum| sums.contains(sum)) {
        record_use(&from);
        return Lookup::Linked;
    }
    let _ = std::fs::remove_dir_all(&to);
    match sum {
        // Another process prunes the cache.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Lookup::Missing,
        Err(error) => Lookup::Refused(error.to_string()),
        Ok(_) => Lookup::Refused(format!(
            "its checksum is not in {LOCK_FILE} (if it is only missing there, `terraform providers lock -platform={}` adds it)",
            package.platform()
        )),
    }
}

/// Records that a package is used now, for `prune`. A read-only cache is not pruned.
fn record_use(directory: &Path) {
    let _ = open_directory(directory).and_then(|it| it.set_modified(SystemTime::now()));
}
