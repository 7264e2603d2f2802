//! Programs that check the plans of a layer.

use super::*;

/// Writes a program. Another process does so: a child of this one that another test starts at the same time
/// could inherit the open file, which cannot be executed then.
pub(super) fn program(path: &Path, script: &str) {
    let write = "printf '#!/bin/sh\\n%s\\n' \"$2\" >\"$1\" && chmod 755 \"$1\"";
    let mut shell = std::process::Command::new("sh");
    let written = shell.args(["-c", write, "sh"]).arg(path).arg(script).status();
    assert!(written.unwrap().success());
}

#[tokio::test]
async fn plan_that_a_program_refuses_is_not_applied() {
    let repository = Repository::create(&[("module/main.tf", LAYER)]);
    let mut installation = Installation::new();
    let check = installation.path("check");
    let script = "if grep -q '\"delete\"'; then printf '\\033[31m%s are not allowed\\033[0m\\n' \"$1\"; \
                  exit 3; fi; echo it costs nothing";
    program(&check, script);
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}'}}}}
defaults: {{after-plan: {} deletions}}
layers:
  a: {{repository: infra, path: module, backend: {{type: local}}, strategy: auto}}
",
        repository.url(),
        check.display(),
    ));
    installation.serve(&[]).await;
    installation.until("a", "Succeeded", 2).await;
    let token = std::fs::read_to_string(installation.data().join("admin.token")).unwrap();
    let policy = |installation: &Installation, run: &Value| -> Value {
        let address = &installation.server.as_ref().unwrap().address;
        let url = format!("{address}/api/v1/runs/{}/policy", run["id"].as_str().unwrap());
        let mut command = std::process::Command::new("curl");
        command.args(["--silent", "--show-error", "--fail", "--noproxy", "*", "--header"]);
        let output = command.arg(format!("Authorization: Bearer {}", token.trim())).arg(url);
        serde_json::from_slice(&output.output().unwrap().stdout).unwrap()
    };
    // The plan and its apply were both checked.
    for run in installation.runs("a") {
        let item =
            serde_json::json!({"program": "check", "passed": true, "output": "it costs nothing\n"});
        let expected = serde_json::json!({"items": [item], "next": null});
        assert_eq!(policy(&installation, &run), expected);
    }

    // The resource is replaced by another one.
    let other = LAYER.replace("one", "two");
    repository.commit("Replace", &[("module/main.tf", &other)]);
    let refused = installation.ask(&["layer", "sync", "a", "--wait"]);
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
    assert!(text(&refused).contains("deletions are not allowed"), "{}", text(&refused));
    eventually("a refusal", || installation.layer("a")["reasons"][0]["gate"] == "policy").await;
    let layer = installation.layer("a");
    assert_eq!(layer["phase"], "Failed");
    let reason = layer["reasons"][0]["text"].as_str().unwrap();
    assert!(reason.contains("the program that checks plans (`after-plan`) has refused the plan"));
    let runs = installation.runs("a");
    assert_eq!((runs.len(), &runs[0]["planDigest"]), (3, &Value::Null));
    let refused = policy(&installation, &runs[0]);
    assert_eq!(refused["items"][0]["passed"], false, "{refused}");
    assert_eq!(refused["items"][0]["output"], "deletions are not allowed\n");
    let shown = installation.ask(&["run", "show", runs[0]["id"].as_str().unwrap()]);
    let expected =
        "the output of `check`, which has refused the plan:\n  deletions are not allowed\n";
    assert!(text(&shown).contains(expected), "{}", text(&shown));
    let apply = installation.ask(&["layer", "apply", "a"]);
    assert_eq!(apply.status.code(), Some(1), "{}", text(&apply));
    assert_eq!(installation.runs("a").len(), 3);

    // Both resources: nothing is deleted.
    repository.commit("Keep", &[("module/main.tf", &format!("{LAYER}{other}"))]);
    let applied = installation.ask(&["layer", "sync", "a", "--wait"]);
    assert!(applied.status.success(), "{}", text(&applied));
    installation.until("a", "Succeeded", 5).await;
    assert_eq!(installation.runs("a")[0]["action"], "apply");

    // Without its program, nothing is planned.
    std::fs::remove_file(&check).unwrap();
    let missing = installation.ask(&["layer", "plan", "a", "--wait"]);
    assert_eq!(missing.status.code(), Some(1), "{}", text(&missing));
    let expected = format!("`{}` of `after-plan` is not an executable file", check.display());
    assert!(text(&missing).contains(&expected), "{}", text(&missing));
    assert_eq!(installation.runs("a")[0]["ended"], "the configuration is not valid");
}
