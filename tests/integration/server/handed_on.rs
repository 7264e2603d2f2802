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
