//! Configurations as the documentation of the tools shows them.

use super::*;

fn notes(imported: &Imported) -> Vec<&str> {
    imported.notes.iter().map(String::as_str).collect()
}

const REPOSITORY: &str = "apiVersion: config.terraform.padok.cloud/v1alpha1
kind: TerraformRepository
metadata: {name: infra, namespace: team}
spec:
  repository: {url: 'git@github.com:acme/infra.git', secretName: ssh}
  terraform: {enabled: true, version: 1.9.8}
  remediationStrategy: {autoApply: true, onError: {maxRetries: 2}}
  overrideRunnerSpec:
    tolerations: [{key: a}]
    env: [{name: TF_VAR_region, value: eu-west-1}]
";

const LAYERS: &str = "apiVersion: config.terraform.padok.cloud/v1alpha1
kind: TerraformLayer
metadata:
  name: dns
  namespace: team
  annotations: {config.terraform.padok.cloud/additionnal-trigger-paths: '../../modules/zone'}
spec:
  branch: main
  path: envs/dns
  repository: {name: infra}
  runHistoryPolicy: {runs: 3}
  newKey: 1
---
apiVersion: config.terraform.padok.cloud/v1alpha1
kind: TerraformLayer
metadata: {name: db, namespace: team}
spec:
  branch: main
  path: envs/db
  repository: {name: infra, namespace: team}
  terraform: {enabled: false}
  opentofu: {enabled: true, version: 1.8.3}
  remediationStrategy: {autoApply: false}
  overrideRunnerSpec:
    env:
    - {name: TOKEN, valueFrom: {secretKeyRef: {name: s, key: k}}}
    - {name: REGION, value: eu-central-1}
";

#[test]
fn resources_of_burrito_become_repositories_and_layers() {
    let file = |name: &str, text: &str| (PathBuf::from(name), text.to_owned());
    let files = [file("layers.yaml", LAYERS), file("repository.yaml", REPOSITORY)];
    let imported = burrito(&files).unwrap();
    assert_eq!((imported.repositories, imported.layers), (1, 2));
    let config = parse(&[file("butler.yaml", &imported.yaml)]).unwrap();
    assert_eq!(config.repositories["infra"].entry.url.value, "ssh://git@github.com/acme/infra.git");
    let dns = &config.layers["dns"].entry;
    assert_eq!(dns.path.as_ref().unwrap().value, "envs/dns");
    assert_eq!(dns.tool.as_ref().unwrap().value, "1.9.8");
    assert_eq!(dns.retries.unwrap().max, 3);
    assert_eq!(dns.history.unwrap().runs, Some(3));
    let triggers: Vec<_> = dns.triggers.iter().map(|it| &*it.value).collect();
    assert_eq!(triggers, ["modules/zone/**", "modules/zone"]);
    assert!(imported.yaml.contains("strategy: auto\n"), "{}", imported.yaml);
    let db = &config.layers["db"].entry;
    assert_eq!(db.tool.as_ref().unwrap().value, "opentofu-1.8.3");
    assert_eq!(db.env.keys().collect::<Vec<_>>(), ["REGION"]);
    assert_eq!(
        notes(&imported),
        [
            "db: `overrideRunnerSpec.env`: `TOKEN` comes from the cluster; write the value into a file, and `env: \
             {TOKEN: {file: PATH}}`",
            "db: `overrideRunnerSpec.tolerations`: attempts run on the machine of the server; set it up there",
            "dns: `newKey`: it has no counterpart",
            "dns: `overrideRunnerSpec.tolerations`: attempts run on the machine of the server; set it up there",
            "infra: `repository.secretName`: write what the secret `ssh` contains into files, and name them in \
             `credentials`",
        ]
    );
    // The file says it too.
    for note in &imported.notes {
        assert!(imported.yaml.contains(&format!("# {note}\n")), "{}", imported.yaml);
    }
}

#[test]
fn layers_with_one_name_get_their_namespace_and_need_their_repository() {
    let file = |text: &str| (PathBuf::from("a.yaml"), text.to_owned());
    let other = REPOSITORY.replace("team", "other") + "---\n" + &LAYERS.replace("team", "other");
    let imported = burrito(&[file(&format!("{REPOSITORY}---\n{LAYERS}---\n{other}"))]).unwrap();
    for name in ["team.dns", "other.db", "team.infra"] {
        assert!(imported.yaml.contains(&format!("{name}:")), "{}", imported.yaml);
    }
    let error = burrito(&[file(LAYERS)]).unwrap_err().to_string();
    assert!(error.contains("the repository `infra` of the namespace `team`"), "{error}");
    let error = burrito(&[file("kind: Pod\n")]).unwrap_err().to_string();
    assert!(error.contains("it has no resource of"), "{error}");
}
