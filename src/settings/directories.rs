//! The default directories of runs and of installed tools.
//!
//! In containers the home directory is often not writable. The cache is then in the directory for temporary files, in
//! which every user can write, so it is only used if no other user can have created anything in it. Tools that an
//! image contains in a home directory that is not writable are used anyway.

use std::io;
use std::path::{Path, PathBuf};

use super::setting::{CACHE_DIR, WORK_DIR};
use super::{Environment, SettingsError, variable};
use butler_base::error::chain;
use butler_base::platform::fs::{AccessFlags, DirBuilderExt, MetadataExt, access, user};
use butler_base::trust;
use butler_protocol::spec::Product;

/// The name of the cache directory in the home directory.
const NAME: &str = ".butler-runner";

/// What to do if a default directory does not exist.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Missing {
    /// Create it, and check who owns it.
    Create,
    /// Return its path without touching it, for a command that does not write.
    OnlyName,
}

/// The directory for temporary files. It can be missing in an image without a base.
///
/// # Errors
/// If it is missing and cannot be created.
pub(super) fn temporary(
    environment: &Environment,
    missing: Missing,
) -> Result<PathBuf, SettingsError> {
    let path = environment.temporary().to_owned();
    if missing == Missing::OnlyName {
        return Ok(path);
    }
    // The usual mode of a directory for temporary files. The umask still applies.
    match std::fs::DirBuilder::new().recursive(true).mode(0o1777).create(&path) {
        Ok(()) => Ok(path),
        Err(source) => Err(SettingsError::Path { setting: &WORK_DIR, path, source }),
    }
}

/// `~/.butler-runner`, or a directory of this user in the one for temporary files.
///
/// Only the latter is created here, because its safety depends on who creates it.
///
/// # Errors
/// If it belongs to another user, or if other users can write to it.
pub(super) fn default_cache(
    environment: &Environment,
    missing: Missing,
) -> Result<PathBuf, SettingsError> {
    if let Some(home) = home(environment) {
        let cache = home.join(NAME);
        if is_writable(&cache) || (!cache.exists() && is_writable(home)) {
            return Ok(cache);
        }
    }
    let name = format!("butler-runner-{}", user());
    let path = temporary(environment, missing)?.join(name);
    if missing == Missing::OnlyName {
        return Ok(path);
    }
    ensure_own_directory(&path).map_err(|source| SettingsError::Path {
        setting: &CACHE_DIR,
        path: path.clone(),
        source,
    })?;
    Ok(path)
}

/// `~/.butler-runner` if it contains tools but is not writable, as in a container with a read-only root file system.
/// Adds a warning about the effect, or about the reason why the directory is ignored.
pub(super) fn read_only_cache(
    environment: &Environment,
    warnings: &mut Vec<String>,
) -> Option<PathBuf> {
    let cache = home(environment)?.join(NAME);
    if !cache.is_dir() || is_writable(&cache) {
        return None;
    }
    let shown = cache.display().to_string();
    let trusted = trust::inspect_root(&cache).map_err(|distrust| chain(&distrust)).and_then(|()| {
        // A directory that is not readable needs a warning: its tools would be missing without a reason.
        std::fs::read_dir(&cache).map_err(|error| error.to_string())
    });
    if let Err(problem) = trusted {
        warnings.push(format!("the tools in `{shown}` are ignored: {problem}"));
        return None;
    }
    if !Product::ALL.iter().any(|product| cache.join(product.name()).is_dir()) {
        return None;
    }
    warnings.push(format!(
        "`{shown}` is not writable: installed tools are used, but others cannot be installed; to install tools, set another directory with --cache-dir (BUTLER_CACHE_DIR)"
    ));
    Some(cache)
}

fn home(environment: &Environment) -> Option<&Path> {
    environment.value(variable::HOME.name).map(Path::new).filter(|home| home.is_absolute())
}

fn is_writable(directory: &Path) -> bool {
    directory.is_dir() && access(directory, AccessFlags::W_OK | AccessFlags::X_OK).is_ok()
}

/// Creates `path`, or checks that only this user can have created anything in it.
fn ensure_own_directory(path: &Path) -> io::Result<()> {
    match std::fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        result => return result,
    }
    // Links are not followed: one could lead to a directory of this user that has another purpose.
    let found = std::fs::symlink_metadata(path)?;
    if !found.is_dir() {
        return Err(io::Error::other("it is not a directory"));
    }
    if found.uid() != user() {
        return Err(io::Error::other(format!("it belongs to the user {}", found.uid())));
    }
    if found.mode() & 0o022 != 0 {
        return Err(io::Error::other("others can write to it"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn environment(home: Option<&Path>, temporary: &Path) -> Environment {
        let mut variables = BTreeMap::from([("TMPDIR".into(), temporary.into())]);
        if let Some(home) = home {
            variables.insert("HOME".into(), home.into());
        }
        Environment::new(variables, PathBuf::new())
    }

    #[test]
    fn cache_is_in_a_writable_home_directory() {
        let home = tempfile::tempdir().unwrap();
        let cache = default_cache(
            &environment(Some(home.path()), &home.path().join("missing")),
            Missing::Create,
        );
        assert_eq!(cache.unwrap(), home.path().join(".butler-runner"));
    }

    #[test]
    fn without_a_usable_home_the_cache_is_private_to_the_user() {
        let temporary = tempfile::tempdir().unwrap();
        let file = temporary.path().join("file");
        std::fs::write(&file, "").unwrap();
        for home in
            [None, Some(Path::new("/proc/nonexistent")), Some(Path::new("relative")), Some(&*file)]
        {
            let cache =
                default_cache(&environment(home, temporary.path()), Missing::Create).unwrap();
            let name = format!("butler-runner-{}", user());
            assert_eq!(cache, temporary.path().join(name));
            assert_eq!(cache.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        }
    }

    #[test]
    fn only_naming_a_directory_does_not_create_it() {
        let root = tempfile::tempdir().unwrap();
        let missing = root.path().join("tmp");
        let environment = environment(None, &missing);
        let named = default_cache(&environment, Missing::OnlyName).unwrap();
        assert!(!missing.exists());
        assert_eq!(named, default_cache(&environment, Missing::Create).unwrap());
    }

    #[test]
    fn missing_directory_for_temporary_files_is_created() {
        let root = tempfile::tempdir().unwrap();
        let missing = root.path().join("a/tmp");
        assert!(
            default_cache(&environment(None, &missing), Missing::Create)
                .unwrap()
                .starts_with(&missing)
        );
        let file = root.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = default_cache(&environment(None, &file), Missing::Create).unwrap_err();
        assert!(error.to_string().contains("--work-dir, BUTLER_WORK_DIR"), "{error}");
    }

    #[test]
    fn directory_that_others_can_write_to_is_refused() {
        let temporary = tempfile::tempdir().unwrap();
        let cache = default_cache(&environment(None, temporary.path()), Missing::Create).unwrap();
        std::fs::set_permissions(&cache, PermissionsExt::from_mode(0o777)).unwrap();
        let error =
            default_cache(&environment(None, temporary.path()), Missing::Create).unwrap_err();
        assert!(error.to_string().contains("--cache-dir, BUTLER_CACHE_DIR"), "{error}");
    }

    #[test]
    fn link_in_place_of_the_directory_is_refused() {
        let temporary = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let name = format!("butler-runner-{}", user());
        symlink(elsewhere.path(), temporary.path().join(name)).unwrap();
        assert!(default_cache(&environment(None, temporary.path()), Missing::Create).is_err());
    }

    #[test]
    fn directory_of_another_user_is_refused() {
        // `/` belongs to root. A test that runs as root has to create a directory of another user.
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("cache");
        std::fs::create_dir(&path).unwrap();
        if user() == 0 {
            std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
            assert!(ensure_own_directory(&path).unwrap_err().to_string().contains("65534"));
        } else {
            assert!(
                ensure_own_directory(Path::new("/")).unwrap_err().to_string().contains("user 0")
            );
        }
    }
}
