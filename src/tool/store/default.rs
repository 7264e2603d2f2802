//! The version of a product that this machine uses if nothing else selects one.
//!
//! One small file per product, `default.json`, written as a whole and put in place by a rename. It
//! is changed under a lock, so exactly one of several concurrent first installations becomes the
//! default. If the named version is no longer installed, the product has no default.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::PathBuf;
use std::time::Duration;

use semver::Version;
use serde::{Deserialize, Serialize};

use crate::tool::error::ToolError;
use crate::tool::options::ToolOptions;
use crate::tool::store::cache::{Cache, inspect};
use crate::tool::store::error::CacheError;
use crate::tool::store::installed::installed;
use crate::tool::store::record;
use butler_base::blocking::blocking;
use butler_base::platform::fs::{OFlag, OpenOptionsExt, try_lock};
use butler_protocol::spec::{Product, ToolRequest};

/// How often the lock is tried. It is held for a few milliseconds, and a stopped process must not
/// block others.
const ATTEMPTS: u32 = 1000;
const PAUSE: Duration = Duration::from_millis(5);

/// What the file says.
#[derive(Deserialize, Serialize)]
struct Default {
    version: Version,
}

/// The version of `product` that is used when nothing else decides, if there is one.
///
/// # Errors
/// When there can be no cache.
pub fn default_version(
    product: Product,
    options: &ToolOptions,
) -> Result<Option<Version>, ToolError> {
    Ok(effective(&Cache::of(options)?, product))
}

/// Makes `request`, which has to be installed, the default of its product. Returns the one before.
///
/// # Errors
/// When it is not installed, not the one that was verified, or the cache cannot be written.
pub async fn use_version(
    request: &ToolRequest,
    options: &ToolOptions,
) -> Result<Option<Version>, ToolError> {
    installed(request, options).await?;
    let (cache, request) = (Cache::of(options)?, request.clone());
    let using = move |_: &_| {
        let _lock = lock(&cache, request.product)?;
        let before = effective(&cache, request.product);
        write(&cache, &request)?;
        Ok(before)
    };
    blocking(using).await
}

/// Makes `request`, which was just installed, the default of its product if the product has no
/// default. Returns whether it is the default now. A read-only cache does not get a default.
///
/// # Errors
/// When there can be no cache.
pub async fn adopt_default(
    request: &ToolRequest,
    options: &ToolOptions,
) -> Result<bool, ToolError> {
    let (cache, request) = (Cache::of(options)?, request.clone());
    let adopting = move |_: &_| {
        match adopt(&cache, &request) {
            Ok(()) => {}
            Err(error @ CacheError::Held { .. }) => {
                tracing::warn!(%request, error = butler_base::error::chain(&error), "not made the default");
            }
            Err(error) => {
                tracing::debug!(%request, error = butler_base::error::chain(&error), "cannot make it the default");
            }
        }
        effective(&cache, request.product).as_ref() == Some(&request.version)
    };
    Ok(blocking(adopting).await)
}

fn adopt(cache: &Cache, request: &ToolRequest) -> Result<(), CacheError> {
    if effective(cache, request.product).is_some() {
        return Ok(());
    }
    let _lock = lock(cache, request.product)?;
    match effective(cache, request.product) {
        Some(_) => Ok(()),
        None => write(cache, request),
    }
}

/// Leaves the product of `request` without a default if that is `request`, which is to be removed.
pub(in crate::tool) fn forget(cache: &Cache, request: &ToolRequest) -> Result<(), CacheError> {
    if named(cache, request.product).as_ref() != Some(&request.version) {
        return Ok(());
    }
    let _lock = lock(cache, request.product)?;
    if named(cache, request.product).as_ref() == Some(&request.version) {
        let path = file(cache, request.product);
        std::fs::remove_file(&path).map_err(|source| CacheError::Write { path, source })?;
    }
    Ok(())
}

/// The default of `product`, if it is installed.
pub(in crate::tool) fn effective(cache: &Cache, product: Product) -> Option<Version> {
    let version = named(cache, product)?;
    let request = ToolRequest { product, version };
    cache.is_installed(&request).then_some(request.version)
}

/// The version in the file, if no other user can have written it.
fn named(cache: &Cache, product: Product) -> Option<Version> {
    let path = file(cache, product);
    inspect(&path).ok()??;
    record::read::<Default>(&path).map(|default| default.version)
}

fn write(cache: &Cache, request: &ToolRequest) -> Result<(), CacheError> {
    let path = file(cache, request.product);
    record::write(&path, &Default { version: request.version.clone() })
        .map_err(|source| CacheError::Write { path, source })
}

/// The right to change the default of `product`, until the file is dropped. Blocks.
fn lock(cache: &Cache, product: Product) -> Result<File, CacheError> {
    let path = cache.prepare(product)?.join(".default.lock");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    let file = options
        .custom_flags(OFlag::O_NOFOLLOW.bits())
        .open(&path)
        .map_err(|source| CacheError::Write { path: path.clone(), source })?;
    for _ in 0..ATTEMPTS {
        match try_lock(&file) {
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
            // On a file system without locks, the last of several processes wins.
            Ok(()) | Err(TryLockError::Error(_)) => return Ok(file),
        }
    }
    Err(CacheError::Held { path, waited: PAUSE * ATTEMPTS })
}

fn file(cache: &Cache, product: Product) -> PathBuf {
    cache.product(product).join("default.json")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::vendor::platform::Platform;

    /// A cache in which these versions of Terraform look installed.
    fn cache_with(versions: &[ToolRequest]) -> (tempfile::TempDir, Cache) {
        let directory = tempfile::tempdir().unwrap();
        let platform = Platform { system: "linux", architecture: "amd64" };
        let cache = Cache::new(directory.path(), platform).unwrap();
        for version in versions {
            cache.install_stub(version);
        }
        (directory, cache)
    }

    #[test]
    fn one_of_several_concurrent_installations_becomes_the_default() {
        let versions: Vec<ToolRequest> =
            (0..8).map(|patch| format!("1.9.{patch}").parse().unwrap()).collect();
        for _ in 0..20 {
            let (_directory, cache) = cache_with(&versions);
            let start = std::sync::Barrier::new(versions.len());
            let adopted = &|request| {
                start.wait();
                adopt(&cache, request).unwrap();
                effective(&cache, Product::Terraform).unwrap()
            };
            let seen: Vec<Version> = std::thread::scope(|scope| {
                let threads = versions.iter().map(|request| scope.spawn(move || adopted(request)));
                let threads: Vec<_> = threads.collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert!(seen.iter().all(|version| *version == seen[0]), "{seen:?}");
        }
    }

    #[test]
    fn removed_version_is_not_the_default() {
        let [old, new] = ["1.9.8", "1.10.5"].map(|text| text.parse::<ToolRequest>().unwrap());
        let (_directory, cache) = cache_with(&[old.clone(), new.clone()]);
        write(&cache, &old).unwrap();
        forget(&cache, &new).unwrap();
        assert_eq!(effective(&cache, Product::Terraform).as_ref(), Some(&old.version));
        forget(&cache, &old).unwrap();
        assert_eq!(named(&cache, Product::Terraform), None);
        forget(&cache, &old).unwrap();
    }

    #[test]
    fn version_deleted_by_another_program_is_not_the_default() {
        let request = "1.9.8".parse().unwrap();
        let (directory, cache) = cache_with(std::slice::from_ref(&request));
        write(&cache, &request).unwrap();
        assert_eq!(effective(&cache, Product::Terraform), Some(request.version));
        std::fs::remove_dir_all(directory.path().join("terraform/1.9.8")).unwrap();
        assert_eq!(effective(&cache, Product::Terraform), None);
    }

    #[test]
    fn file_that_others_can_write_to_is_ignored() {
        use std::os::unix::fs::PermissionsExt;
        let request = "1.9.8".parse().unwrap();
        let (_directory, cache) = cache_with(std::slice::from_ref(&request));
        write(&cache, &request).unwrap();
        let path = file(&cache, Product::Terraform);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(effective(&cache, Product::Terraform), None);
    }
}
