//! Ordinary and malicious submodules.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use butler_source::git::{FetchError, SourceError, Submodules};

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
        let case = Case::new(&own.url(&outer), "main").token(TOKEN).submodules(Submodules::All);
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
    let case = Case::new(&server.url(&outer), "main").submodules(Submodules::All);
    let error = case.fail().await;
    assert!(matches!(error, FetchError::ForbiddenSubmodule { .. }), "{error:?}");
    Case::new(&outer.url(), "main").succeed().await;

    let victim = tempfile::tempdir().unwrap();
    for (parent, path) in [("..", "../escape"), ("link", "link/escape"), (".git", ".git/escape")] {
        let outer = trap(parent, path, victim.path(), &server.url(&inner), &inner.head());
        for which in Submodules::ALL {
            let case = Case::new(&server.url(&outer), "main").submodules(which);
            let result = case.run().await;
            assert!(result.is_err() || which != Submodules::All, "{path}: {result:?}");
            assert_eq!(std::fs::read_dir(victim.path()).unwrap().count(), 0, "{path}");
            assert!(!case.directory.path().join("escape").exists(), "{path}");
            assert!(!case.clone().join(".git/escape").exists(), "{path}");
        }
    }
}

/// The outcome of a run with a submodule whose commit does not exist.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    /// It is not requested.
    LeftOut,
    /// It is requested, and the run goes on without it.
    Tried,
    /// The run fails.
    Fails,
}

#[tokio::test]
async fn submodule_that_cannot_be_fetched_fails_only_runs_that_may_read_it() {
    use Outcome::{Fails, LeftOut, Tried};
    let read = |value: &str| format!("output \"a\" {{\n  value = {value}\n}}\n");
    let module = |source: &str| format!("module \"a\" {{\n  source = \"{source}\"\n}}\n");
    let linked = read("file(\"${path.module}/link/x\")");
    let program = "resource \"terraform_data\" \"a\" {\n  provisioner \"local-exec\" {\n    command = \"x\"\n  }\n}\n";
    let server = GitServer::start();
    let library = Repository::create(&[("vpc/main.tf", "")]);
    let refusing = GitServer::with_login("x-access-token", TOKEN);
    for (directory, text, value, broken, expected) in [
        ("envs/app", read("1"), "", "docs", LeftOut),
        ("envs/app", read("fileset(path.module, \"../../conf/*\")"), "", "docs", LeftOut),
        ("envs/app", module("../../vendor/lib/vpc"), "", "docs", LeftOut),
        ("envs/app", module("../../vendor/lib/vpc"), "", "vendor/other", LeftOut),
        ("envs/app", module("../../docs"), "", "docs", Fails),
        ("envs/app", module("../../docs/a/b"), "", "docs", Fails),
        ("envs/app", read("fileset(path.module, \"../../docs/*.md\")"), "", "docs", Fails),
        ("envs/app", read("fileset(path.module, \"../../*\")"), "", "docs", Fails),
        ("envs/app", read("fileset(path.module, \"../../**/*.md\")"), "", "a/docs", Fails),
        ("envs/app", read("file(join(\"/\", [path.module, \"..\"]))"), "", "docs", Fails),
        ("envs/app", linked.clone(), "", "docs", Fails),
        ("envs/app", read("1"), "../../docs/x.json", "docs", Fails),
        ("envs/app", read("1"), "", "envs/app/docs", Tried),
        ("envs/app", read("file(\"docs/x\")"), "", "envs/app/docs", Fails),
        ("envs/app", program.to_owned(), "", "docs", Tried),
        ("envs/app/../app", read("1"), "", "docs", Fails),
        ("", read("1"), "", "docs", Tried),
        ("", read("file(\"docs/x\")"), "", "docs", Fails),
        ("docs/a", read("1"), "", "docs", Fails),
        ("missing", read("1"), "", "docs", Fails),
    ] {
        let outer = Repository::create(&[("envs/app/main.tf", &text), ("conf/x", ""), MAIN]);
        let path = outer.path().join(directory);
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("main.tf"), &text).unwrap();
        if text == linked {
            std::os::unix::fs::symlink("../../docs", outer.path().join("envs/app/link")).unwrap();
        }
        if directory == "docs/a" || directory == "missing" {
            std::fs::remove_dir_all(path).unwrap();
        }
        outer.commit("Module", &[]);
        outer.add_submodule("vendor/lib", &server.url(&library), &library.head());
        let name = format!("{directory} {text} {value} {broken}");
        let docs = Repository::create(&[("x", "")]);
        let addresses = [server.url(&docs), refusing.url(&docs), "ext::sh".to_owned()];
        for address in addresses.iter().take(if expected == Fails { 1 } else { 3 }) {
            outer.git(&["reset", "--quiet", "--hard", "HEAD"]);
            let before = outer.head();
            outer.add_submodule(broken, address, &"1".repeat(40));
            let mut case = Case::new(&server.url(&outer), "main");
            case.source.working_directory = directory.to_owned();
            case.values.extend((!value.is_empty()).then(|| value.to_owned()));
            let result = case.run().await;
            assert_eq!(result.is_err(), expected == Fails, "{name}: {result:?}");
            if let Ok(checkout) = result {
                let line = |text: &str| {
                    let lines = case.lines.0.lock().unwrap();
                    lines.iter().filter(|line| line.contains(text)).count()
                };
                let words = if expected == LeftOut {
                    "Left out submodules: "
                } else {
                    "it cannot be fetched"
                };
                assert_eq!(line(words), 1, "{name}: {:?}", case.lines.0.lock().unwrap());
                assert!(line(&format!("`{broken}`")) >= 1, "{name}");
                let left = checkout.root.join(broken);
                assert_eq!(std::fs::read_dir(left).unwrap().count(), 0, "{name}");
                let has_library = checkout.root.join("vendor/lib/vpc/main.tf").is_file();
                let has_all = directory.is_empty() || text == program;
                assert_eq!(has_library, text.contains("vendor/lib") || has_all, "{name}");
            }
            outer.git(&["reset", "--quiet", "--hard", &before]);
        }
        let docs_name = server.url(&docs).rsplit_once('/').unwrap().1.to_owned();
        let is_asked = server.requests().iter().any(|it| it.target.contains(&docs_name));
        assert_eq!(
            is_asked,
            expected != LeftOut && !["missing", "envs/app/../app"].contains(&directory),
            "{name}"
        );
    }
}

#[tokio::test]
async fn needed_submodules_are_fetched_in_each_other() {
    for over_http in [true, false] {
        let server = GitServer::start();
        let address = |repository: &Repository| {
            if over_http { server.url(repository) } else { repository.url() }
        };
        let deep = Repository::create(&[("x/main.tf", "")]);
        let source = "module \"a\" {\n  source = \"./deep/x\"\n}\n";
        let lib = Repository::create(&[("lib.tf", source)]);
        lib.add_submodule("deep", &address(&deep), &deep.head());
        lib.add_submodule("unused", &address(&deep), &"1".repeat(40));
        let source = "module \"a\" {\n  source = \"../../lib\"\n}\n";
        let outer = Repository::create(&[("envs/app/main.tf", source)]);
        outer.add_submodule("lib", &address(&lib), &lib.head());
        for which in [Submodules::Needed, Submodules::None] {
            let mut case = Case::new(&address(&outer), "main").submodules(which);
            case.source.working_directory = "envs/app".to_owned();
            let checkout = case.succeed().await;
            let is_needed = which == Submodules::Needed;
            assert_eq!(checkout.root.join("lib/deep/x/main.tf").exists(), is_needed);
            let expected = if is_needed { "`lib/unused`" } else { "although the module may read" };
            assert!(case.has_logged(expected), "{:?}", case.lines.0.lock().unwrap());
        }
        let all = Case::new(&address(&outer), "main").submodules(Submodules::All);
        assert!(all.run().await.is_err());
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
