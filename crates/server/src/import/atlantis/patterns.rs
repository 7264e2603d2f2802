//! The patterns of `when_modified` as globs of a layer.
//!
//! Atlantis joins each pattern with the directory of its project, also one that begins with `/`, and then matches it as
//! `.dockerignore` does: a pattern that matches a directory matches everything below it, `**` matches `/` wherever it
//! stands, and braces are ordinary characters.

use std::collections::BTreeSet;

use crate::mirror::join;

/// Patterns of files in the own directory of a layer, which it depends on anyway.
const OWN_FILES: [&str; 5] = ["*.tf", "*.tf*", "*.tfvars", ".terraform.lock.hcl", "terragrunt.hcl"];

/// Endings of files. Directories do not have them, so a glob with such an ending needs no second one for files below.
const ENDINGS: [&str; 9] =
    [".tf", ".tofu", ".tfvars", ".hcl", ".json", ".yaml", ".yml", ".tpl", ".md"];

/// The globs that match the same files as a pattern, or the reason that they do not exist.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Globs {
    /// These, without those that match only what the layer depends on anyway.
    Some(BTreeSet<String>),
    /// It excludes files.
    Exclusion,
    /// It matches nothing in the repository.
    Outside,
}

/// Whether the text of a project has characters of a glob.
pub(super) fn is_glob(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// The globs of `pattern` in the project at `directory`, which can be a glob.
pub(super) fn globs(directory: &str, pattern: &str) -> Globs {
    let pattern = pattern.trim();
    if pattern.starts_with('!') {
        return Globs::Exclusion;
    }
    if OWN_FILES.contains(&pattern.trim_start_matches("./")) {
        return Globs::Some(BTreeSet::new());
    }
    let is_set = is_glob(directory);
    let Some(joined) = join(directory, pattern) else { return Globs::Outside };
    // Each layer of a set depends on its own directory; the pattern would match the files of all of them.
    if is_set && joined.starts_with(&format!("{directory}/")) {
        return Globs::Some(BTreeSet::new());
    }
    let mut globs = BTreeSet::new();
    for glob in with_any_depth(&escaped(&joined)) {
        if glob.is_empty() {
            globs.insert("**".to_owned());
            continue;
        }
        if can_match_directory(&glob) {
            globs.insert(format!("{glob}/**"));
        }
        globs.insert(glob);
    }
    Globs::Some(globs)
}

/// Whether a glob can match a directory without the files below it.
fn can_match_directory(glob: &str) -> bool {
    let last = glob.rsplit('/').next().unwrap_or_default();
    last != "**" && !ENDINGS.iter().any(|ending| last.ends_with(ending))
}

/// Escapes the characters of a pattern that are special in our globs and ordinary in Atlantis.
fn escaped(pattern: &str) -> String {
    let mut glob = String::new();
    let mut before = None;
    for character in pattern.chars() {
        let is_ordinary =
            matches!(character, '{' | '}') || (character == '!' && before == Some('['));
        if is_ordinary && before != Some('\\') {
            glob.push('\\');
        }
        glob.push(character);
        before = Some(character);
    }
    glob
}

/// The globs of a pattern in which `**` can be a part of a name: `a**b` is `a*b`, and `a*/**/*b`.
fn with_any_depth(glob: &str) -> Vec<String> {
    let mut globs = vec![String::new()];
    for part in glob.split('/') {
        let forms = match part.split_once("**") {
            Some((before, after)) if part != "**" => {
                let (before, after) = (before.trim_end_matches('*'), after.trim_start_matches('*'));
                match (before, after) {
                    ("", after) => vec![format!("**/*{after}")],
                    (before, "") => vec![format!("{before}*"), format!("{before}*/**")],
                    (before, after) => {
                        vec![format!("{before}*{after}"), format!("{before}*/**/*{after}")]
                    }
                }
            }
            _ => vec![part.to_owned()],
        };
        let join = |glob: &String, form: &String| {
            if glob.is_empty() { form.clone() } else { format!("{glob}/{form}") }
        };
        globs = globs.iter().flat_map(|glob| forms.iter().map(|it| join(glob, it))).collect();
        // Each such name doubles the globs. More of them are not expected in a pattern that a person wrote.
        globs.truncate(64);
    }
    globs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mirror;

    #[test]
    fn globs_match_what_the_pattern_matches_there() {
        for (directory, pattern, matched, others) in [
            (
                "envs/a",
                "../conf",
                vec!["envs/conf", "envs/conf/x", "envs/conf/x/y"],
                vec!["envs/confx"],
            ),
            ("envs/a", "../../lib/*", vec!["lib/x", "lib/x/y/z"], vec!["lib", "libs/x"]),
            ("envs/a", "../../lib/**", vec!["lib/x", "lib/x/y"], vec!["lib"]),
            ("envs/a", "../../lib/", vec!["lib/x"], vec!["libx"]),
            ("envs/a", "../*.d", vec!["envs/x.d/conf"], vec!["envs/x.e/conf"]),
            (
                "envs/a",
                "../*.tf*",
                vec!["envs/x.tf", "envs/x.tfvars", "envs/x.tf.d/y"],
                vec!["x.tf"],
            ),
            ("envs/a", "  ../../lib/x.json ", vec!["lib/x.json"], vec!["lib/x.json.bak"]),
            // A leading `/` is that of the project's directory.
            (
                "envs/a",
                "/lib/**/*.txt",
                vec!["envs/a/lib/x.txt", "envs/a/lib/b/x.txt"],
                vec!["lib/x.txt"],
            ),
            ("envs/a", "..", vec!["envs/b/x"], vec!["x"]),
            ("envs/a", "../..", vec!["x", "b/c"], vec![]),
            ("a", "", vec!["a/x", "a/b/x"], vec!["b"]),
            ("", "**/*.tf", vec!["x.tf", "a/b/x.tf"], vec!["x.tfx"]),
            (
                "",
                "lib**.tf",
                vec!["lib.tf", "libs.tf", "lib/x.tf", "libs/a/x.tf"],
                vec!["x/lib.tf"],
            ),
            ("a", "../lib/**.tf", vec!["lib/x.tf", "lib/a/b/x.tf"], vec!["x.tf"]),
            ("a", "../lib/x**", vec!["lib/x", "lib/xy", "lib/x/y", "lib/xy/z"], vec!["lib/y"]),
            ("a", "../{b,c}/x", vec!["{b,c}/x"], vec!["b/x", "c/x"]),
            ("a", "../[!b]/x", vec!["!/x", "b/x"], vec!["c/x"]),
            ("a", "../[^b]/x", vec!["c/x"], vec!["b/x"]),
            ("a", "../b?/x", vec!["bc/x"], vec!["b/x"]),
            ("a", "../\\*/x", vec!["*/x"], vec!["b/x"]),
            ("a", "../b//./c", vec!["b/c"], vec!["b"]),
        ] {
            let Globs::Some(globs) = globs(directory, pattern) else { panic!("{pattern}") };
            let compiled = mirror::globs(globs.iter().map(String::as_str)).unwrap();
            for path in matched {
                assert!(compiled.is_match(path), "{pattern} {path} {globs:?}");
            }
            for path in others {
                assert!(!compiled.is_match(path), "{pattern} {path} {globs:?}");
            }
            for glob in &globs {
                assert_eq!(mirror::never_matches(glob), None, "{pattern}");
            }
        }
        for (directory, pattern, expected) in [
            ("a", "*.tf", Globs::Some(BTreeSet::new())),
            ("a", " ./*.tfvars", Globs::Some(BTreeSet::new())),
            ("envs/*", "x.json", Globs::Some(BTreeSet::new())),
            ("a", "!x.tf", Globs::Exclusion),
            ("a", " !x.tf", Globs::Exclusion),
            ("a", "../../x", Globs::Outside),
        ] {
            assert_eq!(globs(directory, pattern), expected, "{pattern}");
        }
    }
}
