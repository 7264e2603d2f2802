//! What a layer depends on, and what its attempts get.
//!
//! A layer depends on its directory, the local modules that it uses (and those that they use), what
//! their files read, what symbolic links in all of that lead to, the files of parent directories that tools
//! read, and the files that match its triggers. If it is not known what a module reads, it can read any
//! file: attempts get the whole commit then, and without triggers the layer depends on all of it.

use super::cache::ReferenceCache;
use super::links::{Located, locate};
use super::parents::ParentFiles;
use super::search::Search;
use super::syntax::TERRAGRUNT;
use super::tree::{Dependencies, Kind, Tree, TreeError, below};

/// What a configuration says about the files of a layer.
#[derive(Clone, Debug)]
pub struct LayerFiles<'a> {
    /// The directory of the module.
    pub path: &'a str,
    /// Texts that the module gets: variables, and variables of its environment.
    pub values: Vec<&'a str>,
    /// The files that match its triggers; `None` if it has no triggers.
    pub triggers: Option<&'a Dependencies>,
    /// Whether it is planned through Terragrunt.
    pub is_terragrunt: bool,
    /// Whether its attempts get all files in any case.
    pub is_full: bool,
}

/// What a layer needs of a commit.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Needs {
    /// What it depends on.
    pub entries: Dependencies,
    /// Whether attempts get all files, and not only those that it depends on.
    pub is_full: bool,
    /// Why attempts get all files although the configuration does not say so, in one sentence.
    pub note: Option<String>,
    /// Why it is not known what the module reads, and where that is.
    pub unknown: Option<String>,
    /// The submodules that are not there, and that the module may need.
    pub absent: Vec<AbsentSubmodule>,
}

/// A submodule whose files are not there.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AbsentSubmodule {
    /// Its directory.
    pub path: String,
    /// Whether the module reads it, as far as that is known. If not, it is in a directory of the module, or a
    /// program that the module runs can read it.
    pub is_required: bool,
}

/// What a layer needs, or `None` if it has no directory. `parents` belongs to the commit.
///
/// # Errors
/// If an object cannot be read, or the commit cannot be used for the layer.
pub fn needs(
    tree: &impl Tree,
    layer: &LayerFiles<'_>,
    parents: &mut ParentFiles,
    cache: &mut ReferenceCache,
) -> Result<Option<Needs>, TreeError> {
    let mut links = Vec::new();
    let (root, entry) = match locate(tree, "", layer.path, &mut links)? {
        Located::At(root, entry) if entry.kind == Kind::Directory => (root, entry),
        Located::At(path, entry) if entry.kind == Kind::Submodule => {
            return in_submodule(tree, path);
        }
        Located::Absent(path) => return in_submodule(tree, path),
        _ => return Ok(None),
    };
    let is_terragrunt = layer.is_terragrunt
        || tree.entry(&below(&root, TERRAGRUNT))?.is_some()
        || tree.entry(&below(&root, &format!("{TERRAGRUNT}.json")))?.is_some();
    let mut search = Search::new(tree, cache, &root, is_terragrunt);
    search.passed.extend(links);
    search.found.insert(root.clone(), entry);
    search.values(&layer.values)?;
    for (path, entry) in parents.of(tree, &root, is_terragrunt)? {
        search.take(path, entry);
    }
    search.run()?;
    let triggers = layer.triggers.into_iter().flatten();
    search.found.extend(triggers.map(|(path, entry)| (path.clone(), entry.clone())));
    search.follow_links()?;
    let is_full =
        layer.is_full || is_terragrunt || search.unknown.is_some() || search.program.is_some();
    let absent = tree.absent()?.into_iter();
    let absent = absent.filter_map(|path| {
        let is_required = search.needs_submodule(&path, is_full)?;
        Some(AbsentSubmodule { path, is_required })
    });
    let absent = absent.collect();
    let (unknown, program) = (search.unknown.take(), search.program.take());
    if is_full {
        // All of it is checked, before an attempt gets it.
        search.check_all_links()?;
    }
    let mut entries = search.found;
    if unknown.is_some() && layer.triggers.is_none() {
        entries = tree.entry("")?.map(|root| (String::new(), root)).into_iter().collect();
    }
    let note = note(unknown.as_deref(), program, layer.triggers.is_some());
    Ok(Some(Needs { entries, is_full, note, unknown, absent }))
}

/// The needs of a module in a submodule that is not there: nothing else is known about it. A commit of another
/// repository that git does not check out has no modules.
fn in_submodule(tree: &impl Tree, path: String) -> Result<Option<Needs>, TreeError> {
    if !tree.absent()?.contains(&path) {
        return Ok(None);
    }
    let entries = tree.entry(&path)?.map(|entry| (path.clone(), entry)).into_iter().collect();
    let absent = vec![AbsentSubmodule { path, is_required: true }];
    Ok(Some(Needs { entries, is_full: false, note: None, unknown: None, absent }))
}

fn note(unknown: Option<&str>, program: Option<String>, has_triggers: bool) -> Option<String> {
    let get = "so attempts get all files of the commit";
    if let Some(cause) = unknown {
        let rest = if has_triggers {
            "and commits plan the layer if they change what is known, or what matches `triggers`"
        } else {
            "and each commit that changes a file plans the layer; name what it depends on in `triggers`"
        };
        return Some(format!("it is not known what the module reads ({cause}), {get}, {rest}"));
    }
    program
        .map(|cause| format!("it is not known what a program of the module reads ({cause}), {get}"))
}
