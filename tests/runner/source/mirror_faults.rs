//! Mirrors whose repository, server or files are damaged, hostile or missing.

use std::io::Read;
use std::net::TcpListener;
use std::path::Path;

use butler_base::cancel::StopReason;
use butler_base::error::{Advice, chain};
use butler_source::git::{FetchError, SourceError};

use super::mirror::Mirror;
use super::{MAIN, TOKEN, with_history};
use butler_testing::git_server::{Behaviour, GitServer, Repository};
use butler_testing::ssh_server::SshServer;

#[tokio::test]
async fn mirror_of_an_unreachable_repository_names_the_cause() {
    let repository = with_history();
    let server = GitServer::with_login("x-access-token", TOKEN);
    let url = server.url(&repository);
    let error = Mirror::of(&url, &["main"]).token("wrong").fail().await;
    assert!(matches!(error, FetchError::CredentialsRefused { .. }), "{error:?}");
    let error = Mirror::of(&url, &["main"]).run().await.unwrap_err();
    assert!(error.to_string().starts_with("cannot update the mirror of `http://"), "{error}");
    assert_eq!(error.advice().unwrap(), "set the credentials of the repository");
    let gone = format!("{}/gone.git", server.origin());
    for url in [gone.as_str(), "file:///no/such/directory"] {
        let error = Mirror::of(url, &["main"]).token(TOKEN).fail().await;
        assert!(matches!(error, FetchError::RepositoryNotFound { .. }), "{error:?}");
    }

    let other = GitServer::start();
    let redirect = Some(other.origin().replace("127.0.0.1", "localhost"));
    let moved = GitServer::with(Behaviour { redirect, ..Behaviour::default() });
    let error = Mirror::of(&moved.url(&repository), &["main"]).fail().await;
    assert!(matches!(error, FetchError::Redirected { .. }), "{error:?}");
    assert!(other.requests().is_empty());

    let ssh = SshServer::start();
    let error = Mirror::of(&ssh.url(&repository), &["main"]).run().await.unwrap_err();
    let SourceError::Mirror { source, .. } = &error else { panic!("{error:?}") };
    assert!(matches!(source, FetchError::HostKeyUnknown { .. }), "{source:?}");
    assert!(error.advice().unwrap().contains("`known-hosts`"));
}

#[tokio::test]
async fn stop_ends_an_update_from_a_silent_server() {
    for scheme in ["http", "ssh"] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("{scheme}://{}/repository.git", listener.local_addr().unwrap());
        let mirror = Mirror::of(&url, &["main"]);
        let stop = mirror.stop.clone();
        let server = std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            stop.request(StopReason::RunOver { status: "late".to_owned() });
            // The connection ends with the process.
            let mut received = Vec::new();
            let _ = connection.read_to_end(&mut received);
        });
        let error = mirror.run().await.unwrap_err();
        assert!(matches!(error, SourceError::Stopped { .. }), "{error:?}");
        server.join().unwrap();
        let left = std::fs::read_dir(mirror.request.directory.parent().unwrap()).unwrap();
        assert_eq!(left.count(), 1);
    }
}

/// A pack with two similar files that are larger than the memory.
#[tokio::test]
async fn memory_limit_of_an_update_is_named_in_its_error() {
    let repository = with_history();
    let numbers: Vec<String> = (0..2_000_000).map(|number| number.to_string()).collect();
    let large = numbers.join("\n");
    repository.commit("Large", &[("a.txt", &large), ("b.txt", &format!("{large}b"))]);
    let server = GitServer::start();
    for url in [server.url(&repository), repository.url()] {
        let mut mirror = Mirror::of(&url, &["main"]);
        mirror.request.memory_limit = 16 << 20;
        let error = mirror.run().await.unwrap_err();
        assert!(chain(&error).ends_with("out of memory"), "{}", chain(&error));
        let hint = "raise --mirror-memory (BUTLER_MIRROR_MEMORY), which is 16 MiB";
        assert_eq!(error.advice().unwrap(), hint);
        // A process that cannot even begin says it too.
        mirror.request.memory_limit = 1 << 20;
        let error = mirror.run().await.unwrap_err();
        assert!(matches!(error, SourceError::Crashed { .. }), "{error:?}");
        assert!(error.advice().unwrap().contains("--mirror-memory (BUTLER_MIRROR_MEMORY)"));
        // The mirror that exists is kept.
        mirror.request.memory_limit = 1 << 30;
        assert_eq!(mirror.update().await.fetched, ["main"]);
        assert!(!mirror.has_logged("damaged"));
    }
}

#[tokio::test]
async fn update_continues_after_one_that_was_killed() {
    let repository = with_history();
    let server = GitServer::start();
    let mirror = Mirror::of(&server.url(&repository), &["main"]);
    mirror.update().await;
    let new = repository.commit("Next", &[("next.tf", "")]);
    let directory = &mirror.request.directory;
    let begun = directory.join(format!("refs/mirror/{new}"));
    std::fs::create_dir(&begun).unwrap();
    std::fs::create_dir_all(directory.join("refs/incoming")).unwrap();
    let left = [
        begun.join(&new),
        begun.join(format!("{new}.lock")),
        directory.join("refs/incoming/0"),
        directory.join("shallow.lock"),
        directory.join("objects/pack/pack_git2_0123456789abcdef"),
    ];
    for file in &left {
        std::fs::write(file, "").unwrap();
    }
    assert_eq!(mirror.update().await.fetched, ["main"]);
    assert!(left[1..].iter().all(|file| !file.exists()));
    assert!(mirror.file(&new, "next.tf").is_some());
    assert!(!mirror.has_logged("damaged"));
}

/// Removes the last bytes of a file, which may be read-only.
fn truncate(file: &Path, bytes: u64) {
    let mut content = std::fs::read(file).unwrap();
    content.truncate(content.len() - usize::try_from(bytes).unwrap());
    std::fs::remove_file(file).unwrap();
    std::fs::write(file, content).unwrap();
}

#[tokio::test]
async fn damaged_mirror_is_made_again_once() {
    let repository = with_history();
    let server = GitServer::start();
    for url in [server.url(&repository), repository.url()] {
        for damage in ["HEAD", "config", "pack", "empty pack", "index", "objects"] {
            let mirror = Mirror::of(&url, &["main"]);
            mirror.update().await;
            let directory = &mirror.request.directory;
            let head = repository.head();
            let pack = mirror.packs().pop().unwrap();
            match damage {
                "HEAD" => std::fs::remove_file(directory.join("HEAD")).unwrap(),
                "config" => std::fs::write(directory.join("config"), "").unwrap(),
                "pack" => truncate(&pack, 5),
                "empty pack" => truncate(&pack, pack.metadata().unwrap().len()),
                "index" => truncate(&pack.with_extension("idx"), 5),
                _ => {
                    std::fs::remove_file(pack.with_extension("idx")).unwrap();
                    std::fs::remove_file(pack).unwrap();
                }
            }
            let update = mirror.update().await;
            assert_eq!(update.references["main"].as_ref(), Some(&head), "{damage}");
            assert_eq!(update.fetched, ["main"], "{damage}");
            assert!(mirror.has_logged("The mirror is damaged"), "{damage}");
            assert_eq!(mirror.file(&head, "main.tf").as_deref(), Some(MAIN.1), "{damage}");
            assert!(mirror.update().await.fetched.is_empty(), "{damage}");
            let lines = mirror.lines.0.lock().unwrap();
            assert_eq!(lines.iter().filter(|line| line.contains("damaged")).count(), 1);
        }
    }
}

#[tokio::test]
async fn submodules_are_mirrored_recursively() {
    for over_http in [true, false] {
        let server = GitServer::with_login("x-access-token", TOKEN);
        let address = |repository: &Repository| {
            if over_http { server.url(repository) } else { repository.url() }
        };
        let beside = |repository: &Repository| {
            format!("../{}", address(repository).rsplit_once('/').unwrap().1)
        };
        let inner = with_history();
        let pinned = inner.git(&["rev-parse", "HEAD~1"]);
        let middle = Repository::create(&[("middle.tf", "# middle\n")]);
        middle.add_submodule("inner", &address(&inner), &pinned);
        let outer = Repository::create(&[MAIN]);
        outer.add_submodule("modules/middle", &beside(&middle), &middle.head());
        let mirror = Mirror::of(&address(&outer), &["main"]).token(TOKEN);
        assert_eq!(mirror.update().await.fetched, ["main"]);
        assert_eq!(mirror.file(&middle.head(), "middle.tf").as_deref(), Some("# middle\n"));
        assert_eq!(mirror.file(&pinned, "second.tf").as_deref(), Some(""));

        // An unchanged submodule is not requested again.
        let requests = server.requests().len();
        outer.git(&["commit", "--quiet", "--allow-empty", "--message", "Next"]);
        assert_eq!(mirror.update().await.fetched, ["main"]);
        let targets = server.requests().split_off(requests);
        let names = [address(&inner), address(&middle)];
        assert!(!targets.iter().any(|it| {
            names.iter().any(|name| it.target.contains(name.rsplit_once('/').unwrap().1))
        }));
    }
}

#[tokio::test]
async fn includes_in_gitmodules_are_not_read_for_a_mirror() {
    let (inner, server) = (with_history(), GitServer::start());
    let local = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(local.path(), "[submodule \"inner\"]\n\tupdate = none\n").unwrap();
    let outer = Repository::create(&[MAIN]);
    outer.add_submodule("inner", &server.url(&inner), &inner.head());
    let modules = std::fs::read_to_string(outer.path().join(".gitmodules")).unwrap();
    let include = format!("{modules}[include]\n\tpath = {}\n", local.path().display());
    outer.commit("Include", &[(".gitmodules", &include)]);
    let mirror = Mirror::of(&server.url(&outer), &["main"]);
    assert_eq!(mirror.update().await.fetched, ["main"]);
    assert_eq!(mirror.file(&inner.head(), "second.tf").as_deref(), Some(""));
}

#[tokio::test]
async fn submodule_on_another_host_or_without_its_commit_fails_the_update() {
    let inner = with_history();
    let server = GitServer::start();
    let other = GitServer::start();
    for url in [other.url(&inner), server.url_on("localhost", &inner), inner.url()] {
        let outer = Repository::create(&[MAIN]);
        outer.add_submodule("inner", &url, &inner.head());
        let error = Mirror::of(&server.url(&outer), &["main"]).fail().await;
        let FetchError::ForbiddenSubmodule { path, reason } = error else { panic!("{error:?}") };
        assert_eq!(path, "inner");
        assert!(reason.contains("on another host"), "{reason}");
    }
    assert!(other.requests().is_empty());

    let outer = Repository::create(&[MAIN]);
    outer.add_submodule("inner", &server.url(&inner), &"1".repeat(40));
    let mirror = Mirror::of(&server.url(&outer), &["main"]);
    for _ in 0..2 {
        let error = mirror.fail().await;
        let FetchError::Submodule { path, source } = error else { panic!("{error:?}") };
        assert_eq!(path, "inner");
        assert!(matches!(*source, FetchError::ReferenceNotFound { .. }), "{source:?}");
    }
}
