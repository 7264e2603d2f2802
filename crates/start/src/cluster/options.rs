//! What the Job of a run is asked for.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use secrecy::SecretString;

/// Replaces the token in printed manifests.
pub(super) const TOKEN_PLACE: &str = "${BUTLER_TOKEN}";

/// The run that a Job executes.
#[derive(Debug)]
pub struct Run {
    /// The registry's address.
    pub endpoint: String,
    /// The run's id, as the registry knows it.
    pub id: String,
    /// The run's callback token.
    pub token: SecretString,
}

impl Run {
    /// Stands in a template for a run that is not known yet; `envsubst` puts the real one in.
    #[must_use]
    pub fn placeholder(endpoint: Option<&str>) -> Self {
        Self {
            endpoint: endpoint.unwrap_or("${BUTLER_ENDPOINT}").to_owned(),
            id: "${BUTLER_RUN_ID}".to_owned(),
            token: TOKEN_PLACE.into(),
        }
    }
}

/// The options of a Job that do not depend on the run.
#[derive(Clone, Debug)]
pub struct JobOptions {
    /// Where it runs; the context's own namespace where none is given.
    pub namespace: Option<String>,
    /// The image, with a tag or digest.
    pub image: String,
    /// Secrets with logins for the image's registry.
    pub pull_secrets: Vec<String>,
    /// When the cluster ends it, counted from its start and including the wait for a node.
    pub deadline: Duration,
    /// How long the tool may take to end once the pod is told to.
    pub grace: Duration,
    /// How long the Job is kept after its end.
    pub keep: Duration,
    /// What the container may use.
    pub resources: Resources,
    /// Labels of the nodes on which it may run.
    pub node_selector: BTreeMap<String, String>,
    /// Taints of nodes that the pod tolerates.
    pub tolerations: Vec<Toleration>,
    /// Who the pod is to the cluster; the namespace's default where none is given.
    pub service_account: Option<String>,
    /// Whether the pod gets a token of that account's for the cluster itself.
    pub mount_account_token: bool,
    /// Who the pod is to the clouds.
    pub identity: Identity,
    /// Where tools and providers are kept.
    pub cache: Cache,
    /// How the pod gets to the network.
    pub network: Network,
    /// What the pod may reach; no policy at all where it is none.
    pub egress: Option<Egress>,
    /// Secrets whose keys become variables: git tokens, credentials of clouds.
    pub environment_from: Vec<String>,
    /// Secrets that are mounted for the run's references.
    pub mounted_secrets: Vec<String>,
}

/// The container's resources, as Kubernetes quantities. The request and the limit of memory are
/// equal, so that the node does not evict a pod that holds a state.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Resources {
    /// What it is scheduled by, `500m` for example.
    pub cpu: String,
    /// What it gets, `2Gi` for example.
    pub memory: String,
}

/// A taint that the pod minds not: `KEY[=VALUE][:EFFECT]`.
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

/// Who the pod is to the clouds: its service account is trusted there, and it gets no key.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Identity {
    /// The role of IAM that the account takes on (EKS, IRSA), and its region.
    pub aws: Option<(String, Option<String>)>,
    /// The service account of Google Cloud that it maps to (GKE).
    pub gcp: Option<String>,
    /// The application of Entra that it maps to (AKS).
    pub azure: Option<Azure>,
}

impl Identity {
    /// Whether it needs a service account of its own.
    #[must_use]
    pub const fn is_some(&self) -> bool {
        self.aws.is_some() || self.gcp.is_some() || self.azure.is_some()
    }
}

/// An application of Entra. None of it is secret.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Azure {
    /// The application.
    pub client_id: String,
    /// The directory that it is in.
    pub tenant_id: String,
    /// What it works on.
    pub subscription_id: Option<String>,
}

/// Where tools and providers are kept.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Cache {
    /// In the pod, for this run.
    #[default]
    Pod,
    /// In a claim that runs share; also keeps what could not be handed over.
    Claim(String),
}

/// How the pod gets to the network.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Network {
    /// The proxy for everything but `no_proxy`.
    pub proxy: Option<String>,
    /// Hosts that are asked directly.
    pub no_proxy: Option<String>,
    /// Certificates to trust beside the system's.
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

/// What the pod may reach beside the cluster's names (DNS).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Egress {
    /// Ports beside 443 and those of the registry and the proxy.
    pub ports: Vec<u16>,
    /// Networks; empty for all.
    pub networks: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerations_and_certificates_are_read_as_they_are_written() {
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
