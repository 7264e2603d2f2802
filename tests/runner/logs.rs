//! Log lines from a real process through the redactor and the queue to a real server or pipe.
#![expect(clippy::unwrap_used, reason = "the lint spares test functions, but not what they call")]

use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::routing::post;
use butler_base::cancel::Stop;
use butler_base::event::LogLine;
use butler_base::process::{Command, Environment, Grace, supervise};
use butler_base::secret::Redactor;
use butler_runner::report::{
    Batch, Delivery, LogSink, Receiver, RunLog, UploadEnd, UploadReport, channel, show, upload,
};
use secrecy::SecretString;
use tokio::sync::watch;

const LINES: u32 = 200_000;

/// Longer than any test: nothing happens because of this interval.
const NEVER: Duration = Duration::from_hours(1);

/// A server for `POST /logs` on loopback; it ends with the test's runtime.
struct Server {
    url: String,
    shared: Arc<Shared>,
}

struct Shared {
    /// The number of requests that have started.
    begun: watch::Sender<usize>,
    answered: AtomicUsize,
    /// The response; `None` makes requests wait.
    answer: watch::Sender<Option<StatusCode>>,
    stored: Mutex<Vec<LogLine>>,
}

#[derive(serde::Deserialize)]
struct Logs {
    logs: Vec<LogLine>,
}

impl Server {
    async fn start(answer: Option<StatusCode>, largest_body: usize) -> Self {
        let shared = Arc::new(Shared {
            begun: watch::Sender::new(0),
            answered: AtomicUsize::new(0),
            answer: watch::Sender::new(answer),
            stored: Mutex::default(),
        });
        let app = axum::Router::new()
            .route("/logs", post(logs))
            .layer(DefaultBodyLimit::max(largest_body))
            .with_state(Arc::clone(&shared));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/logs", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, shared }
    }

    async fn until_begun(&self, requests: usize) {
        self.shared.begun.subscribe().wait_for(|begun| *begun >= requests).await.unwrap();
    }

    fn requests(&self) -> usize {
        *self.shared.begun.borrow()
    }

    /// All stored lines, after a check of their numbers.
    fn content(&self) -> Vec<String> {
        let stored = self.shared.stored.lock().unwrap();
        let numbers: Vec<u64> = stored.iter().map(|line| u64::from(line.sequence)).collect();
        assert!(numbers.into_iter().eq(1..=stored.len() as u64), "not in order, or not once");
        stored.iter().map(|line| line.content.clone()).collect()
    }
}

async fn logs(
    State(shared): State<Arc<Shared>>,
    axum::Json(mut body): axum::Json<Logs>,
) -> StatusCode {
    shared.begun.send_modify(|begun| *begun += 1);
    let answer = shared.answer.subscribe().wait_for(Option::is_some).await.unwrap().unwrap();
    if answer == StatusCode::OK {
        shared.stored.lock().unwrap().append(&mut body.logs);
    }
    shared.answered.fetch_add(1, Ordering::SeqCst);
    answer
}

/// Posts without retries.
struct Post {
    client: reqwest::Client,
    url: String,
}

impl LogSink for Post {
    async fn send(&self, batch: &Batch) -> Delivery {
        let request = self
            .client
            .post(&self.url)
            .header("content-type", "application/json")
            .body(batch.body());
        match request.send().await.map(|response| response.status()) {
            Ok(StatusCode::OK) => Delivery::Delivered,
            Ok(StatusCode::CONFLICT) => Delivery::RunOver,
            Ok(StatusCode::PAYLOAD_TOO_LARGE) => Delivery::TooLarge,
            Ok(StatusCode::BAD_REQUEST) => Delivery::Refused { reason: "400".to_owned() },
            Ok(status) => unreachable(&status),
            Err(error) => unreachable(&error),
        }
    }
}

fn unreachable(reason: &impl ToString) -> Delivery {
    Delivery::Unreachable { reason: reason.to_string(), retry_after: Duration::ZERO }
}

fn start_upload(
    server: &Server,
    receiver: Receiver,
    interval: Duration,
) -> tokio::task::JoinHandle<UploadReport> {
    let sink = Post {
        client: butler_base::http::client(None, butler_base::http::Redirects::Follow).unwrap(),
        url: server.url.clone(),
    };
    tokio::spawn(async move { upload(receiver, &sink, interval, std::future::pending()).await.0 })
}

fn run_log(memory: usize, overflow: &Path) -> (RunLog, Receiver) {
    let (sender, receiver) = channel(memory, overflow.to_owned());
    (RunLog::new(Arc::new(Redactor::new()), vec![sender], None), receiver)
}

/// Runs a shell script to its end.
async fn run(script: &str, log: &RunLog) {
    let mut environment = Environment::default();
    environment.set("PATH", "/usr/local/bin:/usr/bin:/bin");
    let command = Command {
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), script.into()],
        environment,
        ..Command::default()
    };
    let grace = Grace { normal: Duration::from_secs(5), urgent: Duration::from_secs(1) };
    let exit = supervise(&command, log, &Stop::new(), grace).await.unwrap();
    assert!(exit.status.success(), "{exit:?}");
}

fn print_lines(count: u32) -> String {
    format!(
        "awk 'BEGIN {{ for (i = 1; i <= {count}; i++) \
         print \"aws_instance.example[\" i \"]: Still creating... [10s elapsed]\" }}'"
    )
}

fn is_complete(content: &[String], count: u32) -> bool {
    content.len() == count as usize
        && content.iter().zip(1..).all(|(line, number): (_, u32)| {
            line.starts_with(&format!("aws_instance.example[{number}]: "))
        })
}

#[tokio::test]
async fn many_log_lines_arrive_once_and_in_order_in_few_requests() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(Some(StatusCode::OK), 64 << 20).await;
    let (log, receiver) = run_log(1 << 20, &directory.path().join("overflow"));
    let uploaded = start_upload(&server, receiver, NEVER);
    run(&print_lines(LINES), &log).await;
    log.close();
    let report = uploaded.await.unwrap();
    let expected = UploadReport { delivered: LINES, undelivered: None, end: UploadEnd::Complete };
    assert_eq!(report, expected);
    assert!(is_complete(&server.content(), LINES));
    assert!(server.requests() <= 25, "{} requests", server.requests());
}

#[tokio::test]
async fn unresponsive_registry_does_not_block_the_run_or_fill_memory() {
    let directory = tempfile::tempdir().unwrap();
    let overflow = directory.path().join("overflow");
    let server = Server::start(None, 64 << 20).await;
    let (log, receiver) = run_log(1 << 20, &overflow);
    let uploaded = start_upload(&server, receiver, NEVER);
    run(&print_lines(LINES), &log).await;
    log.close();
    server.until_begun(1).await;
    assert_eq!(server.shared.answered.load(Ordering::SeqCst), 0);
    assert!(!uploaded.is_finished());
    // 14 MB were printed; one batch is in flight, one MiB in memory, and the rest here.
    let waiting = std::fs::metadata(&overflow).unwrap().len();
    assert!(waiting > 9_000_000, "{waiting} bytes in the file");
    server.shared.answer.send_replace(Some(StatusCode::OK));
    assert_eq!(uploaded.await.unwrap().delivered, LINES);
    assert!(is_complete(&server.content(), LINES));
    assert!(server.requests() <= 25, "{} requests", server.requests());
    assert!(!overflow.exists());
}

#[tokio::test]
async fn registry_gets_every_line_once_and_in_order_after_an_outage() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(Some(StatusCode::SERVICE_UNAVAILABLE), 64 << 20).await;
    let (log, receiver) = run_log(1 << 20, &directory.path().join("overflow"));
    let uploaded = start_upload(&server, receiver, Duration::from_millis(10));
    run(&print_lines(10), &log).await;
    server.until_begun(2).await;
    server.shared.answer.send_replace(Some(StatusCode::OK));
    log.write_lines("the end");
    log.close();
    assert_eq!(uploaded.await.unwrap().undelivered, None);
    let mut content = server.content();
    assert_eq!(content.pop().unwrap(), "the end");
    assert!(is_complete(&content, 10));
}

#[tokio::test]
async fn batches_are_reduced_for_a_server_with_a_small_limit() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(Some(StatusCode::OK), 100_000).await;
    let (log, receiver) = run_log(1 << 20, &directory.path().join("overflow"));
    run(&print_lines(10_000), &log).await;
    log.close();
    assert_eq!(start_upload(&server, receiver, NEVER).await.unwrap().undelivered, None);
    assert!(is_complete(&server.content(), 10_000));
}

#[tokio::test]
async fn refused_log_upload_is_not_retried() {
    let directory = tempfile::tempdir().unwrap();
    let overflow = directory.path().join("overflow");
    let server = Server::start(Some(StatusCode::BAD_REQUEST), 64 << 20).await;
    let (log, receiver) = run_log(0, &overflow);
    let uploaded = start_upload(&server, receiver, Duration::ZERO);
    log.write_lines("one");
    server.until_begun(1).await;
    run(&print_lines(LINES), &log).await;
    log.close();
    let report = uploaded.await.unwrap();
    assert_eq!((report.end, report.undelivered), (UploadEnd::Refused, Some(1..=LINES + 1)));
    assert_eq!(server.requests(), 1);
    assert!(!overflow.exists());
}

#[tokio::test]
async fn blocked_terminal_does_not_block_the_tool() {
    let directory = tempfile::tempdir().unwrap();
    let (log, receiver) = run_log(1 << 20, &directory.path().join("overflow"));
    let (mut terminal, stdout) = std::io::pipe().unwrap();
    let shown = tokio::spawn(show(receiver, stdout, std::io::sink(), NEVER));
    run(&print_lines(LINES), &log).await;
    log.close();
    assert!(!shown.is_finished());
    let text = tokio::task::spawn_blocking(move || {
        let mut text = String::new();
        terminal.read_to_string(&mut text).unwrap();
        text
    });
    assert!(shown.await.unwrap());
    let lines: Vec<String> = text.await.unwrap().lines().map(str::to_owned).collect();
    assert!(is_complete(&lines, LINES));
}

#[tokio::test]
async fn secret_printed_in_two_writes_is_masked() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let (log, mut receiver) = run_log(1 << 20, &directory.path().join("overflow"));
    log.redactor().register(&[SecretString::from("hunter22")]);
    let script = format!("printf 'password=hunt'; cat '{}'; echo 'er22 is it'", fifo.display());
    let half = async {
        let line = receiver.recv().await.unwrap();
        assert_eq!(line.content, "password=");
        // Lets the script continue.
        tokio::task::spawn_blocking(move || std::fs::write(fifo, "").unwrap()).await.unwrap();
    };
    tokio::join!(run(&script, &log), half);
    log.close();
    assert_eq!(receiver.recv().await.unwrap().content, "*** is it");
    assert_eq!(receiver.recv().await, None);
}
