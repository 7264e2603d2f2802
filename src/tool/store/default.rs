//! The version of a product that this machine uses if nothing else selects one.
//!
//! One small file per product, `default.json`, written completely and replaced by a rename. It
//! is changed under a lock, so exactly one of several concurrent first installations becomes the
//! default. If the named version is no longer installed, the product has no default.

use std::fs::File;
use std::path::PathBuf;

use semver::Version;
use serde::{Deserialize, Serialize};

use crate::tool::error::ToolError;
use crate::tool::options::ToolOptions;
use crate::tool::store::brief_lock::lock_briefly;
use crate::tool::store::cache::{Cache, inspect};
use crate::tool::store::error::CacheError;
use crate::tool::store::installed::installed;
use crate::tool::store::record;
use butler_base::blocking::blocking;
use butler_protocol::spec::{Product, ToolRequest};

/// The content of `default.json`.
#[derive(Deserialize, Serialize)]
struct DefaultFile {
    version: Version,
}

/// The version of `product` that is used if nothing else selects one.
///
/// # Errors
/// When there can be no cache.
pub fn default_version(
    product: Product,
    options: &ToolOptions,
) -> Result<Option<Version>, ToolError> {
    Ok(installed_default(&Cache::of(options)?, product))
}

/// Makes `request`, which must be installed, the default of its product. Returns the previous default.
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
        let before = installed_default(&cache, request.product);
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
        installed_default(&cache, request.product).as_ref() == Some(&request.version)
    };
    Ok(blocking(adopting).await)
}

fn adopt(cache: &Cache, request: &ToolRequest) -> Result<(), CacheError> {
    if installed_default(cache, request.product).is_some() {
        return Ok(());
    }
    let _lock = lock(cache, request.product)?;
    match installed_default(cache, request.product) {
        Some(_) => Ok(()),
        None => write(cache, request),
    }
}

/// Removes the default of the product if it is `request`, which is being removed.
pub(in crate::tool) fn clear_default(
    cache: &Cache,
    request: &ToolRequest,
) -> Result<(), CacheError> {
    if recorded_default(cache, request.product).as_ref() != Some(&request.version) {
        return Ok(());
    }
    let _lock = lock(cache, request.product)?;
    if recorded_default(cache, request.product).as_ref() == Some(&request.version) {
        let path = file(cache, request.product);
        std::fs::remove_file(&path).map_err(|source| CacheError::Write { path, source })?;
    }
    Ok(())
}

/// The default of `product`, if it is installed.
pub(in crate::tool) fn installed_default(cache: &Cache, product: Product) -> Option<Version> {
    let version = recorded_default(cache, product)?;
    let request = ToolRequest { product, version };
    cache.is_installed(&request).then_some(request.version)
}

/// The version in the file, if no other user can have written it.
fn recorded_default(cache: &Cache, product: Product) -> Option<Version> {
    let path = file(cache, product);
    inspect(&path).ok()??;
    record::read::<DefaultFile>(&path).map(|default| default.version)
}

fn write(cache: &Cache, request: &ToolRequest) -> Result<(), CacheError> {
    let path = file(cache, request.product);
    record::write(&path, &DefaultFile { version: request.version.clone() })
        .map_err(|source| CacheError::Write { path, source })
}

/// The right to change the default of `product`, until the file is dropped. Blocks for a few seconds
/// at most.
fn lock(cache: &Cache, product: Product) -> Result<File, CacheError> {
    lock_briefly(&cache.prepare(product)?.join(".default.lock"))
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
                installed_default(&cache, Product::Terraform).unwrap()
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
        clear_default(&cache, &new).unwrap();
        assert_eq!(installed_default(&cache, Product::Terraform).as_ref(), Some(&old.version));
        clear_default(&cache, &old).unwrap();
        assert_eq!(recorded_default(&cache, Product::Terraform), None);
        clear_default(&cache, &old).unwrap();
    }

    #[test]
    fn version_deleted_by_another_program_is_not_the_default() {
        let request = "1.9.8".parse().unwrap();
        let (directory, cache) = cache_with(std::slice::from_ref(&request));
        write(&cache, &request).unwrap();
        assert_eq!(installed_default(&cache, Product::Terraform), Some(request.version));
        std::fs::remove_dir_all(directory.path().join("terraform/1.9.8")).unwrap();
        assert_eq!(installed_default(&cache, Product::Terraform), None);
    }

    #[test]
    fn file_that_others_can_write_to_is_ignored() {
        use std::os::unix::fs::PermissionsExt;
        let request = "1.9.8".parse().unwrap();
        let (_directory, cache) = cache_with(std::slice::from_ref(&request));
        write(&cache, &request).unwrap();
        let path = file(&cache, Product::Terraform);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(installed_default(&cache, Product::Terraform), None);
    }
}
