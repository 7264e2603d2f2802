//! Finds and reads the files of a module directory.

use std::path::{Path, PathBuf};

use super::error::ModuleError;
use butler_protocol::spec::{ToolRequest, reads_tofu_files};

/// The largest HCL file that is parsed, in bytes: parsed, it takes up to 150 times its size in memory.
const MAX_HCL: u64 = 2 * 1024 * 1024;

/// The largest file that is read, in bytes. JSON is parsed level by level, without copies of values.
const MAX_READ: u64 = 16 * 1024 * 1024;

/// A file that Terraform or `OpenTofu` would read.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent properties of a file")]
pub(super) struct ConfigurationFile {
    pub(super) path: PathBuf,
    pub(super) name: String,
    pub(super) is_json: bool,
    pub(super) is_override: bool,
    /// Whether only `OpenTofu` reads it.
    pub(super) is_of_tofu: bool,
    /// Whether it is an `x.tf` beside an `x.tofu`, which `OpenTofu` reads instead.
    pub(super) is_replaced: bool,
}

impl ConfigurationFile {
    /// All files of a directory in the order of their names, override files last.
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
        let of_tofu: Vec<String> =
            files.iter().filter(|it| it.is_of_tofu).map(|it| it.name.clone()).collect();
        for file in files.iter_mut().filter(|it| !it.is_of_tofu) {
            file.is_replaced = of_tofu.contains(&tofu_name(&file.name));
        }
        files.sort_by(|one, other| {
            (one.is_override, &one.path).cmp(&(other.is_override, &other.path))
        });
        Ok(files)
    }

    fn new(path: &Path, name: &str) -> Option<Self> {
        let (stem, is_json) = stem(name)?;
        Some(Self {
            path: path.to_owned(),
            name: name.to_owned(),
            is_json,
            is_override: is_override(stem),
            is_of_tofu: name[stem.len()..].starts_with(".tofu"),
            is_replaced: false,
        })
    }

    /// Whether `tool` reads it.
    pub(super) fn is_read_by(&self, tool: &ToolRequest) -> bool {
        if reads_tofu_files(tool) { !self.is_replaced } else { !self.is_of_tofu }
    }
}

/// A file with tests.
pub(super) struct TestFile {
    /// Its path in the module.
    pub(super) name: String,
    /// Whether only `OpenTofu` reads it.
    pub(super) is_of_tofu: bool,
}

impl TestFile {
    /// The directory with tests in a module, beside the module itself.
    const DIRECTORY: &str = "tests";

    /// All test files of the module in `directory`, in the order of their names.
    pub(super) fn list(directory: &Path) -> Result<Vec<Self>, ModuleError> {
        let mut files = Vec::new();
        for below in ["", Self::DIRECTORY] {
            let path = directory.join(below);
            let failed = |source| ModuleError::Read { path: path.clone(), source };
            if !path.is_dir() {
                continue;
            }
            for entry in std::fs::read_dir(&path).map_err(failed)? {
                let name = entry.map_err(failed)?.file_name();
                let Some(name) = name.to_str().filter(|name| !is_ignored(name)) else { continue };
                let ends = |endings: [&str; 2]| endings.iter().any(|it| name.ends_with(it));
                let is_of_tofu = ends([".tofutest.hcl", ".tofutest.json"]);
                if is_of_tofu || ends([".tftest.hcl", ".tftest.json"]) {
                    let name = Path::new(below).join(name).display().to_string();
                    files.push(Self { name, is_of_tofu });
                }
            }
        }
        files.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(files)
    }
}

/// The name of the file that `OpenTofu` reads instead of the `*.tf` or `*.tf.json` with this name.
fn tofu_name(name: &str) -> String {
    let (stem, ending) = name.split_at(stem(name).map_or(name.len(), |(stem, _)| stem.len()));
    format!("{stem}{}", ending.replace(".tf", ".tofu"))
}

/// Whether `directory` contains a configuration file.
pub(super) fn has_configuration_file(directory: &Path) -> std::io::Result<bool> {
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

/// The name of a configuration file without its extension, and whether it is JSON. `None` for files that
/// Terraform ignores, such as backup files of editors.
fn stem(name: &str) -> Option<(&str, bool)> {
    let stem = [(".tf", false), (".tofu", false), (".tf.json", true), (".tofu.json", true)]
        .into_iter()
        .find_map(|(ending, json)| Some((name.strip_suffix(ending)?, json)));
    stem.filter(|_| !is_ignored(name))
}

/// Whether no tool reads a file with this name: it is hidden, or a backup of an editor.
fn is_ignored(name: &str) -> bool {
    name.starts_with('.') || name.starts_with('#') && name.ends_with('#')
}

fn is_override(stem: &str) -> bool {
    stem == "override" || stem.ends_with("_override")
}

/// Whether the directory is a Terragrunt unit.
pub(super) fn is_terragrunt_unit(directory: &Path) -> bool {
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

/// The content of a file.
#[derive(Debug)]
pub enum FileText {
    /// The text, which can be parsed. Bytes that are not UTF-8 make a parse fail.
    Whole(String),
    /// The text, which is too large to be parsed.
    Large(String),
    /// The file is too large to be read.
    TooLarge,
}

/// Reads a file. A byte order mark is left out.
///
/// # Errors
/// If the file cannot be read.
pub fn read(path: &Path) -> Result<FileText, ModuleError> {
    let failed = |source| ModuleError::Read { path: path.to_owned(), source };
    let size = std::fs::metadata(path).map_err(failed)?.len();
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    if size > MAX_READ {
        tracing::warn!(path = %path.display(), size, "too large to read");
        return Ok(FileText::TooLarge);
    }
    let bytes = std::fs::read(path).map_err(failed)?;
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let text = String::from_utf8_lossy(bytes).into_owned();
    if is_json || size <= MAX_HCL {
        return Ok(FileText::Whole(text));
    }
    tracing::warn!(path = %path.display(), size, "too large to parse");
    Ok(FileText::Large(text))
}
