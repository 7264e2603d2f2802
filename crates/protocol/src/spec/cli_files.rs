//! Which CLI configuration files of the user's Terraform and `OpenTofu` read.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::Product;

/// Variables that name a CLI configuration file, instead of all files in the home.
pub const CLI_CONFIG_VARIABLES: [&str; 2] = ["TF_CLI_CONFIG_FILE", "TERRAFORM_CONFIG"];

/// How the names of files in the configuration directory end, in just these letters.
const ENDINGS: [&str; 2] = [".tfrc", ".tfrc.json"];

/// The CLI configuration files in the user's home that `product` reads without being told, the one
/// that beats the others first. `variable` looks into the environment of the tool.
#[must_use]
pub fn cli_config_files(
    product: Product,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Vec<PathBuf> {
    let path = |name: &str| variable(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let Some(home) = path("HOME") else { return Vec::new() };
    let (file, directory) = (home.join(".terraformrc"), home.join(".terraform.d"));
    let (mut main, mut further) = (file.clone(), directory.clone());
    // Terragrunt starts either, and `OpenTofu` falls back to what is Terraform's.
    if product == Product::OpenTofu {
        let own = home.join(".tofurc");
        let general = path("XDG_CONFIG_HOME").map(|general| general.join("opentofu"));
        main = match &general {
            _ if own.exists() => own,
            _ if file.exists() => file,
            Some(general) => general.join("tofurc"),
            None => own,
        };
        further = general.filter(|_| !directory.exists()).unwrap_or(directory);
    }
    let mut files = vec![main];
    files.extend(settings_in(&further));
    files.retain(|file| file.is_file());
    files
}

/// All configuration files in a directory, in the order in which they are read.
fn settings_in(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            ENDINGS.iter().any(|ending| name.ends_with(ending))
        })
        .collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tool_reads_its_own_files_in_its_own_order() {
        let home = tempfile::tempdir().unwrap();
        let write = |name: &str| {
            let path = home.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        };
        let read = |product| {
            let variable = |name: &str| match name {
                "HOME" => Some(home.path().into()),
                "XDG_CONFIG_HOME" => Some(home.path().join("xdg").into()),
                _ => None,
            };
            let files = cli_config_files(product, variable);
            let shown = files.iter().map(|it| it.strip_prefix(home.path()).unwrap().display());
            shown.map(|it| it.to_string()).collect::<Vec<_>>().join(" ")
        };
        for (file, terraform, opentofu) in [
            ("xdg/opentofu/tofurc", "", "xdg/opentofu/tofurc"),
            ("xdg/opentofu/a.tfrc", "", "xdg/opentofu/tofurc xdg/opentofu/a.tfrc"),
            (".terraformrc", ".terraformrc", ".terraformrc xdg/opentofu/a.tfrc"),
            (".tofurc", ".terraformrc", ".tofurc xdg/opentofu/a.tfrc"),
            (".terraform.d/checkpoint_cache", ".terraformrc", ".tofurc"),
            (
                ".terraform.d/b.tfrc",
                ".terraformrc .terraform.d/b.tfrc",
                ".tofurc .terraform.d/b.tfrc",
            ),
            (
                ".terraform.d/a.tfrc.json",
                ".terraformrc .terraform.d/a.tfrc.json .terraform.d/b.tfrc",
                ".tofurc .terraform.d/a.tfrc.json .terraform.d/b.tfrc",
            ),
        ] {
            write(file);
            assert_eq!(read(Product::Terraform), terraform, "{file}");
            assert_eq!(read(Product::OpenTofu), opentofu, "{file}");
        }
    }
}
