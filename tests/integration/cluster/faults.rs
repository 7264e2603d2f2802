//! A cluster that is slow, full, forgetful, or says no.

use super::{JOB, SLOW, Said, Scene};
use crate::support::api_server::{Broken, Course, NAMESPACE};
use crate::support::world::{MODULE, eventually};

const JOBS: &str = "/apis/batch/v1/namespaces/runs/jobs";
const PODS: &str = "/api/v1/namespaces/runs/pods";
const SECRETS: &str = "/api/v1/namespaces/runs/secrets";

/// What a role that lacks a permission answers.
const FORBIDDEN_SECRETS: &str = "secrets is forbidden: User \"ci\" cannot create resource \"secrets\" in API group \"\" in the namespace \"runs\"";
const FORBIDDEN_PODS: &str = "pods is forbidden: User \"ci\" cannot list resource \"pods\" in API group \"\" in the namespace \"runs\"";

#[tokio::test]
async fn missing_permission_is_named_and_nothing_stays() {
    let scene = Scene::still().await;
    scene.cluster.fault("POST", SECRETS, Broken::Status(403, "Forbidden", FORBIDDEN_SECRETS));
    let said = scene.applied(&[]).await;
    assert_eq!(said.code, Some(1));
    said.says("error: no permission to `create` `secrets` in namespace `runs`\n");
    said.says("hint: have somebody grant it: kubectl create role butler-runner --verb=create --resource=secrets -n runs\n");
    assert_eq!(scene.cluster.objects(), 0);
}

#[tokio::test]
async fn job_that_cannot_be_followed_goes_on() {
    let scene = Scene::new("plan", MODULE).await;
    scene.cluster.fault("GET", PODS, Broken::Status(403, "Forbidden", FORBIDDEN_PODS));
    let said = scene.applied(&[]).await;
    assert_eq!(said.code, Some(1));
    said.says(&format!("the Job {JOB} in namespace {NAMESPACE} goes on without being followed"));
    said.says("error: no permission to `list` `pods` in namespace `runs`\n");
    let is_over = || scene.world.statuses().last().is_some_and(|status| status == "succeeded");
    eventually("the end of the run", is_over).await;
}

#[tokio::test]
async fn quota_policy_and_login_are_no_missing_permissions() {
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
        scene.cluster.fault("POST", JOBS, Broken::Status(code, reason, message));
        let said = scene.applied(&[]).await;
        assert_eq!(said.code, Some(1));
        said.says(said_so);
        assert_eq!(scene.cluster.objects(), 0);
    }
}

#[tokio::test]
async fn run_gets_no_second_job() {
    let scene = Scene::still().await;
    scene.cluster.course(Course::Unschedulable);
    assert_eq!(scene.applied(&["--detach"]).await.code, Some(0));
    let uid = scene.cluster.only("jobs").unwrap()["metadata"]["uid"].clone();
    let said = scene.applied(&["--detach"]).await;
    assert_eq!(said.code, Some(1));
    said.says(&format!("error: `jobs.batch` `{JOB}` is in namespace `runs` already\n"));
    assert_eq!(scene.cluster.only("jobs").unwrap()["metadata"]["uid"], uid);
}

#[tokio::test]
async fn answer_that_is_lost_makes_no_second_job_and_no_error() {
    let scene = Scene::new("plan", MODULE).await;
    scene.cluster.fault("POST", JOBS, Broken::AnswerLost);
    scene.cluster.fault("POST", SECRETS, Broken::AnswerLost);
    scene.cluster.fault("GET", PODS, Broken::Status(500, "InternalError", "etcd is away"));
    let said = scene.applied(&[]).await;
    assert_eq!(said.code, Some(0), "{said:#?}");
    assert!(scene.cluster.only("jobs").is_some());
}

#[tokio::test]
async fn cluster_that_asks_to_come_later_is_asked_later() {
    let scene = Scene::new("plan", MODULE).await;
    scene.cluster.faults("POST", JOBS, Broken::Later, 2);
    scene.cluster.fault("GET", PODS, Broken::Later);
    let said = scene.applied(&[]).await;
    assert_eq!(said.code, Some(0), "{said:#?}");
}

/// The log without what each run has of its own.
fn lines(said: &Said) -> Vec<&str> {
    said.stdout.lines().collect()
}

#[tokio::test]
async fn log_that_breaks_off_is_shown_whole_and_once() {
    let scene = Scene::new("apply", MODULE).await;
    let log = "/log";
    for lines in [3, 0, 7, 1] {
        scene.cluster.fault("GET", log, Broken::LogAfter(lines));
    }
    let said = scene.applied(&[]).await;
    assert_eq!(said.code, Some(0), "{said:#?}");
    assert_eq!(lines(&said), scene.cluster.log(), "{said:#?}");
    let asked = scene.cluster.requests();
    let asked: Vec<_> = asked.iter().filter(|request| request.contains("/log?")).collect();
    assert!(asked.len() > 4 && asked.iter().any(|it| it.contains("sinceTime=")), "{asked:?}");
}

#[tokio::test]
async fn log_that_stays_silent_is_read_when_the_run_is_over() {
    let scene = Scene::new("plan", MODULE).await;
    scene.cluster.fault("GET", "/log", Broken::Silence);
    let said = scene.applied(&[]).await;
    assert_eq!(said.code, Some(0), "{said:#?}");
    assert_eq!(lines(&said), scene.cluster.log());
}

#[tokio::test]
async fn cluster_that_forgets_what_was_is_asked_what_is() {
    let scene = Scene::new("plan", MODULE).await;
    scene.cluster.faults("GET", "/pods?watch", Broken::Gone, 3);
    scene.cluster.faults("GET", "/jobs?watch", Broken::Gone, 3);
    let said = scene.applied(&[]).await;
    assert_eq!(said.code, Some(0), "{said:#?}");
    let asked = scene.cluster.requests();
    let lists = asked.iter().filter(|request| request.starts_with(&format!("GET {PODS}?")));
    assert!(lists.filter(|request| !request.contains("watch")).count() > 3, "{asked:?}");
}

#[tokio::test]
async fn what_a_run_waits_for_is_told_as_it_comes() {
    for (course, told) in [
        (
            Course::Unschedulable,
            "waiting: Unschedulable: 0/3 nodes are available: 3 Insufficient memory.",
        ),
        (Course::NoImage, "waiting: ImagePullBackOff: Back-off pulling image"),
        (Course::Quota, "waiting: FailedCreate: Error creating: pods is forbidden: exceeded quota"),
    ] {
        let scene = Scene::new("plan", MODULE).await;
        scene.cluster.course(course);
        let mut child = scene.apply(&[]).spawn().unwrap();
        let mut stderr = Collected::of(child.stderr.take().unwrap());
        stderr.until(told).await;
        scene.cluster.course(Course::Run);
        let output = child.wait_with_output().await.unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr.rest().await);
    }
}

#[tokio::test]
async fn what_the_cluster_does_to_a_run_is_said_clearly() {
    let deadline = "the runner ended with exit code 143: DeadlineExceeded: Job was active longer than specified deadline";
    for (course, code, said_so, status) in [
        (
            Course::Evicted,
            143,
            "the runner ended with exit code 143: Evicted: The node was low on resource: ephemeral-storage.",
            Some("cancelled"),
        ),
        (Course::Deadline, 143, deadline, Some("cancelled")),
        (
            Course::OutOfMemory,
            137,
            "the runner was killed because the container was out of memory (OOMKilled)",
            None,
        ),
        (
            Course::NodeLost,
            1,
            "the pod was taken away before the runner could say how it ended: DeletionByPodGC: PodGC: node no longer exists",
            None,
        ),
    ] {
        let scene = Scene::new("apply", SLOW).await;
        let child = scene.apply(&[]).spawn().unwrap();
        scene.under_way().await;
        scene.cluster.course(course);
        let said = Said::of(&child.wait_with_output().await.unwrap());
        assert_eq!(said.code, Some(code), "{said:#?}");
        said.says(&format!("error: {said_so}"));
        if let Some(status) = status {
            assert_eq!(scene.world.statuses().last().unwrap(), status);
        }
    }
}

#[tokio::test]
async fn deadline_that_comes_before_a_node_does_is_said() {
    let scene = Scene::still().await;
    scene.cluster.course(Course::Unschedulable);
    let child = scene.apply(&[]).spawn().unwrap();
    eventually("a pod", || scene.cluster.only("pods").is_some()).await;
    scene.cluster.end_before_it_began();
    let said = Said::of(&child.wait_with_output().await.unwrap());
    assert_eq!(said.code, Some(1), "{said:#?}");
    said.says("DeadlineExceeded: Job was active longer than specified deadline");
    said.says("hint: give it longer with --timeout");
}

/// A stream that is read while the process goes on.
struct Collected {
    lines: tokio::io::Lines<tokio::io::BufReader<tokio::process::ChildStderr>>,
    seen: String,
}

impl Collected {
    fn of(stream: tokio::process::ChildStderr) -> Self {
        use tokio::io::AsyncBufReadExt;
        Self { lines: tokio::io::BufReader::new(stream).lines(), seen: String::new() }
    }

    /// Reads until a line has this in it.
    async fn until(&mut self, text: &str) {
        while let Some(line) = self.lines.next_line().await.unwrap() {
            self.seen.push_str(&line);
            self.seen.push('\n');
            if line.contains(text) {
                return;
            }
        }
        panic!("it never said `{text}`: {}", self.seen);
    }

    async fn rest(mut self) -> String {
        while let Some(line) = self.lines.next_line().await.unwrap() {
            self.seen.push_str(&line);
            self.seen.push('\n');
        }
        self.seen
    }
}
