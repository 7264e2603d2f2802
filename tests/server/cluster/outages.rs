//! A cluster with a temporary outage, and one that can never be reached.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::{ClusterOutput, SLOW, Scene, StreamReader};
use butler_testing::api_server::{Gate, PodCourse, TOKEN};
use butler_testing::authority::Authority;
use butler_testing::release_site::executable;
use butler_testing::world::{eventually, with_mounts};

#[tokio::test]
async fn outage_is_logged_once_at_its_begin_and_once_at_its_end() {
    let scene = Scene::new("apply", SLOW).await;
    let gate = Gate::before(scene.cluster.address()).await;
    let token = json!({"token": TOKEN});
    scene.log_in(&scene.cluster.kubeconfig_of(&token, &[("server", &gate.url())]));
    let mut child = scene.apply(&[]).spawn().unwrap();
    let mut stderr = StreamReader::of(child.stderr.take().unwrap());
    scene.under_way().await;
    gate.shut();
    let server = gate.url();
    stderr.until(&format!("WARN the cluster at `{server}` does not answer: ")).await;
    eventually("further tries", || gate.refused() > 5).await;
    gate.open();
    stderr.until("INFO the cluster answers again").await;
    scene.cluster.course(PodCourse::Deadline);
    assert_eq!(child.wait().await.unwrap().code(), Some(143));
    let said = stderr.rest().await;
    assert_eq!(said.matches("does not answer").count(), 1, "{said}");
    assert_eq!(said.matches("; trying again for 10 minutes\n").count(), 1, "{said}");
    assert_eq!(said.matches("answers again").count(), 1, "{said}");
    assert!(!said.contains("ERROR") && !said.contains("client error"), "{said}");
}

/// Asserts that a permanent failure is reported without retries.
fn assert_permanent_failure(said: &ClusterOutput, error: &str) {
    assert_eq!(said.code, Some(1), "{said:#?}");
    assert!(said.stderr.starts_with(&format!("error: {error}")), "{said:#?}");
    assert!(!said.stderr.contains("trying again"), "it is asked once: {said:#?}");
}

#[tokio::test]
async fn untrusted_cluster_certificate_fails_without_retries() {
    let scene = Scene::still().await;
    let other = std::fs::read(Authority::create().bundle()).unwrap();
    let other = ("certificate-authority-data", &*STANDARD.encode(other));
    scene.log_in(&scene.cluster.kubeconfig_of(&json!({"token": TOKEN}), &[other]));
    let said = scene.applied(&[]).await;
    let server = format!("https://{}", scene.cluster.address());
    assert_permanent_failure(
        &said,
        &format!("cannot connect securely to the cluster at `{server}`: "),
    );
    said.says("certificate verify failed");
    said.says("hint: check `certificate-authority-data` of its entry in the kubeconfig");
}

#[tokio::test]
async fn unresolvable_cluster_host_fails_without_retries() {
    let scene = Scene::still().await;
    let server = "https://cluster.invalid:6443";
    scene.log_in(&scene.cluster.kubeconfig_of(&json!({"token": TOKEN}), &[("server", server)]));
    // No resolver is involved, so the error is permanent on every machine.
    let hosts = scene.world.path("nsswitch.conf");
    std::fs::write(&hosts, "hosts: files\n").unwrap();
    let mounts = format!("mount --bind {} /etc/nsswitch.conf", hosts.display());
    let output = with_mounts(&scene.apply(&[]), &mounts).output().await.unwrap();
    let said = ClusterOutput::of(&output);
    assert_permanent_failure(&said, "the cluster's host `cluster.invalid` is not known: ");
    said.says("hint: check the server's address in the kubeconfig");
}

#[tokio::test]
async fn refused_cluster_login_fails_without_retries() {
    let scene = Scene::still().await;
    scene.log_in(&scene.cluster.kubeconfig_of(&json!({"token": "expired"}), &[]));
    assert_permanent_failure(
        &scene.applied(&[]).await,
        &format!("the cluster at `https://{}` does not accept the login", scene.cluster.address()),
    );
}

/// The output of a helper contains a token, even if its format is unexpected.
#[tokio::test]
async fn malformed_output_of_the_credential_helper_fails_without_retries_and_is_not_quoted() {
    let scene = Scene::still().await;
    let server = format!("https://{}", scene.cluster.address());
    for (name, script, said_so) in [
        (
            "garbled",
            "echo 'token: [hunter2hunter2'",
            "what its helper program printed cannot be read",
        ),
        (
            "failing",
            "echo hunter2hunter2; echo 'the session is over' >&2; exit 9",
            "failed with exit status: 9: the session is over",
        ),
    ] {
        let helper = scene.world.path(name);
        executable(&helper, format!("#!/bin/sh\n{script}\n"));
        let user = json!({"exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": helper,
            "interactiveMode": "Never",
        }});
        scene.log_in(&scene.cluster.kubeconfig_of(&user, &[]));
        let said = scene.applied(&[]).await;
        assert_permanent_failure(&said, &format!("cannot log in to the cluster at `{server}`: "));
        said.says(said_so);
        assert!(!said.stderr.contains("hunter2"), "{said:#?}");
    }
}
