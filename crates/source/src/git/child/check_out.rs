//! Puts the files of a commit into the working tree.
//!
//! libgit2 refuses names such as `..` and `.git`, but accepts a tree with the same name twice, which git
//! never writes. With a symbolic link and a directory of one name, it follows the link and creates
//! directories outside of the clone. Such trees are refused here.

use std::collections::HashSet;
use std::path::Path;

use git2::build::CheckoutBuilder;
use git2::{AttrCheckFlags, FileMode, ObjectType, Oid, Repository, Tree};

use super::super::failure::FetchError;
use super::gitmodules;
use crate::attributes::{Conversion, can_convert};

/// The most directories below each other. More than a path of the system can have are refused by name.
const MAX_DEPTH: usize = 500;

/// The longest subject of a commit in messages, in characters.
const MAX_SUBJECT: usize = 72;

/// Puts the files of `commit` into the working tree and HEAD on the commit itself.
///
/// # Errors
/// When the commit's trees are malformed or a file cannot be written.
pub(super) fn check_out(repository: &Repository, commit: Oid) -> Result<(), FetchError> {
    let failed = |error| FetchError::git("check out the commit", &error);
    let commit = repository.find_commit(commit).map_err(failed)?;
    let tree = commit.tree().map_err(failed)?;
    let harmless = gitmodules::without_includes(repository, &tree);
    let harmless = harmless.map_err(|error| FetchError::git("read .gitmodules", &error))?;
    let converts = check_trees(repository, tree)?;
    let is_global = has_global_conversion(repository);
    let mut options = CheckoutBuilder::new();
    // libgit2 knows the settings of the user. It does not know encodings, and converts `$Id$` once in a file.
    options.disable_filters(!is_global);
    let files = harmless.as_ref().map_or(commit.as_object(), Tree::as_object);
    repository.checkout_tree(files, Some(options.force())).map_err(failed)?;
    if converts || is_global {
        convert(repository, is_global)?;
    }
    repository.set_head_detached(commit.id()).map_err(failed)
}

/// Converts the files of a working tree as their attributes say. If libgit2 did so, only encodings are left.
fn convert(repository: &Repository, is_converted: bool) -> Result<(), FetchError> {
    let failed = |error| FetchError::git("check out the commit", &error);
    let Some(root) = repository.workdir() else { return Ok(()) };
    for entry in repository.index().map_err(failed)?.iter() {
        let is_file =
            [FileMode::Blob, FileMode::BlobExecutable].map(u32::from).contains(&entry.mode);
        let Ok(path) = std::str::from_utf8(&entry.path) else { continue };
        if !is_file {
            continue;
        }
        let conversion = Conversion::of(repository, path, AttrCheckFlags::FILE_THEN_INDEX);
        let conversion = conversion.map_err(|error| FetchError::Encoding {
            path: path.escape_debug().to_string(),
            reason: error.to_string(),
        })?;
        let file = root.join(path);
        let written = if is_converted {
            if !conversion.has_encoding() {
                continue;
            }
            let encoded = fs_err::read(&file).map(|content| conversion.encode(&content));
            encoded.and_then(|encoded| encoded.map_or(Ok(()), |it| fs_err::write(&file, it)))
        } else {
            if conversion.is_none() {
                continue;
            }
            let blob = repository.find_blob(entry.id).map_err(failed)?;
            fs_err::write(&file, conversion.apply(blob.content(), entry.id))
        };
        written.map_err(|error| FetchError::file("check out the commit", &error))?;
    }
    Ok(())
}

/// Whether settings outside of the commit may convert files: line endings, or attributes of the user or
/// the system (gitattributes(5)).
fn has_global_conversion(repository: &Repository) -> bool {
    let Ok(config) = repository.config().and_then(|mut config| config.snapshot()) else {
        return true;
    };
    let is_set = |name| config.get_str(name).is_ok_and(|value| value != "false");
    is_set("core.autocrlf")
        || is_set("core.attributesfile")
        || Path::new("/etc/gitattributes").exists()
        || repository.path().join("info/attributes").exists()
}

/// Checks all trees. Returns whether the files `.gitattributes` in them can convert files.
///
/// # Errors
/// When one of them is malformed or cannot be read.
fn check_trees(repository: &Repository, root: Tree<'_>) -> Result<bool, FetchError> {
    let mut converts = false;
    let failed = |error| FetchError::git("read the tree of the commit", &error);
    let mut seen = HashSet::from([root.id()]);
    // The names of the directories that lead to it are in front of each tree.
    let mut waiting = vec![(String::new(), 0, root)];
    while let Some((path, depth, tree)) = waiting.pop() {
        let mut names = HashSet::with_capacity(tree.len());
        for entry in &tree {
            if entry.name_bytes().eq_ignore_ascii_case(b".gitattributes") {
                let content = repository.find_blob(entry.id());
                let content = content.as_ref().map(git2::Blob::content).unwrap_or_default();
                converts |= can_convert(content);
            }
            if !names.insert(entry.name_bytes().to_vec()) {
                let name = String::from_utf8_lossy(entry.name_bytes()).escape_debug().to_string();
                return Err(FetchError::Git {
                    act: "check out the commit".to_owned(),
                    reason: format!("a directory of it has two entries `{name}`"),
                });
            }
            if entry.kind() == Some(ObjectType::Tree) && seen.insert(entry.id()) {
                if depth == MAX_DEPTH {
                    let shown: String = path.chars().take(MAX_SUBJECT).collect();
                    return Err(FetchError::Git {
                        act: "check out the commit".to_owned(),
                        reason: format!(
                            "`{shown}…` has more than {MAX_DEPTH} directories below each other"
                        ),
                    });
                }
                let name = String::from_utf8_lossy(entry.name_bytes()).escape_debug().to_string();
                let tree = repository.find_tree(entry.id()).map_err(failed)?;
                waiting.push((format!("{path}{name}/"), depth + 1, tree));
            }
        }
    }
    Ok(converts)
}

/// The first line of a commit's message, short and without control characters.
pub(super) fn subject(repository: &Repository, commit: Oid) -> String {
    let commit = repository.find_commit(commit);
    let summary =
        commit.as_ref().ok().and_then(|commit| commit.summary_bytes()).unwrap_or_default();
    let summary = String::from_utf8_lossy(summary);
    let mut short: String = summary
        .chars()
        .take(MAX_SUBJECT)
        .map(|character| if character.is_control() { ' ' } else { character })
        .collect();
    if summary.chars().count() > MAX_SUBJECT {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use git2::build::TreeUpdateBuilder;

    use super::*;

    /// The content of a file after the checkout of a commit of these files, with these settings.
    fn checked_out(files: &[(&str, &str)], settings: &[(&str, &str)]) -> String {
        let directory = tempfile::tempdir().unwrap();
        let repository = Repository::init(directory.path()).unwrap();
        for (name, value) in settings {
            repository.config().unwrap().set_str(name, value).unwrap();
        }
        let mut update = TreeUpdateBuilder::new();
        for (path, content) in files {
            let blob = repository.blob(content.as_bytes()).unwrap();
            update.upsert(*path, blob, git2::FileMode::Blob);
        }
        let nothing = repository.treebuilder(None).unwrap().write().unwrap();
        let nothing = repository.find_tree(nothing).unwrap();
        let tree = update.create_updated(&repository, &nothing).unwrap();
        let tree = repository.find_tree(tree).unwrap();
        let author = git2::Signature::now("author", "author@localhost").unwrap();
        let commit = repository.commit(None, &author, &author, "files", &tree, &[]).unwrap();
        check_out(&repository, commit).unwrap();
        std::fs::read_to_string(directory.path().join("a/b/main.tf")).unwrap()
    }

    #[test]
    fn directories_without_end_are_refused_with_their_path() {
        let directory = tempfile::tempdir().unwrap();
        let repository = Repository::init(directory.path()).unwrap();
        let mut tree = repository.treebuilder(None).unwrap().write().unwrap();
        for _ in 0..=MAX_DEPTH {
            let mut builder = repository.treebuilder(None).unwrap();
            builder.insert("a", tree, 0o040_000).unwrap();
            tree = builder.write().unwrap();
        }
        let tree = repository.find_tree(tree).unwrap();
        let author = git2::Signature::now("author", "author@localhost").unwrap();
        let commit = repository.commit(None, &author, &author, "deep", &tree, &[]).unwrap();
        let error = check_out(&repository, commit).unwrap_err().to_string();
        assert!(error.contains("`a/a/a/"), "{error}");
        assert!(error.ends_with("has more than 500 directories below each other"), "{error}");
    }

    #[test]
    fn checkout_applies_attributes_and_line_ending_settings() {
        let file = ("a/b/main.tf", "one\ntwo\n");
        assert_eq!(checked_out(&[file], &[]), "one\ntwo\n");
        for attributes in [".gitattributes", "a/.gitattributes", "a/b/.gitattributes"] {
            let files = [(attributes, "*.tf text eol=crlf\n"), file];
            assert_eq!(checked_out(&files, &[]), "one\r\ntwo\r\n", "{attributes}");
        }
        assert_eq!(checked_out(&[file], &[("core.autocrlf", "true")]), "one\r\ntwo\r\n");
        let attributes = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(attributes.path(), "*.tf text eol=crlf\n").unwrap();
        let setting = ("core.attributesfile", attributes.path().to_str().unwrap());
        assert_eq!(checked_out(&[file], &[setting]), "one\r\ntwo\r\n");
    }
}
