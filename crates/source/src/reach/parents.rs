//! The files above a layer that its tools read.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;

use butler_protocol::spec::VersionFileKind;

use super::syntax::syntax;
use super::tree::{Dependencies, Entry, Kind, Tree, TreeError, below};

/// The beginning of the names of Terragrunt's files.
const TERRAGRUNT: &str = "terragrunt.";

/// The endings of files with settings of tools.
const ENDINGS: [&str; 2] = [".hcl", ".hcl.json"];

/// The ending of texts in Markdown.
const MARKDOWN: &str = ".md";

/// Files for people. Terragrunt can read any other file of a parent directory.
const PROSE: [&str; 8] = [
    "changelog",
    "codeowners",
    "contributing",
    "copying",
    "license",
    "notice",
    "readme",
    "security",
];

/// The files of directories of one commit, which are read once for all layers below them.
#[derive(Debug, Default)]
pub struct ParentFiles(HashMap<(String, bool), Dependencies>);

impl ParentFiles {
    /// The files beside the directories that lead to `path`.
    pub(super) fn of(
        &mut self,
        tree: &impl Tree,
        path: &str,
        is_terragrunt: bool,
    ) -> Result<Vec<(String, Entry)>, TreeError> {
        let (mut parent, mut found) = (path, Vec::new());
        while !parent.is_empty() {
            parent = parent.rsplit_once('/').map_or("", |(parent, _)| parent);
            let files = match self.0.entry((parent.to_owned(), is_terragrunt)) {
                Slot::Occupied(known) => known.into_mut(),
                Slot::Vacant(slot) => slot.insert(files(tree, parent, is_terragrunt)?),
            };
            found.extend(files.iter().map(|(path, entry)| (path.clone(), entry.clone())));
        }
        Ok(found)
    }
}

fn files(
    tree: &impl Tree,
    directory: &str,
    is_terragrunt: bool,
) -> Result<Dependencies, TreeError> {
    let is_read = |name: &str, entry: &Entry| {
        let is_file = matches!(entry.kind, Kind::File | Kind::Executable | Kind::Link);
        is_file && if is_terragrunt { !is_prose(name) } else { is_for_tools(name) }
    };
    let all = tree.list(directory)?.into_iter();
    let read = all.filter(|(name, entry)| is_read(name, entry));
    Ok(read.map(|(name, entry)| (below(directory, &name), entry)).collect())
}

/// Whether a tool can read a file with this name for a directory below it.
fn is_for_tools(name: &str) -> bool {
    VersionFileKind::ALL.iter().any(|kind| kind.name() == name)
        || name.starts_with(TERRAGRUNT)
        || ENDINGS.iter().any(|ending| name.ends_with(ending))
        || is_variable_file(name)
        || syntax(name).is_some()
}

/// Whether the file has values for variables.
pub(super) fn is_variable_file(name: &str) -> bool {
    name.ends_with(".tfvars") || name.ends_with(".tfvars.json")
}

fn is_prose(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let stem = name.split('.').next().unwrap_or_default();
    name.ends_with(MARKDOWN) || PROSE.contains(&stem)
}
