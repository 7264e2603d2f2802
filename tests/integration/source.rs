//! Fetching a module's source from real git servers.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use butler_runner::cancel::{Stop, StopReason};
use butler_runner::error::{Advice, chain};
use butler_runner::event::Stream;
use butler_runner::process::Sink;
use butler_runner::spec::{GitCredentials, GitSource};
use butler_runner::workspace::source::{Checkout, FetchError, GitEnvironment, SourceError, fetch};

use crate::support::authority::Authority;
use crate::support::git_server::{Behaviour, GitServer, Repository, git};
use crate::support::ssh_server::SshServer;

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
        let checkout = case.succeed().await;
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
async fn ssh_uses_the_given_key_and_known_hosts() {
    let repository = with_history();
    let server = SshServer::start();
    let mut case = Case::new(&server.url(&repository), "main");
    case.source.credentials = GitCredentials::SshKey {
        username: None,
        private_key: server.private_key().into(),
        passphrase: None,
        known_hosts: Some(server.known_hosts()),
    };
    case.succeed().await;
    assert_eq!(case.commits(), 1);
}
