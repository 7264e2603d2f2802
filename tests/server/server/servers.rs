//! Several servers that share a store in PostgreSQL.

use super::faults::HeldBackend;
use super::*;
use butler_testing::{PASSWORD, Postgres};

/// Servers with one store, one configuration and one repository. Each has its own data directory.
struct Servers {
    postgres: Postgres,
    first: Installation,
    second: Installation,
    repository: Repository,
}

impl Servers {
    fn new(files: &[(&str, &str)]) -> Self {
        let postgres = Postgres::start();
        let (first, second) = (Installation::new(), Installation::new());
        let repository = Repository::create(files);
        for installation in [&first, &second] {
            std::fs::write(installation.path("password"), format!("{PASSWORD}\n")).unwrap();
            installation.configure(&format!(
                "repositories: {{infra: {{url: '{}', poll: 1s}}}}
defaults: {{repository: infra, ref: main, strategy: plan-only}}
layers: {{all: {{paths: ['envs/*']}}}}
",
                repository.url()
            ));
        }
        Self { postgres, first, second, repository }
    }

    fn arguments(&self) -> Vec<String> {
        let address = format!("postgres://postgres@127.0.0.1:{}/postgres", self.postgres.port());
        ["--store", &address, "--store-password-file", "password", "--metrics-open"]
            .map(str::to_owned)
            .to_vec()
    }

    async fn serve_first(&mut self) {
        let arguments = self.arguments();
        self.first.serve(&arguments).await;
    }

    async fn serve_second(&mut self) {
        let arguments = self.arguments();
        self.second.serve(&arguments).await;
    }

    /// Changes what all layers depend on.
    fn commit(&self, version: u32) {
        let text = format!("output \"version\" {{ value = {version} }}\n");
        self.repository.commit("Change", &[("modules/shared/version.tf", &text)]);
    }
}

/// Whether a server decides, as its metrics say.
fn decides(installation: &Installation) -> bool {
    let address = &installation.server.as_ref().unwrap().address;
    let output = std::process::Command::new("curl")
        .args(["--silent", "--fail", &format!("{address}/metrics")])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().lines().any(|line| line == "butler_decides 1")
}

const LAYERS: [&str; 2] = ["all.envs.app", "all.envs.db"];

#[tokio::test]
async fn another_server_decides_after_a_kill_and_no_run_is_lost_or_doubled() {
    let mut servers = Servers::new(&[
        ("envs/app/main.tf", "module \"shared\" {\n  source = \"../../modules/shared\"\n}\n"),
        ("envs/db/main.tf", "module \"shared\" {\n  source = \"../../modules/shared\"\n}\n"),
        ("modules/shared/main.tf", LAYER),
    ]);
    servers.serve_first().await;
    for layer in LAYERS {
        servers.first.until(layer, "Succeeded", 1).await;
    }
    servers.serve_second().await;
    // It shows what the other one does.
    servers.commit(2);
    for layer in LAYERS {
        servers.second.until(layer, "Succeeded", 2).await;
    }
    assert!(decides(&servers.first) && !decides(&servers.second));

    servers.first.kill().await;
    servers.commit(3);
    for layer in LAYERS {
        servers.second.until(layer, "Succeeded", 3).await;
    }
    assert!(decides(&servers.second));

    // The first one comes back, and waits. A person asks it.
    servers.serve_first().await;
    assert!(servers.first.ask(&["layer", "plan", LAYERS[0]]).status.success());
    servers.first.until(LAYERS[0], "Succeeded", 4).await;
    assert!(!decides(&servers.first) && decides(&servers.second));

    // One that ends in an orderly way makes room at once.
    assert_eq!(servers.second.terminate().await, Some(0));
    servers.commit(5);
    servers.first.until(LAYERS[1], "Succeeded", 4).await;
    servers.first.until(LAYERS[0], "Succeeded", 5).await;
    for layer in LAYERS {
        for run in servers.first.runs(layer) {
            assert_eq!(run["attempts"].as_array().unwrap().len(), 1, "{run}");
        }
    }
}

#[tokio::test]
async fn failover_of_the_database_loses_and_doubles_no_run() {
    let mut servers = Servers::new(&[
        ("envs/app/main.tf", "module \"shared\" {\n  source = \"../../modules/shared\"\n}\n"),
        ("modules/shared/main.tf", LAYER),
    ]);
    let replica = servers.postgres.replica();
    let (primary, port) = (servers.postgres.port(), replica.port());
    let address = format!("postgres://postgres@127.0.0.1:{port},127.0.0.1:{primary}/postgres");
    let arguments = ["--store", &address, "--store-password-file", "password"];
    let arguments = arguments.map(str::to_owned);
    servers.first.serve(&arguments).await;
    let layer = LAYERS[0];
    servers.first.until(layer, "Succeeded", 1).await;

    servers.commit(2);
    servers.postgres.crash();
    // Between the crash and the end of the failover.
    servers.commit(3);
    let away = servers.first.ask(&["layer", "plan", layer]);
    assert_eq!(away.status.code(), Some(1), "{}", text(&away));
    replica.promote();
    let last = servers.repository.head();
    let answers = || servers.first.ask(&["layer", "list"]).status.success();
    eventually("an answer", answers).await;
    eventually("the plan of the last commit", || {
        servers.first.ask(&["layer", "sync", layer]).status.success() && {
            let shown = servers.first.layer(layer);
            shown["plannedRevision"]["commit"] == last && shown["phase"] == "Succeeded"
        }
    })
    .await;
    let runs = servers.first.runs(layer);
    assert!((2..=3).contains(&runs.len()), "{runs:?}");
    for run in runs {
        assert!(run["attempts"].as_array().unwrap().len() <= 1, "{run}");
    }
}

#[tokio::test]
async fn attempt_of_a_killed_server_is_not_started_again_and_reports_when_its_server_is_back() {
    let backend = HeldBackend::start().await;
    let mut servers = Servers::new(&[("envs/app/main.tf", &backend.reading_module())]);
    servers.serve_first().await;
    backend.wait_for_request().await;
    servers.serve_second().await;
    servers.first.kill().await;
    eventually("another server that decides", || decides(&servers.second)).await;
    let layer = LAYERS[0];
    // A person asks the server that does not have the process.
    let run = servers.second.runs(layer)[0]["id"].as_str().unwrap().to_owned();
    assert!(servers.second.ask(&["run", "cancel", &run]).status.success());
    eventually("a stop", || servers.second.layer(layer)["phase"] == "ClosingOut").await;
    assert_eq!(servers.second.runs(layer)[0]["attempts"].as_array().unwrap().len(), 1);
    // The server that has the process delivers the request.
    servers.serve_first().await;
    let log = || text(&servers.first.ask(&["run", "logs", &run]));
    eventually("Terraform's interruption", || log().contains("Interrupt received")).await;
    backend.release();
    servers.second.until(layer, "Skipped", 1).await;
    let run = servers.second.json(&["run", "show", &run]);
    assert_eq!(
        (&run["ended"], run["attempts"].as_array().unwrap().len()),
        (&"cancelled".into(), 1)
    );
}

#[tokio::test]
async fn one_pass_is_refused_while_a_server_decides() {
    let mut servers = Servers::new(&[("envs/app/main.tf", LAYER)]);
    let arguments = servers.arguments();
    let first = servers.second.once(&arguments).await;
    assert!(first.status.success(), "{}", text(&first));
    servers.serve_first().await;
    eventually("a server that decides", || decides(&servers.first)).await;
    let refused = servers.second.once(&arguments).await;
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
    assert!(
        text(&refused).contains("decides about the layers of this store"),
        "{}",
        text(&refused)
    );
    for installation in [&servers.first, &servers.second] {
        let log = std::fs::read_to_string(installation.path("server.log")).unwrap_or_default();
        assert!(!log.contains(PASSWORD), "{log}");
    }
}

#[tokio::test]
async fn installation_that_moves_to_postgres_goes_on_with_its_history() {
    let mut servers = Servers::new(&[("envs/app/main.tf", LAYER)]);
    servers.first.serve(&[]).await;
    servers.first.until(LAYERS[0], "Succeeded", 1).await;
    let mut before = servers.first.runs(LAYERS[0]);
    assert_eq!(servers.first.terminate().await, Some(0));
    let arguments = servers.arguments();
    let refused = servers.first.once(&arguments).await;
    assert!(text(&refused).contains("`butler-runner store migrate`"), "{}", text(&refused));
    let words: Vec<&str> =
        ["store", "migrate"].into_iter().chain(arguments[..4].iter().map(String::as_str)).collect();
    let migrated = servers.first.command(&words).output().await.unwrap();
    assert!(migrated.status.success(), "{}", text(&migrated));
    let said = text(&migrated);
    assert!(said.contains("moved: 1 layer, 1 run, "), "{said}");
    assert!(!said.contains(PASSWORD), "{said}");
    servers.serve_first().await;
    // Other servers know this one by its name.
    let name = std::fs::read_to_string(servers.first.data().join("server.name")).unwrap();
    before[0]["attempts"][0]["place"] = name.into();
    assert_eq!(servers.first.runs(LAYERS[0]), before);
    servers.repository.commit("Change", &[("envs/app/more.tf", "output \"o\" { value = 1 }\n")]);
    servers.first.until(LAYERS[0], "Succeeded", 2).await;
}
