//! Fetching the source of a module from real git servers: shared parts of these tests.

mod attributes;
mod credentials;
mod directories;
mod mirror;
mod mirror_faults;
mod references;
mod result;
mod servers;
mod sharing;
mod ssh;
mod submodules;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;

use butler_base::cancel::Stop;
use butler_base::error::chain;
use butler_base::event::Stream;
use butler_base::process::{Environment, Sink};
use butler_base::secret::PrivateDirectory;
use butler_protocol::spec::{GitCredentials, GitSource};
use butler_source::git::{
    Checkout, CloneRequest, EnvironmentToken, FetchError, GitEnvironment, SourceError, Submodules,
    fetch, share_certificates, share_credentials,
};

use butler_testing::git_server::{Repository, git};

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

/// One fetch and its inputs.
struct Case {
    directory: tempfile::TempDir,
    source: GitSource,
    /// Texts that the module gets.
    values: Vec<String>,
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
            values: Vec::new(),
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

    fn submodules(mut self, which: Submodules) -> Self {
        self.environment.submodules = which;
        self
    }

    fn password(mut self, username: &str, password: &str) -> Self {
        self.source.credentials =
            GitCredentials::Password { username: username.to_owned(), password: password.into() };
        self
    }

    fn github_app(mut self) -> Self {
        self.source.credentials = GitCredentials::GithubApp;
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
        let host = host.map(str::to_owned);
        self.environment.tokens =
            vec![EnvironmentToken { variable: "GITHUB_TOKEN", token: TOKEN.into(), host }];
        self
    }

    fn in_home(self, name: &str, content: &str) -> Self {
        let file = self.environment.home.as_ref().unwrap().join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, content).unwrap();
        self
    }

    /// Runs a program with the environment that Terraform would get, including git credentials.
    fn lent(&self, directory: &Path, program: &str, arguments: &[&str]) -> Output {
        let private = PrivateDirectory::create(self.directory.path(), "private-").unwrap();
        let mut child = Environment::default();
        share_certificates(&self.environment, &private, &mut child).unwrap();
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
        let values: Vec<_> = self.values.iter().map(|value| value.as_str().into()).collect();
        let request =
            CloneRequest { source: &self.source, values: &values, destination: &self.clone() };
        fetch(&request, &self.environment, &self.lines, &self.stop).await
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

    fn has_logged(&self, text: &str) -> bool {
        self.lines.0.lock().unwrap().iter().any(|line| line.contains(text))
    }

    /// The number of commits in the clone.
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
