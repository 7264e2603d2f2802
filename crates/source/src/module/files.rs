//! Finds and reads the files of a module directory.

use std::path::{Path, PathBuf};

use super::error::ModuleError;

/// Larger files are not read: a parsed file takes up to 150 times its size in memory.
const LARGEST: u64 = 2 * 1024 * 1024;

/// JSON is made by programs, and takes less.
const LARGEST_JSON: u64 = 16 * 1024 * 1024;

/// A file that Terraform or `OpenTofu` would read.
pub(super) struct ConfigurationFile {
    pub(super) path: PathBuf,
    pub(super) is_json: bool,
    pub(super) is_override: bool,
}

impl ConfigurationFile {
    /// All of them in the order in which they count: by name, override files after the others.
    pub(super) fn list(directory: &Path) -> Result<Vec<Self>, ModuleError> {
        let failed = |source| ModuleError::Read { path: directory.to_owned(), source };
        let mut files = Vec::new();
        for entry in std::fs::read_dir(directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let path = entry.path();
            // Follows links as Terraform does, but never opens a device or a pipe.
            if let Some(file) = entry.file_name().to_str().and_then(|name| Self::new(&path, name))
                && path.is_file()
            {
                files.push(file);
            }
        }
        files.sort_by(|one, other| {
            (one.is_override, &one.path).cmp(&(other.is_override, &other.path))
        });
        Ok(files)
    }

    fn new(path: &Path, name: &str) -> Option<Self> {
        let (stem, is_json) = stem(name)?;
        Some(Self { path: path.to_owned(), is_json, is_override: is_override(stem) })
    }
}

/// Whether there is any such file in `directory`.
pub(super) fn any(directory: &Path) -> std::io::Result<bool> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(|name| stem(name).is_some())
            && entry.path().is_file()
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A configuration file's name without its ending, and whether the ending says JSON; none for
/// what Terraform ignores, editors' backup files among it.
fn stem(name: &str) -> Option<(&str, bool)> {
    let ignored = name.starts_with('.') || name.starts_with('#') && name.ends_with('#');
    let stem = [(".tf", false), (".tofu", false), (".tf.json", true), (".tofu.json", true)]
        .into_iter()
        .find_map(|(ending, json)| Some((name.strip_suffix(ending)?, json)));
    stem.filter(|_| !ignored)
}

fn is_override(stem: &str) -> bool {
    stem == "override" || stem.ends_with("_override")
}

/// Whether the directory is a unit of Terragrunt's.
pub(super) fn is_terragrunts(directory: &Path) -> bool {
    ["terragrunt.hcl", "terragrunt.hcl.json"].iter().any(|name| directory.join(name).is_file())
}

/// The names of a directory's override files.
///
/// # Errors
/// If the directory cannot be listed.
pub fn override_files(directory: &Path) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        if let Ok(name) = entry?.file_name().into_string()
            && stem(&name).is_some_and(|(stem, _)| is_override(stem))
        {
            names.push(name);
        }
    }
    Ok(names)
}

/// The file's text, or none of a file that is too large; what is not UTF-8 cannot be parsed later
/// on, which is soon enough.
///
/// # Errors
/// If the file cannot be read.
pub fn read(path: &Path) -> Result<Option<String>, ModuleError> {
    let failed = |source| ModuleError::Read { path: path.to_owned(), source };
    let size = std::fs::metadata(path).map_err(failed)?.len();
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    if size > if is_json { LARGEST_JSON } else { LARGEST } {
        tracing::warn!(path = %path.display(), size, "too large to read");
        return Ok(None);
    }
    let bytes = std::fs::read(path).map_err(failed)?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}
