//! Checks out `.gitmodules` without its includes.
//!
//! The author of the repository writes this file. libgit2 opens each file that an `include` in it names, which git
//! itself does not do: at the checkout, and when submodules are listed. If the file could contain an include, libgit2
//! checks out a text that contains settings of submodules only, and the content of the commit is written when the
//! submodules are there.

use std::fmt::Write as _;

use git2::{FileMode, Repository, Tree};

use crate::gitmodules::{FILE, Setting, settings};

/// A text with these settings and nothing else.
fn text_of(settings: &[Setting]) -> String {
    let escaped = |text: &str| {
        let text = text.replace('\\', "\\\\").replace('"', "\\\"");
        text.replace('\n', "\\n").replace('\t', "\\t")
    };
    settings.iter().fold(String::new(), |mut text, Setting { submodule, key, value }| {
        let submodule = submodule.replace('\\', "\\\\").replace('"', "\\\"");
        // Writing to a string does not fail.
        let _ = writeln!(text, "[submodule \"{submodule}\"]\n\t{key} = \"{}\"", escaped(value));
        text
    })
}

/// The tree to check out instead of `tree`; `None` if that contains no file that could have an include.
///
/// # Errors
/// If the file is not valid, or the tree cannot be written.
pub(super) fn without_includes<'repository>(
    repository: &'repository Repository,
    tree: &Tree<'repository>,
) -> Result<Option<Tree<'repository>>, git2::Error> {
    let suspects = suspects(repository, tree)?;
    if suspects.is_empty() {
        return Ok(None);
    }
    let mut builder = repository.treebuilder(Some(tree))?;
    for (name, content) in suspects {
        let blob = repository.blob(text_of(&settings(&content)?).as_bytes())?;
        builder.insert(name, blob, FileMode::Blob.into())?;
    }
    repository.find_tree(builder.write()?).map(Some)
}

/// Writes the content of the commit into the working tree, if another one was checked out.
///
/// # Errors
/// If it cannot be written.
pub(super) fn restore(repository: &Repository) -> Result<(), git2::Error> {
    let tree = repository.head()?.peel_to_tree()?;
    let suspects = suspects(repository, &tree)?;
    let Some(directory) = repository.workdir().filter(|_| !suspects.is_empty()) else {
        return Ok(());
    };
    for (name, content) in suspects {
        let path = directory.join(name);
        let written = std::fs::remove_file(&path).and_then(|()| std::fs::write(&path, content));
        written.map_err(|error| git2::Error::from_str(&error.to_string()))?;
    }
    let mut index = repository.index()?;
    index.read_tree(&tree)?;
    index.write()
}

/// The files of `tree` that libgit2 could read as [`FILE`] on any file system, and that could have an include.
fn suspects(
    repository: &Repository,
    tree: &Tree<'_>,
) -> Result<Vec<(String, Vec<u8>)>, git2::Error> {
    let mut found = Vec::new();
    for entry in tree {
        // libgit2 refuses a link of this name.
        let is_file = [i32::from(FileMode::Blob), FileMode::BlobExecutable.into()];
        let Ok(name) = entry.name() else { continue };
        if name.eq_ignore_ascii_case(FILE) && is_file.contains(&entry.filemode()) {
            let content = repository.find_blob(entry.id())?.content().to_vec();
            // The name of a section cannot be written in another way.
            if content.to_ascii_lowercase().windows(7).any(|part| part == b"include") {
                found.push((name.to_owned(), content));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_settings_are_read_again_and_libgit2_reads_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        let names = ["a", "a b", "a\"]\n[include]", "a\\", "x.y", "=#;"];
        let values = ["", "x", " x ", "a\"b", "a\\", "a # b ; c", "a\n[include]\npath = /x", "\ta"];
        for name in names {
            for value in values {
                let name = name.replace('\n', "");
                let setting = |key: &str| Setting {
                    submodule: name.clone(),
                    key: key.to_owned(),
                    value: value.to_owned(),
                };
                let all = vec![setting("path"), setting("url")];
                let text = text_of(&all);
                assert_eq!(settings(text.as_bytes()).unwrap(), all, "{text}");
                std::fs::write(&path, &text).unwrap();
                let config = git2::Config::open(&path).unwrap().snapshot().unwrap();
                let read = config.get_string(&format!("submodule.{name}.url")).unwrap();
                assert_eq!(read, value, "{text}");
            }
        }
    }
}
