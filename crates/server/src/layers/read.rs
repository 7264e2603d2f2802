//! Reads what one repository contains for the layers of a configuration.

use std::collections::hash_map::Entry as Slot;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::budget::Budget;
use super::files::layer_files;
use super::naming::{Member, members_of, settle};
use super::resolve::reference;
use super::state_key::ModuleStateKey;
use super::submodules::{AbsentSubmodules, LeftOut, SubmoduleNeeds};
use crate::config::{Config, LayerEntry, MAX_LAYERS};
use crate::mirror::{
    BackendCache, Dependencies, GitTree, Kind, ModuleBackend, Needs, ParentFiles, ReferenceCache,
    TERRAGRUNT, Tree, TreeError, Walk, below, digest, globs, is_in, join, matching, module_backend,
    needs, syntax,
};
use crate::model::{Commit, LayerName, Revision, Sighting};

/// What directories contain, which is the same for all commits. It makes reading a further commit
/// cheap.
#[derive(Debug, Default)]
pub struct Caches {
    references: ReferenceCache,
    backends: BackendCache,
}

impl Caches {
    /// Forgets what the last reading did not use.
    fn begin(&mut self) {
        self.references.begin();
        self.backends.begin();
    }
}

/// What a repository contains for the layers of a configuration.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Reading {
    /// The [`origin`] of the reading.
    pub origin: String,
    /// The commits that were read, by ref.
    #[serde(default)]
    pub heads: BTreeMap<String, Commit>,
    /// The directories that match the globs of each layer set, by its name.
    pub directories: BTreeMap<String, Vec<String>>,
    /// The directories that the names of members of layer sets belong to, also of directories that are gone.
    #[serde(default)]
    pub homes: BTreeMap<LayerName, String>,
    /// What was found for each layer. The store has it too.
    #[serde(skip)]
    pub sightings: BTreeMap<LayerName, Sighting>,
    /// The layers whose module names a state backend.
    pub with_backend: BTreeSet<LayerName>,
    /// The identity of the states that backends of modules name, as far as it is known.
    #[serde(default)]
    pub state_keys: BTreeMap<LayerName, ModuleStateKey>,
    /// What people should know about layers, in sentences.
    #[serde(default)]
    pub notes: BTreeMap<LayerName, Vec<String>>,
    /// What is wrong with layer sets, in sentences.
    pub problems: Vec<String>,
    /// Submodules that are not there, and that layers may need.
    #[serde(skip)]
    pub wanted: AbsentSubmodules,
    /// Submodules that are not there, and that no layer needs.
    #[serde(skip)]
    pub unneeded: AbsentSubmodules,
}

impl Reading {
    /// Takes the layers of a set that are in these directories. Those in `missing` submodules, which cannot be fetched,
    /// are the ones that are known.
    fn set(
        &mut self,
        config: &Config,
        (name, entry): (&str, &LayerEntry),
        mut directories: Vec<String>,
        missing: Vec<(&str, String)>,
    ) -> Vec<Member> {
        let globs: Vec<&str> = set_globs(entry).collect();
        for (path, why) in missing {
            self.problems.push(format!(
                "the layer set `{name}` has no new layers in the submodule `{path}`, which cannot be fetched: {why}"
            ));
            directories.extend(known_below(path, &globs, &self.homes));
        }
        directories.sort();
        directories.dedup();
        let (members, problems) = members_of(config, name, entry, &directories, &self.homes);
        self.problems.extend(problems);
        settle(&mut self.homes, &members);
        self.directories.insert(name.to_owned(), directories);
        members
    }

    /// Takes the backend of the module of a layer, in a directory of a repository.
    fn add_backend(
        &mut self,
        layer: &LayerName,
        entry: &LayerEntry,
        (repository, path): (&str, &str),
        backend: &ModuleBackend,
    ) {
        if matches!(backend, ModuleBackend::Absent) {
            return;
        }
        self.with_backend.insert(layer.clone());
        if let ModuleBackend::Block(block) = backend
            && let Some(key) = ModuleStateKey::of(entry, repository, path, block)
        {
            self.state_keys.insert(layer.clone(), key);
        }
    }
}

/// A hash of what decides which directories layer sets have, beside the content of the repository: its
/// address, and the refs and globs of the sets.
#[must_use]
pub fn origin(config: &Config, repository: &str) -> String {
    let url = config.repositories.get(repository).map(|it| it.entry.url.value.as_str());
    let sets = entries(config, repository).filter(|(_, entry)| entry.path.is_none());
    let sets = sets.map(|(name, entry)| {
        let globs: Vec<&str> = entry.paths.iter().map(|glob| glob.value.as_str()).collect();
        (name, reference(entry), globs)
    });
    let text = format!("{:?}", (url, sets.collect::<Vec<_>>()));
    hex::encode(Sha256::digest(text))
}

/// The refs that the layers and includes of a repository use.
#[must_use]
pub fn references(config: &Config, repository: &str) -> BTreeSet<String> {
    let of_layers = entries(config, repository).map(|(_, entry)| reference(entry).to_owned());
    let includes = config.include_sources().into_iter();
    let of_includes = includes.filter(|it| it.repository == repository).map(|it| it.reference);
    of_layers.chain(of_includes).collect()
}

/// The commits of [`references`].
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Heads {
    /// By ref; `None` for refs that do not exist.
    pub commits: BTreeMap<String, Option<Commit>>,
    /// What people should know about a ref, in one sentence.
    pub notes: BTreeMap<String, String>,
    /// [`Reading::homes`] of the reading before.
    pub homes: BTreeMap<LayerName, String>,
    /// Why submodules that layers may need cannot be fetched.
    pub left_out: LeftOut,
}

impl Heads {
    /// Whether a reading at `other` finds the same.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.commits == other.commits && self.notes == other.notes
    }

    /// The commits of the refs that exist.
    fn existing(&self) -> BTreeMap<String, Commit> {
        let commits = self.commits.iter();
        commits.filter_map(|(name, commit)| Some((name.clone(), commit.clone()?))).collect()
    }
}

impl From<BTreeMap<String, Option<Commit>>> for Heads {
    fn from(commits: BTreeMap<String, Option<Commit>>) -> Self {
        Self { commits, ..Self::default() }
    }
}

/// The problems with commits of included configuration.
fn problems_of_includes(config: &Config, repository: &str, heads: &Heads) -> Vec<String> {
    let includes = config.include_sources();
    let own = includes.iter().filter(|it| it.repository == repository);
    let problems = own.filter_map(|include| {
        let note = heads.notes.get(&include.reference)?;
        Some(format!("the include `{include}`: {note}"))
    });
    problems.collect()
}

/// The layers and layer sets of a repository.
fn entries<'a>(
    config: &'a Config,
    repository: &'a str,
) -> impl Iterator<Item = (&'a str, &'a LayerEntry)> {
    let all = config.layers_in_order().map(|(name, placed)| (name, &placed.entry));
    all.filter(move |(_, entry)| {
        entry.repository.as_ref().is_some_and(|given| given.value == repository)
    })
}

/// Reads a repository at these commits.
///
/// # Errors
/// If the repository cannot be read. A layer whose files cannot be used is [`Sighting::Invalid`].
pub fn read(
    config: &Config,
    repository: &str,
    mirror: &git2::Repository,
    heads: &Heads,
    caches: &mut Caches,
) -> Result<Reading, TreeError> {
    let (origin, homes) = (origin(config, repository), heads.homes.clone());
    let mut reading = Reading { origin, homes, heads: heads.existing(), ..Reading::default() };
    reading.problems.extend(problems_of_includes(config, repository, heads));
    caches.begin();
    let mut budget = Budget::new(config);
    let choice = config.repositories.get(repository).and_then(|it| it.entry.submodules);
    let mut submodules = SubmoduleNeeds::new(choice.unwrap_or_default(), &heads.left_out);
    let mut trees = HashMap::new();
    // Many layers have the triggers of `defaults`.
    let mut matched = HashMap::new();
    for (name, entry) in entries(config, repository) {
        let commit = heads.commits.get(reference(entry)).cloned().flatten();
        // Layers of one commit share what was read of it.
        if let Some(commit) = commit.as_ref().filter(|commit| !trees.contains_key(*commit)) {
            let tree = GitTree::of(mirror, commit.as_str())?;
            // Layers say what is wrong with it.
            let absent = of_content(tree.absent())?.unwrap_or_default();
            let all = absent.iter().cloned().collect();
            reading.unneeded.insert(commit.clone(), all);
            trees.insert(commit.clone(), (tree, ParentFiles::default(), absent));
        }
        let mut tree = commit.as_ref().and_then(|commit| trees.get_mut(commit));
        let mut layers = Vec::new();
        if let Some(path) = &entry.path {
            // The configuration checks names of layers.
            if let Ok(name) = name.parse() {
                layers.push((name, path.value.clone()));
            }
        } else if let (Some((tree, _, absent)), Some(commit)) = (&tree, &commit) {
            let found = of_content(directories(tree, name, entry, &mut reading.problems))?;
            match found {
                Ok(directories) => {
                    let globs: Vec<&str> = set_globs(entry).collect();
                    let missing = submodules.take_globs(commit, absent, &globs);
                    let members = reading.set(config, (name, entry), directories, missing);
                    layers.extend(members.into_iter().map(|member| (member.name, member.path)));
                }
                Err(why) => {
                    reading.problems.push(format!("the layer set `{name}` has no layers: {why}"));
                }
            }
        }
        if let Err(problem) = budget.take(name, layers.len()) {
            reading.problems.push(problem);
            reading.directories.remove(name);
            continue;
        }
        let triggers: Vec<&str> = entry.triggers.iter().map(|glob| glob.value.as_str()).collect();
        let mut about_triggers = Vec::new();
        if let (Some((_, _, absent)), Some(commit)) = (&tree, &commit) {
            for (path, why) in submodules.take_globs(commit, absent, &triggers) {
                about_triggers.push(format!(
                    "`triggers` can match files of the submodule `{path}`, which cannot be fetched: {why}"
                ));
            }
        }
        let triggers = match matched.entry((commit.clone(), triggers)) {
            Slot::Occupied(known) => known.into_mut(),
            Slot::Vacant(slot) => {
                // The configuration checks globs.
                let globs = globs(slot.key().1.iter().copied()).unwrap_or_default();
                let found = tree.as_ref().map(|(tree, ..)| matching(tree, &globs));
                slot.insert(of_content(found.unwrap_or_else(|| Ok(Dependencies::new())))?)
            }
        };
        for (name, path) in layers {
            let path = join("", &path).unwrap_or_default();
            let sighting = match (&mut tree, &commit) {
                (Some((tree, parents, _)), Some(commit)) => {
                    if entry.backend.is_none() {
                        let backend = module_backend(tree, &path, &mut caches.backends);
                        // Terraform says what is wrong with the files.
                        let backend = of_content(backend)?.unwrap_or(ModuleBackend::Unknown);
                        reading.add_backend(&name, entry, (repository, &path), &backend);
                    }
                    let references = &mut caches.references;
                    let seen = match &*triggers {
                        Ok(triggers) => {
                            let files = layer_files(entry, &path, triggers);
                            let seen = of_content(needs(tree, &files, parents, references))?;
                            seen.and_then(|found| see(commit, found, &mut submodules))
                        }
                        Err(why) => Err(why.clone()),
                    };
                    // One layer that cannot be used does not stop the others.
                    let (sighting, mut notes) = seen.unwrap_or_else(|why| {
                        (Sighting::Invalid { commit: commit.clone(), why }, Vec::new())
                    });
                    notes.extend(about_triggers.iter().cloned());
                    if !notes.is_empty() {
                        reading.notes.entry(name.clone()).or_default().extend(notes);
                    }
                    sighting
                }
                _ => Sighting::RefMissing,
            };
            if let Some(note) = heads.notes.get(reference(entry)) {
                reading.notes.entry(name.clone()).or_default().push(note.clone());
            }
            // Of two layers with one name, the first one is used.
            reading.sightings.entry(name).or_insert(sighting);
        }
    }
    reading.wanted = submodules.wanted;
    for (commit, unneeded) in &mut reading.unneeded {
        unneeded.retain(|path| !reading.wanted.get(commit).is_some_and(|it| it.contains(path)));
    }
    Ok(reading)
}

/// What was read, or what is wrong with the commit. Only that may be recorded: the repository is read
/// again after any other error.
fn of_content<T>(read: Result<T, TreeError>) -> Result<Result<T, String>, TreeError> {
    match read {
        Ok(found) => Ok(Ok(found)),
        Err(error @ TreeError::Content { .. }) => Ok(Err(error.to_string())),
        Err(error @ TreeError::Read { .. }) => Err(error),
    }
}

/// What the commit has for a layer, and what people should know about that.
///
/// # Errors
/// If the layer cannot be used: why.
fn see(
    commit: &Commit,
    found: Option<Needs>,
    submodules: &mut SubmoduleNeeds<'_>,
) -> Result<(Sighting, Vec<String>), String> {
    let commit = commit.clone();
    let Some(found) = found else { return Ok((Sighting::PathMissing { commit }, Vec::new())) };
    let mut notes = submodules.take(&commit, &found.absent)?;
    notes.extend(found.note);
    let digest = digest(&found.entries);
    Ok((Sighting::Found(Revision { commit, digest }), notes))
}

/// The globs of a layer set.
fn set_globs(entry: &LayerEntry) -> impl Iterator<Item = &str> {
    entry.paths.iter().map(|glob| match glob.value.as_str() {
        "." => "",
        glob => glob.strip_prefix("./").unwrap_or(glob),
    })
}

/// The directories of members of a layer set below `path`, as far as they are known.
fn known_below(path: &str, set: &[&str], homes: &BTreeMap<LayerName, String>) -> Vec<String> {
    // The configuration checks globs.
    let globs = globs(set.iter().copied()).unwrap_or_default();
    let below = homes.values().filter(|home| is_in(home, path) && globs.is_match(home));
    below.cloned().collect()
}

/// The directories that match a layer set and have a module.
fn directories(
    tree: &impl Tree,
    set: &str,
    entry: &LayerEntry,
    problems: &mut Vec<String>,
) -> Result<Vec<String>, TreeError> {
    // The configuration checks globs.
    let globs = globs(set_globs(entry)).unwrap_or_default();
    let mut found = Vec::new();
    let mut walk = Walk::from("");
    while let Some(directory) = walk.pop()? {
        let mut has_module = false;
        for (name, entry) in tree.list(&directory)? {
            if entry.kind != Kind::Directory {
                has_module |= syntax(&name).is_some() || name == TERRAGRUNT;
            } else if name != ".terraform"
                && let Err(error) = walk.add(below(&directory, &name))
            {
                // The layers in other directories are not affected.
                problems
                    .push(format!("the layer set `{set}` looks at no deeper directories: {error}"));
            }
        }
        if has_module && globs.is_match(&directory) {
            found.push(directory);
        }
    }
    found.sort();
    let most = entry.max_layers.unwrap_or(MAX_LAYERS);
    if u32::try_from(found.len()).is_ok_and(|count| count <= most) {
        return Ok(found);
    }
    let (set, advice) = if set.is_empty() {
        ("--path".to_owned(), "use a glob that matches fewer, or a configuration with `max-layers`")
    } else {
        (format!("the layer set `{set}`"), "use globs that match fewer, or raise `max-layers`")
    };
    problems.push(format!(
        "{set} matches {} directories, and at most {most} are allowed; it has no layers until you \
         change that: {advice}",
        found.len()
    ));
    found.clear();
    Ok(found)
}
