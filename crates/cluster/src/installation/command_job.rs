//! A command that asks a server inside of its cluster, as a Job with a limited time.
//!
//! Its pod has a token with which the server answers requests about followers only, and no account of the cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{
    Container, EmptyDirVolumeSource, KeyToPath, PodSpec, PodTemplateSpec, ProjectedVolumeSource,
    SecretProjection, Volume, VolumeProjection,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::apply::{CreatedJob, set_request_mark};
use crate::client::Cluster;
use crate::error::ClusterError;
use crate::manifest::{
    CONTAINER, MODE_0440, TEMPORARY_DIRECTORY, mount, resources, restricted_container,
    restricted_pod, seconds,
};
use crate::names::{INSTANCE, JobName, MANAGED_BY};
use crate::native::{NativeObject, NativeObjects, Reading};
use crate::variable::variable;
use butler_base::cancel::Stop;

/// The name of an installed server: of its Deployment or `StatefulSet`, and of its Service.
const SERVER: &str = "butler-server";

/// The Secret with the token of such Jobs.
pub const FOLLOWER_TOKEN_SECRET: &str = "butler-follower-token";

/// The name of such Jobs and their pods (`app.kubernetes.io/name`). The network policy of the server lets them in.
pub const FOLLOWER_JOB_NAME: &str = "butler-follower";

/// The host under which pods reach an installed server.
pub(super) fn service(namespace: &str) -> String {
    format!("{SERVER}.{namespace}.svc")
}

/// The Secret with the certificate of the server.
const TLS_SECRET: &str = "butler-server-tls";

/// The directory of the token and of the certificate of the authority.
const DIRECTORY: &str = "/run/butler/server";

/// The time between SIGTERM and SIGKILL. A command ends at once.
const GRACE: Duration = Duration::from_secs(10);

/// How long the Job and its log are kept.
const KEPT: Duration = Duration::from_mins(10);

/// A server that is installed in a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct InstalledServer {
    namespace: String,
    image: String,
    /// What its pods have, and pods beside it need too.
    pod: PodSpec,
}

/// A command that asks a server, as a Job that does not exist yet.
pub struct CommandJob {
    name: JobName,
    /// What tells it apart from a Job of another command.
    mark: String,
    job: Job,
}

impl CommandJob {
    /// The name of the Job.
    #[must_use]
    pub const fn name(&self) -> &JobName {
        &self.name
    }

    /// Creates the Job.
    ///
    /// # Errors
    /// If the cluster refuses it.
    pub async fn create(self, cluster: &Cluster, stop: &Stop) -> Result<CreatedJob, ClusterError> {
        let Self { name, mark, job } = self;
        let created = cluster.create_job(&job, &name, &mark, stop).await?;
        let uid = created.metadata.uid.unwrap_or_default();
        Ok(CreatedJob { name, uid, grace: GRACE })
    }
}

/// Why no command can ask an installed server.
#[derive(Debug, thiserror::Error)]
pub enum InstalledServerError {
    /// There is none.
    #[error("the cluster at `{server}` has no server of butler-runner in namespace `{namespace}`")]
    Missing {
        /// The API server.
        server: String,
        /// Where it was looked for.
        namespace: String,
    },
    /// It was installed without followers, or by an earlier version.
    #[error("the installation in namespace `{namespace}` has no token for Jobs of followers")]
    NoToken {
        /// The namespace.
        namespace: String,
    },
    /// The cluster does not tell.
    #[error("cannot read the {kind} `{SERVER}` in namespace `{namespace}`: {why}")]
    Unknown {
        /// The kind.
        kind: &'static str,
        /// The namespace.
        namespace: String,
        /// What the cluster says.
        why: String,
    },
}

impl InstalledServer {
    /// Finds the server in the namespace of `cluster`.
    ///
    /// # Errors
    /// If there is none, if it takes no requests of Jobs, or if the cluster does not tell.
    pub async fn find(cluster: &Cluster) -> Result<Self, InstalledServerError> {
        let namespace = cluster.namespace().to_owned();
        let objects = NativeObjects::new(cluster.clone());
        let mut unknown = None;
        for kind in ["Deployment", "StatefulSet"] {
            let object = NativeObject {
                api_version: "apps/v1",
                kind,
                namespace: Some(&namespace),
                name: SERVER,
            };
            match objects.read(object).await {
                Reading::Found(workload) => {
                    let found = Self::of(&workload, &namespace);
                    return found.ok_or(InstalledServerError::NoToken { namespace });
                }
                Reading::Absent => {}
                Reading::Denied { why } | Reading::Unknown { why } => {
                    unknown.get_or_insert((kind, why));
                }
            }
        }
        Err(match unknown {
            Some((kind, why)) => InstalledServerError::Unknown { kind, namespace, why },
            None => {
                InstalledServerError::Missing { server: cluster.server().to_owned(), namespace }
            }
        })
    }

    /// The server of a Deployment or `StatefulSet`; `None` if its pods do not have the token.
    pub(super) fn of(workload: &Value, namespace: &str) -> Option<Self> {
        let pod = &workload["spec"]["template"]["spec"];
        let list = |name: &str| pod[name].as_array().into_iter().flatten();
        list("volumes").find(|volume| volume["secret"]["secretName"] == FOLLOWER_TOKEN_SECRET)?;
        let server = list("containers").find(|container| container["name"] == "server")?;
        let image = server["image"].as_str()?.to_owned();
        // Reading the whole specification would make the executable 0.3 MB larger.
        let pod = PodSpec {
            image_pull_secrets: serde_json::from_value(pod["imagePullSecrets"].clone()).ok()?,
            node_selector: serde_json::from_value(pod["nodeSelector"].clone()).ok()?,
            tolerations: serde_json::from_value(pod["tolerations"].clone()).ok()?,
            ..PodSpec::default()
        };
        Some(Self { namespace: namespace.to_owned(), image, pod })
    }

    /// The host under which its Jobs reach it.
    pub(super) fn host(&self) -> String {
        service(&self.namespace)
    }

    /// `butler-runner` with these words, in a Job that the cluster ends after `limit`.
    #[must_use]
    pub fn command(&self, words: &[String], limit: Duration) -> CommandJob {
        let mark = format!("{:016x}", fastrand::u64(..));
        let name = JobName::from_existing(format!("{FOLLOWER_JOB_NAME}-{mark}"));
        let mut job = self.job(&name, words, limit);
        set_request_mark(&mut job.metadata, &mark);
        CommandJob { name, mark, job }
    }

    fn job(&self, name: &JobName, words: &[String], limit: Duration) -> Job {
        let labels = BTreeMap::from([
            ("app.kubernetes.io/name".to_owned(), FOLLOWER_JOB_NAME.to_owned()),
            (INSTANCE.to_owned(), name.as_str().to_owned()),
            ("app.kubernetes.io/managed-by".to_owned(), MANAGED_BY.to_owned()),
        ]);
        Job {
            metadata: ObjectMeta {
                name: Some(name.as_str().to_owned()),
                namespace: Some(self.namespace.clone()),
                labels: Some(labels.clone()),
                ..ObjectMeta::default()
            },
            spec: Some(JobSpec {
                active_deadline_seconds: Some(seconds(limit.as_secs())),
                backoff_limit: Some(0),
                ttl_seconds_after_finished: i32::try_from(KEPT.as_secs()).ok(),
                template: PodTemplateSpec {
                    metadata: Some(ObjectMeta { labels: Some(labels), ..ObjectMeta::default() }),
                    spec: Some(self.pod(words)),
                },
                ..JobSpec::default()
            }),
            status: None,
        }
    }

    fn pod(&self, words: &[String]) -> PodSpec {
        let projection = |secret: &str, key: &str| VolumeProjection {
            secret: Some(SecretProjection {
                name: secret.to_owned(),
                items: Some(vec![KeyToPath {
                    key: key.to_owned(),
                    path: key.to_owned(),
                    mode: None,
                }]),
                optional: None,
            }),
            ..VolumeProjection::default()
        };
        let server = Volume {
            name: "server".to_owned(),
            projected: Some(ProjectedVolumeSource {
                default_mode: Some(MODE_0440),
                sources: Some(vec![
                    projection(FOLLOWER_TOKEN_SECRET, "token"),
                    projection(TLS_SECRET, "ca.crt"),
                ]),
            }),
            ..Volume::default()
        };
        let temporary = Volume {
            name: "tmp".to_owned(),
            empty_dir: Some(EmptyDirVolumeSource::default()),
            ..Volume::default()
        };
        // The cluster replaces `$(NAME)` by a variable.
        let words = words.iter().map(|word| word.replace('$', "$$"));
        let command = std::iter::once("butler-runner".to_owned()).chain(words);
        PodSpec {
            restart_policy: Some("Never".to_owned()),
            automount_service_account_token: Some(false),
            enable_service_links: Some(false),
            termination_grace_period_seconds: Some(seconds(GRACE.as_secs())),
            security_context: Some(restricted_pod()),
            containers: vec![Container {
                name: CONTAINER.to_owned(),
                image: Some(self.image.clone()),
                command: Some(command.collect()),
                env: Some(vec![
                    variable("BUTLER_SERVER", &format!("https://{}:7373", self.host())),
                    variable("BUTLER_SERVER_TOKEN_FILE", &format!("{DIRECTORY}/token")),
                    variable("BUTLER_CA_BUNDLE", &format!("{DIRECTORY}/ca.crt")),
                    variable("HOME", TEMPORARY_DIRECTORY),
                ]),
                working_dir: Some(TEMPORARY_DIRECTORY.to_owned()),
                resources: Some(resources("50m", "256Mi")),
                security_context: Some(restricted_container()),
                volume_mounts: Some(vec![
                    mount("server", DIRECTORY, true),
                    mount("tmp", TEMPORARY_DIRECTORY, false),
                ]),
                ..Container::default()
            }],
            volumes: Some(vec![server, temporary]),
            ..self.pod.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn workload(volumes: &Value) -> Value {
        json!({"spec": {"template": {"spec": {
            "imagePullSecrets": [{"name": "login"}],
            "serviceAccountName": "butler-server",
            "nodeSelector": {"pool": "ci"},
            "tolerations": [{"key": "dedicated", "operator": "Exists"}],
            "containers": [{"name": "proxy", "image": "proxy:1"}, {"name": "server", "image": "butler:2"}],
            "volumes": volumes,
        }}}})
    }

    #[test]
    fn job_has_the_image_of_the_server_and_only_what_it_needs() {
        let token = json!([{"name": "a", "secret": {"secretName": FOLLOWER_TOKEN_SECRET}}]);
        let server = InstalledServer::of(&workload(&token), "butler-system").unwrap();
        let name = JobName::from_existing("butler-follower-1".to_owned());
        let words = ["follower", "status", "--follower=$(HOME)"].map(str::to_owned);
        let job = serde_json::to_value(server.job(&name, &words, Duration::from_mins(5))).unwrap();
        assert_eq!(job["spec"]["activeDeadlineSeconds"], 300);
        assert_eq!(job["spec"]["backoffLimit"], 0);
        let pod = &job["spec"]["template"]["spec"];
        assert_eq!(pod["imagePullSecrets"], json!([{"name": "login"}]));
        assert_eq!(pod["nodeSelector"], json!({"pool": "ci"}));
        assert_eq!(pod["tolerations"][0]["key"], "dedicated");
        assert_eq!(pod["automountServiceAccountToken"], false);
        assert_eq!(pod["serviceAccountName"], Value::Null);
        let container = &pod["containers"][0];
        assert_eq!(container["image"], "butler:2");
        let command = json!(["butler-runner", "follower", "status", "--follower=$$(HOME)"]);
        assert_eq!(container["command"], command);
        // The private key of the server is in the same Secret as the certificate of its authority.
        let sources = pod["volumes"][0]["projected"]["sources"].as_array().unwrap();
        let keys: Vec<_> = sources.iter().map(|it| &it["secret"]["items"][0]["key"]).collect();
        assert_eq!(keys, ["token", "ca.crt"]);
        assert!(sources.iter().all(|it| it["secret"]["items"].as_array().unwrap().len() == 1));
    }

    #[test]
    fn server_without_the_token_cannot_be_asked() {
        let other = json!([{"name": "tls", "secret": {"secretName": TLS_SECRET}}]);
        assert_eq!(InstalledServer::of(&workload(&other), "butler-system"), None);
        assert_eq!(InstalledServer::of(&workload(&Value::Null), "butler-system"), None);
    }
}
