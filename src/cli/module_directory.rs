//! Checks the directory argument of a run, and rejects a directory without a module before the run
//! starts.

use std::path::{Path, PathBuf};

use butler_source::module::has_configuration;

/// The largest number of modules in the hint about a directory without configuration.
const MOST_NAMED: usize = 5;

/// The lowest similarity of a suggested name (Jaro-Winkler, from 0 to 1).
const LOWEST_SIMILARITY: f64 = 0.8;

/// Errors of the directory argument.
#[derive(Debug, thiserror::Error)]
pub(super) enum ModuleDirectoryError {
    /// The directory does not exist or cannot be read.
    #[error("cannot use the directory `{}`", path.display())]
    Unusable {
        /// The directory.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
    /// The path is a file.
    #[error("`{}` is a file and not a directory", path.display())]
    File {
        /// The file.
        path: PathBuf,
    },
    /// The directory has no configuration.
    #[error("the directory `{}` has no Terraform configuration: no file that ends in .tf or .tofu", path.display())]
    Empty {
        /// The directory.
        path: PathBuf,
        /// Subdirectories with configuration.
        modules: Vec<String>,
    },
}

impl butler_base::error::Advice for ModuleDirectoryError {
    fn advice(&self) -> Option<String> {
        match self {
            Self::Unusable { path, source } if source.kind() == std::io::ErrorKind::NotFound => {
                similar_path(path).map(|name| format!("did you mean `{}`?", name.display()))
            }
            Self::Unusable { .. } => None,
            Self::File { .. } => Some(
                "name the directory of a module, or omit it to use the current directory"
                    .to_owned(),
            ),
            Self::Empty { modules, .. } if modules.is_empty() => {
                Some("name the directory of a module".to_owned())
            }
            Self::Empty { path, modules } => {
                let names = modules.iter().map(|name| format!("`{}`", path.join(name).display()));
                let names: Vec<_> = names.map(|name| name.replace("`./", "`")).collect();
                Some(format!("name one of these modules: {}", names.join(", ")))
            }
        }
    }
}

/// Checks that the directory has configuration. Returns the absolute path; the default is the current directory.
pub(super) fn module_directory(given: Option<&Path>) -> Result<PathBuf, ModuleDirectoryError> {
    let given = given.unwrap_or(Path::new("."));
    let unusable = |source| ModuleDirectoryError::Unusable { path: given.to_owned(), source };
    if !std::fs::metadata(given).map_err(unusable)?.is_dir() {
        return Err(ModuleDirectoryError::File { path: given.to_owned() });
    }
    if !has_configuration(given).map_err(unusable)? {
        let modules = modules_in(given);
        return Err(ModuleDirectoryError::Empty { path: given.to_owned(), modules });
    }
    // Links are not resolved, as in Terraform.
    std::path::absolute(given).map_err(unusable)
}

/// The names of at most [`MOST_NAMED`] subdirectories with configuration.
fn modules_in(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let below = entries.filter(|entry| has_configuration(&entry.path()).unwrap_or(false));
    let mut names: Vec<_> =
        below.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| !name.starts_with('.'));
    names.sort();
    names.truncate(MOST_NAMED);
    names
}

/// The file or directory next to `path` with the most similar name.
pub(super) fn similar_path(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let entries = std::fs::read_dir(parent.unwrap_or(Path::new("."))).ok()?.flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let similarity = |other: &str| strsim::jaro_winkler(name, other);
    let best = names.max_by(|one, other| similarity(one).total_cmp(&similarity(other)))?;
    (similarity(&best) >= LOWEST_SIMILARITY)
        .then(|| parent.map_or_else(|| best.clone().into(), |it| it.join(&best)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use butler_base::error::{Advice, chain};

    fn refused(path: &Path) -> (String, Option<String>) {
        let error = module_directory(Some(path)).unwrap_err();
        (chain(&error), error.advice())
    }

    #[test]
    fn errors_suggest_similar_names_and_modules() {
        let base = tempfile::tempdir().unwrap();
        let path = |name: &str| base.path().join(name);
        for name in ["network", "empty", ".terraform"] {
            std::fs::create_dir(path(name)).unwrap();
        }
        for name in ["network/main.tf", ".terraform/main.tf", "notes.txt"] {
            std::fs::write(path(name), "").unwrap();
        }
        assert_eq!(module_directory(Some(&path("network"))).unwrap(), path("network"));
        let (said, hint) = refused(&path("netwrok"));
        assert!(said.contains("netwrok") && said.contains("No such file"), "{said}");
        assert_eq!(hint.unwrap(), format!("did you mean `{}`?", path("network").display()));
        assert!(refused(&path("quite-different")).1.is_none());
        let (said, hint) = refused(base.path());
        assert!(said.contains("has no Terraform configuration"), "{said}");
        let inner = path("network");
        assert_eq!(hint.unwrap(), format!("name one of these modules: `{}`", inner.display()));
        assert!(refused(&path("empty")).1.unwrap().starts_with("name the directory"));
        assert!(refused(&path("notes.txt")).0.ends_with("is a file and not a directory"));
    }
}
