//! Repositories that are renamed, and others that get their address.

use super::unreliable::other_resource;
use super::*;

/// A server whose layers are the directories below `envs`, which are applied at once.
async fn serve(url: &str) -> Installation {
    let mut installation = Installation::new();
    installation.configure(&format!(
        "repositories: {{infra: {{url: '{url}'}}}}
layers:
  all: {{repository: infra, paths: ['envs/*'], strategy: auto, backend: {{type: local}}}}
"
    ));
    installation.serve(&[]).await;
    installation
}

fn sync(installation: &Installation) {
    let read = installation.ask(&["layer", "sync", A]);
    assert!(read.status.success(), "{}", text(&read));
}

/// The layer in `envs/a`.
const A: &str = "all.envs.a";

/// A layer as it is listed; null if it is not known yet.
fn view(installation: &Installation, layer: &str) -> Value {
    let listed = installation.get("/layers");
    let items = listed["items"].as_array().unwrap();
    items.iter().find(|item| item["name"] == layer).cloned().unwrap_or_default()
}

/// Whether the state of a layer has this resource.
fn has(installation: &Installation, layer: &str, resource: &str) -> bool {
    let state = installation.data().join("states").join(layer).join("terraform.tfstate");
    std::fs::read_to_string(state).unwrap_or_default().contains(&format!("\"{resource}\""))
}

/// Waits until a layer has applied this commit.
async fn until_applied(installation: &Installation, layer: &str, commit: &str) {
    eventually("an applied commit", || {
        let view = view(installation, layer);
        view["phase"] == "Noop" && view["appliedRevision"]["commit"] == commit
    })
    .await;
}

/// Waits until the plan of a layer at `commit` waits for an approval, because `commit` has no ancestor in common with
/// the commit `before`.
async fn until_it_waits(installation: &Installation, layer: &str, commit: &str, before: &str) {
    let expected = format!(
        "; commit {commit} has no known ancestor in common with commit {before}, which was read before: check that \
         the address still leads to the same repository"
    );
    eventually("a plan that waits", || {
        let reason = view(installation, layer)["reasons"][0]["text"].clone();
        reason.as_str().is_some_and(|reason| {
            reason.starts_with("waiting for approval: ") && reason.ends_with(&expected)
        })
    })
    .await;
}

#[tokio::test]
async fn repository_that_gets_the_name_of_a_renamed_one_is_not_applied_without_an_approval() {
    let host = GitServer::start();
    let ours = Repository::create(&[("envs/a/main.tf", LAYER)]);
    let url = host.url(&ours);
    let moved = host.rename(&ours);
    let mut installation = serve(&url).await;
    until_applied(&installation, A, &ours.head()).await;
    // While the host redirects, people are told, with both addresses.
    let sentence = format!("the repository `infra` has moved: {url} redirects to {moved}; ");
    installation.until_problem(&[&sentence]).await;
    let notes = view(&installation, A)["notes"].to_string();
    assert!(notes.contains(&sentence), "{notes}");
    let repositories = installation.get("/repositories");
    let warning = repositories["items"][0]["warning"].as_str().unwrap().to_owned();
    assert!(warning.starts_with(&sentence), "{warning}");
    let second = ours.commit("Second", &[("envs/a/two.tf", &other_resource("two"))]);
    sync(&installation);
    until_applied(&installation, A, &second).await;
    assert_eq!(installation.server_log().matches(&sentence).count(), 1);

    // Its name is given to another one while the server is down.
    assert_eq!(installation.terminate().await, Some(0));
    let theirs = Repository::create(&[
        ("envs/a/main.tf", &other_resource("foreign")),
        ("envs/b/main.tf", &other_resource("new")),
    ]);
    host.reuse_name(&url, &theirs);
    installation.serve(&[]).await;
    until_it_waits(&installation, A, &theirs.head(), &second).await;
    until_it_waits(&installation, "all.envs.b", &theirs.head(), &second).await;
    let next = theirs.commit("Next", &[("envs/a/next.tf", &other_resource("next"))]);
    sync(&installation);
    until_it_waits(&installation, A, &next, &second).await;
    assert!(has(&installation, A, "one") && !has(&installation, A, "foreign"));
    assert!(!has(&installation, "all.envs.b", "new"));

    // A person can mean it. What comes next is applied at once again.
    let waiting = view(&installation, A)["waitingRun"].as_str().unwrap().to_owned();
    let runs = installation.runs(A);
    let plan = runs.iter().find(|run| run["id"] == *waiting).unwrap();
    let digest = plan["planDigest"].as_str().unwrap();
    let approve = ["layer", "approve", A, "--plan-digest", digest, "--wait"];
    let approved = installation.ask(&approve);
    assert!(approved.status.success(), "{}", text(&approved));
    until_applied(&installation, A, &next).await;
    let last = theirs.commit("Last", &[("envs/a/last.tf", &other_resource("last"))]);
    sync(&installation);
    until_applied(&installation, A, &last).await;
    assert!(has(&installation, A, "last") && !has(&installation, A, "one"));
    assert!(!has(&installation, "all.envs.b", "new"));
}

#[tokio::test]
async fn commits_with_a_common_ancestor_are_applied_at_once() {
    let host = GitServer::start();
    let repository = Repository::create(&[("envs/a/main.tf", LAYER)]);
    for number in 0..4 {
        repository.commit("Older", &[("README.md", &format!("{number}\n"))]);
    }
    let mut installation = serve(&host.url(&repository)).await;
    until_applied(&installation, A, &repository.head()).await;

    // Several commits are replaced.
    repository.git(&["reset", "--quiet", "--hard", "HEAD~3"]);
    repository.commit("Another", &[("README.md", "another\n")]);
    let forced = repository.commit("Forced", &[("envs/a/two.tf", &other_resource("two"))]);
    sync(&installation);
    until_applied(&installation, A, &forced).await;

    // The branch moves further than a mirror's history reaches.
    assert_eq!(installation.terminate().await, Some(0));
    for number in 0..60 {
        repository.git(&["commit", "--quiet", "--allow-empty", "-m", &number.to_string()]);
    }
    let later = repository.commit("Later", &[("envs/a/three.tf", &other_resource("three"))]);
    installation.serve(&[]).await;
    until_applied(&installation, A, &later).await;

    // The branch moves back, to a commit that was never read.
    repository.git(&["reset", "--quiet", "--hard", "HEAD~30"]);
    sync(&installation);
    eventually("an earlier commit", || {
        view(&installation, A)["revision"]["commit"] == *repository.head()
    })
    .await;
    eventually("a resource that is gone", || !has(&installation, A, "three")).await;
    assert!(!installation.server_log().contains("no known ancestor"));
}
