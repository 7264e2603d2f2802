//! Files whose content a checkout converts, and repositories with other object ids.

use std::path::Path;

use butler_source::git::FetchError;

use super::mirror::Mirror;
use super::{Case, MAIN};
use butler_testing::git_server::{GitServer, Repository, git};

/// All files below a directory, apart from those of git, with their content.
fn contents(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for path in git(directory, &["ls-files"]).lines() {
        files.push((path.to_owned(), std::fs::read(directory.join(path)).unwrap()));
    }
    files
}

/// Sets attributes that git itself prefers to those of the commit.
fn attributes_of_git(repository: &Repository, text: &str) {
    let directory = repository.path().join(".git/info");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("attributes"), text).unwrap();
}

#[tokio::test]
async fn files_are_checked_out_as_git_does() {
    let repository = Repository::create(&[MAIN]);
    let attributes = "\
[attr]wide working-tree-encoding=UTF-16LE-BOM eol=crlf
*.u16 working-tree-encoding=UTF-16 text
*.le text working-tree-encoding=utf-16le eol=crlf
*.be text working-tree-encoding=UTF-16BE
*.u32 working-tree-encoding=UTF-32BE
*.latin working-tree-encoding=ISO-8859-1 text eol=crlf
*.utf8 working-tree-encoding=UTF-8 eol=lf
*.crlf text eol=crlf
*.eol eol=crlf
*.auto text=auto eol=crlf
*.bin -text eol=crlf
*.old crlf eol=crlf
*.id ident
sub/wide* wide
";
    let text = "# é ü\none\r\n\ntwo\n$Id$ $Id: 1 $ $Id: a b c $ $Id\n";
    let plain = "# é ü\none\n\ntwo $Id$\n";
    repository.commit(
        "Attributes",
        &[
            (".gitattributes", attributes),
            ("sub/.gitattributes", "*.crlf -text\nx.u16 -working-tree-encoding\n"),
        ],
    );
    // What is committed is stored as it is.
    attributes_of_git(&repository, "* -text -ident !working-tree-encoding\n");
    let endings = [
        "u16", "le", "be", "u32", "latin", "utf8", "crlf", "eol", "auto", "bin", "old", "id", "txt",
    ];
    for ending in endings {
        for directory in ["", "sub/"] {
            if (directory, ending) == ("sub/", "u16") {
                continue;
            }
            let path = |name: &str| repository.path().join(format!("{directory}{name}.{ending}"));
            std::fs::write(path("mixed"), text).unwrap();
            std::fs::write(path("plain"), plain).unwrap();
            std::fs::write(path("binary"), b"a\n\0\n\xff").unwrap();
            std::fs::write(path("control"), "a\n\u{1}\n").unwrap();
            std::fs::write(path("empty"), "").unwrap();
            std::fs::write(path("euro"), "€ 1\n").unwrap();
        }
    }
    std::fs::write(repository.path().join("sub/wide.ps1"), plain).unwrap();
    std::os::unix::fs::symlink("plain.u16", repository.path().join("link.u16")).unwrap();
    repository.commit("Files", &[]);
    let cloned = tempfile::tempdir().unwrap();
    git(cloned.path(), &["clone", "--quiet", &repository.url(), "clone"]);
    let expected = contents(&cloned.path().join("clone"));
    let server = GitServer::start();
    for url in [repository.url(), server.url(&repository)] {
        let case = Case::new(&url, "main");
        let checkout = case.succeed().await;
        for ((path, expected), (_, found)) in expected.iter().zip(contents(&checkout.root)) {
            let shown = |bytes: &[u8]| bytes.escape_ascii().to_string();
            assert_eq!(shown(&found), shown(expected), "{path}");
        }
        assert!(checkout.root.join("link.u16").is_symlink());
    }
}

#[tokio::test]
async fn encoding_that_is_not_known_is_refused_with_the_file() {
    for (attribute, name) in [
        ("working-tree-encoding=SHIFT-JIS", "SHIFT-JIS"),
        ("working-tree-encoding", "true"),
        ("-working-tree-encoding", "false"),
    ] {
        let attributes = format!("*.ps1 {attribute}\n");
        let repository = Repository::create(&[MAIN, (".gitattributes", &attributes)]);
        Case::new(&repository.url(), "main").succeed().await;
        repository.git(&["config", "core.attributesFile", "/dev/null"]);
        attributes_of_git(&repository, "* !working-tree-encoding\n");
        repository.commit("File", &[("scripts/a.ps1", "x")]);
        let error = Case::new(&repository.url(), "main").fail().await;
        assert!(
            matches!(&error, FetchError::Encoding { path, .. } if path == "scripts/a.ps1"),
            "{error:?}"
        );
        assert!(error.to_string().contains(&format!("`{name}`")), "{error}");
    }
}

#[tokio::test]
async fn repository_with_sha256_ids_is_refused_in_one_sentence() {
    let repository = Repository::create(&[MAIN]);
    std::fs::remove_dir_all(repository.path().join(".git")).unwrap();
    repository.git(&["init", "--quiet", "--initial-branch=main", "--object-format=sha256"]);
    let commit = repository.commit("First", &[]);
    assert_eq!(commit.len(), 64);
    let server = GitServer::start();
    for url in [repository.url(), server.url(&repository)] {
        let expected = "the repository has SHA-256 object ids, which are not supported";
        for reference in ["main", &commit] {
            let error = Case::new(&url, reference).fail().await;
            assert_eq!(error.to_string(), expected, "{url}");
        }
        let error = Mirror::of(&url, &["main"]).fail().await;
        assert_eq!(error.to_string(), expected, "{url}");
    }
}
