//! The options of the Job of an attempt: what the server is started with, and what its layer says.

use std::collections::BTreeMap;
use std::time::Duration;

use butler_cluster::{
    CaBundle, Cache, ClusterAccess, Egress, Identity, JobOptions, Network, Resources,
};

use crate::config::LayerEntry;
use crate::layers::LayerSource;
use crate::store::AttemptId;

/// The label of the Jobs of servers.
pub(super) const LABEL: &str = "butler.dev/started-by=server";

/// The annotation with the name of the layer.
pub(super) const LAYER: &str = "butler.dev/layer";

/// How long a pod may wait for its start, by default.
const START_TIMEOUT: Duration = Duration::from_mins(10);

/// How long an ended Job is kept, by default.
const KEEP: Duration = Duration::from_hours(1);

/// The time for Terraform to end after a signal.
const GRACE: Duration = Duration::from_mins(1);

/// How much longer a Job may be active than its attempt, which the server stops before. It is for a server that is away
/// at that time: its runner waits until a server takes its reports, and another server may have to be started on another
/// node.
const BEYOND_TIMEOUT: Duration = Duration::from_mins(30);

/// What the pods of all attempts get: few requests, because there can be many of them, and reports that wait for a
/// server that is replaced.
const VARIABLES: [(&str, &str); 3] = [
    ("BUTLER_LOG_INTERVAL", "250ms"),
    ("BUTLER_CANCEL_INTERVAL", "10s"),
    ("BUTLER_REGISTRY_TIMEOUT", "24h"),
];

/// What the Jobs of all layers have in common.
#[derive(Clone, Debug)]
pub struct JobSettings {
    /// The cluster and the login.
    pub access: ClusterAccess,
    /// The namespace; the default is that of the login.
    pub namespace: Option<String>,
    /// The image, with a tag or digest.
    pub image: String,
    /// Secrets with logins for the image's registry.
    pub pull_secrets: Vec<String>,
    /// The https URL under which attempts reach this server.
    pub endpoint: String,
    /// The certificates that attempts trust in addition, of the server among others.
    pub ca: Option<CaBundle>,
    /// The proxy for all hosts but `no_proxy`.
    pub proxy: Option<String>,
    /// Hosts that are contacted without the proxy.
    pub no_proxy: Option<String>,
    /// Settings of the runner that attempts get too.
    pub variables: Vec<(String, String)>,
}

/// How long the pod of a layer's attempt may wait for its start.
pub(super) fn start_timeout(entry: &LayerEntry) -> Duration {
    let given = entry.job.as_ref().and_then(|job| job.start_timeout);
    given.map_or(START_TIMEOUT, |span| span.0)
}

/// The options of the Job of an attempt, which is asked to stop after `timeout`.
///
/// # Errors
/// What the layer says and a Job cannot have.
pub(super) fn job_options(
    settings: &JobSettings,
    attempt: &AttemptId,
    layer: &LayerSource,
    timeout: Duration,
) -> Result<JobOptions, String> {
    let entry = &layer.entry;
    if let Some(problem) = problem(entry) {
        return Err(problem.to_owned());
    }
    let job = entry.job.clone().unwrap_or_default();
    let label = LABEL.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut variables: Vec<(String, String)> =
        VARIABLES.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    variables.extend(settings.variables.iter().cloned());
    let text = |given: Option<serde_saphyr::Spanned<String>>, default: &str| {
        given.map_or_else(|| default.to_owned(), |given| given.value)
    };
    let tolerations = job.tolerations.iter().map(|taint| taint.value.parse());
    Ok(JobOptions {
        namespace: settings.namespace.clone(),
        image: settings.image.clone(),
        pull_secrets: settings.pull_secrets.clone(),
        deadline: timeout + BEYOND_TIMEOUT,
        grace: GRACE,
        keep: job.keep.map_or(KEEP, |keep| keep.0),
        resources: Resources { cpu: text(job.cpu, "500m"), memory: text(job.memory, "2Gi") },
        node_selector: job.node_selector,
        tolerations: tolerations.collect::<Result<_, String>>()?,
        service_account: job.service_account.map(|name| name.value),
        mount_account_token: false,
        identity: Identity::default(),
        cache: job.cache_claim.map_or(Cache::Pod, |claim| Cache::Claim(claim.value)),
        network: Network {
            proxy: settings.proxy.clone(),
            no_proxy: settings.no_proxy.clone(),
            ca: settings.ca.clone(),
        },
        egress: Some(Egress { ports: job.egress_ports, networks: Vec::new() }),
        environment_from: job.env_from.into_iter().map(|name| name.value).collect(),
        mounted_secrets: Vec::new(),
        labels: label.into_iter().collect(),
        annotations: BTreeMap::from([(LAYER.to_owned(), attempt.layer.to_string())]),
        variables,
    })
}

/// What a Job cannot have: files and variables of the server's machine.
fn problem(entry: &LayerEntry) -> Option<&'static str> {
    if entry.backend.as_ref().is_some_and(|backend| backend.kind.value == "local") {
        return Some(
            "the layer has a `local` backend, whose state would be lost with its pod; choose another backend",
        );
    }
    if entry.after_plan.is_some() {
        return Some(
            "the layer has `after-plan`, which names a program of the server's machine; attempts that are Jobs do \
             not have it",
        );
    }
    if !entry.pass_env.is_empty() {
        return Some(
            "the layer has `pass-env`, which names variables of the server; attempts that are Jobs get those of \
             Secrets (`env-from` of `job`)",
        );
    }
    if entry.isolation.is_some() {
        return Some(
            "the layer has `isolation`, which names paths of the server's machine; attempts that are Jobs do not \
             have them",
        );
    }
    None
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::parse;
    use crate::layers::Catalog;
    use crate::model::RunId;

    /// The timeout of the attempts of these tests.
    const TIMEOUT: Duration = Duration::from_hours(2);

    fn layer(keys: &str) -> Arc<LayerSource> {
        let text = format!(
            "repositories: {{r: {{url: 'file:///r'}}}}\nlayers: {{l: {{repository: r, path: a, {keys}}}}}"
        );
        let config = parse(&[("butler.yaml".into(), text)]).unwrap();
        Catalog::new(&config, &BTreeMap::new()).layers.into_values().next().unwrap()
    }

    fn options(keys: &str) -> Result<JobOptions, String> {
        let settings = JobSettings {
            access: ClusterAccess::default(),
            namespace: Some("attempts".to_owned()),
            image: "butler:1".to_owned(),
            pull_secrets: vec!["login".to_owned()],
            endpoint: "https://butler:7373".to_owned(),
            ca: None,
            proxy: Some("http://proxy:3128".to_owned()),
            no_proxy: None,
            variables: vec![("BUTLER_MIRROR".to_owned(), "https://mirror".to_owned())],
        };
        let attempt = AttemptId { layer: "l".parse().unwrap(), run: RunId::new("run"), number: 1 };
        job_options(&settings, &attempt, &layer(keys), TIMEOUT)
    }

    #[test]
    fn job_is_what_its_layer_says_and_outlives_its_own_timeout_by_little() {
        let options = options(
            "timeout: {plan: 2h, apply: 5h}, job: {cpu: '2', memory: 8Gi, service-account: tf, \
             env-from: [aws], cache-claim: cache, egress-ports: [5432], node-selector: {pool: tf}, \
             tolerations: ['dedicated=tf:NoSchedule'], keep: 2h}",
        )
        .unwrap();
        // The other timeout is longer.
        assert_eq!(options.deadline, TIMEOUT + Duration::from_mins(30));
        assert_eq!(options.resources, Resources { cpu: "2".into(), memory: "8Gi".into() });
        assert_eq!(options.service_account.as_deref(), Some("tf"));
        assert!(!options.mount_account_token);
        assert_eq!(options.environment_from, ["aws"]);
        assert_eq!(options.cache, Cache::Claim("cache".to_owned()));
        assert_eq!(options.egress.unwrap().ports, [5432]);
        assert_eq!(options.node_selector["pool"], "tf");
        assert_eq!(options.tolerations[0].effect.as_deref(), Some("NoSchedule"));
        assert_eq!(options.keep, Duration::from_hours(2));
        assert_eq!(options.annotations[LAYER], "l");
        assert_eq!(options.labels["butler.dev/started-by"], "server");
        assert_eq!(options.pull_secrets, ["login"]);
        assert_eq!(options.network.proxy.as_deref(), Some("http://proxy:3128"));
        let mirror = ("BUTLER_MIRROR".to_owned(), "https://mirror".to_owned());
        assert!(options.variables.contains(&mirror), "{:?}", options.variables);
    }

    #[test]
    fn job_of_a_layer_without_words_about_it_is_restricted() {
        let options = options("strategy: auto").unwrap();
        let egress = options.egress.unwrap();
        assert!(egress.ports.is_empty() && egress.networks.is_empty(), "{egress:?}");
        assert!(options.service_account.is_none() && options.environment_from.is_empty());
        assert_eq!(options.cache, Cache::Pod);
        assert_eq!(start_timeout(&layer("strategy: auto").entry), START_TIMEOUT);
        assert_eq!(
            start_timeout(&layer("job: {start-timeout: 90s}").entry),
            Duration::from_secs(90)
        );
    }

    #[test]
    fn files_and_variables_of_the_machine_of_the_server_are_refused() {
        for (keys, named) in [
            ("backend: {type: local}", "`local` backend"),
            ("after-plan: /bin/true", "`after-plan`"),
            ("isolation: {read: [/opt/tools]}", "`isolation`"),
            ("pass-env: [AWS_PROFILE]", "`pass-env`"),
        ] {
            let problem = options(keys).unwrap_err();
            assert!(problem.contains(named), "{problem}");
        }
    }
}
