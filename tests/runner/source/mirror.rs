//! Mirrors of real repositories: what an update fetches, and what it keeps.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use butler_base::cancel::Stop;
use butler_base::error::chain;
use butler_protocol::spec::GitCredentials;
use butler_source::git::{
    FetchError, GitEnvironment, MirrorHistory, MirrorRequest, MirrorSubmodules, MirrorUpdate,
    SourceError, has_files, update_mirror,
};

use super::{Lines, MAIN, TOKEN, with_history};
use butler_testing::git_server::{GitServer, Repository};
use butler_testing::ssh_server::SshServer;

/// One mirror, and the inputs of its updates.
pub(super) struct Mirror {
    /// Contains the mirror and the home directory.
    _directory: tempfile::TempDir,
    pub(super) request: MirrorRequest,
    pub(super) environment: GitEnvironment,
    pub(super) lines: Lines,
    pub(super) stop: Stop,
}

impl Mirror {
    pub(super) fn of(url: &str, references: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self {
            request: MirrorRequest {
                repository: url.into(),
                credentials: GitCredentials::None,
                references: references.iter().map(ToString::to_string).collect(),
                keep: Vec::new(),
                directory: directory.path().join("mirrors/one"),
                submodules: MirrorSubmodules::All,
                history: MirrorHistory::Recent,
                memory_limit: 1 << 30,
            },
            environment: GitEnvironment {
                home: Some(directory.path().to_owned()),
                executable: PathBuf::from(env!("CARGO_BIN_EXE_butler-runner")),
                ..GitEnvironment::default()
            },
            _directory: directory,
            lines: Lines::default(),
            stop: Stop::new(),
        }
    }

    pub(super) fn token(mut self, token: &str) -> Self {
        self.request.credentials = GitCredentials::Token { username: None, token: token.into() };
        self
    }

    pub(super) async fn run(&self) -> Result<MirrorUpdate, SourceError> {
        update_mirror(&self.request, &self.environment, &self.lines, &self.stop).await
    }

    pub(super) async fn update(&self) -> MirrorUpdate {
        match self.run().await {
            Ok(update) => update,
            Err(error) => panic!("{}\n{:#?}", chain(&error), self.lines.0.lock().unwrap()),
        }
    }

    pub(super) async fn fail(&self) -> FetchError {
        match self.run().await {
            Err(SourceError::Mirror { source, .. }) => source,
            other => panic!("{other:?}\n{:#?}", self.lines.0.lock().unwrap()),
        }
    }

    pub(super) fn has_logged(&self, text: &str) -> bool {
        self.lines.0.lock().unwrap().iter().any(|line| line.contains(text))
    }

    fn repository(&self) -> git2::Repository {
        git2::Repository::open_bare(&self.request.directory).unwrap()
    }

    /// The content of a file of a commit in the mirror.
    pub(super) fn file(&self, commit: &str, path: &str) -> Option<String> {
        let repository = self.repository();
        let commit = repository.find_commit(git2::Oid::from_str(commit).unwrap()).ok()?;
        let entry = commit.tree().ok()?.get_path(Path::new(path)).ok()?;
        let blob = repository.find_blob(entry.id()).unwrap();
        Some(String::from_utf8(blob.content().to_vec()).unwrap())
    }

    fn has_files(&self, commit: &str) -> bool {
        has_files(&self.repository(), git2::Oid::from_str(commit).unwrap())
    }

    /// Whether the mirror has the parent of a commit.
    fn has_history(&self, commit: &str) -> bool {
        let repository = self.repository();
        let commit = repository.find_commit(git2::Oid::from_str(commit).unwrap()).unwrap();
        commit.parent_id(0).is_ok_and(|parent| repository.find_commit(parent).is_ok())
    }

    /// All files and directories of the mirror, with their inodes and the times of their last change.
    fn files(&self) -> BTreeMap<PathBuf, (u64, i64, i64)> {
        let mut files = BTreeMap::new();
        let mut waiting = vec![self.request.directory.clone()];
        while let Some(path) = waiting.pop() {
            let found = path.metadata().unwrap();
            if found.is_dir() {
                let entries = std::fs::read_dir(&path).unwrap();
                waiting.extend(entries.map(|entry| entry.unwrap().path()));
            }
            files.insert(path, (found.ino(), found.ctime(), found.ctime_nsec()));
        }
        files
    }

    /// The packs of the mirror.
    pub(super) fn packs(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.request.directory.join("objects/pack")).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|it| it == "pack")).collect()
    }
}

fn expected(references: &[(&str, Option<&str>)]) -> BTreeMap<String, Option<String>> {
    references.iter().map(|(name, id)| ((*name).to_owned(), id.map(str::to_owned))).collect()
}

#[tokio::test]
async fn first_update_of_a_mirror_fetches_the_references_with_their_recent_history() {
    let repository = with_history();
    let tag = repository.git(&["rev-parse", "v1.0.0^{commit}"]);
    let web = GitServer::with_login("x-access-token", TOKEN);
    let ssh = SshServer::start();
    let references = ["main", "v1.0.0", "missing", "not a name"];
    let mut over_ssh = Mirror::of(&ssh.url(&repository), &references);
    over_ssh.request.credentials = GitCredentials::SshKey {
        username: None,
        private_key: ssh.private_key().into(),
        passphrase: None,
        known_hosts: Some(ssh.known_hosts()),
    };
    for mirror in [
        Mirror::of(&web.url(&repository), &references).token(TOKEN),
        over_ssh,
        Mirror::of(&repository.url(), &references),
    ] {
        let update = mirror.update().await;
        let head = repository.head();
        assert_eq!(
            update.references,
            expected(&[
                ("main", Some(&head)),
                ("v1.0.0", Some(&tag)),
                ("missing", None),
                ("not a name", None)
            ])
        );
        assert_eq!(update.fetched, ["main", "v1.0.0"]);
        assert_eq!(mirror.file(&head, "modules/a/main.tf").as_deref(), Some(""));
        assert_eq!(mirror.file(&tag, "main.tf").as_deref(), Some(MAIN.1));
        assert!(mirror.file(&tag, "modules/a/main.tf").is_none());
        assert!(mirror.has_history(&tag));
        assert_eq!(mirror.request.directory.metadata().unwrap().mode() & 0o777, 0o700);
        assert!(!mirror.has_logged("history"));
    }
}

#[tokio::test]
async fn update_without_a_new_commit_writes_no_file_and_lists_references_once() {
    let repository = with_history();
    let server = GitServer::start();
    for url in [server.url(&repository), repository.url()] {
        let mirror = Mirror::of(&url, &["main", "v1.0.0", "feature/x"]);
        let first = mirror.update().await;
        let (files, requests) = (mirror.files(), server.requests().len());
        let second = mirror.update().await;
        assert_eq!(second.references, first.references);
        assert!(second.fetched.is_empty());
        assert_eq!(mirror.files(), files);
        if url.starts_with("http") {
            assert_eq!(server.requests().len() - requests, 1);
        }
        let left = std::fs::read_dir(mirror.request.directory.parent().unwrap()).unwrap();
        assert_eq!(left.count(), 1);
    }
}

#[tokio::test]
async fn mirror_follows_new_commits_force_pushes_and_deleted_branches() {
    for over_http in [true, false] {
        let repository = with_history();
        let server = GitServer::start();
        let url = if over_http { server.url(&repository) } else { repository.url() };
        let mirror = Mirror::of(&url, &["main", "feature/x"]);
        mirror.update().await;
        let old = repository.head();

        let new = repository.commit("Fourth", &[("new.tf", "# new\n")]);
        let requests = server.requests().len();
        let update = mirror.update().await;
        assert_eq!(update.references["main"].as_ref(), Some(&new));
        assert_eq!(update.fetched, ["main"]);
        assert_eq!(mirror.file(&new, "new.tf").as_deref(), Some("# new\n"));
        if over_http {
            let listings = server.requests().split_off(requests);
            let listings = listings.iter().filter(|it| it.target.contains("info/refs"));
            assert_eq!(listings.count(), 1);
        }

        repository.git(&["reset", "--quiet", "--hard", "HEAD~2"]);
        let forced = repository.commit("Another fourth", &[("forced.tf", "# forced\n")]);
        repository.git(&["branch", "-D", "feature/x"]);
        let update = mirror.update().await;
        let references = expected(&[("main", Some(&forced)), ("feature/x", None)]);
        assert_eq!(update.references, references);
        assert_eq!(mirror.file(&forced, "forced.tf").as_deref(), Some("# forced\n"));
        // Runs of the earlier commits can still read them.
        assert_eq!(mirror.file(&new, "new.tf").as_deref(), Some("# new\n"));
        assert_eq!(mirror.file(&old, "modules/a/main.tf").as_deref(), Some(""));

        // A revert to a commit that is there needs no fetch.
        repository.git(&["reset", "--quiet", "--hard", &old]);
        let update = mirror.update().await;
        assert_eq!(update.references["main"].as_ref(), Some(&old));
        assert!(update.fetched.is_empty());
    }
}

#[tokio::test]
async fn default_branch_that_does_not_exist_is_said() {
    let repository = with_history();
    repository.git(&["symbolic-ref", "HEAD", "refs/heads/gone"]);
    let empty = Repository::create(&[MAIN]);
    empty.git(&["update-ref", "-d", "HEAD"]);
    let server = GitServer::start();
    for (repository, expected) in
        [(&repository, "the default branch of the repository does not exist"), (&empty, "is empty")]
    {
        for url in [server.url(repository), repository.url()] {
            let update = Mirror::of(&url, &["HEAD"]).update().await;
            assert_eq!(update.references["HEAD"], None);
            assert!(update.notes["HEAD"].contains(expected), "{:?}", update.notes);
        }
    }
    let update = Mirror::of(&server.url(&repository), &["main"]).update().await;
    assert!(update.notes.is_empty());
}

/// The commit of the mirror is not the tip of any branch, and has been fetched only as history.
#[tokio::test]
async fn commit_of_the_history_is_mirrored_with_its_files_when_a_branch_leads_to_it() {
    let repository = with_history();
    let server = GitServer::start();
    for url in [server.url(&repository), repository.url()] {
        let mirror = Mirror::of(&url, &["main"]);
        let head = repository.head();
        mirror.update().await;
        assert!(mirror.has_files(&head));
        repository.git(&["reset", "--quiet", "--hard", "HEAD~2"]);
        // A server sends the files of the history too. Of a repository in a directory, only commits are copied.
        assert_eq!(mirror.has_files(&repository.head()), url.starts_with("http"));
        assert!(mirror.has_history(&head));
        assert_eq!(mirror.update().await.fetched, ["main"]);
        assert!(mirror.has_files(&repository.head()));
        assert_eq!(mirror.file(&repository.head(), "main.tf").as_deref(), Some(MAIN.1));
        repository.git(&["reset", "--quiet", "--hard", &head]);
    }
}

#[tokio::test]
async fn mirror_prefers_a_branch_to_a_tag_and_a_commit_id_to_both() {
    let repository = with_history();
    let (head, older) = (repository.head(), repository.git(&["rev-parse", "HEAD~1"]));
    repository.git(&["branch", "both"]);
    repository.git(&["tag", "both", "HEAD~1"]);
    repository.git(&["update-ref", &format!("refs/heads/{older}"), &head]);
    let server = GitServer::start();
    let expected = expected(&[
        ("both", Some(&*head)),
        ("refs/heads/both", Some(&*head)),
        ("refs/tags/both", Some(&*older)),
        (&older, Some(&older)),
    ]);
    let names = ["both", "refs/heads/both", "refs/tags/both", &older];
    for url in [server.url(&repository), repository.url()] {
        let update = Mirror::of(&url, &names).update().await;
        assert_eq!(update.references, expected);
    }
}

#[tokio::test]
async fn commits_are_mirrored_by_their_full_ids() {
    let repository = with_history();
    let old = repository.git(&["rev-parse", "HEAD~2"]);
    let unknown = "1234567890".repeat(4);
    let server = GitServer::start();
    for (allowed, url) in [
        (false, server.url(&repository)),
        (true, server.url(&repository)),
        (true, repository.url()),
    ] {
        if allowed {
            repository.allow_any_commit();
        }
        let mirror = Mirror::of(&url, &["main", &old, &old[..12], &unknown]);
        let update = mirror.update().await;
        let head = repository.head();
        let references =
            [("main", Some(&*head)), (&old, Some(&old)), (&old[..12], None), (&unknown, None)];
        assert_eq!(update.references, expected(&references));
        assert_eq!(update.fetched, ["main", &old]);
        assert_eq!(mirror.file(&old, "main.tf").as_deref(), Some(MAIN.1));
        // A branch that moves afterwards is still found, whatever history was fetched.
        let new = repository.commit("Next", &[("next.tf", "")]);
        let update = mirror.update().await;
        assert_eq!(update.references["main"].as_ref(), Some(&new));
        assert_eq!(update.fetched, ["main"]);
    }
}

#[tokio::test]
async fn mirror_keeps_named_commits_and_removes_others_when_it_has_many_packs() {
    let repository = with_history();
    let server = GitServer::start();
    for url in [server.url(&repository), repository.url()] {
        let inner = Repository::create(&[("inner.tf", "# earlier\n")]);
        let earlier = inner.head();
        inner.commit("Inner", &[("inner.tf", "# inner\n")]);
        let address = if url.starts_with("http") { server.url(&inner) } else { inner.url() };
        repository.git(&[
            "rm",
            "-r",
            "--quiet",
            "--force",
            "--ignore-unmatch",
            "inner",
            ".gitmodules",
        ]);
        let mut mirror = Mirror::of(&url, &["main"]);
        repository.add_submodule("inner", &address, &earlier);
        mirror.update().await;
        let entry = format!("160000,{},inner", inner.head());
        repository.git(&["update-index", "--cacheinfo", &entry]);
        repository.git(&["commit", "--quiet", "--message", "Update the submodule"]);
        let kept = repository.head();
        mirror.update().await;
        repository.git(&["rm", "--quiet", "--force", "inner", ".gitmodules"]);
        let removed = repository.commit("Removed", &[("removed.tf", "")]);
        mirror.update().await;
        // This reader has the list of the old packs.
        let reader = mirror.repository();
        assert!(reader.find_commit(git2::Oid::from_str(&removed).unwrap()).is_ok());
        mirror.request.keep = vec![kept.clone(), "0".repeat(40), "nonsense".to_owned()];
        let mut fetches = 2;
        while mirror.packs().len() >= fetches {
            fetches += 1;
            assert!(fetches < 100, "the packs are never joined");
            repository.commit("More", &[("more.tf", &format!("# {fetches}\n"))]);
            assert_eq!(mirror.update().await.fetched, ["main"]);
        }
        assert_eq!(mirror.packs().len(), 1);
        assert!(!mirror.has_logged("larger than necessary"));
        assert_eq!(mirror.file(&kept, "main.tf").as_deref(), Some(MAIN.1));
        assert_eq!(mirror.file(&inner.head(), "inner.tf").as_deref(), Some("# inner\n"));
        assert!(reader.find_commit(git2::Oid::from_str(&kept).unwrap()).unwrap().tree().is_ok());
        let head = repository.head();
        assert_eq!(mirror.file(&head, "more.tf"), Some(format!("# {fetches}\n")));
        assert!(mirror.file(&removed, "removed.tf").is_none());

        // The next fetches find what they need, also a file of a commit that was removed.
        let files = mirror.files();
        assert!(mirror.update().await.fetched.is_empty());
        assert_eq!(mirror.files(), files);
        let again = repository.commit("Again", &[("removed.tf", ""), ("more.tf", "# 3\n")]);
        assert_eq!(mirror.update().await.fetched, ["main"]);
        assert_eq!(mirror.file(&again, "more.tf").as_deref(), Some("# 3\n"));
        repository.git(&["reset", "--quiet", "--hard", &removed]);
        assert_eq!(mirror.update().await.fetched, ["main"]);
        assert_eq!(mirror.file(&removed, "removed.tf").as_deref(), Some(""));
        // The mirror has this commit as history of the submodule, without its files.
        assert!(mirror.has_history(&inner.head()) && !mirror.has_files(&earlier));
        repository.add_submodule("inner", &address, &earlier);
        mirror.update().await;
        assert_eq!(mirror.file(&earlier, "inner.tf").as_deref(), Some("# earlier\n"));
    }
}
