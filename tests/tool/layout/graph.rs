//! Which file of a crate uses which, read from the syntax trees.
//!
//! An edge means that code of one file names something that another file defines. Re-exports are
//! followed to the file that defines the name. `mod` items, re-exports themselves, and test code
//! are not edges.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use syn::visit::Visit;

use butler_testing::project::{files_below, is_test_file, is_test_item};

/// Edges from file to file, as paths below the crate's `src`.
pub(super) type Edges = BTreeMap<String, BTreeSet<String>>;

type ModulePath = Vec<String>;

/// A file of a crate with the paths that it uses.
struct File {
    path: String,
    /// Names that a private or public `use` imports, with their full paths.
    imports: BTreeMap<String, ModulePath>,
    /// Names that it re-exports. A subset of `imports`.
    exports: BTreeSet<String>,
    /// Paths in its code.
    paths: Vec<ModulePath>,
}

struct Crate {
    modules: BTreeMap<ModulePath, File>,
}

/// Reads all files below `src`.
pub(super) fn edges(src: &Path) -> Edges {
    let mut modules = BTreeMap::new();
    for path in files_below(src, "rs") {
        let relative = path.strip_prefix(src).unwrap();
        let name = relative.file_stem().unwrap().to_str().unwrap();
        if is_test_file(relative) || name == "main" {
            continue;
        }
        let mut module: ModulePath =
            relative.parent().unwrap().iter().map(|it| it.to_str().unwrap().to_owned()).collect();
        if name != "mod" && name != "lib" {
            module.push(name.to_owned());
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let tree = syn::parse_file(&text).unwrap();
        let file = relative.to_str().unwrap().to_owned();
        modules.insert(module, read(file, &tree));
    }
    let all = Crate { modules };
    let mut edges = Edges::new();
    for (module, file) in &all.modules {
        let used = file.paths.iter().filter_map(|path| all.defining_file(module, path));
        let others = used.filter(|other| *other != &file.path).cloned();
        edges.insert(file.path.clone(), others.collect());
    }
    edges
}

/// Groups of files that use each other, directly or by way of others.
pub(super) fn circles(edges: &Edges) -> Vec<Vec<String>> {
    let reaches: BTreeMap<_, _> =
        edges.keys().map(|file| (file.as_str(), reachable(edges, file))).collect();
    let mut circles = BTreeSet::new();
    for file in edges.keys() {
        let group: Vec<_> = reaches[file.as_str()]
            .iter()
            .filter(|other| reaches.get(*other).is_some_and(|it| it.contains(file.as_str())))
            .map(|other| (*other).to_owned())
            .collect();
        if group.len() > 1 {
            circles.insert(group);
        }
    }
    circles.into_iter().collect()
}

fn reachable<'e>(edges: &'e Edges, start: &'e str) -> BTreeSet<&'e str> {
    let mut found = BTreeSet::new();
    let mut next = vec![start];
    while let Some(file) = next.pop() {
        for other in edges.get(file).into_iter().flatten() {
            if found.insert(other.as_str()) {
                next.push(other);
            }
        }
    }
    found
}

impl Crate {
    /// The file that defines `path`, as used in the code of `module`; `None` if it is outside of
    /// the crate.
    fn defining_file(&self, module: &ModulePath, path: &[String]) -> Option<&String> {
        self.resolve(module, path, 0)
    }

    fn resolve(&self, module: &ModulePath, path: &[String], depth: usize) -> Option<&String> {
        // Chains of imports are finite; this is a limit for malformed code.
        if depth > 16 {
            return None;
        }
        let (first, rest) = path.split_first()?;
        let (mut place, mut rest): (ModulePath, &[String]) = match first.as_str() {
            "crate" => (Vec::new(), rest),
            "self" => (module.clone(), rest),
            "super" => (module[..module.len().checked_sub(1)?].to_vec(), rest),
            name => {
                let file = self.modules.get(module)?;
                if let Some(target) = file.imports.get(name) {
                    // An import by its own name comes from outside of the crate.
                    if target.first() == path.first() {
                        return None;
                    }
                    let target: Vec<_> = target.iter().chain(rest).cloned().collect();
                    return self.resolve(module, &target, depth + 1);
                }
                let mut child = module.clone();
                child.push(name.to_owned());
                if !self.modules.contains_key(&child) {
                    return None;
                }
                (child, rest)
            }
        };
        // Follows modules as far as possible.
        while let Some((name, tail)) = rest.split_first() {
            if name == "super" {
                place.pop()?;
                rest = tail;
                continue;
            }
            let mut child = place.clone();
            child.push(name.clone());
            if self.modules.contains_key(&child) {
                (place, rest) = (child, tail);
                continue;
            }
            let file = self.modules.get(&place)?;
            if file.exports.contains(name) {
                let target: Vec<_> = file.imports[name].iter().chain(tail).cloned().collect();
                return self.resolve(&place, &target, depth + 1).or(Some(&file.path));
            }
            return Some(&file.path);
        }
        // The path names a module; other paths name its items.
        None
    }
}

fn read(path: String, tree: &syn::File) -> File {
    let mut reader = Reader {
        file: File { path, imports: BTreeMap::new(), exports: BTreeSet::new(), paths: Vec::new() },
    };
    reader.visit_file(tree);
    reader.file
}

struct Reader {
    file: File,
}

impl Reader {
    fn import(&mut self, prefix: &[String], tree: &syn::UseTree, is_exported: bool) {
        let joined = |name: &syn::Ident| {
            let mut path = prefix.to_vec();
            path.push(name.to_string());
            path
        };
        match tree {
            syn::UseTree::Path(path) => self.import(&joined(&path.ident), &path.tree, is_exported),
            syn::UseTree::Name(name) if name.ident == "self" => {
                let last = prefix.last().unwrap().clone();
                self.record_import(last, prefix.to_vec(), is_exported);
            }
            syn::UseTree::Name(name) => {
                self.record_import(name.ident.to_string(), joined(&name.ident), is_exported);
            }
            syn::UseTree::Rename(name) => {
                let target =
                    if name.ident == "self" { prefix.to_vec() } else { joined(&name.ident) };
                self.record_import(name.rename.to_string(), target, is_exported);
            }
            syn::UseTree::Glob(_) => {}
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(prefix, tree, is_exported);
                }
            }
        }
    }

    fn record_import(&mut self, name: String, target: ModulePath, is_exported: bool) {
        if is_exported {
            self.file.exports.insert(name.clone());
        } else {
            self.file.paths.push(target.clone());
        }
        self.file.imports.insert(name, target);
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !is_test_item(item) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let is_exported = !matches!(item.vis, syn::Visibility::Inherited);
        self.import(&[], &item.tree, is_exported);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names = path.segments.iter().map(|segment| segment.ident.to_string());
        self.file.paths.push(names.collect());
        syn::visit::visit_path(self, path);
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if let syn::Meta::List(list) = &attribute.meta {
            let tokens = list.tokens.to_string();
            self.file.paths.extend(paths_in(&tokens));
            // `#[serde(with = "path::to::module")]`.
            let texts = tokens.split('"').skip(1).step_by(2);
            self.file.paths.extend(texts.filter(|text| is_path(text)).flat_map(paths_in));
        }
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.file.paths.extend(paths_in(&call.tokens.to_string()));
        syn::visit::visit_macro(self, call);
    }
}

fn is_path(text: &str) -> bool {
    text.contains("::") && text.chars().all(|c| c.is_alphanumeric() || c == '_' || c == ':')
}

/// The paths with more than one segment in the arguments of a macro or an attribute, which are tokens and not syntax
/// trees. String literals are left out.
fn paths_in(tokens: &str) -> Vec<ModulePath> {
    let code: String = tokens.replace("\\\"", "").split('"').step_by(2).collect();
    let code = code.replace(" :: ", "::");
    let is_outside = |c: char| !(c.is_alphanumeric() || c == '_' || c == ':');
    code.split(is_outside)
        .filter(|word| word.trim_matches(':').contains("::"))
        .map(|word| word.trim_matches(':').split("::").map(str::to_owned).collect())
        .collect()
}
