//! Files that a module missed, although its commit has them.
//!
//! An attempt gets what its layer is known to depend on. A path that is computed, or behind a link, is
//! not known, and Terraform then reports a missing file. This finds such paths in its messages.

use std::io;
use std::path::Path;

use butler_base::event::LogLine;
use git2::Repository;

use super::directory::AttemptDirectory;
use super::log::LogPosition;
use super::source::Archive;
use crate::layers::LayerSource;
use crate::mirror::{GitTree, Kind, Tree as _, join};
use crate::model::Commit;

/// How many lines at the end of a log are searched. Errors come last.
const LINES: u32 = 500;

/// The most files that are named.
const MOST: usize = 10;

/// In front of the path that a function of Terraform cannot read.
const NO_FILE: &str = "no file exists at ";

/// Behind a path that the operating system does not find.
const NO_ENTRY: &str = ": no such file or directory";

/// What a user can do about the files that the log of a failed attempt misses, although `commit` has
/// them: a sentence for each.
///
/// # Errors
/// If the log or the mirror cannot be read.
pub(super) fn advice(
    directory: &AttemptDirectory,
    layer: &LayerSource,
    mirror: &Path,
    commit: &Commit,
) -> io::Result<Vec<String>> {
    let log = directory.log();
    let lines = log.page(LogPosition::after(log.last()?.saturating_sub(LINES)))?.lines;
    let missing = missing_paths(&lines);
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    let archive = Archive::of(mirror, layer, commit).map_err(io::Error::other)?;
    let repository = Repository::open_bare(mirror).map_err(io::Error::other)?;
    let tree = GitTree::of(&repository, commit.as_str()).map_err(io::Error::other)?;
    let mut advice = Vec::new();
    for path in missing {
        for path in paths_in_commit(&path, &layer.path, &directory.work()) {
            let Some(entry) = tree.entry(&path).map_err(io::Error::other)? else { continue };
            if path.is_empty() || archive.contains(&path) {
                continue;
            }
            // A trigger matches files.
            let glob =
                if entry.kind == Kind::Directory { format!("{path}/**") } else { path.clone() };
            let sentence = format!(
                "`{path}` is in the commit but was not checked out: add `{glob}` to `triggers` of the \
                 layer, or set `checkout: full`"
            );
            if !advice.contains(&sentence) && advice.len() < MOST {
                advice.push(sentence);
            }
            break;
        }
    }
    Ok(advice)
}

/// The paths that do not exist according to Terraform. It breaks its messages into lines, with a frame
/// beside them.
fn missing_paths(lines: &[LogLine]) -> Vec<String> {
    let words = lines.iter().flat_map(|line| line.content.split_whitespace());
    let words: Vec<&str> = words.filter(|word| !matches!(*word, "│" | "|")).collect();
    let text = words.join(" ");
    let mut found = Vec::new();
    for (start, _) in text.match_indices(NO_FILE) {
        let rest = &text[start + NO_FILE.len()..];
        let path = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split('"').next(),
            None => rest.split(' ').next(),
        };
        found.extend(path.map(|path| path.trim_end_matches([';', ',', '.'])));
    }
    for (end, _) in text.match_indices(NO_ENTRY) {
        found.extend(text[..end].rsplit(' ').next().map(|path| path.trim_matches('"')));
    }
    let mut found: Vec<String> = found.into_iter().map(str::to_owned).collect();
    found.dedup();
    found
}

/// What a path of a message can be in the commit: relative to the directory of the module, or below
/// the directory in which the run works, which has one of its own for the files.
fn paths_in_commit(path: &str, module: &str, work: &Path) -> Vec<String> {
    if !path.starts_with('/') {
        return join(module, path).into_iter().collect();
    }
    let Ok(below) = Path::new(path).strip_prefix(work) else { return Vec::new() };
    let Some(below) = below.to_str().and_then(|below| join("", below)) else { return Vec::new() };
    let starts = below.match_indices('/').map(|(slash, _)| slash + 1);
    starts.take(3).map(|start| below[start..].to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use butler_base::event::Stream;

    use super::*;

    #[test]
    fn missing_paths_are_found_in_messages_of_terraform() {
        for (text, expected) in [
            (
                "│ Invalid value for \"path\" parameter: no file exists at\n│ \"./../../data/x y.json\"; this \
                 function works only with",
                vec!["./../../data/x y.json"],
            ),
            (
                "│ Unable to evaluate directory symlink: lstat ../../modules: no such file\n│ or directory\n",
                vec!["../../modules"],
            ),
            ("Error: open /w/a: no such file or directory", vec!["/w/a"]),
            ("Error: no such resource", vec![]),
        ] {
            let line = |content: &str| LogLine {
                sequence: 1,
                stream: Stream::Stdout,
                content: content.to_owned(),
            };
            let lines: Vec<LogLine> = text.lines().map(line).collect();
            assert_eq!(missing_paths(&lines), expected, "{text}");
        }
    }

    #[test]
    fn paths_of_messages_are_those_of_the_commit() {
        let work = Path::new("/data/attempts/a-1/work");
        for (path, expected) in [
            ("./../../data/x.json", vec!["data/x.json"]),
            ("../../../x", vec![]),
            ("/etc/passwd", vec![]),
            (
                "/data/attempts/a-1/work/run/source/a/../data/x",
                vec!["source/data/x", "data/x", "x"],
            ),
        ] {
            assert_eq!(paths_in_commit(path, "envs/prod", work), expected, "{path}");
        }
    }
}
