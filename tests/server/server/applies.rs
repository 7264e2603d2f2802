//! Plans that are applied.

use super::*;

/// A server for one repository with the layer `a`, whose state is in the data directory.
async fn serve(repository: &Repository, more: &str) -> Installation {
    let mut installation = Installation::new();
    configure(&installation, repository, more);
    installation.serve(&[]).await;
    installation
}

fn configure(installation: &Installation, repository: &Repository, more: &str) {
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}'}}}}
layers:
  a: {{repository: infra, path: envs/a, backend: {{type: local}}, {more}}}
",
        repository.url(),
    ));
}

/// The id and the plan digest of the newest plan of a layer.
fn planned(installation: &Installation, layer: &str) -> (String, String) {
    let runs = installation.runs(layer);
    let plan = runs.iter().find(|run| run["action"] == "plan").unwrap();
    let field = |name: &str| plan[name].as_str().unwrap().to_owned();
    (field("id"), field("planDigest"))
}

/// Waits until only the attempts of these runs have a plan file.
async fn until_plan_files(installation: &Installation, expected: &[&str]) {
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    let runs = || {
        let all = attempts(&installation.data()).into_iter();
        let with_plan = all.filter(|path| path.join("saved-plan").exists());
        with_plan.map(|path| name(&path)).collect::<Vec<_>>()
    };
    let expected: Vec<String> = expected.iter().map(|run| format!("{run}-1")).collect();
    eventually("the plan files that are needed", || runs() == expected).await;
}

/// Whether the state of a layer has this text in it.
fn state_has(installation: &Installation, layer: &str, text: &str) -> bool {
    let state = installation.data().join("states").join(layer).join("terraform.tfstate");
    std::fs::read_to_string(state).unwrap_or_default().contains(text)
}

#[tokio::test]
async fn plans_are_applied_at_once_if_the_strategy_is_auto() {
    let repository = Repository::create(&[("envs/a/main.tf", LAYER)]);
    let installation = serve(&repository, "strategy: auto").await;
    installation.until("a", "Succeeded", 2).await;
    let runs = installation.runs("a");
    assert_eq!((&runs[0]["action"], &runs[1]["action"]), (&"apply".into(), &"plan".into()));
    assert_eq!(runs[1]["applyRun"], runs[0]["id"]);
    assert_eq!(runs[0]["approvedBy"], Value::Null);
    assert!(state_has(&installation, "a", "terraform_data"));
    eventually("a layer at rest", || installation.layer("a")["phase"] == "Noop").await;
    let layer = installation.layer("a");
    assert_eq!(layer["appliedRevision"]["commit"], repository.head());
    installation.until_tidy().await;

    // The same state: the next plan changes what is there.
    repository.commit("Change", &[("envs/a/main.tf", &LAYER.replace("\"a\"", "\"b\""))]);
    assert!(installation.ask(&["layer", "sync", "a", "--wait"]).status.success());
    installation.until("a", "Succeeded", 4).await;
    assert_eq!(installation.runs("a")[1]["counts"]["change"], 1);
}

#[tokio::test]
async fn plan_is_applied_after_an_approval_of_exactly_this_plan() {
    let repository = Repository::create(&[("envs/a/main.tf", LAYER)]);
    // The default strategy.
    let mut installation = serve(&repository, "workspace: default").await;
    installation.until("a", "Succeeded", 1).await;
    let reason = "waiting for approval: 1 to add, 0 to change, 0 to destroy";
    eventually("a layer that waits", || installation.layer("a")["reasons"][0]["text"] == reason)
        .await;
    assert_eq!(installation.layer("a")["phase"], "PendingTrigger");
    let (id, digest) = planned(&installation, "a");

    // The plan is on the disk, and cannot be read there.
    let file = attempts(&installation.data()).remove(0).join("saved-plan");
    let saved = std::fs::read(&file).unwrap();
    assert!(saved.starts_with(b"butler-plan-1"));
    assert!(!saved.windows(14).any(|window| window == b"terraform_data"));
    let key = std::fs::metadata(installation.data().join("plan.key")).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&key) & 0o777, 0o600);

    // Without a terminal, the command cannot ask. Another digest is another plan.
    let unasked = installation.ask(&["layer", "approve", "a"]);
    assert_eq!(unasked.status.code(), Some(2), "{}", text(&unasked));
    assert!(text(&unasked).contains(&digest), "{}", text(&unasked));
    let wrong = installation.ask(&["layer", "approve", "a", "--plan-digest", &"0".repeat(64)]);
    assert_eq!(wrong.status.code(), Some(1), "{}", text(&wrong));
    assert!(text(&wrong).contains("you have approved another one"), "{}", text(&wrong));
    assert_eq!(installation.runs("a").len(), 1);

    // The plan and its apply are processes of two servers.
    assert_eq!(installation.terminate().await, Some(0));
    installation.serve(&[]).await;
    let approve = ["layer", "approve", "a", "--plan-digest", &digest, "--wait"];
    let approved = installation.ask(&approve);
    assert!(approved.status.success(), "{}", text(&approved));
    assert!(text(&approved).contains("Apply complete! Resources: 1 added"), "{}", text(&approved));
    assert!(state_has(&installation, "a", "terraform_data"));
    until_plan_files(&installation, &[]).await;
    let runs = installation.runs("a");
    assert_eq!(runs.len(), 2);
    assert_eq!(
        (&runs[0]["approvedBy"], &runs[0]["action"]),
        (&"administrator".into(), &"apply".into())
    );

    // A repeated approval gets the same run.
    let again = installation.json(&approve[..5]);
    assert_eq!(again["id"], runs[0]["id"]);
    assert_eq!(installation.runs("a").len(), 2);
    let late = installation.ask(&["run", "show", &id]);
    assert!(text(&late).contains("applied by run"), "{}", text(&late));
}

#[tokio::test]
async fn approval_that_a_commit_overtakes_and_a_discarded_plan_apply_nothing() {
    let repository = Repository::create(&[("envs/a/main.tf", LAYER)]);
    let installation = serve(&repository, "strategy: approve").await;
    installation.until("a", "Succeeded", 1).await;
    let (_, first) = planned(&installation, "a");
    repository.commit("More", &[("envs/a/more.tf", &LAYER.replace("one", "two"))]);
    assert!(installation.ask(&["layer", "sync", "a", "--wait"]).status.success());
    let late = installation.ask(&["layer", "approve", "a", "--plan-digest", &first]);
    assert_eq!(late.status.code(), Some(1), "{}", text(&late));
    // The file of the first plan is removed after the newer commit, and that of the second one when it is discarded.
    until_plan_files(&installation, &[&planned(&installation, "a").0]).await;

    let discarded = installation.ask(&["layer", "discard", "a"]);
    assert!(discarded.status.success(), "{}", text(&discarded));
    let (_, second) = planned(&installation, "a");
    let refused = installation.ask(&["layer", "approve", "a", "--plan-digest", &second]);
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
    assert!(text(&refused).contains("discarded by administrator"), "{}", text(&refused));
    until_plan_files(&installation, &[]).await;
    let refused = installation.ask(&["layer", "apply", "a"]);
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
    assert!(!state_has(&installation, "a", "terraform_data"));
    assert!(installation.runs("a").iter().all(|run| run["action"] == "plan"));

    // A new plan can be applied, and everything can be destroyed again, both only by a decision.
    assert!(installation.ask(&["layer", "plan", "a", "--wait"]).status.success());
    let applied = installation.ask(&["layer", "apply", "a", "--wait"]);
    assert!(text(&applied).contains("2 added"), "{}", text(&applied));
    let destroy = installation.ask(&["layer", "destroy", "a", "--confirm", "b"]);
    assert_eq!(destroy.status.code(), Some(1), "{}", text(&destroy));
    let destroy = installation.ask(&["layer", "destroy", "a", "--confirm", "a", "--wait"]);
    assert!(destroy.status.success(), "{}", text(&destroy));
    assert!(state_has(&installation, "a", "terraform_data"));
    // Not by a word that usually applies what was planned before.
    let refused = installation.ask(&["layer", "apply", "a"]);
    assert!(text(&refused).contains("destroys everything"), "{}", text(&refused));
    let (_, digest) = planned(&installation, "a");
    let approve = ["layer", "approve", "a", "--plan-digest", &digest, "--wait"];
    let destroyed = installation.ask(&approve);
    assert!(text(&destroyed).contains("2 destroyed"), "{}", text(&destroyed));
    assert!(!state_has(&installation, "a", "terraform_data"));
    assert_eq!(installation.runs("a")[0]["action"], "destroy");
}

#[tokio::test]
async fn plan_is_made_again_if_a_secret_or_the_state_has_changed() {
    let module = "variable \"password\" {
  type      = string
  sensitive = true
}
resource \"terraform_data\" \"one\" {
  input = sha256(var.password)
}
";
    let repository = Repository::create(&[("envs/a/main.tf", module)]);
    let mut installation = Installation::new();
    let secret = installation.path("secret");
    std::fs::write(&secret, "first-password").unwrap();
    let more = format!("secrets: {{password: {{file: '{}'}}}}", secret.display());
    configure(&installation, &repository, &more);
    installation.serve(&[]).await;
    installation.until("a", "Succeeded", 1).await;
    let (_, planned_with_the_first) = planned(&installation, "a");

    // The secret is read at each attempt: the plan has the old one in it.
    std::fs::write(&secret, "second-password").unwrap();
    let refused = installation.ask(&["layer", "apply", "a", "--wait"]);
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
    let expected = "the saved plan is not applied: the secret variable `password` has changed";
    assert!(text(&refused).contains(expected), "{}", text(&refused));
    assert!(!text(&refused).contains("second-password"));
    assert!(!state_has(&installation, "a", "terraform_data"));
    let runs = installation.runs("a");
    let plan = runs.iter().find(|run| run["planDigest"] == *planned_with_the_first).unwrap();
    assert_eq!(plan["stale"], true);

    // The new plan waits for an approval of its own.
    installation.until("a", "Succeeded", 3).await;
    assert_eq!(installation.runs("a")[0]["cause"], "replan");
    let applied = installation.ask(&["layer", "apply", "a", "--wait"]);
    assert!(applied.status.success(), "{}", text(&applied));

    // Another program applies: Terraform says that the plan is stale.
    std::fs::write(&secret, "third-password").unwrap();
    assert!(installation.ask(&["layer", "plan", "a", "--wait"]).status.success());
    let state = installation.data().join("states/a/terraform.tfstate");
    let mut moved: Value = serde_json::from_slice(&std::fs::read(&state).unwrap()).unwrap();
    moved["serial"] = (moved["serial"].as_u64().unwrap() + 1).into();
    std::fs::write(&state, moved.to_string()).unwrap();
    let refused = installation.ask(&["layer", "apply", "a", "--wait"]);
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
    assert!(text(&refused).contains("Saved plan is stale"), "{}", text(&refused));
    let runs = installation.runs("a");
    let run = runs.iter().find(|run| run["action"] == "apply").unwrap();
    assert_eq!(run["attempts"][0]["outcome"], "the plan no longer fits", "{run}");
    assert!(runs.iter().any(|plan| plan["applyRun"] == run["id"] && plan["stale"] == true));
}

#[tokio::test]
async fn outputs_are_not_left_in_the_directory_of_an_attempt() {
    let output = "output \"key\" {\n  value     = \"hunter2\"\n  sensitive = true\n}\n";
    let repository = Repository::create(&[("envs/a/main.tf", &format!("{LAYER}\n{output}"))]);
    let installation = serve(&repository, "strategy: auto").await;
    installation.until("a", "Succeeded", 2).await;
    installation.until_tidy().await;
    for attempt in attempts(&installation.data()) {
        assert!(attempt.join("reports/log.txt").exists());
        assert!(!attempt.join("reports/outputs.json").exists());
    }
}
