//! The paths that the files of a module name.

use super::syntax::{TERRAGRUNT, syntax};
use super::tree::{Kind, Tree, TreeError, join};

/// The largest file that is read, in bytes. Larger ones are generated; what they name belongs into
/// `triggers`.
const LARGEST: usize = 2 * 1024 * 1024;

/// The ending of Terragrunt's files.
const HCL: &str = ".hcl";

/// What Terragrunt writes in front of a path below the root of the repository.
const ROOT: &str = "${get_repo_root()}/";

/// How a path below the directory of a parent file begins in Terragrunt, and how it goes on.
const PARENT: (&str, &str) = ("${dirname(find_in_parent_folders(", "))}/");

/// The names of a parent file that is not named.
const PARENTS: [&str; 2] = [TERRAGRUNT, "root.hcl"];

/// A path in a file.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Reference {
    /// Below the directory of the file.
    Relative(String),
    /// Below the root of the repository.
    BelowRoot(String),
    /// Below the nearest parent directory with a file of this name.
    BelowParent {
        /// The name, if it is given.
        file: Option<String>,
        /// The path.
        path: String,
    },
}

impl Reference {
    /// The path in the repository, if a file in `directory` names it.
    ///
    /// # Errors
    /// If an object cannot be read.
    pub(super) fn resolve(
        &self,
        tree: &impl Tree,
        directory: &str,
    ) -> Result<Option<String>, TreeError> {
        let (file, path) = match self {
            Self::Relative(path) => return Ok(join(directory, path)),
            Self::BelowRoot(path) => return Ok(join("", path)),
            Self::BelowParent { file, path } => (file, path),
        };
        let given = file.as_deref();
        let names = given.as_ref().map_or(&PARENTS[..], std::slice::from_ref);
        let mut parent = directory;
        while !parent.is_empty() {
            parent = parent.rsplit_once('/').map_or("", |(parent, _)| parent);
            for file in names.iter().filter_map(|name| join(parent, name)) {
                if tree.entry(&file)?.is_some() {
                    return Ok(join(parent, path));
                }
            }
        }
        Ok(None)
    }
}

/// The paths in the files of a directory.
///
/// # Errors
/// If an object cannot be read.
pub(super) fn references(tree: &impl Tree, directory: &str) -> Result<Vec<Reference>, TreeError> {
    let mut found = Vec::new();
    for (name, entry) in tree.list(directory)? {
        // Terragrunt reads all `.hcl` files that others name.
        let is_configuration = syntax(&name).is_some() || name.ends_with(HCL);
        if !is_configuration || !matches!(entry.kind, Kind::File | Kind::Executable) {
            continue;
        }
        let path = if directory.is_empty() { name } else { format!("{directory}/{name}") };
        if let Some(text) = tree.text(&path, LARGEST)? {
            found.extend(paths(&text));
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

/// The texts in quotes that begin with `./`, `../` or `${path.module}/`: sources of local modules,
/// and files for functions such as `file` and `templatefile`; and paths that begin with the functions of
/// Terragrunt for the root of the repository and for a parent.
///
/// The text is not parsed, so this works for HCL and JSON, and paths in comments are found too:
/// depending on too much causes a plan without changes, depending on too little loses a commit. Of a
/// path that is computed from some point on, the directory before that point is named.
fn paths(text: &str) -> impl Iterator<Item = Reference> {
    let starts = text.match_indices('"').map(|(quote, _)| &text[quote + 1..]);
    starts.filter_map(|rest| {
        if let Some(rest) = rest.strip_prefix(ROOT) {
            return literal(rest).map(Reference::BelowRoot);
        }
        if let Some(rest) = rest.strip_prefix(PARENT.0) {
            let (file, rest) = rest.split_once(PARENT.1)?;
            let file = file.strip_prefix('"').and_then(|file| file.strip_suffix('"'));
            let file = file.filter(|file| !file.contains('"')).map(str::to_owned);
            return literal(rest).map(|path| Reference::BelowParent { file, path });
        }
        let own = ["${path.module}/", "${get_terragrunt_dir()}/"];
        let rest = own.iter().find_map(|own| rest.strip_prefix(own)).or_else(|| {
            let is_relative = rest.starts_with("./") || rest.starts_with("../");
            is_relative.then_some(rest)
        })?;
        literal(rest).map(Reference::Relative)
    })
}

/// The path at the beginning of `rest`, up to the quote behind it.
fn literal(rest: &str) -> Option<String> {
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
        let relative = |path: &str| Reference::Relative(path.to_owned());
        let expected = ["../../modules/network", "policy.json", "templates", "."].map(relative);
        assert_eq!(paths(text).collect::<Vec<_>>(), expected);
        let json = r#"{"module": {"a": {"source": "./a"}}}"#;
        assert_eq!(paths(json).collect::<Vec<_>>(), [relative("./a")]);
    }

    #[test]
    fn paths_below_the_root_and_a_parent_are_found_in_terragrunt() {
        let text = r#"
            terraform { source = "${get_repo_root()}//modules/vpc" }
            include "env" { path = "${dirname(find_in_parent_folders("env.hcl"))}/_common/vpc.hcl" }
            inputs = {
              a = file("${get_terragrunt_dir()}/../a.json")
              b = file("${dirname(find_in_parent_folders())}/b/${local.name}.json")
              c = "${dirname(find_in_parent_folders(local.file))}/c"
            }
        "#;
        let below = |file: Option<&str>, path: &str| Reference::BelowParent {
            file: file.map(str::to_owned),
            path: path.to_owned(),
        };
        let expected = [
            Reference::BelowRoot("/modules/vpc".to_owned()),
            below(Some("env.hcl"), "_common/vpc.hcl"),
            Reference::Relative("../a.json".to_owned()),
            below(None, "b"),
            below(None, "c"),
        ];
        assert_eq!(paths(text).collect::<Vec<_>>(), expected);
    }
}
