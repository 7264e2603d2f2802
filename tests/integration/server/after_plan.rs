//! Programs that check the plans of a layer.

use super::*;

/// Writes a program. Another process does so: a child of this one that another test starts at the same time
/// could inherit the open file, which cannot be executed then.
fn program(path: &Path, script: &str) {
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
    program(&check, "if grep -q '\"delete\"'; then echo \"$1 are not allowed\"; exit 3; fi");
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
