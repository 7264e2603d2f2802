//! Commands that wait for runs, and their exit codes.

use super::*;

/// A module that Terraform cannot parse.
const WRONG: &str = "resource \"x\" {}\n";

#[tokio::test]
async fn plan_and_sync_with_wait_print_the_log_and_end_as_the_run() {
    let mut installation = Installation::new();
    let repository = Repository::create(&[("envs/a/main.tf", LAYER), ("envs/b/main.tf", WRONG)]);
    installation.serve(&Installation::quick_start(&repository)).await;
    installation.until("envs.a", "Succeeded", 1).await;
    installation.until("envs.b", "Failed", 1).await;

    let planned = installation.ask(&["layer", "plan", "envs.a", "--wait"]);
    assert_eq!(planned.status.code(), Some(0), "{}", text(&planned));
    let id = installation.runs("envs.a")[0]["id"].as_str().unwrap().to_owned();
    let log = text(&installation.ask(&["run", "logs", &id]));
    assert!(log.contains("Plan: 1 to add, 0 to change, 0 to destroy."), "{log}");
    let end = format!("run {id} Succeeded: +1 ~0 -0\n");
    assert_eq!(text(&planned), format!("{log}{end}"));
    let followed = installation.ask(&["run", "logs", &id, "--follow"]);
    assert_eq!((text(&followed), followed.status.code()), (log, Some(0)));
    let failed = installation.ask(&["layer", "plan", "envs.b", "--wait"]);
    assert_eq!(failed.status.code(), Some(1), "{}", text(&failed));

    // The commit is read, planned and waited for.
    let more = LAYER.replace("one", "two");
    repository.commit("Add", &[("envs/a/more.tf", &more)]);
    let synced = installation.ask(&["layer", "sync", "envs.a", "--wait"]);
    assert_eq!(synced.status.code(), Some(0), "{}", text(&synced));
    assert!(
        text(&synced).contains("Plan: 2 to add, 0 to change, 0 to destroy."),
        "{}",
        text(&synced)
    );
    let known = installation.runs("envs.a").len();
    let synced = installation.ask(&["layer", "sync", "envs.a", "--wait"]);
    assert_eq!(synced.status.code(), Some(0), "{}", text(&synced));
    assert!(
        text(&synced).contains("no new commit changes envs.a (Succeeded: no state backend"),
        "{}",
        text(&synced)
    );
    assert_eq!(installation.runs("envs.a").len(), known);
    repository.commit("Break", &[("envs/a/more.tf", WRONG)]);
    let synced = installation.ask(&["layer", "sync", "envs.a", "--wait", "--json"]);
    assert_eq!(synced.status.code(), Some(1), "{}", text(&synced));
    let run: Value = serde_json::from_slice(&synced.stdout).unwrap();
    assert_eq!((&run["phase"], &run["over"]), (&"Failed".into(), &true.into()));

    // All layers, the newest run first.
    let list = installation.json(&["run", "list"]);
    assert_eq!(list["items"].as_array().unwrap().len(), known + 3, "{list}");
    assert_eq!(list["items"][0]["id"], run["id"]);
    let table = text(&installation.ask(&["run", "list"]));
    assert!(table.contains("envs.b") && table.contains("LAYER"), "{table}");

    std::fs::rename(repository.path(), repository.path().with_extension("gone")).unwrap();
    let synced = installation.ask(&["layer", "sync", "envs.a", "--wait"]);
    assert_eq!(synced.status.code(), Some(1), "{}", text(&synced));
    assert!(text(&synced).contains("cannot read the repository default"), "{}", text(&synced));
}

#[test]
fn missing_token_ends_with_4_and_says_what_to_give() {
    let directory = tempfile::tempdir().unwrap();
    let ask = |arguments: &[&str]| {
        let mut command = runner();
        command.args(arguments).arg("--data").arg(directory.path()).output().unwrap()
    };
    for arguments in [&["layer", "list"][..], &["run", "list"]] {
        let refused = ask(arguments);
        assert_eq!(refused.status.code(), Some(4), "{}", text(&refused));
        let expected =
            format!("no server has used the data directory `{}`", directory.path().display());
        assert!(text(&refused).contains(&expected), "{}", text(&refused));
        assert!(text(&refused).contains("--server, --server-token-file"), "{}", text(&refused));
    }
    // A file that is named must exist.
    let wrong = ask(&["layer", "list", "--server-token-file", "none"]);
    assert_eq!(wrong.status.code(), Some(2), "{}", text(&wrong));
}
