//! The network policy of a run's pod.

use k8s_openapi::api::networking::v1::{
    IPBlock, NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyPeer, NetworkPolicyPort,
    NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use url::Url;

use crate::names::INSTANCE;
use crate::options::{Egress, JobOptions};

/// Addresses and ports of GKE's metadata server: of the current and of the old data plane.
const GKE_METADATA: [(&str, [u16; 2]); 2] =
    [("169.254.169.254/32", [80, 8080]), ("169.254.169.252/32", [987, 988])];

/// The policy for the pod with the labels in `metadata`: no ingress; egress to DNS, HTTPS, the registry
/// and the proxy. Policies contain addresses and no names, so the registry's host cannot be part of
/// it.
pub(crate) fn network_policy(
    metadata: ObjectMeta,
    options: &JobOptions,
    endpoint: &str,
) -> Option<NetworkPolicy> {
    let egress = options.egress.as_ref()?;
    let instance = metadata.labels.as_ref()?.get_key_value(INSTANCE)?;
    let selected = [instance].map(|(name, value)| (name.clone(), value.clone()));
    let dns = ["UDP", "TCP"].map(|protocol| port(protocol, 53));
    let mut rules = vec![
        NetworkPolicyEgressRule { ports: Some(dns.into()), to: None },
        NetworkPolicyEgressRule {
            ports: Some(ports(egress, options, endpoint)),
            to: (!egress.networks.is_empty())
                .then(|| egress.networks.iter().map(|network| peer(network)).collect()),
        },
    ];
    if options.identity.gcp.is_some() {
        rules.extend(GKE_METADATA.map(|(address, ports)| NetworkPolicyEgressRule {
            ports: Some(ports.map(|number| port("TCP", number)).into()),
            to: Some(vec![peer(address)]),
        }));
    }
    Some(NetworkPolicy {
        metadata,
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(LabelSelector {
                match_labels: Some(selected.into()),
                ..LabelSelector::default()
            }),
            policy_types: Some(vec!["Ingress".to_owned(), "Egress".to_owned()]),
            ingress: None,
            egress: Some(rules),
        }),
    })
}

/// The allowed ports, each once: HTTPS, the registry's, the proxy's, and the requested ones.
fn ports(egress: &Egress, options: &JobOptions, endpoint: &str) -> Vec<NetworkPolicyPort> {
    let of_url = |url: &str| Url::parse(url).ok()?.port_or_known_default();
    let proxy = options.network.proxy.as_deref().and_then(of_url);
    let mut numbers = vec![443];
    for number in of_url(endpoint).into_iter().chain(proxy).chain(egress.ports.iter().copied()) {
        if !numbers.contains(&number) {
            numbers.push(number);
        }
    }
    numbers.into_iter().map(|number| port("TCP", number)).collect()
}

fn port(protocol: &str, number: u16) -> NetworkPolicyPort {
    NetworkPolicyPort {
        protocol: Some(protocol.to_owned()),
        port: Some(IntOrString::Int(number.into())),
        end_port: None,
    }
}

fn peer(network: &str) -> NetworkPolicyPeer {
    NetworkPolicyPeer {
        ip_block: Some(IPBlock { cidr: network.to_owned(), except: None }),
        ..NetworkPolicyPeer::default()
    }
}
