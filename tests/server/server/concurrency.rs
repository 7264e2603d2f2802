//! How many attempts of one repository run at the same time.

use super::faults::HeldBackend;
use super::*;

/// A repository that is limited, whose first plan waits for its backend, and one that is not.
struct Repositories {
    installation: Installation,
    backend: HeldBackend,
    limited: Repository,
    other: Repository,
}

impl Repositories {
    /// A server that makes four attempts at the same time, and the plan that waits.
    async fn with_held_plan() -> Self {
        let backend = HeldBackend::start().await;
        let limited = Repository::create(&[("envs/a/main.tf", &backend.module())]);
        let other = Repository::create(&[("envs/x/main.tf", LAYER)]);
        let installation = Installation::new();
        let mut all = Self { installation, backend, limited, other };
        all.limit(1);
        all.installation.serve(&["--concurrency", "4"].map(str::to_owned)).await;
        all.backend.wait_for_request().await;
        // The only attempt of the limited repository runs from here on.
        all.limited.commit("Add", &[("envs/b/main.tf", LAYER), ("envs/c/main.tf", LAYER)]);
        for layer in ["limited.envs.b", "limited.envs.c"] {
            eventually(&format!("the reason of {layer}"), || all.waits(layer, 1)).await;
        }
        all
    }

    fn limit(&self, concurrency: u32) {
        self.installation.configure(&format!(
            "repositories:
  limited: {{url: '{}', poll: 1s, concurrency: {concurrency}}}
  other: {{url: '{}', poll: 1s}}
defaults: {{ref: main}}
layers:
  limited: {{repository: limited, paths: ['envs/*']}}
  other: {{repository: other, paths: ['envs/*']}}
",
            self.limited.url(),
            self.other.url()
        ));
    }

    /// Whether a layer waits only for its repository.
    fn waits(&self, layer: &str, concurrency: u32) -> bool {
        let output = self.installation.ask(&["layer", "show", layer, "--json"]);
        let Ok(shown) = serde_json::from_slice::<Value>(&output.stdout) else { return false };
        let text = format!(
            "as many attempts of the repository `limited` run as its `concurrency` of \
             {concurrency} allows"
        );
        let reasons = shown["reasons"].as_array().cloned().unwrap_or_default();
        reasons.len() == 1 && reasons[0]["gate"] == "concurrency" && reasons[0]["text"] == text
    }

    fn phase(&self, layer: &str) -> String {
        self.installation.runs(layer)[0]["phase"].as_str().unwrap().to_owned()
    }
}

#[tokio::test]
async fn limited_repository_runs_one_attempt_and_another_one_goes_on() {
    let all = Repositories::with_held_plan().await;
    let installation = &all.installation;
    all.other.commit("Add", &[("envs/y/main.tf", LAYER)]);
    for layer in ["other.envs.x", "other.envs.y"] {
        eventually(&format!("the plan of {layer}"), || {
            let output = installation.ask(&["run", "list", layer, "--json"]);
            let listed = serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default();
            listed["items"][0]["phase"] == "Succeeded"
        })
        .await;
    }
    assert_eq!(all.phase("limited.envs.a"), "ClosingOut");
    assert!(all.waits("limited.envs.b", 1) && all.waits("limited.envs.c", 1));

    all.backend.release();
    let mut spans = Vec::new();
    for layer in ["a", "b", "c"].map(|name| format!("limited.envs.{name}")) {
        installation.until(&layer, "Succeeded", 1).await;
        let attempts = installation.runs(&layer)[0]["attempts"].as_array().unwrap().clone();
        let moment = |value: &Value| value.as_str().unwrap().to_owned();
        spans.extend(attempts.iter().map(|it| (moment(&it["started"]), moment(&it["ended"]))));
    }
    spans.sort();
    assert_eq!(spans.len(), 3);
    assert!(spans.windows(2).all(|two| two[0].1 <= two[1].0), "{spans:?}");
}

#[tokio::test]
async fn new_limit_of_a_repository_takes_effect_while_attempts_run() {
    let all = Repositories::with_held_plan().await;
    all.limit(2);
    all.installation.until("limited.envs.b", "Succeeded", 1).await;
    all.installation.until("limited.envs.c", "Succeeded", 1).await;
    assert_eq!(all.phase("limited.envs.a"), "ClosingOut");
    all.limit(1);
    // A commit that is read before that would start at once.
    eventually("the second new configuration", || {
        let log = std::fs::read_to_string(all.installation.path("server.log")).unwrap();
        log.matches("the configuration has changed, and is in force").count() == 2
    })
    .await;
    all.limited.commit("Add", &[("envs/d/main.tf", LAYER)]);
    eventually("the reason", || all.waits("limited.envs.d", 1)).await;
    all.backend.release();
    all.installation.until("limited.envs.a", "Succeeded", 1).await;
    all.installation.until("limited.envs.d", "Succeeded", 1).await;
}
