//! Webhooks: git hosts tell about commits, with the headers and bodies of their documentation.

use butler_base::http::{self, Redirects};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::*;
use butler_testing::documented::assert_output_documented;

const SECRET: &str = "It's a Secret to Everybody";

/// The headers and the body of a push, as the documentation of each host shows them, shortened.
const PUSHES: [(&str, &str, &str); 5] = [
    ("github", "x-github-event: push", include_str!("webhooks/github-push.json")),
    ("gitlab", "x-gitlab-event: Push Hook", include_str!("webhooks/gitlab-push.json")),
    ("bitbucket", "x-event-key: repo:push", include_str!("webhooks/bitbucket-push.json")),
    ("gitea", "x-gitea-event: push", include_str!("webhooks/gitea-push.json")),
    ("generic", "x-request-id: 1", "{}"),
];

/// A git host that delivers to a server.
struct Host {
    http: reqwest::Client,
    address: String,
    provider: &'static str,
    event: &'static str,
    body: &'static str,
}

impl Host {
    fn new(installation: &Installation, push: (&'static str, &'static str, &'static str)) -> Self {
        let (provider, event, body) = push;
        Self {
            http: http::client(None, Redirects::Refuse).unwrap(),
            address: installation.server.as_ref().unwrap().address.clone(),
            provider,
            event,
            body,
        }
    }

    /// The header with the proof of `body`.
    fn proof(&self, secret: &str, body: &[u8]) -> (&'static str, String) {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
        mac.update(body);
        let digits = hex::encode(mac.finalize().into_bytes());
        match self.provider {
            "github" => ("x-hub-signature-256", format!("sha256={digits}")),
            "gitlab" => ("x-gitlab-token", secret.to_owned()),
            "bitbucket" => ("x-hub-signature", format!("sha256={digits}")),
            "gitea" => ("x-gitea-signature", digits),
            _ => ("x-butler-signature-256", format!("sha256={digits}")),
        }
    }

    /// Delivers to the webhook of a repository. Returns the status, and whether the repository is read.
    async fn send(&self, repository: &str, secret: &str, body: Vec<u8>) -> (u16, Value) {
        let (header, proof) = self.proof(secret, &body);
        let (kind, event) = self.event.split_once(": ").unwrap();
        let request = self.http.post(format!("{}/webhooks/{repository}", self.address));
        let request = request.header(header, proof).header(kind, event);
        let answer = request.header("content-type", "application/json").body(body).send();
        let answer = answer.await.unwrap();
        let status = answer.status().as_u16();
        (status, serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap())
    }

    async fn push(&self, repository: &str) -> (u16, Value) {
        self.send(repository, SECRET, self.body.into()).await
    }
}

/// A server with a layer in each of these repositories, which are polled once an hour.
async fn serve(repositories: &[(&'static str, &Repository)]) -> Installation {
    let mut installation = Installation::new();
    let secret = installation.path("secret");
    std::fs::write(&secret, format!("{SECRET}\n")).unwrap();
    let entry = |(provider, repository): &(&str, &Repository)| {
        format!(
            "  {provider}: {{url: '{}', poll: 1h, webhook: {{provider: {provider}, secret-file: {}}}}}\n",
            repository.url(),
            secret.display()
        )
    };
    let layer = |(provider, _): &(&str, &Repository)| {
        format!("  {provider}: {{repository: {provider}, path: a, strategy: plan-only}}\n")
    };
    installation.configure(&format!(
        "repositories:\n{}  silent: {{url: '{}', poll: 1h}}\nlayers:\n{}",
        repositories.iter().map(entry).collect::<String>(),
        repositories[0].1.url(),
        repositories.iter().map(layer).collect::<String>()
    ));
    installation.serve(&[]).await;
    installation
}

#[test]
fn settings_of_a_webhook_are_printed_as_documented() {
    let directory = tempfile::tempdir().unwrap();
    let hook = |provider: &str| {
        let configuration = format!(
            "repositories:
  infra:
    url: https://git.example.com/acme/infra.git
    webhook: {{provider: {provider}, secret-file: /run/secrets/infra-hook}}
  silent: {{url: 'https://git.example.com/acme/silent.git'}}
"
        );
        std::fs::write(directory.path().join("butler.yaml"), configuration).unwrap();
    };
    let ask = |words: &[&str]| {
        let output = runner().args(words).current_dir(directory.path()).output().unwrap();
        (output.status.code(), text(&output))
    };
    let words = ["config", "webhook", "infra", "--public-url", "https://butler.example.com"];
    hook("github");
    let (code, printed) = ask(&words);
    assert_eq!(code, Some(0), "{printed}");
    let output = format!("$ butler-runner {}\n{printed}", words.join(" "));
    assert_output_documented("docs/webhooks.md", "github webhook", &output);
    for (provider, ..) in PUSHES {
        hook(provider);
        let (code, printed) = ask(&words);
        let address = "https://butler.example.com/webhooks/infra";
        let has_all = [address, "/run/secrets/infra-hook"].iter().all(|it| printed.contains(it));
        assert!(code == Some(0) && has_all, "{printed}");
    }
    let silent = ask(&["config", "webhook", "silent", "--public-url", "https://b.example.com"]);
    assert!(silent.0 == Some(1) && silent.1.contains("add `webhook: "), "{silent:?}");
    let unknown = ask(&["config", "webhook", "none", "--public-url", "https://b.example.com"]);
    assert!(unknown.0 == Some(1) && unknown.1.contains("`infra`, `silent`"), "{unknown:?}");
    let unreachable = ask(&["config", "webhook", "infra"]);
    assert!(unreachable.0 == Some(2) && unreachable.1.contains("--public-url"), "{unreachable:?}");
}

#[tokio::test]
async fn push_of_each_host_is_planned_at_once() {
    let repository = Repository::create(&[("a/main.tf", LAYER)]);
    let of_hosts = PUSHES.map(|(provider, ..)| (provider, &repository));
    let installation = serve(&of_hosts).await;
    for (provider, _) in of_hosts {
        installation.until(provider, "Succeeded", 1).await;
    }
    repository.commit("Change", &[("a/main.tf", &LAYER.replace("\"a\"", "\"b\""))]);
    for push in PUSHES {
        let host = Host::new(&installation, push);
        let provider = host.provider;
        assert_eq!(
            host.push(provider).await,
            (202, serde_json::json!({"repository": provider, "read": true}))
        );
        installation.until(provider, "Succeeded", 2).await;
    }
    let repositories = installation.json(&["layer", "list"]);
    assert_eq!(repositories["problems"], serde_json::json!([]));
}

#[tokio::test]
async fn burst_of_deliveries_makes_one_run_of_each_commit() {
    let repository = Repository::create(&[("a/main.tf", LAYER)]);
    let installation = serve(&[("github", &repository)]).await;
    installation.until("github", "Succeeded", 1).await;
    repository.commit("Change", &[("a/main.tf", &LAYER.replace("\"a\"", "\"b\""))]);
    let host = Host::new(&installation, PUSHES[0]);
    let polls = || installation.json(&["layer", "sync", "github"])["poll"].as_u64().unwrap();
    let before = polls();
    let begun = std::time::Instant::now();
    let deliveries = (0..1_000).map(|_| host.push("github"));
    let answers = futures_util::future::join_all(deliveries).await;
    assert!(answers.iter().all(|(status, _)| *status == 202));
    installation.until("github", "Succeeded", 2).await;
    // The polls of both requests, and those that follow the deliveries: one at once, one later.
    // On a slow machine there is more than one later one.
    let later = begun.elapsed().as_secs() / 5;
    assert!(polls() <= before + 4 + later, "a delivery that is repeated is not followed each time");
    assert!(installation.ask(&["layer", "sync", "github", "--wait"]).status.success());
    assert_eq!(installation.runs("github").len(), 2);
}

#[tokio::test]
async fn only_signed_deliveries_of_known_repositories_are_accepted() {
    let repository = Repository::create(&[("a/main.tf", LAYER)]);
    let of_hosts = PUSHES.map(|(provider, ..)| (provider, &repository));
    let installation = serve(&of_hosts).await;
    for push in PUSHES {
        let host = Host::new(&installation, push);
        let provider = host.provider;
        let (status, answer) = host.send(provider, "another secret", host.body.into()).await;
        assert_eq!((status, &answer["error"]["code"]), (401, &"unauthorized".into()), "{provider}");
        // One without a webhook does not differ from one that does not exist.
        let (silent, unknown) = (host.push("silent").await, host.push("nothing").await);
        assert_eq!((silent.0, unknown.0), (404, 404), "{provider}");
        let message =
            |answer: &Value, name: &str| answer["error"].to_string().replace(name, "NAME");
        assert_eq!(message(&silent.1, "silent"), message(&unknown.1, "nothing"));
        // The largest body that GitHub sends, and a larger one.
        let (largest, larger) = (vec![b' '; 25 << 20], vec![b' '; (25 << 20) + 1]);
        assert_eq!(host.send(provider, SECRET, largest).await.0, 202, "{provider}");
        assert_eq!(host.send(provider, SECRET, larger).await.0, 413, "{provider}");
    }
    let github = Host { event: "x-github-event: ping", ..Host::new(&installation, PUSHES[0]) };
    let body = include_str!("webhooks/github-ping.json");
    let (status, answer) = github.send("github", SECRET, body.into()).await;
    assert_eq!((status, &answer["read"]), (202, &Value::Bool(false)));
    let log = std::fs::read_to_string(installation.path("server.log")).unwrap();
    assert!(log.contains("no valid signature") && !log.contains(SECRET), "{log}");
}
