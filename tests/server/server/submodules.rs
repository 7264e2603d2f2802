//! Layers that use submodules.

use super::{Installation, LAYER, attempts, text};
use butler_testing::git_server::Repository;

#[tokio::test]
async fn layers_use_modules_of_submodules_and_follow_their_commits() {
    let installation = Installation::new();
    let library = Repository::create(&[("vpc/main.tf", LAYER), ("README.md", "none")]);
    let repository = Repository::create(&[
        ("envs/app/main.tf", "module \"vpc\" {\n  source = \"../../vendor/lib/vpc\"\n}\n"),
        ("envs/policy/main.tf", LAYER),
        ("envs/other/main.tf", LAYER),
    ]);
    repository.add_submodule("vendor/lib", &library.url(), &library.head());
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}'}}}}
layers:
  app: {{repository: infra, path: envs/app}}
  inside: {{repository: infra, path: vendor/lib/vpc}}
  policy: {{repository: infra, path: envs/policy, triggers: ['vendor/**/*.md']}}
  other: {{repository: infra, path: envs/other}}
",
        repository.url(),
    ));
    let pass = installation.once(&[]).await;
    assert!(pass.status.success(), "{}", text(&pass));
    let table = text(&pass);
    for layer in ["app", "inside", "policy", "other"] {
        let row = table.lines().find(|line| line.starts_with(layer)).unwrap();
        assert!(row.contains("1 to add, 0 to change, 0 to destroy"), "{table}");
    }

    let update = |path: &str, content: &str| {
        let commit = library.commit("Change", &[(path, content)]);
        let entry = format!("160000,{commit},vendor/lib");
        repository.git(&["update-index", "--cacheinfo", &entry]);
        repository.git(&["commit", "--quiet", "--message", "Update the submodule"]);
    };
    update("vpc/more.tf", &LAYER.replace("one", "two"));
    let pass = installation.once(&[]).await;
    assert!(pass.status.success(), "{}", text(&pass));
    for (layer, add) in [("app", 2), ("inside", 2), ("other", 1)] {
        let table = text(&pass);
        let row = table.lines().find(|line| line.starts_with(layer)).unwrap();
        assert!(row.contains(&format!("{add} to add")), "{table}");
    }
    assert_eq!(attempts(&installation.data()).len(), 6);
    // A trigger of `policy`, which no tool reads in the parent directory of `inside`.
    update("README.md", "more");
    let pass = installation.once(&[]).await;
    assert!(pass.status.success(), "{}", text(&pass));
    assert_eq!(attempts(&installation.data()).len(), 7);
    // A file that tools read in a parent directory of `inside`.
    update("common.tfvars", "");
    let pass = installation.once(&[]).await;
    assert!(pass.status.success(), "{}", text(&pass));
    assert_eq!(attempts(&installation.data()).len(), 8);
}
