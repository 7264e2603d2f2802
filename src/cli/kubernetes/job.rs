//! The flags for a Job and its cluster.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use url::Url;

use super::values::{network, pair, seconds};
use crate::cli::flags::Selection;
use crate::cli::generate::values::{digest, endpoint, image, text};
use crate::settings::setting::{ENDPOINT, RUN_ID, TOKEN_FILE};
use crate::settings::{Environment, Setting, cluster_access};
use butler_cluster::{
    Azure, CaBundle, Cache, ClusterAccess, Egress, Identity, JobOptions, Network, Resources,
    Toleration, object_name, quantity,
};
use butler_start::generate::IMAGE;

/// The flags that select a cluster.
#[derive(Args)]
pub(in crate::cli) struct ClusterFlags {
    /// The kubeconfig file [default: KUBECONFIG, otherwise ~/.kube/config, otherwise the pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context in the kubeconfig file [default: its current context]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

impl ClusterFlags {
    /// Whether one of them is given.
    pub(in crate::cli) const fn is_given(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }

    pub(in crate::cli) fn access(self, environment: &Environment) -> ClusterAccess {
        cluster_access(self.kubeconfig, self.context, environment)
    }
}

/// The flags that select a cluster and a namespace.
#[derive(Args)]
pub(super) struct NamespaceFlags {
    #[command(flatten)]
    pub(super) cluster: ClusterFlags,
    /// The namespace [default: the namespace of the context]
    #[arg(long, value_name = "NAME", value_parser = object_name)]
    pub(super) namespace: Option<String>,
}

/// The settings of the run. The token is not a flag, because the process list would show it.
pub(super) struct RunFlags;

impl Selection for RunFlags {
    fn has(setting: &Setting) -> bool {
        [&ENDPOINT, &RUN_ID, &TOKEN_FILE].contains(&setting)
    }
}

/// The flags for the options of a Job.
#[derive(Args)]
pub(super) struct JobFlags {
    /// The image, without a tag
    #[arg(long, value_name = "NAME", default_value = IMAGE, value_parser = image)]
    image: String,
    /// The version of the runner, which is the tag of the image [default: the version of this executable]
    #[arg(long, value_name = "VERSION")]
    runner_version: Option<semver::Version>,
    /// Use the newest version when the pod starts
    #[arg(long, conflicts_with_all = ["runner_version", "digest"])]
    latest: bool,
    /// The required digest of the image: sha256:...
    #[arg(long, value_name = "DIGEST", value_parser = digest)]
    digest: Option<String>,
    /// A Secret with a login for the image's registry; can be repeated
    #[arg(long = "pull-secret", value_name = "NAME", value_parser = object_name)]
    pull_secrets: Vec<String>,
    /// The time after which the cluster terminates the Job
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = seconds)]
    timeout: Duration,
    /// The time between the stop signal to the tool and SIGKILL; the pod's grace period is 10s longer
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = seconds)]
    grace_period: Duration,
    /// How long the cluster keeps the finished Job and its log
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = seconds)]
    keep: Duration,
    /// The CPU request
    #[arg(long, value_name = "QUANTITY", default_value = "500m", value_parser = quantity)]
    cpu: String,
    /// The memory request and limit
    #[arg(long, value_name = "QUANTITY", default_value = "2Gi", value_parser = quantity)]
    memory: String,
    /// A label of the nodes on which the pod may run; can be repeated
    #[arg(long = "node-selector", value_name = "KEY=VALUE", value_parser = pair)]
    node_selector: Vec<(String, String)>,
    /// A taint that the pod tolerates; can be repeated
    #[arg(long = "toleration", value_name = "KEY[=VALUE][:EFFECT]")]
    tolerations: Vec<Toleration>,
    /// The service account of the pod [default: the default account of the namespace; butler-runner if a cloud is configured]
    #[arg(long, value_name = "NAME", value_parser = object_name)]
    service_account: Option<String>,
    /// Mount a token of the service account for the Kubernetes API
    #[arg(long)]
    mount_account_token: bool,
    /// The AWS role that trusts the service account (EKS)
    #[arg(long, value_name = "ARN", value_parser = text)]
    aws_role: Option<String>,
    /// The AWS region
    #[arg(long, value_name = "REGION", requires = "aws_role", value_parser = text)]
    aws_region: Option<String>,
    /// The Google Cloud service account that the pod's service account impersonates (GKE)
    #[arg(long, value_name = "EMAIL", value_parser = text)]
    gcp_service_account: Option<String>,
    /// The client id of the Azure application that the pod uses (AKS)
    #[arg(long, value_name = "ID", requires = "azure_tenant_id", value_parser = text)]
    azure_client_id: Option<String>,
    /// The Azure tenant of the application
    #[arg(long, value_name = "ID", requires = "azure_client_id", value_parser = text)]
    azure_tenant_id: Option<String>,
    /// The Azure subscription
    #[arg(long, value_name = "ID", requires = "azure_client_id", value_parser = text)]
    azure_subscription_id: Option<String>,
    /// The volume claim for tools, providers, and recovery files
    #[arg(long, value_name = "NAME", value_parser = object_name)]
    cache_claim: Option<String>,
    /// The proxy that the pod uses
    #[arg(long, value_name = "URL", value_parser = endpoint)]
    proxy: Option<Url>,
    /// Hosts that are accessed without the proxy, separated by commas
    #[arg(long, value_name = "HOSTS", value_parser = text)]
    no_proxy: Option<String>,
    /// A config map with CA certificates to trust in addition to the system's [default key: ca.crt]
    #[arg(long, value_name = "NAME[/KEY]")]
    ca_config_map: Option<CaBundle>,
    /// Deny connections to the pod, and connections of the pod except to DNS, the registry and port 443
    #[arg(long)]
    network_policy: bool,
    /// An additional port to which the pod may connect; can be repeated
    #[arg(long = "egress-port", value_name = "PORT", requires = "network_policy")]
    egress_ports: Vec<u16>,
    /// A network to which the pod may connect, instead of all networks; can be repeated
    #[arg(long = "egress-network", value_name = "CIDR", requires = "network_policy", value_parser = network)]
    egress_networks: Vec<String>,
    /// A Secret whose keys are set as environment variables: git tokens, credentials; can be repeated
    #[arg(long = "env-from", value_name = "SECRET", value_parser = object_name)]
    environment_from: Vec<String>,
    /// A Secret to mount, for secret references in runs; can be repeated
    #[arg(long = "mount-secret", value_name = "SECRET", value_parser = object_name)]
    mounted_secrets: Vec<String>,
}

impl JobFlags {
    /// The options for a Job in this namespace.
    pub(super) fn into_options(self, namespace: Option<String>) -> JobOptions {
        let azure = self.azure_client_id.zip(self.azure_tenant_id);
        let azure = azure.map(|(client_id, tenant_id)| Azure {
            client_id,
            tenant_id,
            subscription_id: self.azure_subscription_id,
        });
        let version = self.runner_version.map(|version| version.to_string());
        let version = version.unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned());
        let tag = if self.latest { "latest".to_owned() } else { version };
        let digest = self.digest.map(|digest| format!("@{digest}")).unwrap_or_default();
        JobOptions {
            namespace,
            image: format!("{}:{tag}{digest}", self.image),
            pull_secrets: self.pull_secrets,
            deadline: self.timeout,
            grace: self.grace_period,
            keep: self.keep,
            resources: Resources { cpu: self.cpu, memory: self.memory },
            node_selector: self.node_selector.into_iter().collect(),
            tolerations: self.tolerations,
            service_account: self.service_account,
            mount_account_token: self.mount_account_token,
            identity: Identity {
                aws: self.aws_role.map(|role| (role, self.aws_region)),
                gcp: self.gcp_service_account,
                azure,
            },
            cache: self.cache_claim.map_or(Cache::Pod, Cache::Claim),
            network: Network {
                proxy: self.proxy.map(|proxy| proxy.to_string()),
                no_proxy: self.no_proxy,
                ca: self.ca_config_map,
            },
            egress: self
                .network_policy
                .then_some(Egress { ports: self.egress_ports, networks: self.egress_networks }),
            environment_from: self.environment_from,
            mounted_secrets: self.mounted_secrets,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            variables: Vec::new(),
        }
    }
}
