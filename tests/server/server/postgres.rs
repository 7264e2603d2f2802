//! Layers whose state is in PostgreSQL.

use super::*;
use butler_testing::world::files_with;
use butler_testing::{PASSWORD, Postgres};

#[tokio::test]
async fn state_in_postgres_is_planned_and_its_connection_string_is_stored_nowhere() {
    let (mut installation, postgres) = (Installation::new(), Postgres::start());
    let repository = Repository::create(&[("a/main.tf", LAYER)]);
    std::fs::write(installation.path("connection"), postgres.connection_string()).unwrap();
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}'}}}}
layers:
  a:
    repository: infra
    ref: main
    path: a
    backend: {{type: pg, config: {{conn_str: {{file: {}}}}}}}
",
        repository.url(),
        installation.path("connection").display(),
    ));
    installation.serve(&[]).await;
    installation.until("a", "Succeeded", 1).await;

    assert_eq!(postgres.query("select count(*) from terraform_remote_state.states"), ["0"]);
    let run = installation.runs("a").remove(0);
    assert_eq!(run["counts"]["add"], 1);

    let id = run["id"].as_str().unwrap();
    let shown: String = [
        &["run", "logs", id][..],
        &["run", "show", id, "--json"],
        &["run", "show", id, "--plan"],
        &["layer", "show", "a", "--json"],
        &["layer", "list", "--json"],
    ]
    .map(|words| text(&installation.ask(words)))
    .concat();
    let log = std::fs::read_to_string(installation.path("server.log")).unwrap();
    installation.until_tidy().await;
    // As it is written in the connection string, and as it is.
    for secret in ["pw-%24%7Bx%7D", PASSWORD] {
        assert!(!shown.contains(secret), "{shown}");
        assert!(!log.contains(secret), "{log}");
        let files = files_with(&installation.data(), secret);
        assert!(files.is_empty(), "{files:?}");
    }
}
