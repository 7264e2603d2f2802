//! The files of a commit that an attempt gets.

use std::os::unix::ffi::OsStrExt;

use super::*;

#[tokio::test]
async fn attempt_whose_files_cannot_be_sent_fails_at_once_with_the_reason() {
    let mut installation = Installation::new();
    let repository = Repository::create(&[("a/main.tf", LAYER), ("b/main.tf", LAYER)]);
    let target = std::ffi::OsStr::from_bytes(b"\xff");
    std::os::unix::fs::symlink(target, repository.path().join("a/link")).unwrap();
    // The mirror leaves out a submodule without an address, as git does.
    repository.commit("Add a link", &[]);
    let missing = format!("160000,{},b/missing", "1".repeat(40));
    repository.git(&["update-index", "--add", "--cacheinfo", &missing]);
    repository.git(&["commit", "--quiet", "--message", "Add a submodule"]);
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}'}}}}
defaults: {{repository: infra, ref: main}}
layers: {{a: {{path: a}}, b: {{path: b}}}}
",
        repository.url()
    ));
    installation.serve(&[]).await;
    installation.until("a", "Failed", 1).await;
    installation.until("b", "Succeeded", 1).await;
    let run = installation.runs("a").remove(0);
    let log = text(&installation.ask(&["run", "logs", run["id"].as_str().unwrap()]));
    assert!(log.contains("Error: the target of the link `a/link` is not UTF-8"), "{log}");
    assert_eq!(run["attempts"].as_array().unwrap().len(), 1);
    eventually("the end of the process", || running(&installation.data()).is_empty()).await;
}

#[tokio::test]
async fn log_names_files_of_the_commit_that_were_not_checked_out() {
    let installation = Installation::new();
    // Neither path can be found without evaluating the module.
    let module = "locals {
  root = \"..\"
}
output \"data\" {
  value = file(join(\"/\", [path.module, local.root, \"data\", \"x.json\"]))
}
output \"other\" {
  value = file(join(\"/\", [path.module, local.root, \"data\", \"missing.json\"]))
}
";
    let repository = Repository::create(&[
        ("a/main.tf", module),
        ("b/main.tf", "module \"linked\" {\n  source = \"./modules/shared\"\n}\n"),
        ("data/x.json", "{}"),
        ("modules/shared/main.tf", LAYER),
    ]);
    std::os::unix::fs::symlink("../modules", repository.path().join("b/modules")).unwrap();
    repository.commit("Add a link", &[]);
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}'}}}}
defaults: {{repository: infra, ref: main, retries: {{max: 1}}}}
layers:
  a: {{path: a}}
  b: {{path: b}}
  b-full: {{path: b, checkout: full}}
  b-triggers: {{path: b, triggers: ['modules/**']}}
",
        repository.url()
    ));
    let pass = installation.once(&[]).await;
    assert_eq!(pass.status.code(), Some(1), "{}", text(&pass));
    let logs = attempts(&installation.data())
        .into_iter()
        .map(|attempt| std::fs::read_to_string(attempt.join("log.jsonl")).unwrap());
    let logs: Vec<String> = logs.collect();
    let has = |text: &str| logs.iter().filter(|log| log.contains(text)).count();
    let advice = |path: &str, glob: &str| {
        format!(
            "`{path}` is in the commit but was not checked out: add `{glob}` to `triggers` of the \
             layer, or set `checkout: full`"
        )
    };
    assert_eq!(has(&advice("data/x.json", "data/x.json")), 1, "{logs:#?}");
    assert_eq!(has("`data/missing.json` is in the commit"), 0, "{logs:#?}");
    assert_eq!(has(&advice("modules", "modules/**")), 1, "{logs:#?}");
    let table = text(&pass);
    for (layer, expected) in
        [("a ", "Failed"), ("b ", "Failed"), ("b-full", "1 to add"), ("b-triggers", "1 to add")]
    {
        let row = table.lines().find(|line| line.starts_with(layer)).unwrap();
        assert!(row.contains(expected), "{table}");
    }
}
