//! Ordinary and malicious submodules.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use butler_source::git::{FetchError, SourceError};

use super::{Case, MAIN, TOKEN, with_history};
use butler_testing::git_server::{GitServer, Repository, git};

#[tokio::test]
async fn submodules_on_another_host_are_fetched_without_credentials() {
    let inner = with_history();
    let middle = Repository::create(&[("middle.tf", "")]);
    let outer = Repository::create(&[MAIN]);
    let own = GitServer::with_login("x-access-token", TOKEN);
    let other = GitServer::start();
    let _ = own.url(&outer);
    let middle_name = own.url(&middle).rsplit_once('/').unwrap().1.to_owned();
    middle.add_submodule(
        "inner",
        &other.url_on("localhost", &inner),
        &inner.git(&["rev-parse", "HEAD~1"]),
    );
    outer.add_submodule("modules/middle", &format!("../{middle_name}"), &middle.head());
    let case = Case::new(&own.url(&outer), "main").token(TOKEN);
    let checkout = case.succeed().await;
    assert!(checkout.root.join("modules/middle/middle.tf").is_file());
    assert!(checkout.root.join("modules/middle/inner/second.tf").is_file());
    assert!(!checkout.root.join("modules/middle/inner/modules").exists());
    assert!(!other.requests().is_empty());
    assert!(other.requests().iter().all(|request| request.authorization.is_none()));

    // Other hosts that require credentials do not get them, including another port and another name
    // of the same host.
    let asking = GitServer::with_login("x-access-token", TOKEN);
    for url in [asking.url(&inner), own.url_on("localhost", &inner)] {
        let outer = Repository::create(&[MAIN]);
        outer.add_submodule("inner", &url, &inner.head());
        let case = Case::new(&own.url(&outer), "main").token(TOKEN);
        let error = case.fail().await;
        let FetchError::Submodule { path, source } = error else { panic!("{error:?}") };
        assert_eq!(path, "inner");
        assert!(matches!(*source, FetchError::CredentialsMissing { .. }), "{source:?}");
    }
    assert!(asking.requests().iter().all(|request| request.authorization.is_none()));
}

#[tokio::test]
async fn relative_submodules_of_a_local_repository_are_resolved() {
    let beside = |repository: &Repository| {
        format!("../{}", repository.path().file_name().unwrap().to_str().unwrap())
    };
    let inner = Repository::create(&[("inner.tf", "")]);
    let middle = Repository::create(&[("middle.tf", "")]);
    middle.add_submodule("inner", &beside(&inner), &inner.head());
    let outer = Repository::create(&[MAIN]);
    outer.add_submodule("modules/middle", &beside(&middle), &middle.head());
    let case = Case::new(&outer.url(), "main");
    let checkout = case.succeed().await;
    assert!(checkout.root.join("modules/middle/middle.tf").is_file());
    assert!(checkout.root.join("modules/middle/inner/inner.tf").is_file());
}

#[tokio::test]
async fn submodules_with_file_urls_are_refused() {
    let inner = with_history();
    let server = GitServer::start();
    let outer = Repository::create(&[MAIN]);
    outer.add_submodule("inner", &inner.url(), &inner.head());
    let error = Case::new(&server.url(&outer), "main").fail().await;
    assert!(matches!(error, FetchError::ForbiddenSubmodule { .. }), "{error:?}");
    Case::new(&outer.url(), "main").succeed().await;

    let victim = tempfile::tempdir().unwrap();
    for (parent, path) in [("..", "../escape"), ("link", "link/escape"), (".git", ".git/escape")] {
        let outer = trap(parent, path, victim.path(), &server.url(&inner), &inner.head());
        let case = Case::new(&server.url(&outer), "main");
        let result = case.run().await;
        assert!(result.is_err(), "{path}: {result:?}");
        assert_eq!(std::fs::read_dir(victim.path()).unwrap().count(), 0, "{path}");
        assert!(!case.directory.path().join("escape").exists(), "{path}");
        assert!(!case.clone().join(".git/escape").exists(), "{path}");
    }
}

#[tokio::test]
async fn includes_in_gitmodules_are_not_read() {
    let inner = with_history();
    let (server, other) = (GitServer::start(), GitServer::start());
    let secret = tempfile::NamedTempFile::new().unwrap();
    let elsewhere = format!("[submodule \"inner\"]\n\turl = {}\n", other.url(&inner));
    std::fs::write(secret.path(), elsewhere).unwrap();
    let local = secret.path().display();
    for text in [
        format!("[include]\n\tpath = {local}\n"),
        format!("[INCLUDE] path = \"{local}\"\n"),
        format!("[includeIf \"gitdir:/**\"]\n\tpath = {local}\n"),
        format!("[include.x]\n[ include ]\n[include]\n\tpath = /nowhere\n\tpath = {local} ; no\n"),
    ] {
        let outer = Repository::create(&[MAIN]);
        outer.add_submodule("inner", &server.url(&inner), &inner.head());
        let modules = outer.path().join(".gitmodules");
        let text = std::fs::read_to_string(&modules).unwrap() + &text;
        outer.commit("Include", &[(".gitmodules", &text)]);
        let case = Case::new(&server.url(&outer), "main");
        match case.run().await {
            Ok(checkout) => {
                assert!(checkout.root.join("inner/second.tf").is_file(), "{text}");
                let checked_out = std::fs::read_to_string(checkout.root.join(".gitmodules"));
                assert_eq!(checked_out.unwrap(), text, "the file of the commit");
                let status = git(&checkout.root, &["status", "--porcelain"]);
                assert_eq!(status, "", "{text}");
            }
            Err(error) => {
                assert!(text.contains("[ include ]"), "{text}: {error:?}");
                let is_of_git =
                    matches!(error, SourceError::Fetch { source: FetchError::Git { .. }, .. });
                assert!(is_of_git, "{error:?}");
            }
        }
        assert!(other.requests().is_empty(), "{text}");
    }
}

/// A malicious repository: a symbolic link to `target`, and a submodule `escape` in a directory
/// whose name is not allowed or is that of the link.
fn trap(parent: &str, path: &str, target: &Path, url: &str, commit: &str) -> Repository {
    let outer = Repository::create(&[MAIN]);
    std::os::unix::fs::symlink(target, outer.path().join("link")).unwrap();
    let modules = format!("[submodule \"x\"]\n\tpath = {path}\n\turl = {url}\n");
    outer.commit("Link", &[(".gitmodules", &modules)]);
    let modules = outer.git(&["rev-parse", "HEAD:.gitmodules"]);
    let link = outer.git(&["rev-parse", "HEAD:link"]);
    let inside = raw_tree(&outer, &[("160000", "escape", commit)]);
    let tree = raw_tree(
        &outer,
        &[
            ("100644", ".gitmodules", &modules),
            ("120000", "link", &link),
            ("40000", parent, &inside),
        ],
    );
    let commit = outer.git(&["commit-tree", "-m", "Trap", &tree]);
    outer.git(&["update-ref", "refs/heads/main", &commit]);
    outer
}

/// Writes a tree object without git's checks.
fn raw_tree(repository: &Repository, entries: &[(&str, &str, &str)]) -> String {
    let mut content = Vec::new();
    for (mode, name, id) in entries {
        content.extend_from_slice(format!("{mode} {name}\0").as_bytes());
        content.extend_from_slice(&hex::decode(id).unwrap());
    }
    let mut child = Command::new("git")
        .args(["hash-object", "-t", "tree", "-w", "--stdin", "--literally"])
        .current_dir(repository.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&content).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
