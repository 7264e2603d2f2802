//! Keys, agents and host keys, with the real sshd.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use butler_base::error::Advice;
use butler_source::git::FetchError;

use super::{Case, with_history};
use butler_testing::ssh_server::{SshServer, keygen};

#[tokio::test]
async fn ssh_fetch_uses_the_configured_key_and_known_hosts() {
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
async fn sentence_of_a_host_that_knows_the_key_and_refuses_is_the_reason() {
    let server = SshServer::start();
    let url = server.url(&with_history());
    let fetch = async || {
        let case =
            Case::new(&url, "main").ssh_key(server.private_key(), Some(server.known_hosts()));
        case.fail().await
    };
    for text in [
        "ERROR: Your account is suspended. Please check your email for more information.\n",
        "Permission denied\nYou do not have permission to access this repository\n",
        "FATAL: R any x u DENIED by fallthru",
    ] {
        server.refuse(text);
        let error = fetch().await;
        assert!(matches!(error, FetchError::Refused { .. }), "{error:?}");
        assert!(error.to_string().ends_with(&text.trim().replace('\n', " ")), "{error}");
    }
    server.refuse("ERROR: Repository not found.\n");
    let error = fetch().await;
    assert!(matches!(error, FetchError::RepositoryNotFound { .. }), "{error:?}");
}

#[tokio::test]
async fn ssh_fetch_falls_back_to_the_users_agent_and_key_files() {
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
async fn ssh_host_keys_are_verified() {
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
    let case = Case::new(&url, "main").ssh_key(server.private_key(), Some(revoked.clone()));
    let error = case.fail().await;
    assert!(matches!(error, FetchError::HostKeyRevoked { .. }), "{error:?}");
    // Also a file that is not used for trust can revoke.
    let case = Case::new(&url, "main")
        .ssh_key(server.private_key(), Some(server.known_hosts()))
        .in_home(".ssh/known_hosts", &revoked);
    let error = case.fail().await;
    assert!(matches!(error, FetchError::HostKeyRevoked { .. }), "{error:?}");
    assert!(!case.ls_remote(&url).status.success());
}

#[tokio::test]
async fn configured_host_keys_are_the_only_ones_and_need_no_port() {
    let repository = with_history();
    let (server, other) = (SshServer::start(), SshServer::start());
    let url = server.url(&repository);
    let with = |lines: &str| {
        Case::new(&url, "main")
            .ssh_key(server.private_key(), Some(lines.to_owned()))
            .in_home(".ssh/known_hosts", &server.known_hosts())
    };
    for lines in [other.known_hosts(), "# none\n".to_owned(), String::new()] {
        let case = with(&lines);
        let error = case.fail().await;
        assert!(matches!(error, FetchError::HostKeyUnknown { .. }), "{lines}: {error:?}");
        assert!(!case.ls_remote(&url).status.success(), "{lines}");
    }
    let known = server.known_hosts();
    let (name, key) = known.split_once(' ').unwrap();
    let host = name.trim_start_matches('[').split(']').next().unwrap();
    let case = with(&format!("{host} {key}"));
    case.succeed().await;
    assert!(case.ls_remote(&url).status.success());
}

#[tokio::test]
async fn refused_and_unusable_ssh_keys_are_reported() {
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
        let mut agent = Self { directory, process };
        while std::os::unix::net::UnixStream::connect(&socket).is_err() {
            assert!(agent.process.try_wait().unwrap().is_none(), "ssh-agent has ended");
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
