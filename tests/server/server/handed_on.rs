//! Settings of the server that its attempts get.

use super::*;

#[tokio::test]
async fn attempts_resolve_references_below_the_secrets_directory_of_the_server() {
    let installation = Installation::new();
    let repository = Repository::create(&[("envs/a/main.tf", LAYER)]);
    std::fs::create_dir_all(installation.path("secrets/registry")).unwrap();
    std::fs::write(installation.path("secrets/registry/token"), "hunter22").unwrap();
    let settings = "terraformrc: {credentials: {registry.example.com: {token: {secretId: registry, \
                    key: token}}}}";
    std::fs::write(installation.path("settings.yaml"), settings).unwrap();
    let pass = async |further: &[&str]| {
        let mut arguments = Installation::quick_start(&repository);
        arguments.extend(further.iter().map(|word| (*word).to_owned()));
        installation.once(&arguments).await
    };

    let missing = pass(&["--secrets-dir", "missing"]).await;
    assert_eq!(missing.status.code(), Some(2), "{}", text(&missing));
    assert!(text(&missing).contains("--secrets-dir"), "{}", text(&missing));
    assert!(!installation.data().exists());
    let without = pass(&["--settings", "settings.yaml"]).await;
    assert_eq!(without.status.code(), Some(1), "{}", text(&without));
    std::fs::remove_dir_all(installation.data()).unwrap();
    let resolved = pass(&["--settings", "settings.yaml", "--secrets-dir", "secrets"]).await;
    assert!(resolved.status.success(), "{}", text(&resolved));
}

#[tokio::test]
async fn attempts_get_the_variables_of_the_server_that_pass_env_names() {
    let installation = Installation::new();
    let module = "variable \"a\" { default = \"unset\" }
variable \"b\" { default = \"unset\" }
variable \"c\" { default = \"unset\" }
output \"seen\" { value = \"${var.a} ${var.b} ${var.c}\" }
";
    let repository = Repository::create(&[("module/main.tf", module)]);
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}'}}}}
defaults: {{pass-env: [TF_VAR_a, TF_VAR_b, TF_VAR_missing]}}
layers:
  one: {{repository: infra, ref: main, path: module, env: {{TF_VAR_b: of-the-layer}}}}
",
        repository.url(),
    ));
    let mut command = installation.command(&["serve", "--once"]);
    for name in ["TF_VAR_a", "TF_VAR_b", "TF_VAR_c"] {
        command.env(name, "of-the-server");
    }
    let pass = command.output().await.unwrap();
    assert!(pass.status.success(), "{}", text(&pass));
    let plan = attempts(&installation.data()).remove(0).join("plan.txt");
    let plan = std::fs::read_to_string(plan).unwrap();
    assert!(plan.contains("of-the-server of-the-layer unset"), "{plan}");
}
