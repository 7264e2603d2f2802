//! `config import`: the configuration of other tools.

use super::*;

fn import(arguments: &[&str]) -> Output {
    runner().args(["config", "import"]).args(arguments).output().unwrap()
}

const RESOURCES: &str = "apiVersion: v1
kind: List
items:
- apiVersion: config.terraform.padok.cloud/v1alpha1
  kind: TerraformRepository
  metadata: {name: infra, namespace: team}
  spec:
    repository: {url: 'URL'}
    terraform: {enabled: true}
- apiVersion: config.terraform.padok.cloud/v1alpha1
  kind: TerraformLayer
  metadata: {name: dns, namespace: team}
  spec:
    branch: main
    path: envs/dns
    repository: {name: infra, namespace: team}
    overrideRunnerSpec: {tolerations: [{key: a}]}
";

/// Plans what was imported.
async fn plan(installation: &Installation, imported: &Output) -> String {
    assert!(imported.status.success(), "{}", text(imported));
    installation.configure(&String::from_utf8(imported.stdout.clone()).unwrap());
    let pass = installation.once(&[]).await;
    assert!(pass.status.success(), "{}", text(&pass));
    String::from_utf8(pass.stdout).unwrap()
}

#[tokio::test]
async fn layer_of_burrito_is_planned() {
    let (installation, repository) = (Installation::new(), repository());
    let file = installation.path("burrito.yaml");
    std::fs::write(&file, RESOURCES.replace("URL", &repository.url())).unwrap();
    let imported = import(&["burrito", file.to_str().unwrap()]);
    let said = String::from_utf8(imported.stderr.clone()).unwrap();
    assert!(said.contains("`overrideRunnerSpec.tolerations`"), "{said}");
    assert!(said.ends_with("1 repository, 1 layer, 1 note\n"), "{said}");
    let table = plan(&installation, &imported).await;
    let row = table.lines().find(|line| line.starts_with("dns ")).unwrap();
    assert!(row.contains("1 to add"), "{table}");
}

#[tokio::test]
async fn project_of_atlantis_is_planned() {
    let (installation, repository) = (Installation::new(), repository());
    let file = installation.path("atlantis.yaml");
    let projects = "version: 3\nprojects:\n- dir: envs/app\n  autoplan: {when_modified: ['*.tf', '../../modules/**/*.tf']}\n";
    std::fs::write(&file, projects).unwrap();
    let imported = import(&["atlantis", file.to_str().unwrap(), "--url", &repository.url()]);
    let table = plan(&installation, &imported).await;
    let row = table.lines().find(|line| line.starts_with("envs.app ")).unwrap();
    assert!(row.contains("1 to add"), "{table}");

    std::fs::write(&file, "version: 4\n").unwrap();
    let refused =
        import(&["atlantis", file.to_str().unwrap(), "--url", "https://git.example.com/a"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused).contains("Atlantis refuses `version: 4`"), "{}", text(&refused));
}

#[tokio::test]
async fn workspace_of_atlantis_is_the_one_that_is_written() {
    let (installation, repository) = (Installation::new(), repository());
    let file = installation.path("atlantis.yaml");
    let server = installation.path("repos.yaml");
    let workflow =
        "workflows: {ours: {plan: {steps: [env: {name: TF_VAR_x, value: 010}, plan]}}}\n";
    std::fs::write(&server, workflow).unwrap();
    std::fs::write(
        &file,
        "version: 3\nprojects: [{dir: envs/app, workspace: no, workflow: ours}]\n",
    )
    .unwrap();
    let (file, server) = (file.to_str().unwrap(), server.to_str().unwrap());
    let imported =
        import(&["atlantis", file, "--url", &repository.url(), "--server-config", server]);
    let written = String::from_utf8(imported.stdout.clone()).unwrap();
    let read: serde_json::Value = serde_saphyr::from_str(&written).unwrap();
    // Quotes keep the texts for each reader of YAML.
    let layer = &read["layers"]["envs.app.no"];
    assert_eq!(
        (layer["workspace"].as_str(), layer["env"]["TF_VAR_x"].as_str()),
        (Some("no"), Some("010"))
    );
    let table = plan(&installation, &imported).await;
    let row = table.lines().find(|line| line.starts_with("envs.app.no ")).unwrap();
    assert!(row.contains("1 to add"), "{table}");
}
