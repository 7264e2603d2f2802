//! Repositories, layers and followers as custom resources. The cluster is a stand-in ([`ApiServer`]); the git server,
//! Terraform and the server are real.

mod starts;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::*;
use butler_testing::api_server::{ApiServer, FaultEffect};
use butler_testing::http_backend::HttpBackend;

/// A server whose desired state is in the namespace `team-a` of a cluster.
struct Site {
    installation: Installation,
    cluster: ApiServer,
    repository: Repository,
    served: GitServer,
    backend: HttpBackend,
}

impl Site {
    /// A cluster with the repository `infra`. The server is not started.
    async fn new() -> Self {
        let installation = Installation::new();
        let cluster = ApiServer::start(&installation.path("node"), &[]).await;
        let (repository, served) = (repository(), GitServer::start());
        std::fs::write(installation.path("kubeconfig"), cluster.kubeconfig()).unwrap();
        let backend = HttpBackend::start().await;
        let site = Self { installation, cluster, repository, served, backend };
        let wanted = json!({"url": site.served.url(&site.repository), "poll": "1s"});
        site.cluster.custom("repositories", "team-a", "infra", wanted);
        site
    }

    async fn serve(&mut self) {
        let login = format!("KUBECONFIG={}", self.installation.path("kubeconfig").display());
        self.installation.serve_behind(&["env", &login], &arguments()).await;
    }

    /// What a layer wants that is applied at once.
    fn dns(&self) -> Value {
        let backend = json!({"type": "http", "config": self.backend.config()});
        json!({"repository": "infra", "path": "envs/dns", "strategy": "auto", "backend": backend})
    }

    fn layer(&self, name: &str, spec: Value) {
        self.cluster.custom("layers", "team-a", name, spec);
    }

    fn status(&self, plural: &str, name: &str) -> Value {
        self.cluster.custom_object(plural, "team-a", name)["status"].clone()
    }

    /// Waits until a condition of a resource has this status, and is about its newest generation. Returns its
    /// reason and its message.
    async fn until(&self, plural: &str, name: &str, kind: &str, status: &str) -> (String, String) {
        let find = || {
            let object = self.cluster.custom_object(plural, "team-a", name);
            let conditions = object["status"]["conditions"].as_array()?;
            let found = conditions.iter().find(|condition| condition["type"] == kind)?;
            let is_newest = found["observedGeneration"] == object["metadata"]["generation"];
            let text = |field: &str| found[field].as_str().unwrap().to_owned();
            (is_newest && found["status"] == status).then(|| (text("reason"), text("message")))
        };
        eventually(&format!("{plural}/{name}: {kind} {status}"), || find().is_some()).await;
        find().unwrap()
    }

    /// Waits until the server shows `team-a.dns` with this path. A resource is accepted as soon as it is in force, and
    /// what the server shows follows it.
    async fn until_path(&self, path: &str) {
        let is_shown = || self.installation.layer("team-a.dns")["path"] == path;
        eventually(&format!("the path {path}"), is_shown).await;
    }
}

fn arguments() -> Vec<String> {
    ["--resources", "team-a", "--allowed-git-host", "127.0.*"].map(str::to_owned).to_vec()
}

#[tokio::test]
async fn custom_resources_are_the_desired_state_and_their_status_says_what_is_reached() {
    let mut site = Site::new().await;
    site.layer("dns", site.dns());
    site.layer(
        "apps",
        json!({"repository": "infra", "paths": ["envs/[ad][pb]*"], "strategy": "plan-only"}),
    );
    // Another namespace is not the server's.
    site.cluster.custom("layers", "team-b", "dns", site.dns());
    let source = json!({"repository": "infra", "branch": "main"});
    let follower = json!({"source": source, "adapter": {"terraform": {"layer": "dns"}}});
    site.cluster.custom("followers", "team-a", "delivery", follower);
    site.serve().await;
    site.until("layers", "dns", "Ready", "True").await;
    let status = site.status("layers", "dns");
    assert_eq!(status["commit"], site.repository.head());
    assert!(["Noop", "Succeeded"].contains(&status["phase"].as_str().unwrap()), "{status}");
    site.until("layers", "dns", "Accepted", "True").await;
    site.until("layers", "dns", "Drifted", "Unknown").await;
    site.until("repositories", "infra", "Ready", "True").await;
    site.until("followers", "delivery", "Ready", "True").await;
    assert_eq!(site.status("followers", "delivery")["commit"], site.repository.head());
    let (reason, _) = site.until("layers", "apps", "Ready", "True").await;
    assert_eq!(reason, "AllReady");
    assert_eq!(site.status("layers", "apps")["layers"], 2);
    let listed = site.installation.json(&["layer", "list"]);
    let names: Vec<_> =
        listed["items"].as_array().unwrap().iter().map(|it| it["name"].clone()).collect();
    assert_eq!(names, ["team-a.apps.envs.app", "team-a.apps.envs.db", "team-a.dns"]);
    assert_eq!(site.cluster.custom_object("layers", "team-b", "dns")["status"], Value::Null);
    // A server that is started again plans nothing, and what it writes says the same.
    let written = site.cluster.custom_object("layers", "team-a", "dns");
    site.installation.kill().await;
    site.serve().await;
    site.repository
        .commit("Change the layer", &[("envs/dns/main.tf", &LAYER.replace("\"a\"", "\"b\""))]);
    site.installation.until("team-a.dns", "Succeeded", 4).await;
    let applied = |condition: &Value| condition["lastTransitionTime"].clone();
    eventually("the new commit", || {
        site.status("layers", "dns")["commit"] == site.repository.head()
    })
    .await;
    site.until("layers", "dns", "Ready", "True").await;
    let accepted = |object: &Value| applied(&object["status"]["conditions"][0]);
    let now = site.cluster.custom_object("layers", "team-a", "dns");
    assert_eq!(accepted(&now), accepted(&written), "what holds, holds since then");
    // The server forgets what is deleted, and destroys nothing.
    assert_eq!(now["metadata"]["finalizers"], Value::Null);
    site.cluster.delete_custom("layers", "team-a", "dns");
    eventually("a layer without a resource", || {
        site.installation.layer("team-a.dns")["phase"] == "Skipped"
    })
    .await;
    let runs = site.installation.runs("team-a.dns");
    assert!(runs.len() == 4 && runs.iter().all(|run| run["action"] != "destroy"), "{runs:#?}");
    let (_, message) = site.until("followers", "delivery", "Accepted", "False").await;
    assert!(message.contains("the namespace has no `Layer` `dns`"), "{message}");
}

#[tokio::test]
async fn secrets_of_the_namespace_are_read_when_they_are_needed() {
    let mut site = Site::new().await;
    let served = GitServer::with_login("ana", "s3cret");
    let wanted = json!({"url": served.url(&site.repository), "poll": "1s", "credentials": {"secret": {"name": "git"}}});
    site.cluster.custom("repositories", "team-a", "infra", wanted);
    let module = "variable \"db\" {\n  sensitive = true\n}\nresource \"terraform_data\" \"one\" {\n  input = \"ok\"\n  lifecycle {\n    precondition {\n      condition     = sha256(var.db) == \"DIGEST\"\n      error_message = \"another value\"\n    }\n  }\n}\n";
    let digest = hex::encode(Sha256::digest("hunter22"));
    let module = &module.replace("DIGEST", &digest);
    site.repository.commit("Use a variable", &[("envs/dns/main.tf", module)]);
    let mut layer = site.dns();
    layer["secrets"] = json!({"db": {"secret": {"name": "db", "key": "password"}}});
    site.layer("dns", layer);
    site.serve().await;
    let (reason, message) = site.until("repositories", "infra", "Ready", "False").await;
    assert_eq!(reason, "Unreadable");
    assert!(message.contains("the Secret `team-a/git`"), "{message}");
    let put = |name: &str, key: &str, value: &str| {
        let object = json!({"metadata": {"name": name, "namespace": "team-a"}, "data": {key: STANDARD.encode(value)}});
        site.cluster.put(&format!("/api/v1/namespaces/team-a/secrets/{name}"), object);
    };
    put("db", "password", "hunter22\n");
    let login =
        json!({"username": STANDARD.encode("ana"), "password": STANDARD.encode("s3cret\n")});
    let path = "/api/v1/namespaces/team-a/secrets/git";
    site.cluster
        .put(path, json!({"metadata": {"name": "git", "namespace": "team-a"}, "data": login}));
    site.until("layers", "dns", "Ready", "True").await;
    let log = std::fs::read_to_string(site.installation.path("server.log")).unwrap();
    assert!(!log.contains("hunter22") && !log.contains("s3cret"), "{log}");
}

#[tokio::test]
async fn invalid_resource_says_why_and_the_last_valid_one_stays_in_force() {
    let mut site = Site::new().await;
    site.layer("dns", site.dns());
    site.installation.configure("layers: {}");
    site.serve().await;
    site.until("layers", "dns", "Ready", "True").await;
    let mut wrong = site.dns();
    wrong["maxLog"] = json!("much");
    site.layer("dns", wrong);
    let (reason, message) = site.until("layers", "dns", "Accepted", "False").await;
    assert_eq!(reason, "Invalid");
    assert!(message.contains("the last valid generation stays in force"), "{message}");
    site.installation.until_problem(&["Layer team-a/dns: "]).await;
    assert!(
        ["Noop", "Succeeded"]
            .contains(&site.installation.layer("team-a.dns")["phase"].as_str().unwrap())
    );
    site.layer("dns", site.dns());
    site.until("layers", "dns", "Accepted", "True").await;
    // A name of the server's own configuration.
    let own = format!(
        "repositories: {{own: {{url: '{}'}}}}\nlayers: {{team-a.dns: {{repository: own, path: envs/app}}}}\n",
        site.repository.url()
    );
    site.installation.configure(&own);
    let (reason, message) = site.until("layers", "dns", "Accepted", "False").await;
    assert_eq!(reason, "NameConflict");
    assert!(message.contains("butler.yaml"), "{message}");
    site.installation
        .until_problem(&["butler.yaml:2:", "`team-a.dns` is also the custom resource"])
        .await;
    assert_eq!(site.installation.layer("team-a.dns")["path"], "envs/dns");
    // The configuration is in force as soon as the resource is gone, and then it is first, also after a restart.
    site.cluster.delete_custom("layers", "team-a", "dns");
    site.until_path("envs/app").await;
    site.layer("dns", site.dns());
    site.until("layers", "dns", "Accepted", "False").await;
    site.installation.kill().await;
    site.serve().await;
    site.installation.until_problem(&["Layer team-a/dns: ", "also given in"]).await;
    site.until_path("envs/app").await;
    site.installation.configure("layers: {}");
    site.until("layers", "dns", "Accepted", "True").await;
    site.until_path("envs/dns").await;
}

#[tokio::test]
async fn status_is_written_across_conflicts_slow_caches_and_watches_that_break() {
    let mut site = Site::new().await;
    site.layer("dns", site.dns());
    site.cluster.repeat_events();
    site.serve().await;
    site.until("layers", "dns", "Ready", "True").await;
    // The server does not see the newest version, whose status it changes.
    site.cluster.hold_events(true);
    site.cluster.touch("layers", "team-a", "dns");
    let commit = |value: &str| {
        let module = LAYER.replace("\"a\"", &format!("\"{value}\""));
        site.repository.commit("Change the layer", &[("envs/dns/main.tf", &module)])
    };
    let second = commit("b");
    site.installation.until("team-a.dns", "Succeeded", 4).await;
    eventually("a conflict", || site.cluster.conflicts() > 0).await;
    assert_ne!(site.status("layers", "dns")["commit"], second);
    let touched =
        site.cluster.custom_object("layers", "team-a", "dns")["metadata"]["labels"].clone();
    site.cluster.hold_events(false);
    eventually("the second commit", || site.status("layers", "dns")["commit"] == second).await;
    assert_eq!(
        site.cluster.custom_object("layers", "team-a", "dns")["metadata"]["labels"],
        touched
    );
    // Changes that no watch reports, because it breaks and its version is forgotten.
    site.cluster.hold_events(true);
    site.layer("late", json!({"repository": "infra", "path": "envs/app", "strategy": "plan-only"}));
    site.cluster.delete_custom("layers", "team-a", "dns");
    site.cluster.forget_history();
    site.cluster.break_watches();
    site.cluster.hold_events(false);
    site.installation.until("team-a.late", "Succeeded", 1).await;
    eventually("a layer without a resource", || {
        site.installation.layer("team-a.dns")["phase"] == "Skipped"
    })
    .await;
    // The cluster refuses a status, and answers again.
    let refused = FaultEffect::Status(
        403,
        "Forbidden",
        "layers.runner.butlerlabs.dev \"other\" is forbidden",
    );
    site.cluster.faults("PATCH", "layers/other/status", refused, 2);
    site.layer("other", site.dns());
    site.until("layers", "other", "Ready", "True").await;
    let log = std::fs::read_to_string(site.installation.path("server.log")).unwrap();
    assert_eq!(log.matches("cannot write the status of Layer team-a/other").count(), 1, "{log}");
}

#[tokio::test]
async fn followers_that_are_refused_are_blocked_and_statuses_are_written_side_by_side() {
    let mut site = Site::new().await;
    // Writes that waited for each other would never be answered.
    site.cluster.gather("PATCH", "/status", 8);
    let pod = json!({"apiVersion": "v1", "kind": "Pod"});
    let check = json!([{"path": "$.status.phase", "equals": "Succeeded"}]);
    let stage = json!({"name": "a", "kind": "job", "create": pod, "succeeded": check});
    let source = json!({"repository": "infra", "branch": "main"});
    let wrong = json!({"source": source, "adapter": {"kubernetes": {"stages": [stage]}}});
    let names: Vec<_> = (0..12).map(|number| format!("wrong-{number}")).collect();
    for name in &names {
        site.cluster.custom("followers", "team-a", name, wrong.clone());
    }
    site.serve().await;
    for name in &names {
        let (_, why) = site.until("followers", name, "Ready", "False").await;
        assert!(why.contains("cannot use `Pod`"), "{why}");
        assert_eq!(site.status("followers", name)["phase"], "Blocked");
    }
    for words in [&["follower", "status"][..], &["follower", "status", "--live"]] {
        let followers = site.installation.json(words)["followers"].clone();
        let followers = followers.as_array().unwrap();
        assert_eq!(followers.len(), names.len());
        for follower in followers {
            assert_eq!(follower["phase"], "Blocked");
            assert!(follower["message"].as_str().unwrap().contains("cannot use `Pod`"));
        }
    }
    let one = site.installation.json(&["follower", "status", "--follower", "team-a.wrong-0"]);
    assert_eq!(one["followers"][0]["phase"], "Blocked");
    let events = site.installation.ask(&["follower", "events", "--follower", "team-a.wrong-0"]);
    assert!(text(&events).contains("the definition of `team-a.wrong-0` is refused: "));
}
