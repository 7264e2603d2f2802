//! Reads included configuration from a commit.

use std::path::PathBuf;

use crate::config::{ConfigError, IncludeSource};
use crate::mirror::{GitTree, Kind, Tree, TreeError};
use crate::model::Commit;

/// The largest file, in bytes.
const MOST_BYTES: usize = 1024 * 1024;

/// The most files of one include.
const MOST_FILES: usize = 200;

/// The texts of files, with their names in errors.
pub type IncludedFiles = Vec<(PathBuf, String)>;

/// Reads the files of an include at a commit of its repository, or at none if its ref does not exist.
/// The inner error says what is wrong with them.
///
/// # Errors
/// If the mirror cannot be read.
pub fn read_include(
    mirror: &git2::Repository,
    source: &IncludeSource,
    commit: Option<&Commit>,
) -> Result<Result<IncludedFiles, Vec<ConfigError>>, TreeError> {
    let Some(commit) = commit else {
        let message = format!("the repository does not have the ref `{}`", source.reference);
        return Ok(Err(vec![error(source, &source.path, message)]));
    };
    let files = GitTree::of(mirror, commit.as_str()).and_then(|tree| files(&tree, source, commit));
    match files {
        Err(TreeError::Content { path, why }) => Ok(Err(vec![error(source, &path, why)])),
        files => files,
    }
}

fn error(source: &IncludeSource, path: &str, message: impl Into<String>) -> ConfigError {
    ConfigError { file: source.file(path), at: None, message: message.into() }
}

fn files(
    tree: &impl Tree,
    source: &IncludeSource,
    commit: &Commit,
) -> Result<Result<IncludedFiles, Vec<ConfigError>>, TreeError> {
    let refused = |message: String| Ok(Err(vec![error(source, &source.path, message)]));
    let mut paths = Vec::new();
    match tree.entry(&source.path)?.map(|entry| entry.kind) {
        None => return refused(format!("the commit `{commit}` does not have this path")),
        Some(Kind::Directory) => {
            for (name, _) in tree.list(&source.path)? {
                if [".yaml", ".yml"].iter().any(|ending| name.ends_with(ending)) {
                    let directory = (!source.path.is_empty()).then_some(source.path.as_str());
                    paths.push(directory.into_iter().chain([&*name]).collect::<Vec<_>>().join("/"));
                }
            }
            // No file at all is a mistake: it would remove all layers.
            if paths.is_empty() {
                return refused(format!(
                    "the directory has no `*.yaml` or `*.yml` file at the commit `{commit}`"
                ));
            }
        }
        Some(_) => paths.push(source.path.clone()),
    }
    if paths.len() > MOST_FILES {
        return refused(format!("the directory has more than {MOST_FILES} files"));
    }
    paths.sort();
    let (mut files, mut errors) = (Vec::new(), Vec::new());
    for path in paths {
        if let Some(text) = tree.text(&path, MOST_BYTES)? {
            files.push((source.file(&path), text));
        } else {
            let message = "must be a file of at most 1 MiB in UTF-8, and not a link";
            errors.push(error(source, &path, message));
        }
    }
    Ok(if errors.is_empty() { Ok(files) } else { Err(errors) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;
    use crate::test_repository::TestRepository;

    #[test]
    fn files_of_an_include_are_read_in_the_order_of_their_names() {
        let files = TestRepository::new();
        for (path, text) in [
            ("ops/b.yaml", "b"),
            ("ops/a.yml", "a"),
            ("ops/README.md", "none"),
            ("ops/sub/c.yaml", "c"),
            ("one.yaml", "one"),
            ("empty/README.md", "none"),
            ("large/large.yaml", &"x".repeat(MOST_BYTES + 1)),
        ] {
            files.write(path, text);
        }
        std::fs::create_dir(files.path().join("link")).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", files.path().join("link/a.yaml")).unwrap();
        let commit = files.commit();
        let read = |path: &str, commit: Option<&Commit>| {
            let text = format!(
                "repositories: {{infra: {{url: 'file:///a'}}}}\ninclude: [{{repository: infra, path: {path}}}]"
            );
            let config = parse(&[(PathBuf::from("a.yaml"), text)]).unwrap();
            let source = config.include_sources().remove(0);
            let read = read_include(&files.repository, &source, commit).unwrap();
            read.map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        let file =
            |path: &str, text: &str| (PathBuf::from(format!("infra@HEAD:{path}")), text.to_owned());
        let both = vec![file("ops/a.yml", "a"), file("ops/b.yaml", "b")];
        assert_eq!(read("ops", Some(&commit)), Ok(both.clone()));
        assert_eq!(read("./ops/", Some(&commit)), Ok(both));
        assert_eq!(read("one.yaml", Some(&commit)), Ok(vec![file("one.yaml", "one")]));
        assert_eq!(read(".", Some(&commit)), Ok(vec![file("one.yaml", "one")]));
        let error = |text: &str| Err(vec![text.to_owned()]);
        let expected = format!("infra@HEAD:none: the commit `{commit}` does not have this path");
        assert_eq!(read("none", Some(&commit)), error(&expected));
        assert_eq!(
            read("none", None),
            error("infra@HEAD:none: the repository does not have the ref `HEAD`")
        );
        let empty = read("empty", Some(&commit)).unwrap_err();
        assert!(empty[0].contains("has no `*.yaml` or `*.yml` file"), "{empty:?}");
        for path in ["large/large.yaml", "link/a.yaml"] {
            let directory = path.split_once('/').unwrap().0;
            let expected = format!(
                "infra@HEAD:{path}: must be a file of at most 1 MiB in UTF-8, and not a link"
            );
            assert_eq!(read(directory, Some(&commit)), error(&expected));
        }
    }
}
