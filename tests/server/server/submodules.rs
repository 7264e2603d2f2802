//! Layers that use submodules.

use std::fmt::Write as _;

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

#[tokio::test]
async fn submodule_that_cannot_be_fetched_stops_only_the_layers_that_may_read_it() {
    let installation = Installation::new();
    let library = Repository::create(&[("vpc/main.tf", LAYER)]);
    let computed =
        "output \"o\" {\n  value = fileset(join(\"/\", [path.module, \"..\"]), \"*\")\n}\n";
    let named = "output \"o\" {\n  value = fileset(path.module, \"../docs/*.md\")\n}\n";
    let repository = Repository::create(&[
        ("plain/main.tf", LAYER),
        ("full/main.tf", LAYER),
        ("user/main.tf", "module \"vpc\" {\n  source = \"../vendor/lib/vpc\"\n}\n"),
        ("named/main.tf", named),
        ("computed/main.tf", computed),
        ("set/a/main.tf", LAYER),
    ]);
    repository.add_submodule("vendor/lib", &library.url(), &library.head());
    repository.add_submodule("vendor/unused", &library.url(), &library.head());
    repository.add_submodule("docs", &library.url(), &"1".repeat(40));
    let configure = |submodules: &str| {
        let mut layers = String::new();
        for layer in ["plain", "user", "named", "computed"] {
            writeln!(layers, "  {layer}: {{path: {layer}}}").unwrap();
        }
        installation.configure(&format!(
            "repositories: {{infra: {{url: '{}'{submodules}}}}}
defaults: {{repository: infra, ref: main, strategy: plan-only}}
layers:
  full: {{path: full, checkout: full}}
  inside: {{path: docs/a}}
  all: {{paths: ['set/*', 'docs/**']}}
{layers}",
            repository.url()
        ));
    };
    configure("");
    for _ in 0..2 {
        let pass = installation.once(&[]).await;
        let table = text(&pass);
        let row = |layer: &str| {
            table.lines().find(|line| line.starts_with(&format!("{layer} "))).unwrap_or_default()
        };
        for layer in ["plain", "user", "full", "all.set.a"] {
            assert!(row(layer).contains("1 to add"), "{layer}: {table}");
        }
        for layer in ["named", "computed", "inside"] {
            let why = "the module may read the submodule `docs`, which cannot be fetched: no branch, tag or commit";
            assert!(row(layer).contains(why), "{layer}: {table}");
        }
    }
    // Without submodules, the user has decided what is missing.
    configure(", submodules: none");
    let table = text(&installation.once(&[]).await);
    for layer in ["named", "computed"] {
        let row = table.lines().find(|line| line.starts_with(&format!("{layer} "))).unwrap();
        assert!(!row.contains("cannot be fetched"), "{table}");
    }
    configure(", submodules: all");
    let pass = installation.once(&[]).await;
    assert!(text(&pass).contains("cannot fetch the submodule `docs`"), "{}", text(&pass));
    // The commit is there now.
    configure("");
    let docs = library.commit("Add documents", &[("a/main.tf", LAYER), ("x.md", "")]);
    repository.git(&["update-index", "--cacheinfo", &format!("160000,{docs},docs")]);
    repository.git(&["commit", "--quiet", "--message", "Update the submodule"]);
    let table = text(&installation.once(&[]).await);
    for layer in ["inside", "all.docs.a"] {
        let row =
            table.lines().find(|line| line.starts_with(&format!("{layer} "))).unwrap_or_default();
        assert!(row.contains("1 to add"), "{layer}: {table}");
    }
}
