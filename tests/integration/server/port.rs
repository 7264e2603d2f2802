//! The port to which attempts report.

use std::net::TcpListener;

use super::faults::HeldBackend;
use super::*;

#[tokio::test]
async fn server_does_not_start_if_another_program_has_the_port_of_attempts_that_run() {
    let mut installation = Installation::new();
    let backend = HeldBackend::start().await;
    let repository = Repository::create(&[("envs/a/main.tf", &backend.reading_module())]);
    let arguments = Installation::quick_start(&repository);
    installation.serve(&arguments).await;
    backend.wait_for_request().await;
    installation.kill().await;
    let port = std::fs::read_to_string(installation.data().join("attempts.port")).unwrap();
    let taken = TcpListener::bind(("127.0.0.1", port.parse().unwrap())).unwrap();
    let refused = installation.once(&arguments).await;
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
    let expected = format!("cannot listen on port {port} of 127.0.0.1, to which attempts");
    assert!(text(&refused).contains(&expected), "{}", text(&refused));
    // The attempt goes on, and reports when it can.
    assert_eq!(running(&installation.data()).len(), 1);
    drop(taken);
    backend.release();
    installation.serve(&arguments).await;
    installation.until("envs.a", "Failed", 1).await;
    let runs = installation.runs("envs.a");
    assert_ne!(runs[0]["attempts"][0]["outcome"], "its process ended without a report", "{runs:?}");
}
