//! A cluster that is slow, full, forgetful, or says no.

use nix::sys::signal::Signal;

use super::{ClusterOutput, JOB, SLOW, Scene, StreamReader, interrupt};
use butler_testing::api_server::{FaultEffect, NAMESPACE, PodCourse};
use butler_testing::world::{MODULE, eventually};

const JOBS: &str = "/apis/batch/v1/namespaces/runs/jobs";
const PODS: &str = "/api/v1/namespaces/runs/pods";
const SECRETS: &str = "/api/v1/namespaces/runs/secrets";

/// What a role that lacks a permission answers.
const FORBIDDEN_SECRETS: &str = "secrets is forbidden: User \"ci\" cannot create resource \"secrets\" in API group \"\" in the namespace \"runs\"";
const FORBIDDEN_PODS: &str = "pods is forbidden: User \"ci\" cannot list resource \"pods\" in API group \"\" in the namespace \"runs\"";

#[tokio::test]
async fn missing_permission_is_named_and_no_object_remains() {
    let scene = Scene::still().await;
    scene.cluster.fault("POST", SECRETS, FaultEffect::Status(403, "Forbidden", FORBIDDEN_SECRETS));
    let said = scene.applied(&[]).await;
    assert_eq!(said.code, Some(1));
    said.says("error: no permission to `create` `secrets` in namespace `runs`\n");
    said.says("hint: ask an administrator to grant it: kubectl create role butler-runner --verb=create --resource=secrets -n runs\n");
    assert_eq!(scene.cluster.objects(), 0);
}

#[tokio::test]
async fn job_without_watch_access_to_pods_continues() {
    let scene = Scene::new("plan", MODULE).await;
    scene.cluster.fault("GET", PODS, FaultEffect::Status(403, "Forbidden", FORBIDDEN_PODS));
    let said = scene.applied(&[]).await;
    assert_eq!(said.code, Some(1));
    said.says(&format!(
        "error: cannot follow the Job `{JOB}` in namespace `{NAMESPACE}`, which continues: no permission to `list` `pods` in namespace `runs`\nhint: "
    ));
    assert_eq!(said.count("no permission"), 1, "{said:#?}");
    let is_over = || scene.world.statuses().last().is_some_and(|status| status == "succeeded");
    eventually("the end of the run", is_over).await;
}

#[tokio::test]
async fn job_without_watch_permission_is_not_waited_for() {
    let scene = Scene::new("plan", MODULE).await;
    let forbidden = "pods is forbidden: User \"ci\" cannot watch resource \"pods\" in API group \"\" in the namespace \"runs\"";
    scene.cluster.faults(
        "GET",
        "/pods?watch",
        FaultEffect::Status(403, "Forbidden", forbidden),
        1000,
    );
    let said = scene.applied(&[]).await;
    assert_eq!(said.code, Some(1));
    said.says("which continues: no permission to `watch` `pods` in namespace `runs`\n");
}

#[tokio::test]
async fn missing_log_permission_is_reported_and_the_run_still_followed() {
    let scene = Scene::new("plan", MODULE).await;
    let forbidden = "pods \"x\" is forbidden: User \"ci\" cannot get resource \"pods/log\" in API group \"\" in the namespace \"runs\"";
    scene.cluster.faults("GET", "/log", FaultEffect::Status(403, "Forbidden", forbidden), 1000);
    let said = scene.applied(&[]).await;
    assert_eq!((said.code, &*said.stdout), (Some(0), ""), "{said:#?}");
    said.says("cannot read the rest of the log: pods \"x\" is forbidden: User \"ci\" cannot get resource \"pods/log\"");
    let asked = scene.cluster.requests();
    assert_eq!(asked.iter().filter(|request| request.contains("/log?")).count(), 1, "{asked:?}");
}

/// With the permissions that the documentation lists, nobody can look whether a Secret is there.
#[tokio::test]
async fn lost_response_to_the_secret_needs_no_read_permission() {
    let scene = Scene::new("plan", MODULE).await;
    scene.cluster.fault("POST", SECRETS, FaultEffect::AnswerLost);
    let said = scene.applied(&[]).await;
    assert_eq!(said.code, Some(0), "{said:#?}");
    let asked = scene.cluster.requests();
    assert!(!asked.iter().any(|it| it.starts_with(&format!("GET {SECRETS}"))), "{asked:?}");
}

/// Who creates it again at once meets the Job that is being deleted, and what it owned.
#[tokio::test]
async fn job_creation_waits_for_the_deletion_of_the_previous_job_and_secret() {
    let scene = Scene::still().await;
    scene.cluster.course(PodCourse::Unschedulable);
    assert_eq!(scene.applied(&["--detach"]).await.code, Some(0));
    let uid = scene.cluster.only("jobs").unwrap()["metadata"]["uid"].clone();
    let old = scene.cluster.names("secrets").remove(0);
    scene.cluster.begin_deleting(JOB);
    let mut child = scene.apply(&["--detach"]).spawn().unwrap();
    let mut stderr = StreamReader::of(child.stderr.take().unwrap());
    stderr.until(&format!("the Job {JOB} of an earlier start is being deleted: waiting")).await;
    scene.cluster.end_deleting(JOB);
    let code = child.wait().await.unwrap().code();
    assert_eq!(code, Some(0), "{}", stderr.rest().await);
    let job = scene.cluster.only("jobs").unwrap();
    assert_ne!(job["metadata"]["uid"], uid);
    let secrets = scene.cluster.names("secrets");
    assert!(secrets.len() == 2 && secrets.contains(&old), "{secrets:?}");
    let volumes = &job["spec"]["template"]["spec"]["volumes"];
    let mounted = volumes[0]["secret"]["secretName"].as_str().unwrap();
    assert!(mounted != old && secrets.iter().any(|name| name == mounted), "{volumes}");
}

#[tokio::test]
async fn signal_ends_the_wait_for_a_job_that_is_being_deleted() {
    let scene = Scene::still().await;
    scene.cluster.course(PodCourse::Unschedulable);
    assert_eq!(scene.applied(&["--detach"]).await.code, Some(0));
    scene.cluster.begin_deleting(JOB);
    let mut child = scene.apply(&[]).spawn().unwrap();
    let mut stderr = StreamReader::of(child.stderr.take().unwrap());
    stderr.until("of an earlier start is being deleted: waiting").await;
    interrupt(&child, Signal::SIGINT);
    assert_eq!(child.wait().await.unwrap().code(), Some(128 + Signal::SIGINT as i32));
    let said = stderr.rest().await;
    assert!(said.contains(&format!("error: `jobs.batch` `{JOB}` is in namespace")), "{said}");
}

/// Another Job of the same name is none of ours: its success is not this run's.
#[tokio::test]
async fn recreated_job_of_the_same_name_is_not_followed() {
    let scene = Scene::new("apply", SLOW).await;
    let child = scene.apply(&[]).spawn().unwrap();
    scene.under_way().await;
    scene.cluster.replace(JOB);
    let said = ClusterOutput::of(&child.wait_with_output().await.unwrap());
    assert_eq!(said.code, Some(1), "{said:#?}");
    said.says("the pod was removed before the runner reported its result: the Job was deleted\n");
}

#[tokio::test]
async fn refused_trigger_reports_that_no_run_was_started() {
    let scene = Scene::still().await;
    scene.cluster.fault("POST", JOBS, FaultEffect::Status(422, "Invalid", "no"));
    let mut command = scene.world.command(&["trigger", "kubernetes"]);
    scene.of_run(&mut command);
    let said = ClusterOutput::of(&command.output().await.unwrap());
    assert_eq!((said.code, &*said.stdout), (Some(4), ""), "{said:#?}");
}

#[tokio::test]
async fn quota_policy_and_login_errors_are_not_missing_permissions() {
    let quota =
        "jobs.batch \"x\" is forbidden: exceeded quota: runs, requested: count/jobs.batch=1";
    for (code, reason, message, said_so) in [
        (
            403,
            "Forbidden",
            quota,
            "error: the cluster refuses to `create` `jobs.batch` in namespace `runs`: jobs.batch \"x\" is forbidden: exceeded quota: runs",
        ),
        (401, "Unauthorized", "Unauthorized", "does not accept the login: Unauthorized"),
        (
            404,
            "NotFound",
            "namespaces \"runs\" not found",
            "hint: create the namespace first, or name another with --namespace",
        ),
        (
            422,
            "Invalid",
            "Job.batch \"x\" is invalid: spec.template: Required value",
            "is invalid: spec.template: Required value",
        ),
    ] {
        let scene = Scene::still().await;
        scene.cluster.fault("POST", JOBS, FaultEffect::Status(code, reason, message));
        let said = scene.applied(&[]).await;
        assert_eq!(said.code, Some(1));
        said.says(said_so);
        assert_eq!(scene.cluster.objects(), 0);
    }
}

#[tokio::test]
async fn existing_job_of_a_run_prevents_a_second_one() {
    let scene = Scene::still().await;
    scene.cluster.course(PodCourse::Unschedulable);
    assert_eq!(scene.applied(&["--detach"]).await.code, Some(0));
    let uid = scene.cluster.only("jobs").unwrap()["metadata"]["uid"].clone();
    let said = scene.applied(&["--detach"]).await;
    assert_eq!(said.code, Some(1));
    said.says(&format!("error: `jobs.batch` `{JOB}` is in namespace `runs` already\n"));
    assert_eq!(scene.cluster.only("jobs").unwrap()["metadata"]["uid"], uid);
}

#[tokio::test]
async fn lost_response_to_the_job_creation_causes_no_second_job() {
    let scene = Scene::new("plan", MODULE).await;
    scene.cluster.fault("POST", JOBS, FaultEffect::AnswerLost);
    scene.cluster.fault("POST", SECRETS, FaultEffect::AnswerLost);
    scene.cluster.fault("GET", PODS, FaultEffect::Status(500, "InternalError", "etcd is away"));
    let said = scene.applied(&[]).await;
    assert_eq!(said.code, Some(0), "{said:#?}");
    assert!(scene.cluster.only("jobs").is_some());
}

#[tokio::test]
async fn retry_after_of_the_cluster_is_respected() {
    let scene = Scene::new("plan", MODULE).await;
    scene.cluster.faults("POST", JOBS, FaultEffect::Later, 2);
    scene.cluster.fault("GET", PODS, FaultEffect::Later);
    let said = scene.applied(&[]).await;
    assert_eq!(said.code, Some(0), "{said:#?}");
}

/// The log without what each run has of its own.
fn lines(said: &ClusterOutput) -> Vec<&str> {
    said.stdout.lines().collect()
}

#[tokio::test]
async fn interrupted_log_stream_is_shown_completely_and_once() {
    let scene = Scene::new("apply", MODULE).await;
    let log = "/log";
    for lines in [3, 0, 7, 1] {
        scene.cluster.fault("GET", log, FaultEffect::LogAfter(lines));
    }
    let said = scene.applied(&[]).await;
    assert_eq!(said.code, Some(0), "{said:#?}");
    assert_eq!(lines(&said), scene.cluster.log(), "{said:#?}");
    let asked = scene.cluster.requests();
    let asked: Vec<_> = asked.iter().filter(|request| request.contains("/log?")).collect();
    assert!(asked.len() > 4 && asked.iter().any(|it| it.contains("sinceTime=")), "{asked:?}");
}

#[tokio::test]
async fn log_after_a_silent_stream_is_read_at_the_end_of_the_run() {
    let scene = Scene::new("plan", MODULE).await;
    scene.cluster.fault("GET", "/log", FaultEffect::Silence);
    let said = scene.applied(&[]).await;
    assert_eq!(said.code, Some(0), "{said:#?}");
    assert_eq!(lines(&said), scene.cluster.log());
}

#[tokio::test]
async fn expired_watch_is_replaced_by_a_new_list() {
    let scene = Scene::new("apply", SLOW).await;
    // As an answer of its own, which some servers give, and in the stream.
    let expired = FaultEffect::Status(410, "Expired", "too old resource version: 1 (7)");
    scene.cluster.fault("GET", "/pods?watch", expired);
    scene.cluster.faults("GET", "/pods?watch", FaultEffect::Gone, 3);
    scene.cluster.faults("GET", "/jobs?watch", FaultEffect::Gone, 3);
    let child = scene.apply(&[]).spawn().unwrap();
    let lists = || {
        let asked = scene.cluster.requests();
        let lists = asked.iter().filter(|request| request.starts_with(&format!("GET {PODS}?")));
        lists.filter(|request| !request.contains("watch")).count()
    };
    eventually("a list after each stream that forgot", || lists() > 3).await;
    scene.under_way().await;
    interrupt(&child, Signal::SIGINT);
    let said = ClusterOutput::of(&child.wait_with_output().await.unwrap());
    assert_eq!(said.code, Some(128 + Signal::SIGTERM as i32), "{said:#?}");
}

/// A run that waits is told so once, whatever the pod and its events say, and goes on when it can.
async fn waits(course: PodCourse, told: &str) {
    let scene = Scene::new("plan", MODULE).await;
    scene.cluster.course(course);
    let mut child = scene.apply(&[]).spawn().unwrap();
    let mut stderr = StreamReader::of(child.stderr.take().unwrap());
    stderr.until(told).await;
    let looks = || {
        let asked = scene.cluster.requests();
        asked.iter().filter(|request| request.contains("/events?")).count()
    };
    let before = looks();
    eventually("a look at the events", || looks() > before + 1).await;
    scene.cluster.course(PodCourse::Run);
    let output = child.wait_with_output().await.unwrap();
    let said = stderr.rest().await;
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(said.matches("waiting: ").count(), 1, "{said}");
}

#[tokio::test]
async fn unschedulable_pod_is_reported_while_waiting() {
    let told = "waiting: Unschedulable: 0/3 nodes are available: 3 Insufficient memory.";
    waits(PodCourse::Unschedulable, told).await;
}

#[tokio::test]
async fn image_pull_error_is_reported_while_waiting() {
    waits(PodCourse::NoImage, "waiting: ErrImagePull: rpc error: code = NotFound").await;
}

#[tokio::test]
async fn missing_secret_is_reported_while_waiting() {
    let told = "waiting: CreateContainerConfigError: secret \"git-token\" not found";
    waits(PodCourse::NoSecret, told).await;
}

#[tokio::test]
async fn pod_quota_is_reported_while_waiting() {
    let told = "waiting: FailedCreate: Error creating: pods is forbidden: exceeded quota";
    waits(PodCourse::Quota, told).await;
}

/// A run to which the cluster does this ends with this code, and says this.
async fn ends(course: PodCourse, code: i32, said_so: &str) -> Scene {
    let scene = Scene::new("apply", SLOW).await;
    let child = scene.apply(&[]).spawn().unwrap();
    scene.under_way().await;
    scene.cluster.course(course);
    let said = ClusterOutput::of(&child.wait_with_output().await.unwrap());
    assert_eq!(said.code, Some(code), "{said:#?}");
    said.says(&format!("error: {said_so}"));
    scene
}

#[tokio::test]
async fn eviction_is_reported_and_cancels_the_run() {
    let said = "the runner ended with exit code 143: Evicted: The node was low on resource: ephemeral-storage.\nhint: the node ran out";
    let scene = ends(PodCourse::Evicted, 143, said).await;
    assert_eq!(scene.world.last_status()["error"]["class"], "stopped");
}

#[tokio::test]
async fn deadline_is_reported_and_cancels_the_run() {
    let said = "the runner ended with exit code 143: DeadlineExceeded: Job was active longer than specified deadline\nhint: give it longer with --timeout\n";
    let scene = ends(PodCourse::Deadline, 143, said).await;
    assert_eq!(scene.world.last_status()["error"]["class"], "stopped");
}

#[tokio::test]
async fn out_of_memory_kill_is_reported() {
    let said = "the runner was killed because the container was out of memory (OOMKilled)\nhint: give it more with --memory\n";
    ends(PodCourse::OutOfMemory, 137, said).await;
}

#[tokio::test]
async fn lost_node_is_reported() {
    let said = "the pod was removed before the runner reported its result: DeletionByPodGC: PodGC: node no longer exists";
    ends(PodCourse::NodeLost, 1, said).await;
}
