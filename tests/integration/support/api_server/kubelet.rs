//! What becomes of a Job: its pod, the container in it as a real process, and how both end.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};

use super::server::now;
use super::{Course, NAMESPACE, Shared};

/// Creates the Job's pod, runs it, and says how it ended.
pub(super) async fn carry_out(shared: Arc<Shared>, job_path: String, job: Value) {
    let mut course = shared.course.subscribe();
    if *course.borrow() == Course::Quota {
        shared.update(|store| {
            let name = &job["metadata"]["name"];
            store.put(&format!("/api/v1/namespaces/{NAMESPACE}/events/quota"), json!({
                "metadata": {"name": "quota", "namespace": NAMESPACE},
                "involvedObject": {"kind": "Job", "name": name},
                "type": "Warning", "reason": "FailedCreate",
                "message": "Error creating: pods is forbidden: exceeded quota: runs, requested: pods=1, used: pods=5, limited: pods=5",
            }));
        });
        course.wait_for(|course| *course != Course::Quota).await.unwrap();
    }
    let (path, pod) = create_pod(&shared, &job_path, &job);
    let status = |status: Value| {
        shared.update(|store| store.change(&path, |pod| merge(&mut pod["status"], &status)));
    };
    if *course.borrow() == Course::Unschedulable {
        status(json!({"conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0/3 nodes are available: 3 Insufficient memory.",
        }]}));
    }
    course.wait_for(|course| *course != Course::Unschedulable).await.unwrap();
    shared.update(|store| {
        store.change(&path, |pod| pod["spec"]["nodeName"] = json!("node-1"));
    });
    status(json!({
        "conditions": [{"type": "PodScheduled", "status": "True"}],
        "containerStatuses": container(&json!({"waiting": {"reason": "ContainerCreating"}})),
    }));
    if *course.borrow() == Course::NoImage {
        let message = "Back-off pulling image \"ghcr.io/butlerdotdev/butler-runner:0.0.0\"";
        let waiting = json!({"waiting": {"reason": "ImagePullBackOff", "message": message}});
        status(json!({"containerStatuses": container(&waiting)}));
    }
    course.wait_for(|course| *course != Course::NoImage).await.unwrap();
    let Some(secret) = volumes_are_there(&shared, &job_path, &pod).await else { return };
    let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
    let child = start(&shared, &name, &pod, &secret);
    status(json!({
        "phase": "Running",
        "containerStatuses": container(&json!({"running": {"startedAt": now()}})),
    }));
    let terminated = run(&shared, &job_path, &path, &name, child).await;
    settle(&shared, &job_path, &path, terminated.as_ref());
}

/// The state in which the container ended; none where the pod was gone before.
async fn run(
    shared: &Arc<Shared>,
    job_path: &str,
    path: &str,
    name: &str,
    mut child: Child,
) -> Option<Value> {
    let mut course = shared.course.subscribe();
    let interfered = course.wait_for(|course| *course != Course::Run);
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
        Some(Course::OutOfMemory) => {
            kill_all(shared);
            let status = child.wait().await.unwrap();
            Some(ended(shared, name, status, Some("OOMKilled")).await)
        }
        Some(Course::NodeLost) => {
            kill_all(shared);
            child.wait().await.unwrap();
            shared.update(|store| {
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
            if other == Some(Course::Deadline) {
                let message = "Job was active longer than specified deadline";
                condition(shared, job_path, "FailureTarget", "DeadlineExceeded", message);
            }
            kill(process, Signal::SIGTERM).unwrap();
            let status = child.wait().await.unwrap();
            if other == Some(Course::Evicted) {
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
    json!({"terminated": {"exitCode": code, "reason": reason, "finishedAt": now()}})
}

/// The last states of pod and Job; what is being deleted goes.
fn settle(shared: &Arc<Shared>, job_path: &str, path: &str, terminated: Option<&Value>) {
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
        Course::Deadline => condition(
            shared,
            job_path,
            "Failed",
            "DeadlineExceeded",
            "Job was active longer than specified deadline",
        ),
        Course::Evicted | Course::NodeLost => condition(
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
            let had_pod = job["status"]["active"].is_number();
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
        shared.update(|store| {
            for name in &pods {
                store.remove(&format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}"));
            }
            store.remove(job_path);
        });
    }
}

/// The deadline of the one Job has come, and no container has begun.
pub(super) fn pass_deadline(shared: &Arc<Shared>) {
    let path = |store: &super::Store, plural: &str, group: &str| {
        let object = store.of(plural).next().unwrap();
        let name = object["metadata"]["name"].as_str().unwrap();
        format!("/{group}/namespaces/{NAMESPACE}/{plural}/{name}")
    };
    let job = shared.update(|store| {
        let pod = path(store, "pods", "api/v1");
        store.remove(&pod);
        path(store, "jobs", "apis/batch/v1")
    });
    let message = "Job was active longer than specified deadline";
    condition(shared, &job, "Failed", "DeadlineExceeded", message);
}

/// Kills everything that the node's containers have started, as the kernel does with a container:
/// what a runner that is killed leaves behind would go on otherwise.
pub(super) fn kill_all(shared: &Shared) {
    // A runner is shielded from who is not root, and so not found by its environment.
    for process in shared.store.lock().unwrap().processes.values() {
        let _ = kill(Pid::from_raw(i32::try_from(*process).unwrap()), Signal::SIGKILL);
    }
    let mark = shared.node.as_os_str().as_encoded_bytes();
    let is_ours = |environment: Vec<u8>| environment.windows(mark.len()).any(|it| it == mark);
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let process = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(process) = process.map(Pid::from_raw) else { continue };
        if std::fs::read(entry.path().join("environ")).is_ok_and(is_ours) {
            let _ = kill(process, Signal::SIGKILL);
        }
    }
}

fn create_pod(shared: &Shared, job_path: &str, job: &Value) -> (String, Value) {
    let name = format!("{}-abcde", job["metadata"]["name"].as_str().unwrap());
    let uid = &job["metadata"]["uid"];
    let mut pod = job["spec"]["template"].clone();
    merge(
        &mut pod,
        &json!({
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "uid": format!("{:032x}", fastrand::u128(..)),
                "creationTimestamp": now(),
                "labels": {"batch.kubernetes.io/controller-uid": uid, "job-name": job["metadata"]["name"]},
                "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": job["metadata"]["name"], "uid": uid, "controller": true}],
            },
            "status": {"phase": "Pending"},
        }),
    );
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}");
    let pod = shared.update(|store| {
        store.change(job_path, |job| job["status"] = json!({"active": 1}));
        store.put(&path, pod)
    });
    (path, pod)
}

/// Waits for the Secrets of the volumes, as the kubelet does; none where the Job goes first.
async fn volumes_are_there(shared: &Arc<Shared>, job_path: &str, pod: &Value) -> Option<Value> {
    let volumes = pod["spec"]["volumes"].as_array().unwrap();
    let name = volumes.iter().find_map(|volume| volume["secret"]["secretName"].as_str()).unwrap();
    let path = format!("/api/v1/namespaces/{NAMESPACE}/secrets/{name}");
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

/// What the pod says of a volume.
fn source<'pod>(pod: &'pod Value, volume: &str) -> &'pod Value {
    let volumes = pod["spec"]["volumes"].as_array().unwrap();
    volumes.iter().find(|other| other["name"] == volume).unwrap()
}

/// Makes a volume as the kubelet does for a pod with a group: everybody may write to an empty one,
/// and the files of a Secret are links to where the current ones are, with the mode that it says.
fn make_volume(place: &Path, source: &Value, secret: &Value) {
    std::fs::create_dir_all(place).unwrap();
    let mode = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    };
    if source["secret"].is_null() {
        return mode(place, 0o2777);
    }
    let files = place.join("..2026_11_21_10_00_00.1");
    std::fs::create_dir(&files).unwrap();
    symlink(files.file_name().unwrap(), place.join("..data")).unwrap();
    let default = source["secret"]["defaultMode"].as_u64().unwrap().try_into().unwrap();
    for (key, value) in secret["stringData"].as_object().unwrap() {
        std::fs::write(files.join(key), value.as_str().unwrap()).unwrap();
        mode(&files.join(key), default);
        symlink(Path::new("..data").join(key), place.join(key)).unwrap();
    }
}

/// Starts the container's command: volumes are directories of the node, and paths below them are
/// theirs in the variables.
fn start(shared: &Arc<Shared>, name: &str, pod: &Value, secret: &Value) -> Child {
    let container = &pod["spec"]["containers"][0];
    let root = shared.node.join(name);
    let mut places: Vec<(String, String)> = Vec::new();
    for mount in container["volumeMounts"].as_array().unwrap() {
        let (volume, path) =
            (mount["name"].as_str().unwrap(), mount["mountPath"].as_str().unwrap());
        let place = root.join(volume);
        make_volume(&place, source(pod, volume), secret);
        places.push((path.to_owned(), place.to_str().unwrap().to_owned()));
    }
    let mapped = |value: &str| {
        let place = places.iter().find(|(path, _)| {
            value
                .strip_prefix(path.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        place.map_or_else(|| value.to_owned(), |(path, place)| value.replacen(path, place, 1))
    };
    let words = container["command"].as_array().unwrap();
    assert_eq!(words[0], "butler-runner");
    let mut command = Command::new(env!("CARGO_BIN_EXE_butler-runner"));
    command
        .args(words[1..].iter().map(|word| word.as_str().unwrap()))
        .env_clear()
        .envs(shared.variables.iter().map(|(name, value)| (name, value)))
        .env("PATH", crate::support::environment::search_path())
        .env("KUBERNETES_SERVICE_HOST", "10.96.0.1")
        .env("TMPDIR", mapped("/tmp"))
        .current_dir(mapped(container["workingDir"].as_str().unwrap()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    for variable in container["env"].as_array().unwrap() {
        command
            .env(variable["name"].as_str().unwrap(), mapped(variable["value"].as_str().unwrap()));
    }
    let mut child = command.spawn().unwrap();
    let id = child.id().unwrap();
    shared.update(|store| {
        store.processes.insert(name.to_owned(), id);
        store.logs.entry(name.to_owned()).or_default();
    });
    let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let (shared, name) = (Arc::clone(shared), name.to_owned());
    tokio::spawn(async move {
        tokio::join!(keep(&shared, &name, stdout), keep(&shared, &name, stderr));
        shared.update(|store| {
            if let Some(log) = store.logs.get_mut(&name) {
                log.is_complete = true;
            }
        });
    });
    child
}

/// Keeps the lines of one stream of the container's.
async fn keep(shared: &Shared, name: &str, stream: impl AsyncRead + Unpin) {
    let mut lines = BufReader::new(stream).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        shared.update(|store| {
            if let Some(log) = store.logs.get_mut(name) {
                log.lines.push((Timestamp::now(), line));
            }
        });
    }
}

fn container(state: &Value) -> Value {
    json!([{
        "name": "runner", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": state,
    }])
}

fn merge(target: &mut Value, changes: &Value) {
    crate::support::world::merge(target, changes);
}
