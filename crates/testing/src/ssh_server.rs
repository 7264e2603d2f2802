//! The real `sshd` on 127.0.0.1, for one key, with git as its only command.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::git_server::{Repository, git_exec_path};
use super::ports::HeldPort;

/// The path in Debian's `openssh-server`; sshd needs an absolute path.
const SSHD: &str = "/usr/sbin/sshd";

/// An ssh server with a host key of its own; ends when it is dropped.
pub struct SshServer {
    directory: tempfile::TempDir,
    port: HeldPort,
    process: Child,
    user: String,
}

impl SshServer {
    /// A server that accepts one ed25519 key without a passphrase.
    pub fn start() -> Self {
        Self::start_with_key("ed25519", "")
    }

    /// A server that accepts a key of this type and passphrase.
    pub fn start_with_key(kind: &str, passphrase: &str) -> Self {
        assert!(Path::new(SSHD).exists(), "the tests need {SSHD}: apt-get install openssh-server");
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        keygen(&["-t", "ed25519", "-N", ""], &path("host_key"));
        keygen(&["-t", kind, "-N", passphrase], &path("key"));
        let public = std::fs::read_to_string(path("key.pub")).unwrap();
        let shell = git_exec_path().join("git-shell");
        let command = format!("{} -c \\\"$SSH_ORIGINAL_COMMAND\\\"", shell.display());
        std::fs::write(path("authorized_keys"), format!("restrict,command=\"{command}\" {public}"))
            .unwrap();
        // As root, sshd needs this directory for privilege separation; only root can create it.
        let _ = std::fs::create_dir_all("/run/sshd");
        let user = Command::new("id").arg("-un").output().unwrap();
        let user = String::from_utf8(user.stdout).unwrap().trim().to_owned();
        // sshd cannot choose a free port itself.
        let port = HeldPort::new();
        let config = path("sshd_config");
        std::fs::write(&config, configuration(directory.path(), port.port())).unwrap();
        let mut process = Command::new(SSHD)
            .args(["-D", "-e", "-f"])
            .arg(&config)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        until_it_answers(&mut process, port.port());
        Self { directory, port, process, user }
    }

    /// Refuses every repository with this text, as git hosts do for a key that they know.
    pub fn refuse(&self, text: &str) {
        let path = |name: &str| self.directory.path().join(name);
        std::fs::write(path("refusal"), text).unwrap();
        let public = std::fs::read_to_string(path("key.pub")).unwrap();
        let command = format!("cat {} >&2; exit 1", path("refusal").display());
        std::fs::write(path("authorized_keys"), format!("restrict,command=\"{command}\" {public}"))
            .unwrap();
    }

    /// `ssh://user@127.0.0.1:port/path`.
    pub fn url(&self, repository: &Repository) -> String {
        format!("ssh://{}@127.0.0.1:{}{}", self.user, self.port(), repository.path().display())
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port.port()
    }

    /// The file with the accepted private key.
    pub fn key_file(&self) -> PathBuf {
        self.directory.path().join("key")
    }

    /// The accepted private key.
    pub fn private_key(&self) -> String {
        std::fs::read_to_string(self.key_file()).unwrap()
    }

    /// The line of `known_hosts` for this server.
    pub fn known_hosts(&self) -> String {
        let key = std::fs::read_to_string(self.directory.path().join("host_key.pub")).unwrap();
        format!("[127.0.0.1]:{} {key}", self.port())
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Creates a key pair in `file` and `file`.pub.
pub fn keygen(arguments: &[&str], file: &Path) {
    let status = Command::new("ssh-keygen")
        .args(["-q", "-C", "test"])
        .args(arguments)
        .arg("-f")
        .arg(file)
        .status();
    assert!(status.expect("the tests need ssh-keygen: apt-get install openssh-client").success());
}

fn configuration(directory: &Path, port: u16) -> String {
    let directory = directory.display();
    format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey {directory}/host_key\nPidFile none\n\
         AuthorizedKeysFile {directory}/authorized_keys\nStrictModes no\nUsePAM no\n\
         PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n"
    )
}

/// Waits for the banner of sshd on `port`.
fn until_it_answers(process: &mut Child, port: u16) {
    loop {
        assert_eq!(process.try_wait().unwrap(), None, "sshd has ended");
        if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) {
            let mut greeting = String::new();
            BufReader::new(stream).read_line(&mut greeting).unwrap();
            assert!(greeting.starts_with("SSH-"), "{greeting}");
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
