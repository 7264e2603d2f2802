//! The default directories of runs and of installed tools.
//!
//! A home directory that cannot be written is common in containers; the stand-in for it lies where
//! everybody can write, so it counts only when nobody else can have put anything into it. What an
//! image brings in such a home directory is used all the same.

use std::io;
use std::path::{Path, PathBuf};

use super::setting::{CACHE_DIR, WORK_DIR};
use super::{Environment, SettingsError, variable};
use butler_base::error::chain;
use butler_base::platform::fs::{AccessFlags, DirBuilderExt, MetadataExt, access, user};
use butler_base::trust;
use butler_protocol::spec::Product;

/// The cache directory's name in the home directory.
const NAME: &str = ".butler-runner";

/// What happens to a directory that is decided on but missing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Missing {
    /// It is made, and what is there is looked at.
    Make,
    /// It is only named: nothing is going to be put into it.
    Name,
}

/// The directory for temporary files. It is made where even that is missing, as in an empty root.
///
/// # Errors
/// When it is missing and cannot be made.
pub(super) fn temporary(
    environment: &Environment,
    missing: Missing,
) -> Result<PathBuf, SettingsError> {
    let path = environment.temporary().to_owned();
    if missing == Missing::Name {
        return Ok(path);
    }
    // As everybody expects it of a directory for temporary files, less what the umask takes.
    match std::fs::DirBuilder::new().recursive(true).mode(0o1777).create(&path) {
        Ok(()) => Ok(path),
        Err(source) => Err(SettingsError::Path { setting: &WORK_DIR, path, source }),
    }
}

/// `~/.butler-runner`, or a directory of this user's below the one for temporary files.
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
    if missing == Missing::Name {
        return Ok(path);
    }
    own_directory(&path).map_err(|source| SettingsError::Path {
        setting: &CACHE_DIR,
        path: path.clone(),
        source,
    })?;
    Ok(path)
}

/// `~/.butler-runner` where tools are installed in it but it cannot be written, as in a container
/// whose root file system is read-only. Says in `warnings` what that means, or why it is passed over.
pub(super) fn prebaked(environment: &Environment, warnings: &mut Vec<String>) -> Option<PathBuf> {
    let cache = home(environment)?.join(NAME);
    if !cache.is_dir() || is_writable(&cache) {
        return None;
    }
    let shown = cache.display().to_string();
    let trusted = trust::inspect_root(&cache).map_err(|distrust| chain(&distrust)).and_then(|()| {
        // Whether it can be read at all: what is there must not be lost without a word.
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

/// Makes sure that `path` is a directory into which only this user can have put anything.
fn own_directory(path: &Path) -> io::Result<()> {
    match std::fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        result => return result,
    }
    // Not followed: a link could lead to a directory of ours that is meant for something else.
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
    fn home_holds_the_cache_where_it_can() {
        let home = tempfile::tempdir().unwrap();
        let cache = default_cache(
            &environment(Some(home.path()), &home.path().join("missing")),
            Missing::Make,
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
            let cache = default_cache(&environment(home, temporary.path()), Missing::Make).unwrap();
            let name = format!("butler-runner-{}", user());
            assert_eq!(cache, temporary.path().join(name));
            assert_eq!(cache.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        }
    }

    #[test]
    fn what_is_only_named_is_not_made() {
        let root = tempfile::tempdir().unwrap();
        let missing = root.path().join("tmp");
        let environment = environment(None, &missing);
        let made = default_cache(&environment, Missing::Name).unwrap();
        assert!(!missing.exists());
        assert_eq!(made, default_cache(&environment, Missing::Make).unwrap());
    }

    #[test]
    fn missing_directory_for_temporary_files_is_made() {
        let root = tempfile::tempdir().unwrap();
        let missing = root.path().join("a/tmp");
        assert!(
            default_cache(&environment(None, &missing), Missing::Make)
                .unwrap()
                .starts_with(&missing)
        );
        let file = root.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = default_cache(&environment(None, &file), Missing::Make).unwrap_err();
        assert!(error.to_string().contains("--work-dir, BUTLER_WORK_DIR"), "{error}");
    }

    #[test]
    fn directory_that_others_can_write_to_is_refused() {
        let temporary = tempfile::tempdir().unwrap();
        let cache = default_cache(&environment(None, temporary.path()), Missing::Make).unwrap();
        std::fs::set_permissions(&cache, PermissionsExt::from_mode(0o777)).unwrap();
        let error = default_cache(&environment(None, temporary.path()), Missing::Make).unwrap_err();
        assert!(error.to_string().contains("--cache-dir, BUTLER_CACHE_DIR"), "{error}");
    }

    #[test]
    fn link_in_place_of_the_directory_is_refused() {
        let temporary = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let name = format!("butler-runner-{}", user());
        symlink(elsewhere.path(), temporary.path().join(name)).unwrap();
        assert!(default_cache(&environment(None, temporary.path()), Missing::Make).is_err());
    }

    #[test]
    fn directory_of_somebody_else_is_refused() {
        // `/` belongs to root; whoever is root cannot be shown a stranger without making one.
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("cache");
        std::fs::create_dir(&path).unwrap();
        if user() == 0 {
            std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
            assert!(own_directory(&path).unwrap_err().to_string().contains("65534"));
        } else {
            assert!(own_directory(Path::new("/")).unwrap_err().to_string().contains("user 0"));
        }
    }
}
