//! Fetching a module's source from real git servers.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;

use butler_runner::cancel::{Stop, StopReason};
use butler_runner::error::{Advice, chain};
use butler_runner::event::Stream;
use butler_runner::process::{Environment, Sink};
use butler_runner::secret::PrivateDirectory;
use butler_runner::spec::{GitCredentials, GitSource};
use butler_runner::workspace::source::{
    Checkout, FetchError, GitEnvironment, SourceError, fetch, share_credentials,
};

use crate::support::authority::Authority;
use crate::support::git_server::{Behaviour, GitServer, Repository, git};
use crate::support::ssh_server::{SshServer, keygen};

const TOKEN: &str = "hunter22-very-secret";

const MAIN: (&str, &str) = ("main.tf", "output \"a\" { value = 1 }\n");

#[derive(Default)]
struct Lines(Mutex<Vec<String>>);

impl Sink for Lines {
    fn line(&self, _: Stream, line: &[u8]) {
        self.0.lock().unwrap().push(String::from_utf8(line.to_vec()).unwrap());
    }

    fn partial(&self, _: Stream, _: &[u8]) -> usize {
        0
    }
}

/// One fetch, and what it needs.
struct Case {
    directory: tempfile::TempDir,
    source: GitSource,
    environment: GitEnvironment,
    lines: Lines,
    stop: Stop,
}

impl Case {
    fn new(url: &str, reference: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().join("home");
        std::fs::create_dir(&home).unwrap();
        Self {
            source: GitSource {
                repository: url.into(),
                reference: reference.to_owned(),
                working_directory: String::new(),
                credentials: GitCredentials::None,
            },
            environment: GitEnvironment {
                home: Some(home),
                executable: PathBuf::from(env!("CARGO_BIN_EXE_butler-runner")),
                ..GitEnvironment::default()
            },
            directory,
            lines: Lines::default(),
            stop: Stop::new(),
        }
    }

    fn token(mut self, token: &str) -> Self {
        self.source.credentials = GitCredentials::Token { username: None, token: token.into() };
        self
    }

    fn ssh_key(mut self, key: String, known_hosts: Option<String>) -> Self {
        self.source.credentials = GitCredentials::SshKey {
            username: None,
            private_key: key.into(),
            passphrase: None,
            known_hosts,
        };
        self
    }

    fn environment_token(mut self, host: Option<&str>) -> Self {
        self.environment.tokens = vec![("GITHUB_TOKEN", TOKEN.into())];
        self.environment.token_host = host.map(str::to_owned);
        self
    }

    fn in_home(self, name: &str, content: &str) -> Self {
        let file = self.environment.home.as_ref().unwrap().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, content).unwrap();
        self
    }

    /// Runs a program as Terraform would be run, with the credentials lent to git.
    fn lent(&self, directory: &Path, program: &str, arguments: &[&str]) -> Output {
        let private = PrivateDirectory::create(self.directory.path(), "private-").unwrap();
        let mut child = Environment::default();
        share_credentials(&self.source, &self.environment, &private, &mut child).unwrap();
        for (name, value) in child.iter() {
            assert!(!value.to_string_lossy().contains(TOKEN), "{}", name.display());
        }
        Command::new(program)
            .args(arguments)
            .current_dir(directory)
            .env("HOME", self.environment.home.as_ref().unwrap())
            .env_remove("GIT_SSL_CAINFO")
            .env_remove("TF_CLI_CONFIG_FILE")
            .envs(child.iter())
            .output()
            .unwrap()
    }

    fn ls_remote(&self, url: &str) -> Output {
        self.lent(self.directory.path(), "git", &["ls-remote", url, "main"])
    }

    fn clone(&self) -> PathBuf {
        self.directory.path().join("clone")
    }

    async fn run(&self) -> Result<Checkout, SourceError> {
        fetch(&self.source, &self.environment, &self.clone(), &self.lines, &self.stop).await
    }

    async fn succeed(&self) -> Checkout {
        match self.run().await {
            Ok(checkout) => checkout,
            Err(error) => panic!("{}\n{:#?}", chain(&error), self.lines.0.lock().unwrap()),
        }
    }

    async fn fail(&self) -> FetchError {
        match self.run().await {
            Err(SourceError::Fetch { source, .. } | SourceError::Unusable(source)) => source,
            other => panic!("{other:?}\n{:#?}", self.lines.0.lock().unwrap()),
        }
    }

    fn said(&self, text: &str) -> bool {
        self.lines.0.lock().unwrap().iter().any(|line| line.contains(text))
    }

    /// How many commits the clone has.
    fn commits(&self) -> usize {
        git(&self.clone(), &["rev-list", "--all", "HEAD"]).lines().count()
    }
}

fn with_history() -> Repository {
    let repository = Repository::create(&[MAIN]);
    repository.commit("Second", &[("second.tf", "")]);
    repository.git(&["tag", "--annotate", "v1.0.0", "--message", "First release"]);
    repository.git(&["branch", "feature/x"]);
    repository.commit("Third: \"quoted\"", &[("modules/a/main.tf", "")]);
    repository
}

#[tokio::test]
async fn a_branch_and_a_tag_are_fetched_with_one_commit() {
    let repository = with_history();
    let server = GitServer::start();
    for (reference, commit) in [
        ("main", repository.head()),
        ("refs/heads/main", repository.head()),
        ("v1.0.0", repository.git(&["rev-parse", "v1.0.0^{commit}"])),
        ("feature/x", repository.git(&["rev-parse", "feature/x"])),
    ] {
        let case = Case::new(&server.url(&repository), reference);
        let before = server.requests().len();
        let checkout = case.succeed().await;
        let requests = server.requests().split_off(before);
        let listings = requests.iter().filter(|request| request.target.contains("info/refs"));
        assert_eq!(listings.count(), 1, "{requests:?}");
        assert_eq!(checkout.commit, commit);
        assert_eq!(git(&case.clone(), &["rev-parse", "HEAD"]), commit);
        assert_eq!(case.commits(), 1, "{reference}");
        assert_eq!(git(&case.clone(), &["status", "--porcelain"]), "");
        assert!(checkout.directory.join("main.tf").is_file());
        assert!(
            case.said(&format!("at {reference}")) && case.said(&format!("Checked out {commit}"))
        );
    }
}

#[tokio::test]
async fn a_commit_is_fetched_alone_where_the_server_allows_it_and_with_history_otherwise() {
    let repository = with_history();
    let commit = repository.git(&["rev-parse", "HEAD~2"]);
    let server = GitServer::start();
    let case = Case::new(&server.url(&repository), &commit);
    assert_eq!(case.succeed().await.commit, commit);
    assert_eq!(case.commits(), 3);
    assert!(case.said("fetching the whole history"));

    repository.allow_any_commit();
    let case = Case::new(&server.url(&repository), &commit);
    assert_eq!(case.succeed().await.commit, commit);
    assert_eq!(case.commits(), 1);
    assert!(!case.said("whole history"));
}

#[tokio::test]
async fn an_abbreviated_commit_id_is_found() {
    let repository = with_history();
    let server = GitServer::start();
    let old = repository.git(&["rev-parse", "HEAD~2"]);
    for (reference, commit, commits) in
        [(&repository.head()[..7], repository.head(), 1), (&old[..9], old.clone(), 3)]
    {
        let case = Case::new(&server.url(&repository), reference);
        assert_eq!(case.succeed().await.commit, commit);
        assert_eq!(case.commits(), commits);
    }
    let case = Case::new(&server.url(&repository), "0000000");
    assert!(matches!(case.fail().await, FetchError::ReferenceNotFound { .. }));
}

#[tokio::test]
async fn a_directory_is_fetched_by_its_file_url() {
    let repository = with_history();
    for reference in ["main", "v1.0.0", &repository.git(&["rev-parse", "HEAD~2"])] {
        let case = Case::new(&repository.url(), reference);
        case.succeed().await;
    }
}

#[tokio::test]
async fn a_missing_reference_is_named_with_similar_ones() {
    let repository = with_history();
    let server = GitServer::start();
    let error = Case::new(&server.url(&repository), "v1.0").fail().await;
    assert_eq!(error.to_string(), "there is no branch, tag or commit `v1.0` (similar: `v1.0.0`)");
    let missing = "0123456789012345678901234567890123456789";
    for allowed in [false, true] {
        if allowed {
            repository.allow_any_commit();
        }
        let error = Case::new(&server.url(&repository), missing).fail().await;
        assert!(error.to_string().contains(missing), "{error}");
        assert!(matches!(error, FetchError::ReferenceNotFound { .. }), "{error:?}");
    }
    let error = Case::new(&server.url(&repository), "").fail().await;
    assert!(matches!(error, FetchError::UnusableReference { .. }));
}

#[tokio::test]
async fn tls_is_checked_against_the_bundle() {
    let repository = with_history();
    let authority = Authority::create();
    let server = GitServer::with_tls(Behaviour::default(), &authority);
    let mut case = Case::new(&server.url(&repository), "main");
    let error = case.fail().await;
    assert!(matches!(error, FetchError::Certificate { .. }), "{error:?}");
    assert!(error.advice().unwrap().contains("--ca-bundle"));
    case = Case::new(&server.url(&repository), "main");
    case.environment.ca_bundle = Some(authority.bundle());
    case.succeed().await;
}

#[tokio::test]
async fn a_token_logs_in_and_is_left_nowhere() {
    let repository = with_history();
    let server = GitServer::with_login("x-access-token", TOKEN);
    let url = server.url(&repository);
    let with_login = url.replace("//", &format!("//x-access-token:{TOKEN}@"));
    for case in [
        Case::new(&url, "main").token(TOKEN),
        Case::new(&with_login, "main"),
        Case::new(&url, "main").environment_token(None),
        Case::new(&url, "main").environment_token(Some("127.0.0.1")),
    ] {
        let checkout = case.succeed().await;
        let from_environment = !case.environment.tokens.is_empty();
        assert_eq!(
            checkout.used_tokens,
            if from_environment { vec!["GITHUB_TOKEN"] } else { vec![] }
        );
        assert!(!case.said(TOKEN));
        let found = Command::new("grep").args(["-r", TOKEN]).arg(case.directory.path()).output();
        assert_eq!(String::from_utf8(found.unwrap().stdout).unwrap(), "");
        assert_eq!(git(&case.clone(), &["remote", "get-url", "origin"]), url);
    }
}

#[tokio::test]
async fn a_missing_and_a_refused_login_are_told_apart() {
    let repository = with_history();
    let server = GitServer::with_login("x-access-token", TOKEN);
    let url = server.url(&repository);
    let error = Case::new(&url, "main").fail().await;
    assert!(matches!(error, FetchError::CredentialsMissing { .. }), "{error:?}");
    let error = Case::new(&url, "main").environment_token(Some("git.example.com")).fail().await;
    assert!(matches!(error, FetchError::CredentialsMissing { .. }), "{error:?}");
    assert!(server.requests().iter().all(|request| request.authorization.is_none()));
    let case = Case::new(&url, "main").token("another-secret");
    let error = case.run().await.unwrap_err();
    assert!(chain(&error).ends_with("refused the login with the given token"), "{error:?}");
    assert!(!format!("{error:?}").contains("another-secret"));
    assert!(server.requests().len() < 10);
}

#[tokio::test]
async fn a_repository_or_server_that_does_not_exist_is_named() {
    let server = GitServer::start();
    let error = Case::new(&format!("{}/none.git", server.origin()), "main").fail().await;
    assert!(matches!(error, FetchError::RepositoryNotFound { .. }), "{error:?}");
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = Case::new(&format!("http://{closed}/none.git"), "main").fail().await;
    assert!(matches!(error, FetchError::Connect { .. }), "{error:?}");
    let error = Case::new("file:///no/such/directory", "main").fail().await;
    assert!(matches!(error, FetchError::RepositoryNotFound { .. }), "{error:?}");
}

#[tokio::test]
async fn a_token_does_not_follow_a_redirect_to_another_host() {
    let repository = with_history();
    let other = GitServer::with_login("x-access-token", TOKEN);
    let _ = other.url(&repository);
    let behaviour = Behaviour {
        login: Some(("x-access-token".to_owned(), TOKEN.to_owned())),
        redirect: Some(other.origin().replace("127.0.0.1", "localhost")),
    };
    let server = GitServer::with(behaviour);
    let error = Case::new(&server.url(&repository), "main").token(TOKEN).fail().await;
    assert!(matches!(error, FetchError::Redirected { .. }), "{error:?}");
    assert!(other.requests().is_empty(), "{:?}", other.requests());
}

#[tokio::test]
async fn submodules_are_fetched_without_taking_credentials_to_another_host() {
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

    // Another host that asks for a login does not get one either.
    let asking = GitServer::with_login("x-access-token", TOKEN);
    let outer = Repository::create(&[MAIN]);
    outer.add_submodule("inner", &asking.url_on("localhost", &inner), &inner.head());
    let case = Case::new(&own.url(&outer), "main").token(TOKEN);
    let error = case.fail().await;
    let FetchError::Submodule { path, source } = error else { panic!("{error:?}") };
    assert_eq!(path, "inner");
    assert!(matches!(*source, FetchError::CredentialsMissing { .. }), "{source:?}");
    assert!(asking.requests().iter().all(|request| request.authorization.is_none()));
}

#[tokio::test]
async fn submodules_that_reach_for_files_are_refused() {
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

/// A repository as only an attacker makes it: a symbolic link to `target`, and a submodule `escape`
/// in a directory of a name that no directory can have, or that the link has already.
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

/// Writes a tree object without any of git's checks.
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

#[tokio::test]
async fn the_working_directory_is_one_of_the_clone() {
    let repository = with_history();
    std::os::unix::fs::symlink("/etc", repository.path().join("link")).unwrap();
    repository.commit("Link", &[]);
    let mut case = Case::new(&repository.url(), "main");
    case.source.working_directory = "modules/a".to_owned();
    let checkout = case.succeed().await;
    assert_eq!(checkout.directory, checkout.root.join("modules/a"));
    for directory in ["/etc", "modules/../..", "link", "missing", "main.tf"] {
        let mut case = Case::new(&repository.url(), "main");
        case.source.working_directory = directory.to_owned();
        let error = case.fail().await;
        assert!(matches!(error, FetchError::WorkingDirectory { .. }), "{error:?}");
        assert!(error.to_string().contains(directory), "{error}");
    }
}

#[tokio::test]
async fn lfs_pointers_in_the_module_are_refused() {
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n";
    let repository =
        Repository::create(&[MAIN, ("function/code.zip", pointer), ("other/main.tf", "")]);
    let error = Case::new(&repository.url(), "main").fail().await;
    assert!(error.to_string().contains("`function/code.zip`"), "{error}");
    assert!(error.advice().unwrap().contains("Git LFS"));
    let mut case = Case::new(&repository.url(), "main");
    case.source.working_directory = "other".to_owned();
    case.succeed().await;
}

#[tokio::test]
async fn a_stop_ends_the_fetch_from_a_server_that_says_nothing() {
    for scheme in ["http", "https", "ssh"] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("{scheme}://{}/repository.git", listener.local_addr().unwrap());
        let case = Case::new(&url, "main").in_home(".ssh/known_hosts", "");
        let stop = case.stop.clone();
        let server = std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            stop.request(StopReason::RunOver { status: "cancelled".to_owned() });
            // The end of the connection is the end of the child.
            let mut received = Vec::new();
            let _ = connection.read_to_end(&mut received);
        });
        let error = case.run().await.unwrap_err();
        assert!(matches!(error, SourceError::Stopped { .. }), "{error:?}");
        server.join().unwrap();
        let left: Vec<_> = std::fs::read_dir(case.directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .filter(|name| name != "home" && name != "clone")
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[tokio::test]
async fn an_orphaned_fetch_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let task = serde_json::json!({
        "url": format!("http://{}/repository.git", listener.local_addr().unwrap()),
        "reference": "main",
        "working_directory": "",
        "destination": directory.path().join("clone"),
        "logins": [],
        "ssh_user": "git",
        "scratch_home": directory.path(),
        "has_agent": false,
        // A process that is certainly not the parent.
        "parent": 0,
    });
    let mut child = Command::new(env!("CARGO_BIN_EXE_butler-runner"))
        .arg("internal-fetch")
        .env_clear()
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(task.to_string().as_bytes()).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
}

#[tokio::test]
async fn ssh_uses_the_given_key_and_known_hosts() {
    let repository = with_history();
    let server = SshServer::start();
    let url = server.url(&repository);
    let case = Case::new(&url, "main").ssh_key(server.private_key(), Some(server.known_hosts()));
    case.succeed().await;
    assert_eq!(case.commits(), 1);
    for (reference, allowed) in [("HEAD~2", false), ("HEAD~2", true)] {
        if allowed {
            repository.allow_any_commit();
        }
        let commit = repository.git(&["rev-parse", reference]);
        let case =
            Case::new(&url, &commit).ssh_key(server.private_key(), Some(server.known_hosts()));
        assert_eq!(case.succeed().await.commit, commit);
        assert_eq!(case.commits() == 1, allowed);
    }
    let missing = url.replace(repository.path().to_str().unwrap(), "/no/such/repository");
    let case =
        Case::new(&missing, "main").ssh_key(server.private_key(), Some(server.known_hosts()));
    let error = case.fail().await;
    assert!(matches!(error, FetchError::RepositoryNotFound { .. }), "{error:?}");
}

#[tokio::test]
async fn ssh_falls_back_to_the_users_agent_and_key_files() {
    let repository = with_history();
    let server = SshServer::start();
    let url = server.url(&repository);
    let hosts = tempfile::tempdir().unwrap();
    let file = hosts.path().join("known_hosts");
    std::fs::write(&file, server.known_hosts()).unwrap();
    keygen_hash(&file);
    let hashed = std::fs::read_to_string(&file).unwrap();
    assert!(hashed.starts_with("|1|"));

    let case = Case::new(&url, "main").in_home(".ssh/known_hosts", &hashed);
    let error = case.fail().await;
    assert!(matches!(error, FetchError::CredentialsMissing { .. }), "{error:?}");

    let case = Case::new(&url, "main")
        .in_home(".ssh/known_hosts", &hashed)
        .in_home(".ssh/id_ed25519", &server.private_key());
    case.succeed().await;

    let mut case = Case::new(&url, "main").in_home(".ssh/known_hosts", &hashed);
    let agent = Agent::start(&server.key_file());
    case.environment.ssh_agent = Some(agent.socket().into());
    case.succeed().await;
}

#[tokio::test]
async fn ssh_host_keys_are_checked() {
    let repository = with_history();
    let server = SshServer::start();
    let url = server.url(&repository);
    let error = Case::new(&url, "main").ssh_key(server.private_key(), None).fail().await;
    let FetchError::HostKeyUnknown { fingerprint, .. } = &error else { panic!("{error:?}") };
    assert!(fingerprint.contains("SHA256:"), "{fingerprint}");
    assert!(error.advice().unwrap().contains("known_hosts"));

    let other = SshServer::start();
    let wrong = other.known_hosts().replace(&other.port().to_string(), &server.port().to_string());
    let case = Case::new(&url, "main").ssh_key(server.private_key(), Some(wrong));
    let error = case.fail().await;
    assert!(matches!(error, FetchError::HostKeyMismatch { .. }), "{error:?}");

    let revoked = format!(
        "{0}@revoked * {1}",
        server.known_hosts(),
        server.known_hosts().split_once(' ').unwrap().1
    );
    let case = Case::new(&url, "main").ssh_key(server.private_key(), Some(revoked));
    let error = case.fail().await;
    assert!(matches!(error, FetchError::HostKeyUnknown { .. }), "{error:?}");
}

#[tokio::test]
async fn ssh_says_when_a_key_is_refused_or_unusable() {
    let repository = with_history();
    let server = SshServer::start();
    let url = server.url(&repository);
    let other = tempfile::tempdir().unwrap();
    keygen(&["-t", "ed25519", "-N", ""], &other.path().join("key"));
    let key = std::fs::read_to_string(other.path().join("key")).unwrap();
    let error = Case::new(&url, "main").ssh_key(key, Some(server.known_hosts())).fail().await;
    assert_eq!(
        error.to_string(),
        format!("`127.0.0.1:{}` refused the login with the given ssh key", server.port())
    );
    let case = Case::new(&url, "main").ssh_key("no key".to_owned(), Some(server.known_hosts()));
    let error = case.fail().await;
    assert!(matches!(error, FetchError::UnusableKey { .. }), "{error:?}");
}

#[tokio::test]
async fn an_encrypted_key_works_for_the_fetch_and_for_git() {
    let repository = with_history();
    for kind in ["ed25519", "rsa"] {
        let server = SshServer::start_with_key(kind, TOKEN);
        let url = server.url(&repository);
        let mut case = Case::new(&url, "main");
        case.source.credentials = GitCredentials::SshKey {
            username: None,
            private_key: server.private_key().into(),
            passphrase: Some(TOKEN.into()),
            known_hosts: Some(server.known_hosts()),
        };
        case.succeed().await;
        let output = case.ls_remote(&url);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[tokio::test]
async fn git_logs_in_with_the_same_token_on_the_same_server_only() {
    let repository = with_history();
    let server = GitServer::with_login("x-access-token", TOKEN);
    let url = server.url(&repository);
    for case in
        [Case::new(&url, "main").token(TOKEN), Case::new(&url, "main").environment_token(None)]
    {
        // A helper of the user's own must not be asked for this server.
        let case = case.in_home(".gitconfig", "[credential]\n\thelper = \"!touch asked; :\"\n");
        let output = case.ls_remote(&url);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(String::from_utf8_lossy(&output.stdout).contains(&repository.head()));
        assert!(!case.directory.path().join("asked").exists());
        let other = GitServer::with_login("x-access-token", TOKEN);
        for host in ["127.0.0.1", "localhost"] {
            let output = case.ls_remote(&other.url_on(host, &repository));
            assert!(!output.status.success());
        }
        assert!(other.requests().iter().all(|request| request.authorization.is_none()));
    }
}

#[tokio::test]
async fn terraform_init_fetches_a_private_module_over_tls() {
    let authority = Authority::create();
    let behaviour = Behaviour {
        login: Some(("x-access-token".to_owned(), TOKEN.to_owned())),
        ..Behaviour::default()
    };
    let server = GitServer::with_tls(behaviour, &authority);
    let private = with_history();
    let url = server.url(&private);
    let module =
        format!("module \"private\" {{\n  source = \"git::{url}//modules/a?ref=main\"\n}}\n");
    let repository = Repository::create(&[("main.tf", &module)]);
    let mut case = Case::new(&server.url(&repository), "main").token(TOKEN);
    case.environment.ca_bundle = Some(authority.bundle());
    let checkout = case.succeed().await;
    let output =
        case.lent(&checkout.directory, "terraform", &["init", "-input=false", "-no-color"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(checkout.directory.join(".terraform/modules/private/modules/a/main.tf").is_file());
}

#[tokio::test]
async fn git_uses_the_given_ssh_key_and_known_hosts() {
    let repository = with_history();
    let server = SshServer::start();
    let url = server.url(&repository);
    let case = Case::new(&url, "main").ssh_key(server.private_key(), Some(server.known_hosts()));
    let output = case.ls_remote(&url);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let other = SshServer::start();
    let wrong = other.known_hosts().replace(&other.port().to_string(), &server.port().to_string());
    let case = Case::new(&url, "main").ssh_key(server.private_key(), Some(wrong));
    let output = case.ls_remote(&url);
    assert!(String::from_utf8_lossy(&output.stderr).contains("Host key verification failed"));
}

fn keygen_hash(file: &Path) {
    let hashed = Command::new("ssh-keygen").args(["-H", "-f"]).arg(file).output().unwrap();
    assert!(hashed.status.success());
}

/// An ssh agent with one key; ends when it is dropped.
struct Agent {
    directory: tempfile::TempDir,
    process: std::process::Child,
}

impl Agent {
    fn start(key: &Path) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("agent");
        let process = Command::new("ssh-agent")
            .arg("-D")
            .arg("-a")
            .arg(&socket)
            .stdout(Stdio::null())
            .spawn()
            .expect("the tests need ssh-agent: apt-get install openssh-client");
        let agent = Self { directory, process };
        while std::os::unix::net::UnixStream::connect(&socket).is_err() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let added =
            Command::new("ssh-add").arg("-q").arg(key).env("SSH_AUTH_SOCK", &socket).status();
        assert!(added.unwrap().success());
        agent
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("agent")
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
