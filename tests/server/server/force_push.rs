//! Branches that are moved back, replaced and deleted.

use super::unreliable::other_resource;
use super::*;

#[tokio::test]
async fn force_pushes_and_reverts_are_planned_and_removed_commits_are_not() {
    let mut installation = Installation::new();
    let repository = Repository::create(&[("envs/a/main.tf", LAYER)]);
    let first = repository.head();
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{}'}}}}
layers: {{a: {{repository: infra, ref: main, path: envs/a}}}}
",
        repository.url()
    ));
    installation.serve(&[]).await;
    installation.until("a", "Succeeded", 1).await;
    let planned = |runs: usize| {
        assert!(installation.ask(&["layer", "sync", "a"]).status.success());
        installation.until("a", "Succeeded", runs)
    };
    let second = repository.commit("Change", &[("envs/a/two.tf", &other_resource("two"))]);
    planned(2).await;

    // Back to what was planned already: a new change.
    repository.git(&["reset", "--quiet", "--hard", &first]);
    planned(3).await;

    // A history without a common commit.
    repository.git(&["checkout", "--quiet", "--orphan", "other"]);
    let unrelated =
        repository.commit("Begin anew", &[("envs/a/three.tf", &other_resource("three"))]);
    repository.git(&["branch", "--force", "-M", "other", "main"]);
    planned(4).await;

    // A branch that is gone for a while has its content again.
    repository.git(&["branch", "--move", "main", "away"]);
    assert!(installation.ask(&["layer", "sync", "a"]).status.success());
    eventually("a missing branch", || installation.layer("a")["phase"] == "Blocked").await;
    assert_eq!(installation.runs("a").len(), 4);
    repository.git(&["branch", "--move", "away", "main"]);
    let last = repository.commit("Change", &[("envs/a/four.tf", &other_resource("four"))]);
    planned(5).await;

    let commits: Vec<Value> =
        installation.runs("a").into_iter().map(|run| run["commit"].clone()).collect();
    assert_eq!(commits, [&last, &unrelated, &first, &second, &first].map(String::as_str));
}
