//! What a Job is asked for, and where it runs.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use url::Url;

use super::values::{name, network, pair, quantity, seconds};
use crate::cli::flags::Selection;
use crate::cli::generate::values::{digest, endpoint, image, text};
use crate::settings::setting::{ENDPOINT, RUN_ID, TOKEN_FILE};
use crate::settings::{Environment, Setting, cluster_access};
use butler_start::cluster::{
    Access, Azure, CaBundle, Cache, Egress, Identity, JobOptions, Network, Resources, Toleration,
};
use butler_start::generate::IMAGE;

/// Which cluster.
#[derive(Args)]
pub(super) struct ClusterFlags {
    /// A file that describes clusters [default: KUBECONFIG, else ~/.kube/config, else the pod's account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context in it [default: its current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

impl ClusterFlags {
    pub(super) fn access(self, environment: &Environment) -> Access {
        cluster_access(self.kubeconfig, self.context, environment)
    }
}

/// Which cluster, and where in it.
#[derive(Args)]
pub(super) struct PlaceFlags {
    #[command(flatten)]
    pub(super) cluster: ClusterFlags,
    /// The namespace [default: the context's]
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub(super) namespace: Option<String>,
}

/// Which run. The token is never an argument here: what is handed on is not this machine's alone.
pub(super) struct RunFlags;

impl Selection for RunFlags {
    fn has(setting: &Setting) -> bool {
        [&ENDPOINT, &RUN_ID, &TOKEN_FILE].contains(&setting)
    }
}

/// What a Job is asked for.
#[derive(Args)]
pub(super) struct JobFlags {
    /// The image, without a tag
    #[arg(long, value_name = "NAME", default_value = IMAGE, value_parser = image)]
    image: String,
    /// The version of the runner, which is the image's tag [default: this one]
    #[arg(long, value_name = "VERSION")]
    runner_version: Option<semver::Version>,
    /// Use whatever version is newest when the pod starts
    #[arg(long, conflicts_with_all = ["runner_version", "digest"])]
    latest: bool,
    /// The digest of the image, and no other: sha256:...
    #[arg(long, value_name = "DIGEST", value_parser = digest)]
    digest: Option<String>,
    /// A Secret with a login for the image's registry; can be repeated
    #[arg(long = "pull-secret", value_name = "NAME", value_parser = name)]
    pull_secrets: Vec<String>,
    /// When the cluster ends the run, counted from the Job's start
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = seconds)]
    timeout: Duration,
    /// How long the tool may take to end when the pod is to end; the pod gets 10s more
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = seconds)]
    grace_period: Duration,
    /// How long the ended Job and its log are kept
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = seconds)]
    keep: Duration,
    /// The CPU that is asked for
    #[arg(long, value_name = "QUANTITY", default_value = "500m", value_parser = quantity)]
    cpu: String,
    /// The memory that is asked for, and the most that there is
    #[arg(long, value_name = "QUANTITY", default_value = "2Gi", value_parser = quantity)]
    memory: String,
    /// A label of the nodes on which it may run; can be repeated
    #[arg(long = "node-selector", value_name = "KEY=VALUE", value_parser = pair)]
    node_selector: Vec<(String, String)>,
    /// A taint of nodes on which it may run all the same; can be repeated
    #[arg(long = "toleration", value_name = "KEY[=VALUE][:EFFECT]")]
    tolerations: Vec<Toleration>,
    /// The pod's service account [default: the namespace's; butler-runner where a cloud is asked for]
    #[arg(long, value_name = "NAME", value_parser = name)]
    service_account: Option<String>,
    /// Give the pod a token of its service account's for the cluster itself
    #[arg(long)]
    mount_account_token: bool,
    /// The role at AWS that trusts the service account (EKS)
    #[arg(long, value_name = "ARN", value_parser = text)]
    aws_role: Option<String>,
    /// The region at AWS
    #[arg(long, value_name = "REGION", requires = "aws_role", value_parser = text)]
    aws_region: Option<String>,
    /// The service account at Google Cloud that it stands for (GKE)
    #[arg(long, value_name = "EMAIL", value_parser = text)]
    gcp_service_account: Option<String>,
    /// The application at Azure that it stands for (AKS)
    #[arg(long, value_name = "ID", requires = "azure_tenant_id", value_parser = text)]
    azure_client_id: Option<String>,
    /// The directory at Azure that the application is in
    #[arg(long, value_name = "ID", requires = "azure_client_id", value_parser = text)]
    azure_tenant_id: Option<String>,
    /// The subscription at Azure
    #[arg(long, value_name = "ID", requires = "azure_client_id", value_parser = text)]
    azure_subscription_id: Option<String>,
    /// Keep tools, providers and what could not be handed over in this volume claim
    #[arg(long, value_name = "NAME", value_parser = name)]
    cache_claim: Option<String>,
    /// The proxy that the pod uses
    #[arg(long, value_name = "URL", value_parser = endpoint)]
    proxy: Option<Url>,
    /// Hosts that are asked directly, separated by commas
    #[arg(long, value_name = "HOSTS", value_parser = text)]
    no_proxy: Option<String>,
    /// A config map with certificates to trust beside the system's [default key: ca.crt]
    #[arg(long, value_name = "NAME[/KEY]")]
    ca_config_map: Option<CaBundle>,
    /// Let nobody talk to the pod, and the pod to nobody but DNS, the registry and port 443
    #[arg(long)]
    network_policy: bool,
    /// A further port that the pod may talk to; can be repeated
    #[arg(long = "egress-port", value_name = "PORT", requires = "network_policy")]
    egress_ports: Vec<u16>,
    /// A network that the pod may talk to, and no other; can be repeated
    #[arg(long = "egress-network", value_name = "CIDR", requires = "network_policy", value_parser = network)]
    egress_networks: Vec<String>,
    /// A Secret whose keys become variables: git tokens, credentials; can be repeated
    #[arg(long = "env-from", value_name = "SECRET", value_parser = name)]
    environment_from: Vec<String>,
    /// A Secret that is mounted for the references of runs; can be repeated
    #[arg(long = "mount-secret", value_name = "SECRET", value_parser = name)]
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
        }
    }
}
