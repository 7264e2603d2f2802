//! The environment of the runner in its pod, and the container statuses of the kubelet.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;

use super::{ClusterOutput, JOB, SLOW, Scene, StreamReader, interrupt};
use butler_testing::api_server::{NAMESPACE, PodCourse};
use butler_testing::release_site::ReleaseSite;
use butler_testing::terraform::machine_terraform;
use butler_testing::world::{MODULE, World};

/// The root of an empty volume is writable for all users (02777).
#[tokio::test]
async fn default_pod_has_a_cache_that_only_its_user_can_write() {
    let (program, version) = machine_terraform();
    let site = ReleaseSite::start(&[(&version, &std::fs::read(program).unwrap())]);
    let mut world = World::new(&[("main.tf", MODULE)]).await;
    let path = world.use_bare_path();
    let mut config = world.config("plan");
    config["terraformVersion"] = json!(version);
    let (mirror, key) = (site.url().to_string(), site.key_file());
    let variables = [
        ("PATH", path.to_str().unwrap()),
        ("BUTLER_MIRROR", &mirror),
        ("BUTLER_SIGNING_KEY", key.to_str().unwrap()),
    ];
    let scene = Scene::of(world, config, &variables).await;
    let said = scene.applied(&[]).await;
    assert_eq!(said.code, Some(0), "{said:#?}");
    assert!(!said.stdout.contains("WARN"), "{said:#?}");
    let volume = scene.cluster.volume("cache");
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&volume), 0o2777, "the kubelet's own");
    assert_eq!(mode(&volume.join("butler-runner")) & 0o077, 0, "for nobody else");
}

/// A run whose container waits, with `told` as the status of the pod.
async fn waiting(course: PodCourse, told: &str) -> (Scene, tokio::process::Child, StreamReader) {
    let scene = Scene::still().await;
    scene.cluster.course(course);
    let mut child = scene.apply(&[]).spawn().unwrap();
    let mut stderr = StreamReader::of(child.stderr.take().unwrap());
    stderr.until(told).await;
    (scene, child, stderr)
}

/// The kubelet reports exit code 137 for a container that it never started.
#[tokio::test]
async fn deadline_before_the_container_starts_is_not_an_exit_of_the_runner() {
    for (course, told, said_so) in [
        (
            PodCourse::Unschedulable,
            "waiting: Unschedulable",
            "error: the run never began: Unschedulable: 0/3 nodes are available: 3 Insufficient memory. (DeadlineExceeded: Job was active longer than specified deadline)\nhint: give it longer with --timeout\n",
        ),
        (
            PodCourse::NoImage,
            "waiting: ErrImagePull",
            "not found (DeadlineExceeded: Job was active longer than specified deadline)\nhint: check --image, --runner-version and --pull-secret\n",
        ),
        (
            PodCourse::NoSecret,
            "waiting: CreateContainerConfigError",
            "error: the run never began: CreateContainerConfigError: secret \"git-token\" not found (DeadlineExceeded: Job was active longer than specified deadline)\nhint: create what is missing in the namespace\n",
        ),
    ] {
        let (scene, mut child, stderr) = waiting(course, told).await;
        scene.cluster.end_before_it_began();
        assert_eq!(child.wait().await.unwrap().code(), Some(1));
        let said = stderr.rest().await;
        assert!(said.contains("error: the run never began: "), "{said}");
        assert!(said.ends_with(said_so), "{said}");
        // Times have other digits before it.
        assert!(!said.contains(" 137"), "{said}");
    }
}

#[tokio::test]
async fn signal_before_the_container_starts_is_not_an_exit_of_the_runner() {
    let (scene, mut child, stderr) = waiting(PodCourse::NoImage, "waiting: ErrImagePull").await;
    interrupt(&child, Signal::SIGINT);
    assert_eq!(child.wait().await.unwrap().code(), Some(128 + Signal::SIGINT as i32));
    let said = stderr.rest().await;
    assert!(said.contains("error: the run never began: ErrImagePull: rpc error"), "{said}");
    assert!(!said.contains(" 137") && !said.contains(" s to end"), "{said}");
    assert_eq!(scene.cluster.objects(), 0);
}

#[tokio::test]
async fn status_of_a_container_that_never_started_has_no_exit_code() {
    let (scene, mut child, _stderr) = waiting(PodCourse::NoImage, "waiting: ErrImagePull").await;
    scene.cluster.keeps_pods();
    scene.cluster.end_before_it_began();
    let id = format!("{NAMESPACE}/{JOB}");
    let words = ["ci-status", "kubernetes", "--external-run-id", &id];
    let said = ClusterOutput::of(&scene.world.command(&words).output().await.unwrap());
    assert_eq!(said.code, Some(1), "{said:#?}");
    let expected = "\"status\":\"timed_out\",\"reported\":\"DeadlineExceeded, never began\"";
    assert!(said.stdout.contains(expected), "{said:#?}");
    child.wait().await.unwrap();
}

/// The kubelet of a lost node does not end the pod, so the Job does not end.
#[tokio::test]
async fn pod_that_its_node_does_not_terminate_is_reported_after_a_timeout() {
    let scene = Scene::new("apply", SLOW).await;
    let mut child = scene.apply(&[]).spawn().unwrap();
    let mut stderr = StreamReader::of(child.stderr.take().unwrap());
    scene.under_way().await;
    scene.cluster.lose_node();
    stderr.until("the node `node-1` does not answer (NotReady)").await;
    scene.cluster.pass_deadline_without_pod_end(Duration::ZERO);
    stderr.until("DeadlineExceeded: Job was active longer than specified deadline").await;
    let id = format!("{NAMESPACE}/{JOB}");
    let look = async || {
        let words = ["ci-status", "kubernetes", "--external-run-id", &id];
        ClusterOutput::of(&scene.world.command(&words).output().await.unwrap())
    };
    let said = look().await;
    assert_eq!(said.code, Some(5), "{said:#?}");
    let ending = "\"status\":\"running\",\"reported\":\"ending: DeadlineExceeded, node `node-1` is NotReady\"";
    assert!(said.stdout.contains(ending), "{said:#?}");
    scene.cluster.pass_deadline_without_pod_end(Duration::from_mins(2));
    let said = look().await;
    assert_eq!(said.code, Some(1), "{said:#?}");
    let over = "\"status\":\"timed_out\",\"reported\":\"DeadlineExceeded, and the pod does not end: node `node-1` is NotReady\"";
    assert!(said.stdout.contains(over), "{said:#?}");
    child.kill().await.unwrap();
}
