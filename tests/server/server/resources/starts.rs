//! Servers that start while they cannot list all custom resources.

use butler_testing::curl;

use super::*;

/// The answer of an API server to a user who may not list layers in a namespace.
const FORBIDDEN: FaultEffect = FaultEffect::Status(
    403,
    "Forbidden",
    "layers.runner.butlerlabs.dev is forbidden: User \"butler\" cannot list resource \"layers\"",
);

/// The answer of an API server about a kind that it does not have.
const NO_KIND: FaultEffect =
    FaultEffect::Status(404, "NotFound", "the server could not find the requested resource");

impl Site {
    /// Gives the team in `team-b` a repository, and the layer `web` with a state of its own.
    async fn with_second_team(&self) -> HttpBackend {
        let backend = HttpBackend::start().await;
        let wanted = json!({"url": self.served.url(&self.repository), "poll": "1s"});
        self.cluster.custom("repositories", "team-b", "infra", wanted);
        let state = json!({"type": "http", "config": backend.config()});
        let web = json!({"repository": "infra", "path": "envs/app", "strategy": "auto", "backend": state});
        self.cluster.custom("layers", "team-b", "web", web);
        backend
    }

    /// Starts a server of both teams.
    async fn serve_both(&mut self) {
        let login = format!("KUBECONFIG={}", self.installation.path("kubeconfig").display());
        let mut arguments = arguments();
        arguments.extend(["--resources", "team-b"].map(str::to_owned));
        self.installation.serve_behind(&["env", &login], &arguments).await;
    }

    /// The answer of `/readyz`.
    fn ready(&self) -> (u16, Value) {
        let address = &self.installation.server.as_ref().unwrap().address;
        curl::json(&format!("{address}/readyz"))
    }

    /// The names of all layers that are shown as configured.
    fn listed(&self) -> Vec<String> {
        let listed = self.installation.json(&["layer", "list"]);
        let items = listed["items"].as_array().unwrap().iter();
        items.map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    }

    fn reasons(&self, layer: &str) -> String {
        self.installation.layer(layer)["reasons"].to_string()
    }
}

/// Library lines, and the text of their errors.
fn assert_own_lines(log: &str) {
    for foreign in ["initlist", "watch list error", "Api(Status", "ApiError", "Unsuccessful data"] {
        assert!(!log.contains(foreign), "{foreign}: {log}");
    }
}

#[tokio::test]
async fn namespace_that_cannot_be_listed_is_held_and_the_others_go_on() {
    let mut site = Site::new().await;
    site.layer("dns", site.dns());
    let backend = site.with_second_team().await;
    site.serve_both().await;
    site.until("layers", "dns", "Ready", "True").await;
    site.installation.until("team-b.web", "Succeeded", 2).await;
    site.installation.until_free("team-b.web").await;
    let state = backend.state().unwrap();
    site.installation.kill().await;

    // The `RoleBinding` of one team is gone.
    site.cluster.faults("GET", "/namespaces/team-b/layers", FORBIDDEN, usize::MAX);
    let before = site.installation.server_log().len();
    site.serve_both().await;
    let log = |site: &Site| site.installation.server_log()[before..].to_owned();
    // The server works for the other team.
    let commit =
        site.repository.commit("Change", &[("envs/dns/main.tf", &LAYER.replace("\"a\"", "\"b\""))]);
    site.installation.until("team-a.dns", "Succeeded", 4).await;
    eventually("the new commit", || site.status("layers", "dns")["commit"] == commit).await;
    // What the other one has defined is known, and nothing happens to it.
    assert_eq!(site.listed(), ["team-a.dns", "team-b.web"]);
    let web = site.installation.layer("team-b.web");
    assert_eq!(web["phase"], "Blocked", "{web}");
    assert!(site.reasons("team-b.web").contains("namespace `team-b` cannot be listed"), "{web}");
    let forgotten = site.installation.ask(&["layer", "forget", "team-b.web"]);
    assert_eq!(forgotten.status.code(), Some(1), "{}", text(&forgotten));
    let web = site.cluster.custom_object("layers", "team-b", "web")["status"].clone();
    assert!(web["conditions"][0]["status"] == "True", "its status is left alone: {web}");
    eventually("the status of a resource that is held", || {
        let infra = site.cluster.custom_object("repositories", "team-b", "infra");
        let conditions = infra["status"]["conditions"].as_array().unwrap().clone();
        conditions.iter().any(|it| it["type"] == "Ready" && it["reason"] == "NotListed")
    })
    .await;
    let runs = site.installation.runs("team-b.web");
    assert!(runs.len() == 2 && runs.iter().all(|run| run["action"] != "destroy"), "{runs:#?}");
    assert_eq!(backend.state().unwrap(), state);
    // It is said: to probes, to people, and once in the log.
    let ready = json!({"ok": true, "isolation": "none", "failed": "resources"});
    let (code, mut said) = site.ready();
    said["isolation"] = "none".into();
    assert_eq!((code, said), (200, ready));
    site.installation.until_problem(&["cannot list layers in the namespace `team-b`"]).await;
    site.installation.until_problem(&["generate server --resources team-b"]).await;
    assert_eq!(log(&site).matches(" WARN cannot list").count(), 1, "{}", log(&site));
    assert_own_lines(&log(&site));

    // The administrator repairs it.
    site.cluster.heal();
    eventually("a layer that is known", || {
        ["Noop", "Succeeded"]
            .contains(&site.installation.layer("team-b.web")["phase"].as_str().unwrap())
    })
    .await;
    assert_eq!(site.installation.runs("team-b.web").len(), 2, "what is applied stays applied");
    let again = "the custom resources in the namespace `team-b` can be read again";
    assert_eq!(log(&site).matches(again).count(), 1, "{}", log(&site));
    assert_eq!(site.installation.problems(), Vec::<String>::new());
    assert_eq!(site.ready().1["failed"], Value::Null);
}

#[tokio::test]
async fn server_starts_while_the_api_server_refuses_or_is_busy() {
    for (what, path, fault, said) in [
        ("a kind is missing", "/layers", NO_KIND, "could not find the requested resource"),
        ("it may list nothing", "/repositories", FORBIDDEN, "is forbidden"),
        ("new kinds are not served yet", "/layers", FaultEffect::Later, "too many requests (429)"),
        (
            "its database is away",
            "/repositories",
            FaultEffect::Status(503, "ServiceUnavailable", "etcd is away"),
            "etcd is away (503)",
        ),
    ] {
        let mut site = Site::new().await;
        site.layer("dns", site.dns());
        site.cluster.faults("GET", path, fault, usize::MAX);
        site.serve().await;
        site.installation.until_problem(&["cannot list ", "`team-a`", said]).await;
        assert_eq!(site.ready().0, 200, "{what}");
        site.cluster.heal();
        site.until("layers", "dns", "Ready", "True").await;
        let log = site.installation.server_log();
        assert_eq!(log.matches(" WARN cannot list").count(), 1, "{what}: {log}");
        assert_eq!(log.matches("can be read again").count(), 1, "{what}: {log}");
        assert_own_lines(&log);
    }
}

#[tokio::test]
async fn server_starts_while_the_api_server_is_away() {
    let mut site = Site::new().await;
    site.layer("dns", site.dns());
    site.cluster.go_away().await;
    site.serve_both().await;
    site.installation.until_problems(2, &["cannot list ", "does not answer"]).await;
    assert_eq!(site.ready().1["failed"], "resources");
    site.cluster.come_back().await;
    site.until("layers", "dns", "Ready", "True").await;
    let log = site.installation.server_log();
    assert_eq!(log.matches("does not answer").count(), 1, "{log}");
    eventually("the end of the outage", || {
        site.installation.server_log().matches("the custom resources can be read again").count()
            == 1
    })
    .await;
    assert_own_lines(&log);
}

#[tokio::test]
async fn server_without_a_usable_kubeconfig_ends_before_anything_is_written() {
    let site = Site::new().await;
    for (content, expected) in [
        (None, "no cluster is known"),
        (Some("clusters: ["), "cannot parse the kubeconfig"),
        (Some("{}"), "kubeconfig"),
    ] {
        let login = site.installation.path("other");
        if let Some(content) = content {
            std::fs::write(&login, content).unwrap();
        }
        let mut command = site.installation.command(&["serve", "--listen", "127.0.0.1:0"]);
        let output = command.args(arguments()).env("KUBECONFIG", &login).output().await.unwrap();
        let printed = text(&output);
        assert_eq!(output.status.code(), Some(1), "{printed}");
        assert!(printed.contains(expected), "{printed}");
        assert!(!site.installation.data().join("store.sqlite").exists());
    }
    let mut command = site.installation.command(&["serve", "--once"]);
    let output = command.args(arguments()).output().await.unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("--resources") && text(&output).contains("--once"));
}
