//! Notifications of a server, to receivers that listen on this machine.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use super::files::Files;
use super::*;
use butler_testing::files_provider::FilesProvider;
use butler_testing::world::files_with;

/// The part of each address that no person may see.
const ADDRESS: &str = "T0001-a-secret-address";

/// The key of generic messages.
const KEY: &str = "hunter22-a-secret-key";

/// A module whose plan fails for good.
const FAILS: &str = "resource \"x\" {}\n";

/// One request that a receiver got.
#[derive(Clone, Debug)]
struct Got {
    head: String,
    body: String,
    status: u16,
}

impl Got {
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// A receiver. It answers with the given statuses, and then with 204.
struct Listener {
    port: u16,
    got: Arc<Mutex<Vec<Got>>>,
    statuses: Arc<Mutex<VecDeque<u16>>>,
}

impl Listener {
    fn start(statuses: impl IntoIterator<Item = u16>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let statuses = Arc::new(Mutex::new(statuses.into_iter().collect::<VecDeque<_>>()));
        let got = Arc::<Mutex<Vec<Got>>>::default();
        let (answers, requests) = (Arc::clone(&statuses), Arc::clone(&got));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                answer(stream, &answers, &requests);
            }
        });
        Self { port, got, statuses }
    }

    fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }

    /// The bodies that were acknowledged.
    fn accepted(&self) -> Vec<Value> {
        let got = self.got().into_iter().filter(|it| it.status == 204);
        got.map(|it| it.json()).collect()
    }

    /// The events and layers of acknowledged generic messages.
    fn events(&self) -> Vec<String> {
        let accepted = self.accepted().into_iter();
        let word = |body: &Value, key: &str| body[key].as_str().unwrap().to_owned();
        accepted.map(|body| format!("{} {}", word(&body, "layer"), word(&body, "event"))).collect()
    }

    /// Writes the files of the receiver. Returns its entry in the configuration.
    fn entry(&self, installation: &Installation, name: &str, more: &str) -> String {
        let address = format!("http://127.0.0.1:{}/services/{ADDRESS}\n", self.port);
        let (url, key) = (installation.path(&format!("{name}.url")), installation.path("key"));
        std::fs::write(&url, address).unwrap();
        std::fs::write(&key, format!("{KEY}\n")).unwrap();
        let signed = format!("format: generic, secret-file: {}", key.display());
        let more = more.replace("GENERIC", &signed);
        format!("  - {{name: {name}, url-file: {}, {more}}}\n", url.display())
    }
}

fn answer(stream: TcpStream, statuses: &Mutex<VecDeque<u16>>, got: &Mutex<Vec<Got>>) {
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        // The server can have been killed after it connected.
        if stream.read_line(&mut head).map_or(true, |read| read == 0) {
            return;
        }
    }
    let length = head.lines().filter_map(|line| line.split_once(": "));
    let mut length = length.filter(|(key, _)| key.eq_ignore_ascii_case("content-length"));
    let length = length.next().map_or(0, |(_, length)| length.parse().unwrap());
    let mut body = vec![0; length];
    if stream.read_exact(&mut body).is_err() {
        return;
    }
    let status = statuses.lock().unwrap().pop_front().unwrap_or(204);
    let body = String::from_utf8(body).unwrap();
    got.lock().unwrap().push(Got { head, body, status });
    let answer = format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    // The server can have been killed meanwhile.
    let _ = stream.get_mut().write_all(answer.as_bytes());
}

/// The configuration of layers, each in a directory with its name, that a person must approve.
fn configuration(repository: &Repository, layers: &[&str], receivers: &str) -> String {
    let entries = layers.iter().map(|name| {
        format!("  {name}: {{repository: infra, path: envs/{name}, backend: {{type: local}}}}\n")
    });
    format!(
        "repositories: {{infra: {{url: '{}', poll: 1s}}}}\nlayers:\n{}notifications:\n{receivers}",
        repository.url(),
        entries.collect::<String>(),
    )
}

/// The address and the key are neither in a file of the server nor in what it prints.
fn assert_secret(installation: &Installation) {
    for secret in [ADDRESS, KEY] {
        assert_eq!(files_with(&installation.data(), secret), Vec::<PathBuf>::new());
        let log = std::fs::read_to_string(installation.path("server.log")).unwrap();
        assert!(!log.contains(secret), "{log}");
    }
}

#[tokio::test]
async fn failure_plan_that_waits_and_recovery_are_told_in_each_format() {
    let repository = Repository::create(&[("envs/a/main.tf", FAILS), ("envs/b/main.tf", LAYER)]);
    let mut installation = Installation::new();
    let (generic, slack, teams) = (Listener::start([]), Listener::start([]), Listener::start([]));
    let receivers = [
        generic.entry(
            &installation,
            "generic",
            "GENERIC, on: [failed, waiting, resolved, applied]",
        ),
        slack.entry(&installation, "slack", "format: slack, on: [waiting]"),
        teams.entry(&installation, "teams", "format: teams, on: [failed, waiting], layers: [a]"),
    ];
    installation.configure(&configuration(&repository, &["a", "b"], &receivers.concat()));
    let public = ["--public-url", "https://butler.example.com/prefix"].map(str::to_owned);
    installation.serve(&public).await;
    eventually("a failure and a plan that waits", || generic.got().len() >= 2).await;
    let mut events = generic.events();
    events.sort();
    assert_eq!(events, ["a failed", "b waiting"]);

    // What the documentation says about signatures.
    for got in generic.got() {
        let mut openssl = std::process::Command::new("openssl");
        openssl.args(["dgst", "-sha256", "-r", "-hmac", KEY]).stdin(Stdio::piped());
        let mut openssl = openssl.stdout(Stdio::piped()).spawn().unwrap();
        openssl.stdin.take().unwrap().write_all(got.body.as_bytes()).unwrap();
        let digest = String::from_utf8(openssl.wait_with_output().unwrap().stdout).unwrap();
        let digest = format!("sha256={}", digest.split(' ').next().unwrap());
        assert_eq!(got.header("x-butler-signature-256"), Some(&*digest));
        let body = got.json();
        assert_eq!(got.header("x-butler-delivery"), body["id"].as_str());
        assert_eq!(got.header("x-butler-event"), body["event"].as_str());
    }
    let accepted = generic.accepted();
    let waiting = accepted.iter().find(|body| body["event"] == "waiting").unwrap();
    let run = installation.runs("b")[0].clone();
    assert_eq!((&waiting["run"], &waiting["commit"]), (&run["id"], &run["commit"]));
    assert_eq!(waiting["counts"]["add"], 1);
    let page = format!("https://butler.example.com/prefix/runs/{}", run["id"].as_str().unwrap());
    assert_eq!(waiting["url"], page);
    eventually("a message in Slack", || !slack.got().is_empty()).await;
    let message = slack.accepted()[0]["blocks"].to_string();
    assert!(message.contains("b: plan waits for approval"), "{message}");
    assert!(message.contains("1 to add") && message.contains(&page), "{message}");
    eventually("a card in Teams", || !teams.got().is_empty()).await;
    let card = teams.accepted()[0]["attachments"][0]["content"]["body"].to_string();
    assert!(card.contains("a: plan failed"), "{card}");

    repository.commit("Fix", &[("envs/a/main.tf", LAYER)]);
    assert!(installation.ask(&["layer", "apply", "b", "--wait"]).status.success());
    // A plan that works again and waits is told once: as what was selected first.
    eventually("an apply and a plan", || generic.got().len() >= 4).await;
    let mut events = generic.events();
    events.sort();
    assert_eq!(events, ["a failed", "a waiting", "b applied", "b waiting"]);
    let metrics = super::metrics::scraped(&installation);
    let series = "butler_notifications_total{receiver=\"teams\",result=\"delivered\"} 2";
    eventually("a card about the plan", || teams.got().len() == 2).await;
    assert!(metrics.contains("butler_notifications_total{receiver=\"slack\""), "{metrics}");
    eventually("deliveries that are counted", || {
        super::metrics::scraped(&installation).contains(series)
    })
    .await;
    assert!(!installation.json(&["layer", "list"]).to_string().contains(ADDRESS));
    assert_eq!(installation.terminate().await, Some(0));
    assert_secret(&installation);
}

#[tokio::test]
async fn receiver_that_answers_500_twice_gets_the_notification_once() {
    let repository = Repository::create(&[("envs/a/main.tf", FAILS)]);
    let (mut installation, listener) = (Installation::new(), Listener::start([500, 500]));
    let receiver = listener.entry(&installation, "generic", "GENERIC, on: [failed]");
    installation.configure(&configuration(&repository, &["a"], &receiver));
    installation.serve(&[]).await;
    eventually("a delivery", || !listener.accepted().is_empty()).await;
    assert_eq!(installation.terminate().await, Some(0));
    let got = listener.got();
    assert_eq!(got.iter().map(|it| it.status).collect::<Vec<_>>(), [500, 500, 204]);
    let ids: std::collections::BTreeSet<_> =
        got.iter().map(|it| it.header("x-butler-delivery")).collect();
    assert_eq!(ids.len(), 1);
    assert_secret(&installation);
}

#[tokio::test]
async fn server_that_is_killed_between_two_tries_delivers_once_when_it_starts_again() {
    let repository = Repository::create(&[("envs/a/main.tf", FAILS), ("envs/b/main.tf", FAILS)]);
    let mut installation = Installation::new();
    let listener = Listener::start(vec![503; 1_000]);
    let receiver = listener.entry(&installation, "generic", "GENERIC, on: [failed]");
    installation.configure(&configuration(&repository, &["a"], &receiver));
    installation.serve(&[]).await;
    eventually("a try", || !listener.got().is_empty()).await;
    installation.kill().await;
    listener.statuses.lock().unwrap().clear();
    installation.serve(&[]).await;
    eventually("a delivery", || !listener.accepted().is_empty()).await;
    assert_eq!(installation.terminate().await, Some(0));
    // What follows shows that the first one is not sent again.
    installation.configure(&configuration(&repository, &["a", "b"], &receiver));
    installation.serve(&[]).await;
    eventually("another delivery", || listener.events().len() >= 2).await;
    assert_eq!(installation.terminate().await, Some(0));
    assert_eq!(listener.events(), ["a failed", "b failed"]);
    let of_a = |got: &&Got| got.json()["layer"] == "a";
    let got = listener.got();
    let ids: Vec<_> = got.iter().filter(of_a).map(|it| it.json()["id"].clone()).collect();
    assert!(ids.len() >= 2 && ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_secret(&installation);
}

#[tokio::test]
async fn drift_and_its_end_are_told_once() {
    let module = |managed: &Path| FilesProvider::module(&[(&managed.join("one"), "first")]);
    // The first check for drift of this name is due a few seconds after its apply.
    let layer = "files19";
    let mut files = Files::serve(layer, "drift: {every: 1m, repair: true}", module).await;
    files.installation.until(layer, "Succeeded", 2).await;
    assert_eq!(files.installation.terminate().await, Some(0));
    let listener = Listener::start([]);
    let receiver = listener.entry(&files.installation, "generic", "GENERIC, on: [drift, resolved]");
    let path = files.installation.path("butler.yaml");
    let before = std::fs::read_to_string(&path).unwrap();
    files.installation.configure(&format!("{before}notifications:\n{receiver}"));
    files.write("one", "changed by hand");
    files.start().await;
    eventually("drift that is gone", || listener.got().len() >= 2).await;
    assert_eq!(files.installation.terminate().await, Some(0));
    assert_eq!(listener.events(), ["files19 drift", "files19 resolved"]);
    assert_secret(&files.installation);
}
