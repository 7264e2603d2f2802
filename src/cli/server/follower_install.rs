//! `follower plan` and `follower apply`: the server and its registry of followers in a Kubernetes cluster.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use butler_cluster::{Cluster, FOLLOWER_TOKEN_SECRET, NativeObject, NativeObjects, Reading};
use clap::Args;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::install_differences::{differences, table};
use super::installed::{existing, title};
use super::obsolete_roles::obsolete_roles;
use crate::cli::generate::server::{InstallationError, InstallationFlags, new_certificate};
use crate::cli::kubernetes::job::ClusterFlags;
use crate::cli::output::{complain, print};
use crate::cli::runtime::block_on;
use crate::exit::Exit;
use crate::settings::Environment;
use butler_base::error::chain;

/// How long a new server may take until it is ready.
const READY: Duration = Duration::from_mins(10);

/// The time between two looks at the server that becomes ready.
const LOOK: Duration = Duration::from_secs(2);

/// The key of the configuration in its config map.
const CONFIG_KEY: &str = "/data/butler.yaml";

/// The key of the certificate of an authority.
const CA_KEY: &str = "/data/ca.crt";

/// What is installed, and where.
#[derive(Args)]
pub(super) struct Install {
    #[command(flatten)]
    installation: InstallationFlags,
    #[command(flatten)]
    cluster: ClusterFlags,
}

/// Whether the cluster is changed.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum Change {
    /// Only shown.
    Shown,
    /// Made, and the server is waited for if `wait` is true.
    Made { wait: bool },
}

impl Install {
    /// Shows how the cluster differs from the installation, or makes it equal.
    pub(super) fn run(self, change: Change, environment: &Environment) -> u8 {
        if !self.installation.has_followers() {
            let message = "no followers are given (--followers or --resources)";
            complain(
                message,
                Some("`butler-runner generate server` installs a server without followers"),
            );
            return Exit::Usage.code();
        }
        let access = self.cluster.access(environment);
        let keeps_config = !self.installation.has_config();
        let objects = match self.installation.installation(environment).and_then(|installation| {
            let certificate = new_certificate(&installation)?;
            parsed(&installation.to_yaml(&certificate))
        }) {
            Ok(objects) => objects,
            Err(error) => return error.report(),
        };
        let done = block_on(async {
            let cluster = Cluster::connect(&access, None).await.map_err(|error| chain(&error))?;
            let cluster = NativeObjects::new(cluster);
            check_kind(&cluster, &objects).await?;
            let obsolete = obsolete_roles(&cluster, &objects).await;
            let objects = keep_existing(&cluster, objects, keeps_config).await?;
            let differences = Box::pin(differences(&cluster, &objects)).await?;
            let printed = print(table(&objects, &differences, &obsolete).as_bytes());
            let Change::Made { wait } = change else { return Ok(printed) };
            for object in &objects {
                let applied = Box::pin(cluster.apply(object, false)).await;
                applied.map_err(|why| format!("cannot apply {}: {why}", title(object)))?;
            }
            for object in &obsolete {
                let deleted = cluster.delete(object).await;
                deleted.map_err(|why| format!("cannot delete {}: {why}", title(object)))?;
            }
            if wait {
                until_ready(&cluster, &objects).await?;
            }
            Ok(print(b"the installation is applied\n"))
        });
        match done {
            Some(Ok(code)) => code,
            Some(Err(why)) => {
                let why: String = why;
                complain(&why, None);
                Exit::Failed.code()
            }
            None => Exit::Failed.code(),
        }
    }
}

/// The objects of a file.
fn parsed(text: &str) -> Result<Vec<Value>, InstallationError> {
    let documents = text.split("\n---\n").skip(1);
    let objects = documents.map(serde_saphyr::from_str);
    let objects: Result<_, _> = objects.collect();
    objects.map_err(|error: serde_saphyr::Error| InstallationError::Files(vec![error.to_string()]))
}

/// Keeps what an update must not replace: the certificate, which running attempts trust, the token of Jobs, and a
/// configuration that is not given.
async fn keep_existing(
    cluster: &NativeObjects,
    objects: Vec<Value>,
    keeps_config: bool,
) -> Result<Vec<Value>, String> {
    let mut authority = None;
    let mut kept = Vec::new();
    for object in objects {
        let NativeObject { kind, name, .. } = NativeObject::of(&object);
        match (kind, name) {
            ("Secret", "butler-server-tls") => {
                if let Some(found) = existing(cluster, &object).await? {
                    // The certificate that attempts trust belongs to it.
                    authority = Some(authority_of(&found)?);
                    continue;
                }
                kept.push(object);
            }
            // Servers have it, and so do Jobs that begin at this moment.
            ("Secret", FOLLOWER_TOKEN_SECRET) => {
                if existing(cluster, &object).await?.is_none() {
                    kept.push(object);
                }
            }
            ("ConfigMap", "butler-config") if keeps_config => {
                let found = existing(cluster, &object).await?;
                let config = found.and_then(|found| found.pointer(CONFIG_KEY).cloned());
                kept.push(with(object, CONFIG_KEY, config));
            }
            _ => kept.push(object),
        }
    }
    let trusted = |object: Value| {
        let is_authority = object["metadata"]["name"] == "butler-ca";
        with(object, CA_KEY, authority.clone().filter(|_| is_authority))
    };
    Ok(kept.into_iter().map(trusted).collect())
}

/// The object with this value, if there is one.
fn with(mut object: Value, pointer: &str, value: Option<Value>) -> Value {
    if let (Some(old), Some(new)) = (object.pointer_mut(pointer), value) {
        *old = new;
    }
    object
}

/// The certificate of the authority that has signed that of a Secret.
fn authority_of(secret: &Value) -> Result<Value, String> {
    let encoded = secret.pointer(CA_KEY).and_then(Value::as_str).unwrap_or_default();
    let decoded = STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let decoded = decoded.filter(|text| !text.is_empty()).map(Value::String);
    decoded.ok_or_else(|| {
        let title = title(secret);
        format!("{title} has no `ca.crt`; delete it to get a new certificate, when no attempt runs")
    })
}

/// One server has a Deployment, and several have a `StatefulSet`. Both behind one Service would be two installations.
async fn check_kind(cluster: &NativeObjects, objects: &[Value]) -> Result<(), String> {
    let Some(workload) = objects.iter().find(|object| is_workload(object)) else { return Ok(()) };
    let mut other = workload.clone();
    let (kind, flag) = if workload["kind"] == "Deployment" {
        ("StatefulSet", "repeat `--shared-secret`")
    } else {
        ("Deployment", "leave out `--shared-secret`, or delete it first")
    };
    other["kind"] = kind.into();
    match existing(cluster, &other).await? {
        Some(_) => Err(format!("the installation has {}: {flag}", title(&other))),
        None => Ok(()),
    }
}

fn is_workload(object: &Value) -> bool {
    object["kind"] == "Deployment" || object["kind"] == "StatefulSet"
}

/// Waits until the new server answers.
async fn until_ready(cluster: &NativeObjects, objects: &[Value]) -> Result<(), String> {
    let workload = objects
        .iter()
        .find(|object| object["kind"] == "Deployment" || object["kind"] == "StatefulSet");
    let Some(workload) = workload else { return Ok(()) };
    let end = Instant::now() + READY;
    loop {
        let why = match cluster.read(NativeObject::of(workload)).await {
            Reading::Found(found) if is_ready(&found) => return Ok(()),
            Reading::Found(found) => {
                let ready = found["status"]["readyReplicas"].as_u64().unwrap_or_default();
                format!("{ready} of {} servers are ready", found["spec"]["replicas"])
            }
            Reading::Absent => "it was removed".to_owned(),
            Reading::Denied { why } | Reading::Unknown { why } => why,
        };
        if Instant::now() >= end {
            let title = title(workload);
            return Err(format!(
                "{title} is not ready after {} minutes: {why}; `kubectl describe` shows the pods",
                READY.as_secs() / 60
            ));
        }
        sleep(LOOK).await;
    }
}

/// Whether all replicas have the newest specification, and are ready.
fn is_ready(workload: &Value) -> bool {
    let status = &workload["status"];
    let wanted = workload["spec"]["replicas"].as_u64();
    let is_observed =
        status["observedGeneration"].as_u64() >= workload["metadata"]["generation"].as_u64();
    is_observed
        && ["updatedReplicas", "readyReplicas"].iter().all(|it| status[*it].as_u64() == wanted)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn workload_is_ready_if_all_replicas_are_new_and_ready() {
        let workload = |observed: u64, updated: u64, ready: u64| {
            json!({
                "metadata": {"generation": 2}, "spec": {"replicas": 2},
                "status": {"observedGeneration": observed, "updatedReplicas": updated, "readyReplicas": ready},
            })
        };
        assert!(is_ready(&workload(2, 2, 2)));
        for (observed, updated, ready) in [(1, 2, 2), (2, 1, 2), (2, 2, 1)] {
            assert!(!is_ready(&workload(observed, updated, ready)));
        }
        assert!(!is_ready(&json!({"metadata": {"generation": 1}, "spec": {"replicas": 1}})));
    }
}
