//! Servers that start while their database is away.

use butler_testing::{PASSWORD, Postgres, curl};

use super::*;

/// A database, and the installation of a server for it at a fixed port.
struct Site {
    postgres: Postgres,
    installation: Installation,
    port: HeldPort,
    _repository: Repository,
}

impl Site {
    fn new() -> Self {
        let (postgres, installation) = (Postgres::start(), Installation::new());
        let repository = Repository::create(&[("a/main.tf", LAYER)]);
        installation.configure(&format!(
            "repositories: {{infra: {{url: '{}'}}}}
layers: {{a: {{repository: infra, ref: main, path: a, strategy: plan-only}}}}
",
            repository.url()
        ));
        std::fs::write(installation.path("password"), format!("{PASSWORD}\n")).unwrap();
        std::fs::write(installation.path("wrong"), "another\n").unwrap();
        Self { postgres, installation, port: HeldPort::new(), _repository: repository }
    }

    fn arguments(&self, database: &str, password: &str) -> Vec<String> {
        let port = self.postgres.port();
        let address = format!("postgres://postgres@127.0.0.1:{port}/{database}?sslmode=disable");
        let listen = format!("127.0.0.1:{}", self.port.port());
        ["--store", &address, "--store-password-file", password, "--listen", &listen]
            .map(str::to_owned)
            .to_vec()
    }

    fn ask(&self, path: &str) -> (u16, Value) {
        curl::json(&format!("http://127.0.0.1:{}{path}", self.port.port()))
    }
}

#[tokio::test]
async fn server_waits_for_its_database_and_says_so() {
    let mut site = Site::new();
    site.postgres.crash();
    let arguments = site.arguments("postgres", "password");
    let server = site.installation.start_behind(&[], &arguments);
    eventually("a server that is alive", || site.ask("/healthz").0 == 200).await;
    let (code, ready) = site.ask("/readyz");
    assert_eq!((code, &ready["ok"], &ready["failed"]), (503, &false.into(), &"store".into()));
    let (code, answer) = site.ask("/api/v1/layers");
    assert_eq!((code, &answer["error"]["code"]), (503, &"unavailable".into()), "{answer}");
    site.postgres.launch();
    site.installation.until_ready(server).await;
    site.installation.until("a", "Succeeded", 1).await;
    assert_eq!(site.ask("/readyz").0, 200);
    let log = site.installation.server_log();
    assert_eq!(log.matches("does not answer").count(), 1, "{log}");
    assert_eq!(log.matches("what the server has waited for answers").count(), 1, "{log}");
    assert!(!log.contains(PASSWORD), "{log}");
}

#[tokio::test]
async fn server_that_waits_for_its_database_ends_when_it_is_asked() {
    let site = Site::new();
    site.postgres.crash();
    let mut server = site.installation.start_behind(&[], &site.arguments("postgres", "password"));
    eventually("a server that waits", || site.ask("/readyz").0 == 503).await;
    let pid = Pid::from_raw(i32::try_from(server.id().unwrap()).unwrap());
    butler_base::platform::ask_to_end(pid);
    assert_eq!(server.wait().await.unwrap().code(), Some(0));
}

#[tokio::test]
async fn database_that_refuses_the_server_ends_it() {
    let site = Site::new();
    for (database, password, expected) in [
        ("postgres", "wrong", "password authentication failed"),
        ("none", "password", "does not exist"),
    ] {
        let mut command = site.installation.command(&["serve"]);
        let arguments = site.arguments(database, password);
        let output = command.args(arguments).output().await.unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", text(&output));
        assert!(text(&output).contains(expected), "{}", text(&output));
    }
}
