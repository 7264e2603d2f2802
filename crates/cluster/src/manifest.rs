//! The objects of a run: a Job, the Secret with its token, and a policy for its network.
//!
//! The printed and the created objects are the same, in the cluster's own types. The pod meets the pod security
//! standard "restricted". The token is kept outside of its Secret, so that printing cannot reveal it.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::{
    Job, JobSpec, PodFailurePolicy, PodFailurePolicyOnPodConditionsPattern, PodFailurePolicyRule,
};
use k8s_openapi::api::core::v1::{
    Capabilities, ConfigMapVolumeSource, Container, EmptyDirVolumeSource, EnvFromSource, EnvVar,
    LocalObjectReference, PersistentVolumeClaimVolumeSource, PodSecurityContext, PodSpec,
    PodTemplateSpec, ResourceRequirements, SeccompProfile, Secret, SecretEnvSource,
    SecretVolumeSource, SecurityContext, ServiceAccount, Toleration, Volume, VolumeMount,
};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use secrecy::SecretString;

use crate::names::{JobName, RUN_ID, labels};
use crate::options::{Cache, JobOptions, Run};
use crate::variable::variable;
use crate::{account, network};

/// The user of the image, and the group that owns volumes.
const USER: i64 = 65532;
/// The container, and the key of the token in the Secret.
pub(crate) const CONTAINER: &str = "runner";
pub(crate) const TOKEN_KEY: &str = "token";
/// Readable by owner and group: the kubelet sets root as the owner, and the pod's group as the group.
pub(crate) const MODE_0440: i32 = 0o440;
/// Seconds that the runner's reports need after Terraform's end, with one for the exit itself.
const AFTER_GRACE: u64 = 10;
/// The size limit of the volume in memory: secret files are small.
const SECRET_VOLUME_SIZE: &str = "64Mi";

/// The volume with the token.
pub(crate) const TOKEN_VOLUME: &str = "token";
const TOKEN_DIRECTORY: &str = "/run/butler/token";
const SECRET_DIRECTORY: &str = "/run/butler/secret";
const MOUNTED_DIRECTORY: &str = "/run/butler/mounted";
const CA_DIRECTORY: &str = "/run/butler/ca";
const WORK_DIRECTORY: &str = "/workspace";
/// The mount point of the cache's volume. Every user may write to the root of an empty volume, so the runner
/// creates a directory below it (0700).
const CACHE_VOLUME: &str = "/cache";
const CACHE_DIRECTORY: &str = "/cache/butler-runner";
pub(crate) const TEMPORARY_DIRECTORY: &str = "/tmp";

/// The objects of one run.
pub struct Manifests {
    /// The account that clouds trust. It is printed, but never created with a run.
    pub(crate) account: Option<ServiceAccount>,
    /// The Secret for the token, without the token.
    pub(crate) secret: Secret,
    pub(crate) token: SecretString,
    /// The connections that the pod may open.
    pub(crate) policy: Option<NetworkPolicy>,
    pub(crate) job: Job,
}

impl Manifests {
    /// The objects for `run`.
    #[must_use]
    pub fn new(options: &JobOptions, run: Run) -> Self {
        let name = JobName::for_run(&run.id);
        let mut labels = labels(&name, &run.id);
        labels.extend(options.labels.clone());
        let mut annotations = options.annotations.clone();
        annotations.insert(RUN_ID.to_owned(), run.id.clone());
        let metadata = ObjectMeta {
            name: Some(name.as_str().to_owned()),
            namespace: options.namespace.clone(),
            labels: Some(labels),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        };
        Self {
            account: account::service_account(options),
            secret: Secret {
                metadata: metadata.clone(),
                string_data: None,
                immutable: Some(true),
                type_: Some("Opaque".to_owned()),
                data: None,
            },
            policy: network::network_policy(metadata.clone(), options, &run.endpoint),
            job: job(metadata, options, &run, &name),
            token: run.token,
        }
    }

    /// Sets unique names for the objects that the Job owns: those of an earlier Job of the same name may still
    /// exist, and nodes may cache its Secret.
    pub(crate) fn set_unique_names(&mut self, mark: &str) {
        let name = format!("{}-{mark}", self.name());
        let pod = self.job.spec.as_mut().and_then(|spec| spec.template.spec.as_mut());
        let volumes = pod.and_then(|pod| pod.volumes.as_mut()).into_iter().flatten();
        for volume in volumes.filter(|volume| volume.name == TOKEN_VOLUME) {
            if let Some(secret) = &mut volume.secret {
                secret.secret_name = Some(name.clone());
            }
        }
        if let Some(policy) = &mut self.policy {
            policy.metadata.name = Some(name.clone());
        }
        self.secret.metadata.name = Some(name);
    }

    /// The Job's name.
    #[must_use]
    pub fn name(&self) -> JobName {
        JobName::from_existing(self.job.metadata.name.clone().unwrap_or_default())
    }
}

fn job(metadata: ObjectMeta, options: &JobOptions, run: &Run, name: &JobName) -> Job {
    let mut pod_labels = metadata.labels.clone().unwrap_or_default();
    pod_labels.extend(account::pod_label(&options.identity));
    Job {
        spec: Some(JobSpec {
            active_deadline_seconds: Some(seconds(options.deadline.as_secs())),
            backoff_limit: Some(0),
            completions: Some(1),
            parallelism: Some(1),
            pod_failure_policy: Some(PodFailurePolicy { rules: vec![fail_job_on_disruption()] }),
            ttl_seconds_after_finished: i32::try_from(options.keep.as_secs()).ok(),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(pod_labels),
                    annotations: Some(with_eviction_protection(metadata.annotations.as_ref())),
                    ..ObjectMeta::default()
                }),
                spec: Some(pod(options, run, name)),
            },
            ..JobSpec::default()
        }),
        metadata,
        status: None,
    }
}

/// Annotations that keep autoscalers from evicting the pod.
fn with_eviction_protection(
    annotations: Option<&BTreeMap<String, String>>,
) -> BTreeMap<String, String> {
    let mut annotations = annotations.cloned().unwrap_or_default();
    annotations.insert("cluster-autoscaler.kubernetes.io/safe-to-evict".into(), "false".into());
    annotations.insert("karpenter.sh/do-not-disrupt".into(), "true".into());
    annotations
}

/// Fails the Job if the cluster evicts the pod, so that the cluster does not start the run again.
fn fail_job_on_disruption() -> PodFailurePolicyRule {
    PodFailurePolicyRule {
        action: "FailJob".to_owned(),
        on_exit_codes: None,
        on_pod_conditions: Some(vec![PodFailurePolicyOnPodConditionsPattern {
            type_: "DisruptionTarget".to_owned(),
            status: "True".to_owned(),
        }]),
    }
}

fn pod(options: &JobOptions, run: &Run, name: &JobName) -> PodSpec {
    let references = |names: &[String]| -> Option<Vec<LocalObjectReference>> {
        let names = names.iter().map(|name| LocalObjectReference { name: name.clone() });
        Some(names.collect::<Vec<_>>()).filter(|names| !names.is_empty())
    };
    let tolerations = options.tolerations.iter().map(toleration).collect::<Vec<_>>();
    let (volumes, mounts) = volumes(options, name).into_iter().unzip();
    PodSpec {
        restart_policy: Some("Never".to_owned()),
        service_account_name: account::account_name(options),
        automount_service_account_token: Some(options.mount_account_token),
        enable_service_links: Some(false),
        termination_grace_period_seconds: Some(seconds(options.grace.as_secs() + AFTER_GRACE)),
        image_pull_secrets: references(&options.pull_secrets),
        node_selector: Some(options.node_selector.clone()).filter(|it| !it.is_empty()),
        tolerations: Some(tolerations).filter(|it| !it.is_empty()),
        security_context: Some(restricted_pod()),
        containers: vec![container(options, run, mounts)],
        volumes: Some(volumes),
        ..PodSpec::default()
    }
}

fn container(options: &JobOptions, run: &Run, mounts: Vec<VolumeMount>) -> Container {
    let from = options.environment_from.iter().map(|name| EnvFromSource {
        secret_ref: Some(SecretEnvSource { name: name.clone(), optional: None }),
        ..EnvFromSource::default()
    });
    Container {
        name: CONTAINER.to_owned(),
        image: Some(options.image.clone()),
        command: Some(vec!["butler-runner".to_owned(), "execute".to_owned()]),
        env: Some(environment(options, run)),
        env_from: Some(from.collect::<Vec<_>>()).filter(|from| !from.is_empty()),
        working_dir: Some(WORK_DIRECTORY.to_owned()),
        resources: Some(resources(&options.resources.cpu, &options.resources.memory)),
        security_context: Some(restricted_container()),
        volume_mounts: Some(mounts),
        ..Container::default()
    }
}

/// What the pod security standard "restricted" demands of a pod.
pub(crate) fn restricted_pod() -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: Some(USER),
        run_as_group: Some(USER),
        fs_group: Some(USER),
        fs_group_change_policy: Some("OnRootMismatch".to_owned()),
        seccomp_profile: Some(SeccompProfile {
            type_: "RuntimeDefault".to_owned(),
            localhost_profile: None,
        }),
        ..PodSecurityContext::default()
    }
}

/// What the pod security standard "restricted" demands of a container.
pub(crate) fn restricted_container() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        privileged: Some(false),
        read_only_root_filesystem: Some(true),
        run_as_non_root: Some(true),
        capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), add: None }),
        ..SecurityContext::default()
    }
}

/// The requests of a container, and the same amount of memory as its limit.
pub(crate) fn resources(cpu: &str, memory: &str) -> ResourceRequirements {
    let memory = || ("memory".to_owned(), Quantity(memory.to_owned()));
    ResourceRequirements {
        requests: Some([("cpu".to_owned(), Quantity(cpu.to_owned())), memory()].into()),
        limits: Some([memory()].into()),
        claims: None,
    }
}

fn environment(options: &JobOptions, run: &Run) -> Vec<EnvVar> {
    let grace = format!("{}s", options.grace.as_secs());
    let mut variables = vec![
        variable("BUTLER_ENDPOINT", &run.endpoint),
        variable("BUTLER_RUN_ID", &run.id),
        variable("BUTLER_TOKEN_FILE", &format!("{TOKEN_DIRECTORY}/{TOKEN_KEY}")),
        variable("BUTLER_GRACE_PERIOD", &grace),
        variable("BUTLER_TMPFS_DIR", SECRET_DIRECTORY),
        variable("BUTLER_WORK_DIR", WORK_DIRECTORY),
        variable("BUTLER_CACHE_DIR", CACHE_DIRECTORY),
        variable("HOME", TEMPORARY_DIRECTORY),
    ];
    if !options.mounted_secrets.is_empty() {
        variables.push(variable("BUTLER_SECRETS_DIR", MOUNTED_DIRECTORY));
    }
    if let Some(ca) = &options.network.ca {
        let file = format!("{CA_DIRECTORY}/{}", ca.key);
        variables.push(variable("BUTLER_CA_BUNDLE", &file));
    }
    if let Some(proxy) = &options.network.proxy {
        variables.push(variable("HTTPS_PROXY", proxy));
        variables.push(variable("HTTP_PROXY", proxy));
    }
    if let Some(hosts) = &options.network.no_proxy {
        variables.push(variable("NO_PROXY", hosts));
    }
    variables.extend(account::provider_variables(&options.identity));
    variables.extend(options.variables.iter().map(|(name, value)| variable(name, value)));
    variables
}

/// The pod's volumes with their mounts.
fn volumes(options: &JobOptions, name: &JobName) -> Vec<(Volume, VolumeMount)> {
    let empty = |medium: Option<&str>, size: Option<&str>| EmptyDirVolumeSource {
        medium: medium.map(ToOwned::to_owned),
        size_limit: size.map(|size| Quantity(size.to_owned())),
    };
    let secret = |name: &str| SecretVolumeSource {
        secret_name: Some(name.to_owned()),
        default_mode: Some(MODE_0440),
        ..SecretVolumeSource::default()
    };
    let volume = |name: &str| Volume { name: name.to_owned(), ..Volume::default() };
    let in_memory = empty(Some("Memory"), Some(SECRET_VOLUME_SIZE));
    let cache = match &options.cache {
        Cache::Pod => Volume { empty_dir: Some(empty(None, None)), ..volume("cache") },
        Cache::Claim(claim) => Volume {
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: claim.clone(),
                read_only: None,
            }),
            ..volume("cache")
        },
    };
    let token = secret(name.as_str());
    let mut volumes = vec![
        (
            Volume { secret: Some(token), ..volume(TOKEN_VOLUME) },
            mount(TOKEN_VOLUME, TOKEN_DIRECTORY, true),
        ),
        (
            Volume { empty_dir: Some(in_memory), ..volume("secret") },
            mount("secret", SECRET_DIRECTORY, false),
        ),
        (
            Volume { empty_dir: Some(empty(None, None)), ..volume("workspace") },
            mount("workspace", WORK_DIRECTORY, false),
        ),
        (
            Volume { empty_dir: Some(empty(None, None)), ..volume("tmp") },
            mount("tmp", TEMPORARY_DIRECTORY, false),
        ),
        (cache, mount("cache", CACHE_VOLUME, false)),
    ];
    if let Some(ca) = &options.network.ca {
        let source = ConfigMapVolumeSource {
            name: ca.config_map.clone(),
            ..ConfigMapVolumeSource::default()
        };
        let certificates = Volume { config_map: Some(source), ..volume("ca") };
        volumes.push((certificates, mount("ca", CA_DIRECTORY, true)));
    }
    volumes.extend(options.mounted_secrets.iter().enumerate().map(|(number, name)| {
        let label = format!("mounted-{number}");
        let path = format!("{MOUNTED_DIRECTORY}/{name}");
        (Volume { secret: Some(secret(name)), ..volume(&label) }, mount(&label, &path, true))
    }));
    volumes
}

pub(crate) fn mount(name: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    }
}

fn toleration(toleration: &super::options::Toleration) -> Toleration {
    let operator = if toleration.value.is_some() { "Equal" } else { "Exists" };
    Toleration {
        key: Some(toleration.key.clone()),
        operator: Some(operator.to_owned()),
        value: toleration.value.clone(),
        effect: toleration.effect.clone(),
        toleration_seconds: None,
    }
}

pub(crate) fn seconds(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX)
}
