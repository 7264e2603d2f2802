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
async fn attempt_never_has_fewer_files_than_a_clone_without_saying_so() {
    let installation = Installation::new();
    let each = |locals: &str, files: &str| {
        format!(
            "{locals}resource \"terraform_data\" \"x\" {{\n  for_each = {files}\n  input    = each.key\n}}\n"
        )
    };
    let local = "locals {\n  conf = \"${path.module}/../conf\"\n}\n";
    let layers = [
        ("literal", each("", "fileset(path.module, \"../conf/*.yaml\")"), false),
        ("cwd", each("", "fileset(\"${path.cwd}/../conf\", \"*.yaml\")"), false),
        ("root", each("", "fileset(\"${path.root}/../conf\", \"*.yaml\")"), false),
        ("local", each(local, "fileset(local.conf, \"*.yaml\")"), false),
        (
            "joined",
            each("", "fileset(join(\"/\", [path.module, \"..\", \"conf\"]), \"*.yaml\")"),
            true,
        ),
        ("formatted", each("", "fileset(format(\"%s/../conf\", path.module), \"*.yaml\")"), true),
        ("above", each("", "fileset(\"${dirname(path.cwd)}/conf\", \"*.yaml\")"), true),
        (
            "replaced",
            each("", "fileset(replace(path.cwd, \"/replaced\", \"/conf\"), \"*.yaml\")"),
            true,
        ),
    ];
    let paths: Vec<String> = layers.iter().map(|(name, ..)| format!("{name}/main.tf")).collect();
    let mut files: Vec<(&str, &str)> = vec![("conf/a.yaml", ""), ("conf/b.yaml", "")];
    files.extend(
        paths.iter().map(String::as_str).zip(layers.iter().map(|(_, text, _)| text.as_str())),
    );
    let repository = Repository::create(&files);
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}'}}}}
defaults: {{repository: infra, ref: main, strategy: plan-only}}
layers: {{all: {{paths: ['*']}}}}
",
        repository.url()
    ));
    let pass = installation.once(&[]).await;
    let table = text(&pass);
    for (layer, ..) in &layers {
        let row = table.lines().find(|line| line.starts_with(&format!("all.{layer} "))).unwrap();
        assert!(row.contains("2 to add"), "{table}");
    }
}

#[tokio::test]
async fn attempt_has_what_links_and_computed_paths_lead_to() {
    let installation = Installation::new();
    // The path cannot be found without evaluating the module.
    let module = "locals {
  root = \"..\"
}
output \"data\" {
  value = file(join(\"/\", [path.module, local.root, \"data\", \"x.json\"]))
}
";
    let repository = Repository::create(&[
        ("a/main.tf", module),
        ("b/main.tf", "module \"linked\" {\n  source = \"./modules/shared\"\n}\n"),
        ("data/x.json", "{}"),
        ("modules/shared/main.tf", LAYER),
        ("shared.tfvars", "x = 1\n"),
        ("c/variables.tf", "variable \"x\" {\n  type = number\n}\n"),
        ("d/main.tf", LAYER),
    ]);
    let link = |target: &str, path: &str| {
        std::os::unix::fs::symlink(target, repository.path().join(path)).unwrap();
    };
    link("../modules", "b/modules");
    link("../d/main.tf", "c/main.tf");
    link("../chain.tfvars", "c/x.auto.tfvars");
    link("shared.tfvars", "chain.tfvars");
    link("c", "linked");
    repository.commit("Add links", &[]);
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}'}}}}
defaults: {{repository: infra, ref: main, strategy: plan-only, retries: {{max: 1}}}}
layers:
  a: {{path: a}}
  b: {{path: b}}
  b-full: {{path: b, checkout: full}}
  c: {{path: c}}
  d: {{path: d}}
  linked: {{path: linked}}
",
        repository.url()
    ));
    let assert_rows = async |rows: [(&str, &str); 6]| {
        let table = text(&installation.once(&[]).await);
        for (layer, expected) in rows {
            let row = table.lines().find(|line| line.starts_with(layer)).unwrap();
            assert!(row.contains(expected), "{table}");
        }
    };
    let planned = ["b ", "b-full ", "c ", "d ", "linked "].map(|layer| (layer, "1 to add"));
    let [b, b_full, c, d, linked] = planned;
    assert_rows([("a ", "Succeeded"), b, b_full, c, d, linked]).await;

    // It concerns each layer whose attempts get it, and no other one.
    link("/etc/hostname", "d/hostname");
    repository.commit("Add a link that leads out", &[]);
    let refused = "cannot use `d/hostname` of the commit: the link leads out of the repository";
    assert_rows([("a ", refused), b, ("b-full ", refused), c, ("d ", refused), linked]).await;
}
