//! The relative paths that the files of a module name.

use super::syntax::syntax;
use super::tree::{Kind, Tree, TreeError};

/// The largest file that is read, in bytes. Larger ones are generated; what they name belongs into
/// `triggers`.
const LARGEST: usize = 2 * 1024 * 1024;

/// The ending of Terragrunt's files.
const HCL: &str = ".hcl";

/// The relative paths in the files of a directory.
///
/// # Errors
/// If an object cannot be read.
pub(super) fn references(tree: &impl Tree, directory: &str) -> Result<Vec<String>, TreeError> {
    let mut found = Vec::new();
    for (name, entry) in tree.list(directory)? {
        // Terragrunt reads all `.hcl` files that others name.
        let is_configuration = syntax(&name).is_some() || name.ends_with(HCL);
        if !is_configuration || !matches!(entry.kind, Kind::File | Kind::Executable) {
            continue;
        }
        let path = if directory.is_empty() { name } else { format!("{directory}/{name}") };
        if let Some(text) = tree.text(&path, LARGEST)? {
            found.extend(relative_paths(&text));
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

/// The texts in quotes that begin with `./`, `../` or `${path.module}/`: sources of local modules,
/// and files for functions such as `file` and `templatefile`.
///
/// The text is not parsed, so this works for HCL and JSON, and paths in comments are found too:
/// depending on too much causes a plan without changes, depending on too little loses a commit. Of a
/// path that is computed from some point on, the directory before that point is named.
fn relative_paths(text: &str) -> impl Iterator<Item = String> {
    let starts = text.match_indices('"').map(|(quote, _)| &text[quote + 1..]);
    starts.filter_map(|rest| {
        let rest = rest.strip_prefix("${path.module}/").or_else(|| {
            let is_relative = rest.starts_with("./") || rest.starts_with("../");
            is_relative.then_some(rest)
        })?;
        let line = rest.lines().next().unwrap_or_default();
        let path = line.split('"').next().unwrap_or_default();
        if path.contains('\0') {
            return None;
        }
        let path = match path.split_once("${") {
            Some((literal, _)) => literal.rsplit_once('/').map_or(".", |(directory, _)| directory),
            None => path,
        };
        Some(path.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_are_found_in_hcl_and_json() {
        let text = r#"
            module "network" { source = "../../modules/network" }
            module "remote" { source = "hashicorp/consul/aws" }
            locals {
              policy = file("${path.module}/policy.json")
              each   = templatefile("${path.module}/templates/${each.key}.tpl", {})
              any    = file("${path.module}/${var.name}")
              root   = "${path.root}/x"
            }
        "#;
        let found: Vec<String> = relative_paths(text).collect();
        assert_eq!(found, ["../../modules/network", "policy.json", "templates", "."]);
        let json = r#"{"module": {"a": {"source": "./a"}}}"#;
        assert_eq!(relative_paths(json).collect::<Vec<_>>(), ["./a"]);
    }
}
