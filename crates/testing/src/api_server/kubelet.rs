//! The course of a Job: its pod, the container status of its kubelet, and how both end.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::process::Child;

use super::container::{kill_all, kill_terraform, start};
use super::object::now;
use super::shared::{NAMESPACE, PodCourse, Shared};

/// The namespace in the path of an object.
fn namespace_of(path: &str) -> &str {
    path.split_once("/namespaces/").unwrap().1.split('/').next().unwrap()
}

/// The scheduler's message about an unschedulable pod.
const NO_ROOM: &str = "0/3 nodes are available: 3 Insufficient memory.";
/// A missing image, and containerd's message about it.
const IMAGE: &str = "ghcr.io/butlerdotdev/butler-runner:0.0.0";
const NOT_FOUND: &str =
    "rpc error: code = NotFound desc = failed to pull and unpack image: not found";
const DEADLINE: &str = "Job was active longer than specified deadline";

/// Whether the container of the Job is a runner.
pub(super) fn is_of_runner(job: &Value) -> bool {
    job["spec"]["template"]["spec"]["containers"][0]["name"] == "runner"
}

/// Creates the Job's pod, runs it, and reports how it ended.
pub(super) async fn run_job(shared: Arc<Shared>, job_path: String, job: Value) {
    let mut course = shared.course.subscribe();
    if *course.borrow() == PodCourse::Quota {
        shared.update(|store| {
            let name = &job["metadata"]["name"];
            store.put(&format!("/api/v1/namespaces/{NAMESPACE}/events/quota"), json!({
                "metadata": {"name": "quota", "namespace": NAMESPACE},
                "involvedObject": {"kind": "Job", "name": name},
                "type": "Warning", "reason": "FailedCreate",
                "message": "Error creating: pods is forbidden: exceeded quota: runs, requested: pods=1, used: pods=5, limited: pods=5",
            }));
        });
        course.wait_for(|course| *course != PodCourse::Quota).await.unwrap();
    }
    let (path, pod) = create_pod(&shared, &job_path, &job);
    let status = |status: Value| {
        shared.update(|store| store.change(&path, |pod| merge(&mut pod["status"], &status)));
    };
    if *course.borrow() == PodCourse::Unschedulable {
        status(json!({"conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": NO_ROOM,
        }]}));
        warn(&shared, &pod, "FailedScheduling", NO_ROOM);
    }
    course.wait_for(|course| *course != PodCourse::Unschedulable).await.unwrap();
    shared.update(|store| {
        store.change(&path, |pod| pod["spec"]["nodeName"] = json!("node-1"));
    });
    status(json!({
        "conditions": [{"type": "PodScheduled", "status": "True"}],
        "containerStatuses": container(&json!({"waiting": {"reason": "ContainerCreating"}})),
    }));
    if *course.borrow() == PodCourse::NoImage {
        let waits = |reason: &str, message: &str| {
            let waiting = json!({"waiting": {"reason": reason, "message": message}});
            status(json!({"containerStatuses": container(&waiting)}));
        };
        waits("ErrImagePull", NOT_FOUND);
        warn(&shared, &pod, "Failed", &format!("Failed to pull image \"{IMAGE}\": {NOT_FOUND}"));
        warn(&shared, &pod, "Failed", "Error: ErrImagePull");
        let backs_off = format!("Back-off pulling image \"{IMAGE}\": ErrImagePull: {NOT_FOUND}");
        waits("ImagePullBackOff", &backs_off);
        warn(&shared, &pod, "Failed", "Error: ImagePullBackOff");
    }
    course.wait_for(|course| *course != PodCourse::NoImage).await.unwrap();
    if *course.borrow() == PodCourse::NoSecret {
        let message = "secret \"git-token\" not found";
        let waiting =
            json!({"waiting": {"reason": "CreateContainerConfigError", "message": message}});
        status(json!({"containerStatuses": container(&waiting)}));
        warn(&shared, &pod, "Failed", &format!("Error: {message}"));
    }
    course.wait_for(|course| *course != PodCourse::NoSecret).await.unwrap();
    let Some(secret) = volumes_are_there(&shared, &job_path, &pod).await else { return };
    let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
    let child = start(&shared, &name, &pod, &secret);
    if *course.borrow() != PodCourse::Unseen {
        status(json!({
            "phase": "Running",
            "conditions": [
                {"type": "PodScheduled", "status": "True"},
                {"type": "Ready", "status": "True"},
            ],
            "containerStatuses": container(&json!({"running": {"startedAt": now()}})),
        }));
    }
    let terminated = run(&shared, &job_path, &path, &name, child).await;
    finish_job(&shared, &job_path, &path, terminated.as_ref());
}

/// The state in which the container ended; `None` if the pod was removed before.
async fn run(
    shared: &Arc<Shared>,
    job_path: &str,
    path: &str,
    name: &str,
    mut child: Child,
) -> Option<Value> {
    let mut course = shared.course.subscribe();
    let interfered =
        course.wait_for(|course| !matches!(course, PodCourse::Run | PodCourse::Unseen));
    let happened = tokio::select! {
        happened = interfered => Ok(*happened.unwrap()),
        status = child.wait() => Err(status.unwrap()),
    };
    let happened = match happened {
        Ok(happened) => Some(happened),
        Err(status) => return Some(ended(shared, name, status, None).await),
    };
    let process = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
    match happened {
        Some(course @ (PodCourse::OutOfMemory | PodCourse::Killed)) => {
            kill_all(shared);
            let status = child.wait().await.unwrap();
            let reason = (course == PodCourse::OutOfMemory).then_some("OOMKilled");
            Some(ended(shared, name, status, reason).await)
        }
        Some(PodCourse::ChildOutOfMemory) => {
            kill_terraform(process);
            let status = child.wait().await.unwrap();
            Some(ended(shared, name, status, Some("OOMKilled")).await)
        }
        Some(PodCourse::NodeLost) => {
            kill_all(shared);
            child.wait().await.unwrap();
            shared.update(|store| {
                store.processes.remove(name);
                store.change(path, |pod| {
                    pod["status"]["conditions"] = json!([{
                        "type": "DisruptionTarget", "status": "True",
                        "reason": "DeletionByPodGC", "message": "PodGC: node no longer exists",
                    }]);
                });
                store.remove(path);
                store.logs.remove(name);
            });
            None
        }
        other => {
            if other == Some(PodCourse::Deadline) {
                condition(shared, job_path, "FailureTarget", "DeadlineExceeded", DEADLINE);
            }
            kill(process, Signal::SIGTERM).unwrap();
            let status = child.wait().await.unwrap();
            if other == Some(PodCourse::Evicted) {
                shared.update(|store| {
                    store.change(path, |pod| {
                        pod["status"]["reason"] = json!("Evicted");
                        pod["status"]["message"] =
                            json!("The node was low on resource: ephemeral-storage.");
                    });
                });
            }
            Some(ended(shared, name, status, None).await)
        }
    }
}

async fn ended(
    shared: &Arc<Shared>,
    name: &str,
    status: std::process::ExitStatus,
    reason: Option<&str>,
) -> Value {
    use std::os::unix::process::ExitStatusExt;
    shared.store.lock().unwrap().processes.remove(name);
    let mut changes = shared.changes.subscribe();
    let is_complete =
        || shared.store.lock().unwrap().logs.get(name).is_none_or(|log| log.is_complete);
    while !is_complete() {
        changes.changed().await.unwrap();
    }
    let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap();
    let reason = reason.unwrap_or(if code == 0 { "Completed" } else { "Error" });
    json!({"terminated": {
        "exitCode": code, "reason": reason, "startedAt": now(), "finishedAt": now(),
    }})
}

/// The final states of pod and Job. Objects that are being deleted are removed.
fn finish_job(shared: &Arc<Shared>, job_path: &str, path: &str, terminated: Option<&Value>) {
    let succeeded = terminated.as_ref().is_some_and(|state| state["terminated"]["exitCode"] == 0);
    if let Some(state) = terminated {
        shared.update(|store| {
            let phase = if succeeded { "Succeeded" } else { "Failed" };
            let statuses = container(state);
            store.change(path, |pod| {
                merge(&mut pod["status"], &json!({"phase": phase, "containerStatuses": statuses}));
            });
        });
    }
    let is_deleted = shared.update(|store| {
        let job = store.get(job_path);
        let is_deleted = job.is_none_or(|job| job["metadata"]["deletionTimestamp"].is_string());
        if is_deleted {
            store.remove(path);
            store.remove(job_path);
        }
        is_deleted
    });
    if is_deleted {
        return;
    }
    match *shared.course.borrow() {
        _ if succeeded => condition(
            shared,
            job_path,
            "Complete",
            "CompletionsReached",
            "Reached expected number of succeeded pods",
        ),
        PodCourse::Deadline => condition(shared, job_path, "Failed", "DeadlineExceeded", DEADLINE),
        PodCourse::Evicted | PodCourse::NodeLost => condition(
            shared,
            job_path,
            "Failed",
            "PodFailurePolicy",
            "Pod runs/x has condition DisruptionTarget matching FailJob rule at index 0",
        ),
        _ => condition(
            shared,
            job_path,
            "Failed",
            "BackoffLimitExceeded",
            "Job has reached the specified backoff limit",
        ),
    }
}

fn condition(shared: &Shared, job_path: &str, type_: &str, reason: &str, message: &str) {
    let condition = json!({
        "type": type_, "status": "True", "reason": reason, "message": message,
        "lastTransitionTime": now(),
    });
    shared.update(|store| {
        store.change(job_path, |job| {
            let had_pod = ["active", "failed"].iter().any(|it| job["status"][it].is_number());
            let counted = if type_ == "Complete" { "succeeded" } else { "failed" };
            job["status"] = json!({"conditions": [condition]});
            if had_pod {
                job["status"][counted] = json!(1);
            }
        });
    });
}

/// Deletes the pods of a Job: each gets SIGTERM.
pub(super) fn end_pods(shared: &Arc<Shared>, job_path: &str) {
    let (pods, processes) = shared.update(|store| {
        let uid = store.get(job_path).map(|job| job["metadata"]["uid"].clone());
        let pods: Vec<_> = store
            .of("pods")
            .filter(|pod| Some(&pod["metadata"]["ownerReferences"][0]["uid"]) == uid.as_ref())
            .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
            .collect();
        let processes: Vec<_> =
            pods.iter().filter_map(|name| store.processes.get(name).copied()).collect();
        (pods, processes)
    });
    for process in &processes {
        let _ = kill(Pid::from_raw(i32::try_from(*process).unwrap()), Signal::SIGTERM);
    }
    if processes.is_empty() {
        for name in &pods {
            let namespace = namespace_of(job_path);
            never_start(shared, &format!("/api/v1/namespaces/{namespace}/pods/{name}"));
        }
        shared.update(|store| store.remove(job_path));
    }
}

/// The end of a pod whose container never started. If it has a node, the kubelet there reports a
/// terminated state with an exit code that no process had.
fn never_start(shared: &Shared, path: &str) {
    let unknown = json!({"terminated": {
        "exitCode": 137, "reason": "ContainerStatusUnknown", "startedAt": null, "finishedAt": null,
        "message": "The container could not be located when the pod was terminated",
    }});
    shared.update(|store| {
        let has_node = store.get(path).is_some_and(|pod| pod["spec"]["nodeName"].is_string());
        if has_node {
            store.change(path, |pod| {
                let statuses = container(&unknown);
                merge(
                    &mut pod["status"],
                    &json!({"phase": "Failed", "containerStatuses": statuses}),
                );
            });
        }
    });
    shared.update(|store| {
        if !store.keeps_pods {
            store.remove(path);
        }
    });
}

/// The changes that the node controller makes to a pod whose kubelet does not report.
pub(super) fn mark_pod_of_lost_node(shared: &Shared) {
    let path = path_of_the_only(shared, "pods", "api/v1");
    shared.update(|store| {
        store.change(&path, |pod| {
            pod["status"]["conditions"] = json!([
                {"type": "PodScheduled", "status": "True"},
                {"type": "Ready", "status": "False"},
            ]);
        });
    });
}

/// The Job's deadline has passed, and nothing on the pod's node ends the pod. Its grace period was
/// over at `over`.
pub(super) fn pass_deadline_without_pod_end(shared: &Shared, over: Timestamp) {
    let job = path_of_the_only(shared, "jobs", "apis/batch/v1");
    condition(shared, &job, "FailureTarget", "DeadlineExceeded", DEADLINE);
    let path = path_of_the_only(shared, "pods", "api/v1");
    shared.update(|store| {
        store.change(&path, |pod| {
            pod["metadata"]["deletionTimestamp"] = json!(over.to_string());
            pod["metadata"]["deletionGracePeriodSeconds"] = json!(0);
        });
    });
}

fn path_of_the_only(shared: &Shared, plural: &str, group: &str) -> String {
    let store = shared.store.lock().unwrap();
    let name = store.of(plural).next().unwrap()["metadata"]["name"].clone();
    format!("/{group}/namespaces/{NAMESPACE}/{plural}/{}", name.as_str().unwrap())
}

/// A warning event about the pod.
fn warn(shared: &Shared, pod: &Value, reason: &str, message: &str) {
    let name = format!("event-{:032x}", fastrand::u128(..));
    shared.update(|store| {
        store.put(
            &format!("/api/v1/namespaces/{NAMESPACE}/events/{name}"),
            json!({
                "metadata": {"name": name, "namespace": NAMESPACE},
                "involvedObject": {"kind": "Pod", "name": pod["metadata"]["name"]},
                "type": "Warning", "reason": reason, "message": message,
            }),
        );
    });
}

/// The deadline of the only Job has passed before a container started.
pub(super) fn pass_deadline(shared: &Arc<Shared>) {
    let job = path_of_the_only(shared, "jobs", "apis/batch/v1");
    condition(shared, &job, "FailureTarget", "DeadlineExceeded", DEADLINE);
    never_start(shared, &path_of_the_only(shared, "pods", "api/v1"));
    condition(shared, &job, "Failed", "DeadlineExceeded", DEADLINE);
}

fn create_pod(shared: &Shared, job_path: &str, job: &Value) -> (String, Value) {
    let name = format!("{}-abcde", job["metadata"]["name"].as_str().unwrap());
    let namespace = namespace_of(job_path);
    let uid = &job["metadata"]["uid"];
    let mut pod = job["spec"]["template"].clone();
    merge(
        &mut pod,
        &json!({
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": format!("{:032x}", fastrand::u128(..)),
                "creationTimestamp": now(),
                "labels": {"batch.kubernetes.io/controller-uid": uid, "job-name": job["metadata"]["name"]},
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": job["metadata"]["name"], "uid": uid, "controller": true}],
            },
            "status": {"phase": "Pending"},
        }),
    );
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
    let pod = shared.update(|store| {
        store.change(job_path, |job| job["status"] = json!({"active": 1}));
        store.put(&path, pod)
    });
    (path, pod)
}

/// Waits for the Secret with the token of a run, as the kubelet does; `None` if the Job is deleted first. A pod
/// without one has no such volume.
async fn volumes_are_there(shared: &Arc<Shared>, job_path: &str, pod: &Value) -> Option<Value> {
    let volumes = pod["spec"]["volumes"].as_array().unwrap();
    let name = volumes.iter().find_map(|volume| volume["secret"]["secretName"].as_str());
    let Some(name) = name else { return Some(Value::Null) };
    let path = format!("/api/v1/namespaces/{}/secrets/{name}", namespace_of(job_path));
    let mut changes = shared.changes.subscribe();
    loop {
        changes.mark_unchanged();
        {
            let store = shared.store.lock().unwrap();
            if let Some(secret) = store.get(&path) {
                return Some(secret.clone());
            }
            store.get(job_path)?;
        }
        changes.changed().await.unwrap();
    }
}

/// The status of the only container. A started one has an identifier.
fn container(state: &Value) -> Value {
    let is_running = state["running"].is_object();
    let has_started = is_running || state["terminated"]["startedAt"].is_string();
    json!([{
        "name": "runner", "image": "", "imageID": "", "ready": is_running, "restartCount": 0,
        "started": is_running, "state": state,
        "containerID": has_started.then_some("containerd://5f0c"),
    }])
}

fn merge(target: &mut Value, changes: &Value) {
    crate::world::merge(target, changes);
}
