//! The provider of `tests/provider`, whose resources are files on disk, in a filesystem mirror.

use std::path::{Path, PathBuf};

use super::programs::built;
use super::release_site::platform;

/// The address of the provider.
const ADDRESS: &str = "example.com/acme/files";

/// A filesystem mirror with the provider.
pub struct FilesProvider(tempfile::TempDir);

impl FilesProvider {
    /// Puts the provider into a new mirror.
    pub fn unpack() -> Self {
        let built = built("examples/terraform-provider-files");
        let directory = tempfile::tempdir().unwrap();
        let package = directory.path().join(format!("mirror/{ADDRESS}/1.0.0/{}", platform()));
        std::fs::create_dir_all(&package).unwrap();
        std::fs::copy(built, package.join("terraform-provider-files_v1.0.0")).unwrap();
        let mirror = directory.path().join("mirror");
        let configuration = format!(
            "provider_installation {{\n  filesystem_mirror {{\n    path = \"{}\"\n  }}\n}}\n",
            mirror.display()
        );
        std::fs::write(directory.path().join("terraformrc"), configuration).unwrap();
        Self(directory)
    }

    /// The value of `TF_CLI_CONFIG_FILE` that makes Terraform install from the mirror.
    pub fn configuration(&self) -> PathBuf {
        self.0.path().join("terraformrc")
    }

    /// The filesystem mirror.
    pub fn mirror(&self) -> PathBuf {
        self.0.path().join("mirror")
    }

    /// A module with files of this content, and the paths of the files.
    pub fn module(files: &[(&Path, &str)]) -> String {
        let head = format!(
            "terraform {{\n  required_providers {{\n    files = {{ source = \"{ADDRESS}\" }}\n  }}\n}}\n"
        );
        let resources = files.iter().enumerate().map(|(number, (path, content))| {
            format!(
                "resource \"files_file\" \"f{number}\" {{\n  path    = \"{}\"\n  content = \"{content}\"\n}}\n",
                path.display()
            )
        });
        [head].into_iter().chain(resources).collect()
    }

    /// A module with files of this content, each of which is written after the one before. The file number
    /// `gated` waits until the file `gate` exists.
    pub fn chain(files: &[(PathBuf, String)], gated: usize, gate: &Path) -> String {
        let resource = |(number, (path, content)): (usize, &(PathBuf, String))| {
            let waits = (number == gated).then(|| format!("  gate = \"{}\"\n", gate.display()));
            let before = number
                .checked_sub(1)
                .map(|before| format!("  depends_on = [files_file.f{before}]\n"));
            format!(
                "resource \"files_file\" \"f{number}\" {{\n  path    = \"{}\"\n  content = \"{content}\"\n{}{}}}\n",
                path.display(),
                waits.unwrap_or_default(),
                before.unwrap_or_default()
            )
        };
        [Self::module(&[])].into_iter().chain(files.iter().enumerate().map(resource)).collect()
    }
}
