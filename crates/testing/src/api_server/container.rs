//! The container as a real process: its volumes, its log, and its end.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::jiff::Timestamp;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};

use super::shared::Shared;
use crate::processes::{in_directory, tree};

/// Kills all processes of the node's containers, as the kernel does with a container. Children of a
/// killed runner would continue otherwise.
pub(super) fn kill_all(shared: &Shared) {
    // The environment of the runner is protected from ordinary users, so the runner is not found by
    // it.
    for process in shared.store.lock().unwrap().processes.values() {
        let _ = kill(Pid::from_raw(i32::try_from(*process).unwrap()), Signal::SIGKILL);
    }
    for process in in_directory(&shared.node) {
        let _ = kill(process.pid, Signal::SIGKILL);
    }
}

/// Kills Terraform in the container whose first process is `runner`, as the kernel kills one process of several.
pub(super) fn kill_terraform(runner: Pid) {
    for process in tree(runner) {
        let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
        if name.trim() == "terraform" {
            let _ = kill(process, Signal::SIGKILL);
        }
    }
}

/// The pod's definition of a volume.
fn source<'pod>(pod: &'pod Value, volume: &str) -> &'pod Value {
    let volumes = pod["spec"]["volumes"].as_array().unwrap();
    volumes.iter().find(|other| other["name"] == volume).unwrap()
}

/// Creates a volume as the kubelet does for a pod with a group: all users can write to an empty
/// one, and the files of a Secret or a config map are symbolic links to its current version, with the given mode.
fn make_volume(shared: &Shared, place: &Path, source: &Value, pod: &Value, secret: &Value) {
    std::fs::create_dir_all(place).unwrap();
    let mode = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    };
    let content = if source["secret"].is_object() {
        secret["stringData"].clone()
    } else if source["projected"].is_object() {
        projected(shared, &source["projected"], pod["metadata"]["namespace"].as_str().unwrap())
    } else if let Some(name) = source["configMap"]["name"].as_str() {
        let store = shared.store.lock().unwrap();
        let found = store.of("configmaps").find(|it| it["metadata"]["name"] == name);
        found.unwrap_or_else(|| panic!("there is no config map {name}"))["data"].clone()
    } else {
        return mode(place, 0o2777);
    };
    let files = place.join("..2026_11_21_10_00_00.1");
    std::fs::create_dir(&files).unwrap();
    symlink(files.file_name().unwrap(), place.join("..data")).unwrap();
    let modes = ["secret", "projected"].map(|kind| source[kind]["defaultMode"].as_u64());
    let default = modes.into_iter().flatten().next().unwrap_or(0o644).try_into().unwrap();
    for (key, value) in content.as_object().unwrap() {
        std::fs::write(files.join(key), value.as_str().unwrap()).unwrap();
        mode(&files.join(key), default);
        symlink(Path::new("..data").join(key), place.join(key)).unwrap();
    }
}

/// The files of a volume with keys of several Secrets.
fn projected(shared: &Shared, volume: &Value, namespace: &str) -> Value {
    let store = shared.store.lock().unwrap();
    let mut content = serde_json::Map::new();
    for source in volume["sources"].as_array().unwrap() {
        let name = source["secret"]["name"].as_str().unwrap();
        let path = format!("/api/v1/namespaces/{namespace}/secrets/{name}");
        let secret = store.get(&path).unwrap_or_else(|| panic!("the Secret {path} does not exist"));
        for item in source["secret"]["items"].as_array().unwrap() {
            let value = secret["data"][item["key"].as_str().unwrap()].as_str().unwrap();
            let value = String::from_utf8(STANDARD.decode(value).unwrap()).unwrap();
            content.insert(item["path"].as_str().unwrap().to_owned(), value.into());
        }
    }
    content.into()
}

/// Starts the container's command. Volumes are directories of the node, and variables with paths
/// below them are translated.
pub(super) fn start(shared: &Arc<Shared>, name: &str, pod: &Value, secret: &Value) -> Child {
    let container = &pod["spec"]["containers"][0];
    let root = shared.node.join(name);
    let mut places: Vec<(String, String)> = Vec::new();
    for mount in container["volumeMounts"].as_array().unwrap() {
        let (volume, path) =
            (mount["name"].as_str().unwrap(), mount["mountPath"].as_str().unwrap());
        // A saved plan contains the path of its directory, which is the same in each real pod.
        let is_alone = shared.store.lock().unwrap().processes.is_empty();
        let place = if volume == "workspace" && is_alone {
            let place = shared.node.join(volume);
            let _ = std::fs::remove_dir_all(&place);
            place
        } else {
            root.join(volume)
        };
        make_volume(shared, &place, source(pod, volume), pod, secret);
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
    let mut command = Command::new(crate::programs::runner_path());
    command
        .args(words[1..].iter().map(|word| word.as_str().unwrap()))
        .env_clear()
        .env("PATH", crate::environment::search_path())
        .envs(shared.variables.iter().map(|(name, value)| (name, value)))
        .env("KUBERNETES_SERVICE_HOST", "10.96.0.1")
        .env("TMPDIR", mapped("/tmp"))
        .current_dir(mapped(container["workingDir"].as_str().unwrap()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    for variable in container["env"].as_array().unwrap() {
        let value = shared.reachable(variable["value"].as_str().unwrap());
        command.env(variable["name"].as_str().unwrap(), mapped(&value));
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

/// Stores the lines of one stream of the container.
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
