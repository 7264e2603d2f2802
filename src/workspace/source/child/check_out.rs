//! Puts the files of a commit into the working tree.
//!
//! libgit2 refuses names such as `..` and `.git`. What it does not notice is a tree with the same
//! name twice, which git never writes: with a symbolic link and a directory of one name it follows
//! the link and makes directories wherever the link leads. Such trees are refused here.

use std::collections::HashSet;

use git2::build::CheckoutBuilder;
use git2::{ObjectType, Oid, Repository, Tree};

use super::super::failure::FetchError;

/// How much of a commit's subject is shown, in characters.
const SUBJECT: usize = 72;

/// Puts the files of `commit` into the working tree and HEAD on the commit itself.
///
/// # Errors
/// When the commit's trees are malformed or a file cannot be written.
pub(super) fn check_out(repository: &Repository, commit: Oid) -> Result<(), FetchError> {
    let failed = |error| FetchError::git("check out the commit", &error);
    let commit = repository.find_commit(commit).map_err(failed)?;
    refuse_malformed(repository, commit.tree().map_err(failed)?)?;
    let mut options = CheckoutBuilder::new();
    repository.checkout_tree(commit.as_object(), Some(options.force())).map_err(failed)?;
    repository.set_head_detached(commit.id()).map_err(failed)
}

fn refuse_malformed(repository: &Repository, root: Tree<'_>) -> Result<(), FetchError> {
    let failed = |error| FetchError::git("read the tree of the commit", &error);
    let mut seen = HashSet::from([root.id()]);
    let mut waiting = vec![root];
    while let Some(tree) = waiting.pop() {
        let mut names = HashSet::with_capacity(tree.len());
        for entry in &tree {
            if !names.insert(entry.name_bytes().to_vec()) {
                let name = String::from_utf8_lossy(entry.name_bytes()).escape_debug().to_string();
                return Err(FetchError::Git {
                    act: "check out the commit".to_owned(),
                    reason: format!("a directory of it has two entries `{name}`"),
                });
            }
            if entry.kind() == Some(ObjectType::Tree) && seen.insert(entry.id()) {
                waiting.push(repository.find_tree(entry.id()).map_err(failed)?);
            }
        }
    }
    Ok(())
}

/// The first line of a commit's message, short and without control characters.
pub(super) fn subject(repository: &Repository, commit: Oid) -> String {
    let commit = repository.find_commit(commit);
    let summary =
        commit.as_ref().ok().and_then(|commit| commit.summary_bytes()).unwrap_or_default();
    let summary = String::from_utf8_lossy(summary);
    let mut short: String = summary
        .chars()
        .take(SUBJECT)
        .map(|character| if character.is_control() { ' ' } else { character })
        .collect();
    if summary.chars().count() > SUBJECT {
        short.push('…');
    }
    short
}
