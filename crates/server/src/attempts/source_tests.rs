//! Archives of real repositories.

use std::collections::BTreeMap;
use std::sync::Arc;

use butler_base::error::FailureClass;
use tar::EntryType;

use super::source::{Archive, ArchiveError, BLOCK, MOST};
use crate::config::parse;
use crate::layers::{Catalog, LayerSource};
use crate::model::Commit;
use crate::test_repository::TestRepository;

const MISSING: &str = "1111111111111111111111111111111111111111";

fn layer(keys: &str) -> Arc<LayerSource> {
    let text = format!(
        "repositories: {{r: {{url: 'file:///r'}}}}\nlayers: {{l: {{repository: r, path: a{keys}}}}}"
    );
    let config = parse(&[("butler.yaml".into(), text)]).unwrap();
    Catalog::new(&config, &BTreeMap::new()).layers.into_values().next().unwrap()
}

fn archive(
    files: &TestRepository,
    commit: &Commit,
    keys: &str,
    most: u64,
) -> Result<Archive, ArchiveError> {
    Archive::limited(files.repository.path(), &layer(keys), commit, most)
}

/// The entries of the archive, with the ends of directories.
fn names(archive: &Archive) -> Vec<String> {
    let mut tar = Vec::new();
    archive.write(&mut tar).unwrap();
    let mut tar = tar::Archive::new(&*tar);
    let entries = tar.entries().unwrap().map(|entry| {
        let entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let is_directory = entry.header().entry_type() == EntryType::Directory;
        if is_directory { format!("{}/", name.trim_end_matches('/')) } else { name }
    });
    entries.collect()
}

#[test]
fn submodules_are_their_files_or_an_empty_directory() {
    let files = TestRepository::new();
    files.write("a/main.tf", "");
    files.commit();
    let inner = files.commit_elsewhere(&[("inner.tf", "")]);
    files.add_submodule("a/known", &inner);
    let commit = files.add_submodule("a/missing", MISSING);
    let archive = archive(&files, &commit, "", MOST).unwrap();
    assert_eq!(names(&archive), ["a/known/inner.tf", "a/main.tf", "a/missing/"]);
}

#[test]
fn files_that_cannot_be_sent_are_named() {
    use std::os::unix::ffi::OsStrExt;

    let files = TestRepository::new();
    files.write("a/main.tf", &"#".repeat(3000));
    let commit = files.commit();
    for (most, expected) in [
        (2999, "`a/main.tf` has 3000 bytes"),
        (3000, "the files that the layer gets have more than"),
    ] {
        let error = archive(&files, &commit, "", most).err().unwrap();
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(error.class(), FailureClass::Module);
    }
    assert!(archive(&files, &commit, "", 8 * BLOCK).is_ok());
    let target = std::ffi::OsStr::from_bytes(b"\xff");
    std::os::unix::fs::symlink(target, files.path().join("a/link")).unwrap();
    let error = archive(&files, &files.commit(), "", MOST).err().unwrap();
    assert_eq!(error.to_string(), "the target of the link `a/link` is not UTF-8");
    assert_eq!(error.class(), FailureClass::Module);
}

#[test]
fn directories_without_end_are_refused_with_their_path() {
    let files = TestRepository::new();
    files.write("a/main.tf", "");
    files.write("deep/x", "");
    files.commit();
    // libgit2 walks directories with a recursion that ends the process.
    let commit = files.commit_deep("deep", 20_000);
    assert!(archive(&files, &commit, "", MOST).is_ok());
    let error = archive(&files, &commit, ", checkout: full", MOST).err().unwrap();
    assert!(error.to_string().starts_with("cannot use `deep/a/a/"), "{error}");
    assert_eq!(error.class(), FailureClass::Module);
}

#[test]
fn module_that_computes_a_path_gets_all_files() {
    let files = TestRepository::new();
    files.write("data/x.json", "");
    for (value, has_all) in [("\"../y.json\"", false), ("var.path", true)] {
        files.write("a/main.tf", &format!("output \"o\" {{\n  value = file({value})\n}}\n"));
        let archive = archive(&files, &files.commit(), "", MOST).unwrap();
        assert_eq!(archive.contains("data/x.json"), has_all, "{value}");
    }
}

#[test]
fn full_checkout_has_all_files() {
    let files = TestRepository::new();
    files.write("a/main.tf", "");
    files.write("data/x.json", "");
    let commit = files.commit();
    for (keys, has_all) in [("", false), (", checkout: needed", false), (", checkout: full", true)]
    {
        let archive = archive(&files, &commit, keys, MOST).unwrap();
        let contains = ["a/main.tf", "data", "dat", "data/x.json"].map(|it| archive.contains(it));
        assert_eq!(contains, [true, has_all, false, has_all], "{keys}");
    }
}

#[test]
fn missing_path_is_not_retried_and_a_missing_commit_is() {
    let files = TestRepository::new();
    files.write("b/main.tf", "");
    let error = archive(&files, &files.commit(), "", MOST).err().unwrap();
    assert_eq!(error.class(), FailureClass::Configuration);
    let error = archive(&files, &Commit::new(MISSING), "", MOST).err().unwrap();
    assert_eq!(error.class(), FailureClass::Platform);
}

#[test]
fn files_are_converted_as_a_checkout_does() {
    let files = TestRepository::new();
    files.write(
        ".gitattributes",
        "*.ps1 working-tree-encoding=UTF-16LE eol=crlf\n*.txt text eol=crlf\n",
    );
    files.write("a/.gitattributes", "kept.txt -text\n");
    files.write("a/main.tf", "output \"x\" {\n  value = file(\"../lib/x.txt\")\n}\n");
    files.write("a/x.ps1", "1\n");
    files.write("a/x.txt", "1\n");
    files.write("a/kept.txt", "1\n");
    files.write("lib/x.txt", "1\n");
    files.commit();
    let inner = files.commit_elsewhere(&[
        (".gitattributes", "*.md text eol=crlf\n"),
        ("x.txt", "1\n"),
        ("x.md", "1\n"),
    ]);
    let commit = files.add_submodule("a/inner", &inner);
    for keys in ["", ", checkout: full"] {
        let archive = archive(&files, &commit, keys, MOST).unwrap();
        let mut tar = Vec::new();
        archive.write(&mut tar).unwrap();
        assert_eq!(archive.size + 2 * BLOCK, tar.len() as u64, "the size is known before");
        let mut found = BTreeMap::new();
        for entry in tar::Archive::new(&*tar).entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            let mut content = Vec::new();
            std::io::Read::read_to_end(&mut entry, &mut content).unwrap();
            found.insert(path, content.escape_ascii().to_string());
        }
        for (path, expected) in [
            ("a/x.ps1", r"1\x00\r\x00\n\x00"),
            ("a/x.txt", r"1\r\n"),
            ("a/kept.txt", r"1\n"),
            ("lib/x.txt", r"1\r\n"),
            ("a/inner/x.txt", r"1\n"),
            ("a/inner/x.md", r"1\r\n"),
        ] {
            assert_eq!(found[path], expected, "{path} {keys}");
        }
    }
    files.write(".gitattributes", "*.ps1 working-tree-encoding=SHIFT-JIS\n");
    let error = archive(&files, &files.commit(), "", MOST).err().unwrap();
    assert!(error.to_string().starts_with("cannot check out `a/x.ps1`: "), "{error}");
    assert_eq!(error.class(), FailureClass::Module);
}
