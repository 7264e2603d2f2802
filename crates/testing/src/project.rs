//! The files of this project, for tests that read its sources and its documentation.

use std::path::{Path, PathBuf};

/// A path relative to the root of the project.
pub fn project_path(relative: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).canonicalize().unwrap().join(relative)
}

/// All files with this extension in `directory` and in the directories below it.
pub fn files_below(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_below(&path, extension));
        } else if path.extension().is_some_and(|it| it == extension) {
            found.push(path);
        }
    }
    found
}

/// The sources of the runner and of its crates, without the crate that starts servers for tests.
pub fn program_sources() -> Vec<PathBuf> {
    let mut sources: Vec<_> =
        ["src", "crates"].iter().flat_map(|it| files_below(&project_path(it), "rs")).collect();
    sources.retain(|path| !path.starts_with(project_path("crates/testing")));
    sources
}

/// Whether the file is a module of tests that another file includes.
pub fn is_test_file(path: &Path) -> bool {
    let name = path.file_stem().unwrap().to_str().unwrap();
    name == "tests" || name.ends_with("_tests")
}

/// Whether an item is compiled for tests only: `#[cfg(test)]` or `#[cfg(all(test, …))]`.
pub fn is_test_item(item: &syn::Item) -> bool {
    let attributes = match item {
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        _ => return false,
    };
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string().replace(' ', "");
            condition == "test" || condition.starts_with("all(test,")
        }
        _ => false,
    })
}
