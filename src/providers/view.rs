//! What one `init` sees of the cache, and what the cache gets from it.
//!
//! The view lies in the module's data directory and is Terraform's plugin cache during `init` only.
//! Afterwards everything in it is moved to where Terraform looks for it, so that nothing is left of
//! the cache: no link that dangles when the cache is pruned or the directory is carried elsewhere.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio_util::sync::CancellationToken;

use super::books;
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

/// Where Terraform looks for packages, in the data directory.
const PROVIDERS: &str = "providers";

/// How often a package is put into a cache whose empty directories somebody else removes.
const ATTEMPTS: usize = 5;

/// The directories that an `init` has to do with.
#[derive(Clone, Debug)]
pub struct Directories {
    /// The provider cache; need not exist.
    pub cache: PathBuf,
    /// The module.
    pub module: PathBuf,
    /// Terraform's data directory for it; need not exist.
    pub data: PathBuf,
    /// Whether it is the user's own, who goes on working in it: then it shares no file with the
    /// cache, not even under two names.
    pub is_users_own: bool,
}

/// The plugin cache of one `init`.
#[derive(Debug)]
pub struct View {
    directories: Directories,
    /// What is in it because the lock file vouches for it.
    taken: BTreeSet<Package>,
    /// The right to download what is missing, for as long as this lives.
    locks: Vec<File>,
    /// Whether packages can be put into the cache.
    is_writable: bool,
    /// Whether it still is where Terraform has links to.
    is_open: bool,
    /// What is to be said about the cache.
    pub warnings: Vec<String>,
}

/// What the cache has of a package.
enum Found {
    Taken,
    Missing,
    Refused(String),
}

impl View {
    /// Makes the view of an `init`. Where something has to be downloaded that another run downloads
    /// just now, it waits for that, but no longer than `patience`; `progress` is told.
    ///
    /// # Errors
    /// When there is no cache and none can be made, it belongs to somebody else, or the view cannot
    /// be made. The run can go on without.
    pub async fn open(
        directories: Directories,
        patience: Duration,
        progress: &(dyn Fn(&str) + Sync),
    ) -> Result<Self, ProvidersError> {
        let mut view = Self::prepare(directories)?;
        let missing = view.fill(locked::read(&view.directories.module)).await;
        if view.is_writable {
            let waiting = tokio::time::timeout(patience, view.wait(missing, progress));
            if let Err(_late) = waiting.await {
                let late = "another run's init on the provider cache takes too long: going on without waiting for it";
                view.warnings.push(late.to_owned());
            }
        }
        Ok(view)
    }

    fn prepare(directories: Directories) -> Result<Self, ProvidersError> {
        let cache = &directories.cache;
        let opened = books::open(cache);
        let mut warnings = Vec::new();
        let is_writable = match opened {
            Ok(()) => true,
            // A cache that came with an image is of use all the same.
            Err(error @ ProvidersError::Write { .. }) if cache.is_dir() => {
                trust::inspect_root(cache).map_err(ProvidersError::distrust(cache))?;
                let error = chain(&error);
                warnings.push(format!("nothing is put into the provider cache: {error}"));
                false
            }
            Err(error) => return Err(error),
        };
        let (taken, locks) = (BTreeSet::new(), Vec::new());
        let view = Self { directories, taken, locks, is_writable, is_open: true, warnings };
        let path = view.path();
        let write = ProvidersError::write(&path);
        if path.is_dir() {
            // A run in place that was killed: what is linked from there must not dangle.
            view.move_out();
        }
        std::fs::create_dir_all(&view.directories.data).map_err(&write)?;
        trust::make_private(&path).map_err(&write)?;
        Ok(view)
    }

    /// What `init` is told to take for its plugin cache.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.directories.data.join(VIEW)
    }

    /// Puts into the view what the cache has of `locked`; returns what it has not.
    async fn fill(&mut self, locked: Vec<Locked>) -> Vec<Locked> {
        let directories = self.directories.clone();
        let taking = blocking(move |abandoned| {
            let take = |locked: Locked| (take(&directories, &locked, abandoned), locked);
            locked.into_iter().map(take).collect::<Vec<_>>()
        });
        let mut missing = Vec::new();
        for (found, locked) in taking.await {
            match found {
                Found::Taken => drop(self.taken.insert(locked.package)),
                Found::Missing => missing.push(locked),
                Found::Refused(why) => self
                    .warnings
                    .push(format!("{} in the provider cache is not used: {why}", locked.package)),
            }
        }
        missing
    }

    /// Gets the right to download what is missing, unless others have downloaded it by then.
    async fn wait(&mut self, missing: Vec<Locked>, progress: &(dyn Fn(&str) + Sync)) {
        // All runs take locks in the same order, that of packages: no two wait for each other.
        for locked in missing {
            let package = &locked.package;
            let path = books::lock_file(&self.directories.cache, package);
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
                    tracing::debug!(path = %path.display(), %error, "cannot lock; going on without");
                }
            }
        }
    }

    /// Ends the view after `init`: Terraform has everything in its own directory, and, if all went
    /// well, the cache has what it did not have. Returns what is to be said about that.
    ///
    /// May be dropped: then the cache gets less.
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
                if !moved.contains(&package) || self.taken.contains(&package) {
                    continue;
                }
                match self.put(&package, &sums, abandoned) {
                    Ok(false) => {}
                    Ok(true) => warnings.push(format!(
                        "{package} in the provider cache was not what {LOCK_FILE} says: replaced by what was downloaded"
                    )),
                    Err(error) => {
                        let error = chain(&error);
                        warnings.push(format!("{package} is not kept for the next run: {error}"));
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
            tracing::warn!(path = %view.display(), %error, "cannot remove what init was shown of the provider cache");
        }
        moved
    }

    /// Puts what `init` has downloaded into the cache. Returns whether it took the place of
    /// something else.
    fn put(
        &self,
        package: &Package,
        sums: &[String],
        abandoned: &CancellationToken,
    ) -> Result<bool, ProvidersError> {
        let cache = &self.directories.cache;
        let from = package.below(&self.directories.data.join(PROVIDERS));
        package::close(&from).map_err(ProvidersError::write(&from))?;
        let files = package::files(&from)?;
        let sum = package::sum(&from, &files, abandoned).map_err(ProvidersError::read(&from))?;
        if !sums.contains(&sum) {
            tracing::debug!(%package, "init has left something that the lock file does not name");
            return Ok(false);
        }
        let to = package.below(cache);
        let there = to.symlink_metadata().is_ok();
        if there {
            let files = package.find(cache).and_then(|_| package::files(&to));
            let found = files.map(|files| package::sum(&to, &files, abandoned));
            if let Ok(Ok(found)) = found {
                if found == sum {
                    used(&to);
                    return Ok(false);
                }
                if books::stored_sum(cache, package).is_some_and(|stored| stored == found) {
                    tracing::debug!(%package, "the cache has what another lock file names");
                    return Ok(false);
                }
            }
        }
        let staged = books::passing(cache)?;
        let whole = staged.path().join("package");
        package::place(&from, &files, &whole, !self.directories.is_users_own)
            .and_then(|()| package::seal(&whole, &files))
            .map_err(ProvidersError::write(&whole))?;
        books::store_sum(cache, package, &sum)?;
        if there {
            books::discard(cache, package)?;
        }
        let parent = to.parent().unwrap_or(cache);
        let mut attempts = 0..ATTEMPTS;
        loop {
            let placed = trust::make_private(parent)
                .and_then(|()| std::fs::rename(&whole, &to))
                .and_then(|()| sync_directory(parent));
            match placed {
                // Somebody prunes, and has just removed the empty directory.
                Err(error)
                    if error.kind() == io::ErrorKind::NotFound && attempts.next().is_some() => {}
                // Somebody else was first.
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => return Ok(false),
                placed => {
                    return placed.map(|()| there).map_err(ProvidersError::write(&to));
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

/// Puts a package into the view, if the cache has what the lock file says.
fn take(directories: &Directories, locked: &Locked, abandoned: &CancellationToken) -> Found {
    let Locked { package, sums } = locked;
    let from = package.below(&directories.cache);
    let to = package.below(&directories.data.join(VIEW));
    let files = match package.find(&directories.cache) {
        Ok(false) => return Found::Missing,
        Ok(true) => package::files(&from),
        Err(error) => Err(error),
    };
    let files = match files {
        Ok(files) => files,
        Err(error) => return Found::Refused(chain(&error)),
    };
    // Placed first, so that what is summed up is what the run gets.
    let sum = package::place(&from, &files, &to, !directories.is_users_own)
        .and_then(|()| package::sum(&to, &files, abandoned));
    if sum.as_ref().is_ok_and(|sum| sums.contains(sum)) {
        used(&from);
        return Found::Taken;
    }
    let _ = std::fs::remove_dir_all(&to);
    match sum {
        // Somebody prunes.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Found::Missing,
        Err(error) => Found::Refused(error.to_string()),
        Ok(_) => Found::Refused(format!(
            "its checksum is not in {LOCK_FILE} (`terraform providers lock -platform={}` adds it where it is only missing)",
            package.platform()
        )),
    }
}

/// Remembers that a package is used now, for those who prune. A cache that is read only is not pruned.
fn used(directory: &Path) {
    let _ = open_directory(directory).and_then(|it| it.set_modified(SystemTime::now()));
}
