//! Follows what the files of a layer name, from one to the next.

use std::collections::BTreeSet;

use super::cache::ReferenceCache;
use super::links::{Located, locate};
use super::named::{
    Cause, Findings, Reference, Role, Start, survey_file, survey_files, survey_values,
};
use super::parents::is_variable_file;
use super::syntax::{TERRAGRUNT, syntax};
use super::tree::{Dependencies, Entry, Kind, Tree, TreeError, Walk, below, is_in};

/// The largest file that is read, in bytes.
const LARGEST: usize = 2 * 1024 * 1024;

/// The names of a parent file that is not named.
const PARENTS: [&str; 2] = [TERRAGRUNT, "root.hcl"];

/// What was found until now.
pub(super) struct Search<'a, T> {
    tree: &'a T,
    cache: &'a mut ReferenceCache,
    /// The directory of the layer.
    root: String,
    is_terragrunt: bool,
    pub(super) found: Dependencies,
    /// Links on the way to what was found. What they lead to is not needed as a whole.
    pub(super) passed: Vec<(String, Entry)>,
    /// What was not read yet.
    waiting: Vec<Work>,
    /// What was read, or will be.
    known: BTreeSet<Work>,
    /// Why it is not known what is read, and where.
    pub(super) unknown: Option<String>,
    /// The program that runs only while changes are applied.
    pub(super) program: Option<String>,
    /// Directories that are read by their names.
    named: BTreeSet<String>,
    /// Submodules that are not there, and that a path leads to or into.
    into: BTreeSet<String>,
}

/// Something that names files.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Work {
    /// The module in a directory.
    Module(String),
    /// A file with values, or of Terragrunt.
    File(String),
    /// A template.
    Template(String),
    /// A directory with templates.
    Templates(String),
}

/// A file that a name leads to.
struct Source {
    /// `None` if it is too large, or is not UTF-8.
    text: Option<String>,
}

impl<'a, T: Tree> Search<'a, T> {
    pub(super) fn new(
        tree: &'a T,
        cache: &'a mut ReferenceCache,
        root: &str,
        is_terragrunt: bool,
    ) -> Self {
        Self {
            tree,
            cache,
            root: root.to_owned(),
            is_terragrunt,
            found: Dependencies::new(),
            passed: Vec::new(),
            waiting: Vec::new(),
            known: BTreeSet::new(),
            unknown: None,
            program: None,
            named: BTreeSet::new(),
            into: BTreeSet::new(),
        }
    }

    /// Takes the values that the configuration gives to the module.
    pub(super) fn values(&mut self, given: &[&str]) -> Result<(), TreeError> {
        let root = self.root.clone();
        self.add(survey_values(given.iter().copied(), &[]), &root)
    }

    /// Takes an entry, and what it names if it is a file of a kind that names others.
    pub(super) fn take(&mut self, path: String, entry: Entry) {
        let name = path.rsplit_once('/').map_or(path.as_str(), |(_, name)| name);
        if entry.kind != Kind::Directory && self.names_files(name) {
            self.later(Work::File(path.clone()));
        }
        self.found.insert(path, entry);
    }

    /// Reads the module of the layer, and all that it names.
    pub(super) fn run(&mut self) -> Result<(), TreeError> {
        let root = self.root.clone();
        for (name, _) in self.tree.list(&root)? {
            if self.names_files(&name) {
                self.later(Work::File(below(&root, &name)));
            }
        }
        self.later(Work::Module(root));
        // A chain of files can be long, so this is not recursive.
        while let Some(work) = self.waiting.pop() {
            match work {
                Work::Module(directory) => self.module(&directory)?,
                Work::File(path) => self.file(&path)?,
                Work::Template(path) => self.template(&path)?,
                Work::Templates(directory) => self.templates(&directory)?,
            }
        }
        Ok(())
    }

    fn later(&mut self, work: Work) {
        if self.known.insert(work.clone()) {
            self.waiting.push(work);
        }
    }

    /// Whether files with this name name others.
    fn names_files(&self, name: &str) -> bool {
        is_variable_file(name) || (self.is_terragrunt && is_hcl(name))
    }

    fn module(&mut self, directory: &str) -> Result<(), TreeError> {
        let Some(entry) = self.tree.entry(directory)? else { return Ok(()) };
        if let Some(Some(known)) = self.cache.findings.get(&entry.id) {
            let known = known.clone();
            return self.add(known, directory);
        }
        let (mut files, mut has_links, mut findings) = (Vec::new(), false, Findings::default());
        for (name, entry) in self.tree.list(directory)? {
            // Terraform ignores hidden files.
            if name.starts_with('.') || syntax(&name).is_none() {
                continue;
            }
            has_links |= entry.kind == Kind::Link;
            match self.source(directory, &name)? {
                Some(Source { text: Some(text) }) => files.push((name, text)),
                Some(Source { text: None }) => findings.extend(unreadable(name)),
                None => {}
            }
        }
        findings.extend(survey_files(&files, false));
        self.cache.findings.insert(entry.id, (!has_links).then(|| findings.clone()));
        self.add(findings, directory)
    }

    fn file(&mut self, path: &str) -> Result<(), TreeError> {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        let Some(source) = self.source(directory, name)? else { return Ok(()) };
        let files = |text| [(name.to_owned(), text)];
        let findings = match source.text {
            None => unreadable(name.to_owned()),
            Some(text) if is_variable_file(name) => survey_values([], &files(text)),
            Some(text) => survey_files(&files(text), true),
        };
        self.add(findings, directory)
    }

    fn template(&mut self, path: &str) -> Result<(), TreeError> {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        let Some(source) = self.source(directory, name)? else { return Ok(()) };
        // Terraform refuses a template that is not UTF-8.
        let findings = source.text.map(|text| survey_file(name, &text)).unwrap_or_default();
        self.add(findings, directory)
    }

    fn templates(&mut self, directory: &str) -> Result<(), TreeError> {
        let mut walk = Walk::from(directory);
        while let Some(directory) = walk.pop()? {
            for (name, entry) in self.tree.list(&directory)? {
                let path = below(&directory, &name);
                if entry.kind == Kind::Directory {
                    walk.add(path)?;
                } else {
                    self.later(Work::Template(path));
                }
            }
        }
        Ok(())
    }

    /// The file that a name in a directory leads to.
    fn source(&mut self, directory: &str, name: &str) -> Result<Option<Source>, TreeError> {
        let Some((path, entry)) = self.locate(directory, name)? else { return Ok(None) };
        if !matches!(entry.kind, Kind::File | Kind::Executable) {
            return Ok(None);
        }
        let text = self.tree.text(&path, LARGEST)?;
        Ok(Some(Source { text }))
    }

    /// The target of a path.
    fn locate(
        &mut self,
        directory: &str,
        path: &str,
    ) -> Result<Option<(String, Entry)>, TreeError> {
        Ok(match locate(self.tree, directory, path, &mut self.passed)? {
            Located::At(path, entry) => {
                if entry.kind == Kind::Submodule {
                    self.into.insert(path.clone());
                }
                Some((path, entry))
            }
            Located::Absent(path) => {
                self.into.insert(path);
                None
            }
            Located::Missing | Located::Outside => None,
        })
    }

    /// Whether the module requires a submodule that is not there. `None` if it does not reach it.
    pub(super) fn needs_submodule(&self, path: &str, is_full: bool) -> Option<bool> {
        let is_named = self.unknown.is_some()
            || self.into.contains(path)
            || self.named.iter().any(|directory| is_in(path, directory));
        let is_beside = is_full || self.found.keys().any(|directory| is_in(path, directory));
        is_named.then_some(true).or(is_beside.then_some(false))
    }

    /// Adds what files in `directory` name.
    fn add(&mut self, findings: Findings, directory: &str) -> Result<(), TreeError> {
        let place = |cause: Cause| {
            let file = below(directory, &cause.file);
            let line = cause.line.map(|line| format!(", line {line}")).unwrap_or_default();
            format!("`{file}`{line}: {}", cause.what)
        };
        if self.unknown.is_none() {
            self.unknown = findings.unknown.map(place);
        }
        if self.program.is_none() {
            self.program = findings.program.map(place);
        }
        for reference in findings.references {
            for start in self.starts(&reference.start, directory)? {
                self.follow(&reference, &start)?;
            }
        }
        Ok(())
    }

    /// The directories in which a path can begin.
    fn starts(&self, start: &Start, directory: &str) -> Result<Vec<String>, TreeError> {
        Ok(match start {
            Start::Module => vec![directory.to_owned()],
            Start::Repository => vec![String::new()],
            // Terragrunt runs the tool in a copy of the module.
            Start::Root if self.is_terragrunt && directory != self.root => {
                vec![self.root.clone(), directory.to_owned()]
            }
            Start::Root => vec![self.root.clone()],
            Start::Parent(file) => self.parent(file.as_deref())?.into_iter().collect(),
        })
    }

    /// The nearest directory above the layer that has the file.
    fn parent(&self, file: Option<&str>) -> Result<Option<String>, TreeError> {
        let names = file.as_ref().map_or(&PARENTS[..], std::slice::from_ref);
        let mut parent = self.root.as_str();
        while !parent.is_empty() {
            parent = parent.rsplit_once('/').map_or("", |(parent, _)| parent);
            for name in names {
                if self.tree.entry(&below(parent, name))?.is_some() {
                    return Ok(Some(parent.to_owned()));
                }
            }
        }
        Ok(None)
    }

    fn follow(&mut self, reference: &Reference, start: &str) -> Result<(), TreeError> {
        let Some((path, entry)) = self.locate(start, &reference.path)? else { return Ok(()) };
        if reference.role != Role::Module && entry.kind == Kind::Directory {
            self.named.insert(path.clone());
        }
        let work = match (reference.role, entry.kind) {
            (Role::Module, Kind::Directory) => Some(Work::Module(path.clone())),
            (Role::Template, Kind::Directory) => Some(Work::Templates(path.clone())),
            (Role::Template, _) => Some(Work::Template(path.clone())),
            (Role::Module | Role::Read, _) => None,
        };
        if let Some(work) = work {
            self.later(work);
        }
        self.take(path, entry);
        Ok(())
    }

    /// Adds the targets of links in the entries, and of links in those.
    pub(super) fn follow_links(&mut self) -> Result<(), TreeError> {
        let mut waiting: Vec<(String, Kind)> =
            self.found.iter().map(|(path, entry)| (path.clone(), entry.kind)).collect();
        while let Some((path, kind)) = waiting.pop() {
            let links = match kind {
                Kind::Link => vec![path],
                Kind::Directory => self.links_below(&path)?,
                Kind::File | Kind::Executable | Kind::Submodule => continue,
            };
            for link in links {
                let (directory, name) = link.rsplit_once('/').unwrap_or(("", &link));
                if let Some((path, entry)) = self.locate(directory, name)?
                    && !self.found.contains_key(&path)
                {
                    waiting.push((path.clone(), entry.kind));
                    self.found.insert(path, entry);
                }
            }
        }
        self.found.extend(std::mem::take(&mut self.passed));
        Ok(())
    }

    /// Checks where the links of the whole commit lead.
    ///
    /// # Errors
    /// If an object cannot be read, a link leads out of the repository, or the directories are too deep or too many.
    pub(super) fn check_all_links(&mut self) -> Result<(), TreeError> {
        let Some(root) = self.tree.entry("")? else { return Ok(()) };
        if self.cache.checked.get(&root.id).is_some() {
            return Ok(());
        }
        for link in self.links_below("")? {
            locate(self.tree, "", &link, &mut Vec::new())?;
        }
        // The links of a submodule are checked when it is there.
        if self.tree.absent()?.is_empty() {
            self.cache.checked.insert(root.id, ());
        }
        Ok(())
    }

    /// The links below a directory.
    ///
    /// # Errors
    /// If an object cannot be read, or the directories are too deep or too many.
    fn links_below(&mut self, path: &str) -> Result<Vec<String>, TreeError> {
        let Some(entry) = self.tree.entry(path)? else { return Ok(Vec::new()) };
        let full = |known: &Vec<String>| known.iter().map(|link| below(path, link)).collect();
        if let Some(known) = self.cache.links.get(&entry.id) {
            return Ok(full(known));
        }
        let (mut links, mut walk, mut is_whole) = (Vec::new(), Walk::from(path), true);
        while let Some(directory) = walk.pop()? {
            for (name, entry) in self.tree.list(&directory)? {
                let found = below(&directory, &name);
                match entry.kind {
                    Kind::Directory => walk.add(found)?,
                    Kind::Link => {
                        let inner = found.strip_prefix(path).unwrap_or(&found);
                        links.push(inner.trim_start_matches('/').to_owned());
                    }
                    // Its links are found when it is there.
                    Kind::Submodule => is_whole = false,
                    Kind::File | Kind::Executable => {}
                }
            }
        }
        let all = full(&links);
        if is_whole {
            self.cache.links.insert(entry.id, links);
        }
        Ok(all)
    }
}

/// Whether Terragrunt reads a file with this name.
fn is_hcl(name: &str) -> bool {
    let is_lock = name == ".terraform.lock.hcl";
    !is_lock && [".hcl", ".hcl.json"].iter().any(|ending| name.ends_with(ending))
}

fn unreadable(file: String) -> Findings {
    let what = "the file is too large, or is not UTF-8".to_owned();
    Findings { unknown: Some(Cause { file, line: None, what }), ..Findings::default() }
}
