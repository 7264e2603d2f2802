//! What a commit says about itself.

use std::path::Path;

use butler_base::error::visible;
use git2::{Oid, Repository};

use crate::model::Commit;

/// The most characters of a title.
const MOST_CHARACTERS: usize = 120;

/// The first line of the message of a commit, at most 120 characters, with controls and direction marks
/// escaped. `None` if the mirror does not have the commit, or if its message is empty.
#[must_use]
pub fn commit_title(mirror: &Path, commit: &Commit) -> Option<String> {
    let repository = Repository::open_bare(mirror).ok()?;
    let commit = repository.find_commit(Oid::from_str(commit.as_str()).ok()?).ok()?;
    let summary = String::from_utf8_lossy(commit.summary_bytes()?);
    let mut characters = visible(summary.trim());
    let mut title: String = characters.by_ref().take(MOST_CHARACTERS).collect();
    if characters.next().is_some() {
        title.push('…');
    }
    (!title.is_empty()).then_some(title)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_repository::TestRepository;

    #[test]
    fn title_is_the_first_line_without_controls() {
        let files = TestRepository::new();
        let repository = &files.repository;
        let tree = repository.treebuilder(None).unwrap().write().unwrap();
        let tree = repository.find_tree(tree).unwrap();
        let author = git2::Signature::now("a", "a@example.com").unwrap();
        let long = "é".repeat(200);
        for (message, expected) in [
            ("Add a bucket\n\nBecause of logs.", Some("Add a bucket".to_owned())),
            ("\u{1b}[31m<b>\u{202e}red", Some("\\u{1b}[31m<b>\\u{202e}red".to_owned())),
            (long.as_str(), Some(format!("{}…", "é".repeat(120)))),
            ("", None),
        ] {
            let commit = repository.commit(None, &author, &author, message, &tree, &[]).unwrap();
            let commit = Commit::new(commit.to_string());
            assert_eq!(commit_title(repository.path(), &commit), expected, "{message}");
        }
        let unknown = Commit::new("0123456789012345678901234567890123456789");
        assert_eq!(commit_title(repository.path(), &unknown), None);
    }
}
