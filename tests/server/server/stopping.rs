//! A server that ends its attempts before it ends.

use butler_base::platform::ask_to_end;
use nix::sys::signal::{Signal, kill};

use super::faults::HeldBackend;
use super::*;

/// A server with a plan that waits for a state.
struct Held {
    installation: Installation,
    backend: HeldBackend,
    arguments: Vec<String>,
    _repository: Repository,
}

impl Held {
    async fn start(words: &[&str], further: &[&str]) -> Self {
        let mut installation = Installation::new();
        let backend = HeldBackend::start().await;
        let repository = Repository::create(&[("envs/a/main.tf", &backend.reading_module())]);
        let arguments = Installation::quick_start(&repository);
        let further = further.iter().map(|word| (*word).to_owned());
        let all: Vec<String> = arguments.iter().cloned().chain(further).collect();
        installation.serve_behind(words, &all).await;
        backend.wait_for_request().await;
        Self { installation, backend, arguments, _repository: repository }
    }

    /// Waits until Terraform has the signal.
    async fn until_interrupted(&self) {
        let log = attempts(&self.installation.data()).remove(0).join("log.jsonl");
        eventually("an interruption", || {
            std::fs::read_to_string(&log).unwrap_or_default().contains("Interrupt received")
        })
        .await;
    }

    /// Whether the server still runs.
    fn is_serving(&mut self) -> bool {
        let server = self.installation.server.as_mut().unwrap();
        server.process.try_wait().unwrap().is_none()
    }

    /// How the first attempt ended, as the next server knows it.
    async fn outcome(&mut self) -> Value {
        self.installation.serve(&self.arguments).await;
        let outcome = || self.installation.runs("envs.a")[0]["attempts"][0]["outcome"].clone();
        eventually("the end of the first attempt", || !outcome().is_null()).await;
        outcome()
    }

    /// The server waits for the attempt, which ends as after any signal.
    async fn ends_with_its_attempt(mut self) {
        self.until_interrupted().await;
        assert!(self.is_serving());
        let directory = attempts(&self.installation.data()).remove(0);
        assert!(directory.join("home").exists());
        self.backend.release();
        assert_eq!(self.installation.ended().await, Some(0));
        // Its process has ended, and nothing temporary is left.
        assert!(!directory.join("home").exists());
        let outcome = self.outcome().await;
        // It reported its end: it is not lost.
        let outcome = outcome.as_str().unwrap();
        assert!(outcome.contains("machine"), "{outcome}");
        // It is made again.
        self.installation.until("envs.a", "Failed", 1).await;
    }
}

#[tokio::test]
async fn attempts_are_ended_and_waited_for_if_that_is_asked_for() {
    let held = Held::start(&[], &["--stop-attempts"]).await;
    ask_to_end(held.installation.pid());
    held.ends_with_its_attempt().await;
}

#[tokio::test]
async fn server_as_process_1_ends_its_attempts() {
    let words = unshare(&["--pid", "--fork", "--kill-child", "--mount-proc"]);
    let held = Held::start(&words, &[]).await;
    let unshare = held.installation.pid();
    let children = format!("/proc/{unshare}/task/{unshare}/children");
    let children = std::fs::read_to_string(children).unwrap();
    ask_to_end(Pid::from_raw(children.trim().parse().unwrap()));
    held.ends_with_its_attempt().await;
}

#[tokio::test]
async fn server_leaves_attempts_alone_otherwise() {
    let mut held = Held::start(&[], &[]).await;
    assert_eq!(held.installation.terminate().await, Some(0));
    held.backend.release();
    held.installation.serve(&held.arguments).await;
    let outcome = || held.installation.runs("envs.a")[0]["attempts"][0]["outcome"].clone();
    eventually("the end of the attempt", || !outcome().is_null()).await;
    let log = attempts(&held.installation.data()).remove(0).join("log.jsonl");
    assert!(!std::fs::read_to_string(log).unwrap().contains("Interrupt received"));
}

#[tokio::test]
async fn second_signal_and_the_limit_end_the_wait_for_attempts() {
    for (limit, is_signalled) in [("6s", false), ("10m", true)] {
        let further = ["--stop-attempts", "--stop-timeout", limit];
        let mut held = Held::start(&[], &further).await;
        ask_to_end(held.installation.pid());
        held.until_interrupted().await;
        if is_signalled {
            // Another signal is not taken for an echo of the first one.
            kill(held.installation.pid(), Signal::SIGINT).unwrap();
        }
        assert_eq!(held.installation.ended().await, Some(0), "{limit}");
        // The attempt goes on, and its report is not lost.
        held.backend.release();
        let outcome = held.outcome().await;
        assert_ne!(outcome, "its process ended without a report", "{limit}");
    }
}
