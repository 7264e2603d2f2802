//! The options of a run's Job.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use secrecy::SecretString;

/// Replaces the token in printed manifests.
pub(crate) const TOKEN_PLACEHOLDER: &str = "${BUTLER_TOKEN}";

/// The run that a Job executes.
#[derive(Debug)]
pub struct Run {
    /// The registry's address.
    pub endpoint: String,
    /// The run's id in the registry.
    pub id: String,
    /// The run's callback token.
    pub token: SecretString,
}

impl Run {
    /// A run with variables instead of values, for templates; `envsubst` replaces them.
    #[must_use]
    pub fn placeholder(endpoint: Option<&str>) -> Self {
        Self {
            endpoint: endpoint.unwrap_or("${BUTLER_ENDPOINT}").to_owned(),
            id: "${BUTLER_RUN_ID}".to_owned(),
            token: TOKEN_PLACEHOLDER.into(),
        }
    }
}

/// The options of a Job that do not depend on the run.
#[derive(Clone, Debug)]
pub struct JobOptions {
    /// The namespace; the default is the context's.
    pub namespace: Option<String>,
    /// The image, with a tag or digest.
    pub image: String,
    /// Secrets with logins for the image's registry.
    pub pull_secrets: Vec<String>,
    /// The time after which the cluster ends the Job, counted from its start, including the wait for a node.
    pub deadline: Duration,
    /// The time for Terraform to end after the pod's SIGTERM.
    pub grace: Duration,
    /// How long the Job is kept after its end.
    pub keep: Duration,
    /// The container's resources.
    pub resources: Resources,
    /// Labels of the nodes on which the pod may run.
    pub node_selector: BTreeMap<String, String>,
    /// Taints of nodes that the pod tolerates.
    pub tolerations: Vec<Toleration>,
    /// The pod's service account; the default is the namespace's.
    pub service_account: Option<String>,
    /// Whether the pod gets a token of that account for the cluster itself.
    pub mount_account_token: bool,
    /// The pod's identity in clouds.
    pub identity: Identity,
    /// The storage for tools and providers.
    pub cache: Cache,
    /// Proxy and certificates.
    pub network: Network,
    /// The addresses that the pod may reach; `None` for no network policy.
    pub egress: Option<Egress>,
    /// Secrets whose keys become variables: git tokens, credentials of clouds.
    pub environment_from: Vec<String>,
    /// Secrets that are mounted to resolve the run's references.
    pub mounted_secrets: Vec<String>,
    /// Further labels of the Job and its pod.
    pub labels: BTreeMap<String, String>,
    /// Further annotations of the Job and its pod.
    pub annotations: BTreeMap<String, String>,
    /// Further variables of the runner. They are not secret.
    pub variables: Vec<(String, String)>,
}

/// The container's resources, as Kubernetes quantities. The request and the limit of memory are
/// equal, so that the node does not evict a pod that holds a state.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Resources {
    /// The requested CPU, for example `500m`.
    pub cpu: String,
    /// The memory, for example `2Gi`.
    pub memory: String,
}

/// A taint that the pod tolerates: `KEY[=VALUE][:EFFECT]`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Toleration {
    /// The taint's key.
    pub key: String,
    /// Its value; `None` for any.
    pub value: Option<String>,
    /// Its effect; `None` for any.
    pub effect: Option<String>,
}

impl FromStr for Toleration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (taint, effect) = match text.rsplit_once(':') {
            Some((taint, effect)) => (taint, Some(effect)),
            None => (text, None),
        };
        let (key, value) = match taint.split_once('=') {
            Some((key, value)) => (key, Some(value)),
            None => (taint, None),
        };
        if key.is_empty() {
            return Err("a toleration is KEY[=VALUE][:EFFECT]".to_owned());
        }
        if let Some(effect) = effect
            && !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect)
        {
            return Err(format!(
                "`{effect}` is not an effect: NoSchedule, PreferNoSchedule or NoExecute"
            ));
        }
        Ok(Self {
            key: key.to_owned(),
            value: value.map(ToOwned::to_owned),
            effect: effect.map(ToOwned::to_owned),
        })
    }
}

/// The pod's identity in clouds. The clouds trust its service account, so the pod needs no key.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Identity {
    /// The IAM role that the account assumes (EKS, IRSA), and the region.
    pub aws: Option<(String, Option<String>)>,
    /// The service account of Google Cloud that it maps to (GKE).
    pub gcp: Option<String>,
    /// The application of Entra that it maps to (AKS).
    pub azure: Option<Azure>,
}

impl Identity {
    /// Whether the identity needs its own service account.
    #[must_use]
    pub const fn is_some(&self) -> bool {
        self.aws.is_some() || self.gcp.is_some() || self.azure.is_some()
    }
}

/// An application of Entra. The ids are not secret.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Azure {
    /// The id of the application.
    pub client_id: String,
    /// The id of its directory.
    pub tenant_id: String,
    /// The id of the subscription that providers manage.
    pub subscription_id: Option<String>,
}

/// The storage for tools and providers.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Cache {
    /// A volume of the pod, for this run only.
    #[default]
    Pod,
    /// A claim that runs share. It also keeps undelivered reports and states.
    Claim(String),
}

/// Settings for the pod's connections.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Network {
    /// The proxy for all hosts except `no_proxy`.
    pub proxy: Option<String>,
    /// Hosts that are contacted without the proxy.
    pub no_proxy: Option<String>,
    /// Additional trusted certificates.
    pub ca: Option<CaBundle>,
}

/// A `ConfigMap` with certificates: `NAME[/KEY]`, by default the key `ca.crt`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CaBundle {
    /// The `ConfigMap`.
    pub config_map: String,
    /// The key in it.
    pub key: String,
}

impl FromStr for CaBundle {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (config_map, key) = text.split_once('/').unwrap_or((text, "ca.crt"));
        if config_map.is_empty() || key.is_empty() || key.contains('/') {
            return Err("the ConfigMap is NAME or NAME/KEY".to_owned());
        }
        Ok(Self { config_map: config_map.to_owned(), key: key.to_owned() })
    }
}

/// The connections that the pod may open, besides DNS.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Egress {
    /// Ports in addition to 443 and those of the registry and the proxy.
    pub ports: Vec<u16>,
    /// Networks; empty for all.
    pub networks: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerations_and_ca_bundles_are_parsed() {
        let read = |text: &str| text.parse::<Toleration>();
        let toleration = read("dedicated=terraform:NoSchedule").unwrap();
        assert_eq!(
            (&*toleration.key, toleration.value.as_deref(), toleration.effect.as_deref()),
            ("dedicated", Some("terraform"), Some("NoSchedule"))
        );
        assert_eq!(read("spot").unwrap().effect, None);
        assert!(read("=x").is_err() && read("a:Never").unwrap_err().contains("`Never`"));
        let bundle: CaBundle = "company".parse().unwrap();
        assert_eq!((&*bundle.config_map, &*bundle.key), ("company", "ca.crt"));
        assert_eq!("company/root.pem".parse::<CaBundle>().unwrap().key, "root.pem");
        assert!("/x".parse::<CaBundle>().is_err() && "a/".parse::<CaBundle>().is_err());
    }
}
