//! A directory in which `state pull` decrypts a state that `OpenTofu` could not store.
//!
//! It contains the `encryption` blocks of the module, the parts that they use, and the encrypted file as the state of
//! the local backend. It does not contain a backend, so `state pull` works without `init` and without access to the
//! backend.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::kept_file::copy_to;
use butler_base::platform::fs::{OpenOptionsExt, PermissionsExt};
use butler_base::trust::{make_private, open_regular};
use butler_source::module::encryption_files;

/// The state of the local backend.
const STATE: &str = "terraform.tfstate";

/// The depth of the search for the files that the encryption names.
const MAX_DEPTH: usize = 4;

/// The number of files and directories after which this search ends.
const MAX_ENTRIES: usize = 5000;

/// The largest of these files, in bytes.
const MAX_SIZE: u64 = 1024 * 1024;

/// Directories with files that no module's encryption uses.
const NO_FILES: [&str; 3] = [".git", ".terraform", ".terragrunt-cache"];

/// Prepares `directory`, which must be empty and private, for the decryption of `errored`, a state of the module in
/// `module`.
///
/// # Errors
/// If a file cannot be read or written.
pub(super) fn prepare_decryption(
    directory: &Path,
    module: &Path,
    errored: &Path,
) -> std::io::Result<()> {
    let files = encryption_files(module).map_err(std::io::Error::other)?;
    let mut texts = String::new();
    for file in files {
        create(&directory.join(&file.name), 0o600)?.write_all(file.text.as_bytes())?;
        texts.push_str(&file.text);
    }
    for path in named_files(module, &texts) {
        let target = directory.join(&path);
        if let Some(parent) = target.parent() {
            make_private(parent)?;
        }
        copy_file(&module.join(&path), &target)?;
    }
    copy_to(errored, &mut create(&directory.join(STATE), 0o600)?)
}

/// The files below `module` whose paths are in `texts`, such as a program that prints a key, and the files with values of
/// variables. Their paths are relative.
fn named_files(module: &Path, texts: &str) -> Vec<PathBuf> {
    let (mut found, mut pending, mut seen) = (Vec::new(), vec![(PathBuf::new(), 0)], 0);
    while let Some((directory, depth)) = pending.pop() {
        let entries = std::fs::read_dir(module.join(&directory)).into_iter().flatten().flatten();
        for entry in entries {
            seen += 1;
            if seen > MAX_ENTRIES {
                return found;
            }
            let path = directory.join(entry.file_name());
            let Ok(kind) = entry.file_type() else { continue };
            let is_skipped = NO_FILES.iter().any(|name| entry.file_name() == *name);
            if kind.is_dir() && depth < MAX_DEPTH && !is_skipped {
                pending.push((path, depth + 1));
            } else if kind.is_file() && is_needed(&path, texts) {
                found.push(path);
            }
        }
    }
    found
}

fn is_needed(path: &Path, texts: &str) -> bool {
    let Some(name) = path.to_str() else { return false };
    let has_values = ["terraform.tfvars", "terraform.tfvars.json"].contains(&name)
        || !name.contains('/')
            && [".auto.tfvars", ".auto.tfvars.json"].iter().any(|ending| name.ends_with(ending));
    let is_configuration =
        [".tf", ".tf.json", ".tofu", ".tofu.json"].iter().any(|ending| name.ends_with(ending));
    has_values || !is_configuration && texts.contains(name)
}

/// Copies a file with its permission to be executed, unless it is too large.
fn copy_file(from: &Path, to: &Path) -> std::io::Result<()> {
    let found = open_regular(from)?.metadata()?;
    if found.len() > MAX_SIZE {
        return Ok(());
    }
    let execute = found.permissions().mode() & 0o100;
    copy_to(from, &mut create(to, 0o600 | execute)?)
}

fn create(path: &Path, mode: u32) -> std::io::Result<File> {
    std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_has_what_the_encryption_uses_and_nothing_else() {
        let base = tempfile::tempdir().unwrap();
        let (module, directory) = (base.path().join("module"), base.path().join("decryption"));
        std::fs::create_dir_all(module.join("scripts")).unwrap();
        std::fs::create_dir(&directory).unwrap();
        for (name, text) in [
            (
                "main.tf",
                "terraform {\n  backend \"http\" {}\n  encryption {\n    key_provider \"external\" \"k\" {\n      \
                 command = [\"./scripts/key.sh\", file(\"${path.module}/pass.txt\")]\n    }\n  }\n}\n",
            ),
            ("scripts/key.sh", "#!/bin/sh\n"),
            ("scripts/other.sh", "#!/bin/sh\n"),
            ("pass.txt", "p"),
            ("terraform.tfvars", "a = 1"),
            ("b.auto.tfvars", "b = 1"),
            ("other.tf", "resource \"a\" \"b\" {}"),
            ("errored.tfstate", "encrypted"),
        ] {
            std::fs::write(module.join(name), text).unwrap();
        }
        prepare_decryption(&directory, &module, &module.join("errored.tfstate")).unwrap();
        let mut found = Vec::new();
        for part in ["", "scripts"] {
            for entry in std::fs::read_dir(directory.join(part)).unwrap() {
                let path = entry.unwrap().path();
                if path.is_file() {
                    found.push(path.strip_prefix(&directory).unwrap().display().to_string());
                }
            }
        }
        found.sort();
        let expected = [
            "b.auto.tfvars",
            "main.tf",
            "pass.txt",
            "scripts/key.sh",
            "terraform.tfstate",
            "terraform.tfvars",
        ];
        assert_eq!(found, expected);
        let text = std::fs::read_to_string(directory.join("main.tf")).unwrap();
        assert!(!text.contains("backend") && text.contains("encryption"), "{text}");
        assert_eq!(std::fs::read_to_string(directory.join(STATE)).unwrap(), "encrypted");
    }
}
