//! Runs as Jobs in a Kubernetes cluster: what `generate kubernetes` prints and `--apply` creates.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use tokio::time::Instant;
use url::Url;

use super::flags::{Flags, Selection};
use super::generate::{Output, digest, endpoint, image, text, timeout};
use super::{block_on, complain, logging, refuse, together};
use crate::cancel::Stop;
use crate::cluster::{
    Access, Azure, CaBundle, Cache, Cluster, ClusterError, Egress, Follower, Identity, JobName,
    JobOptions, Manifests, Network, Outcome, Progress, Resources, Run, Toleration, apply, check,
    create, follow, status,
};
use crate::error::{Advice, chain};
use crate::generate::IMAGE;
use crate::run::{Exit, signals};
use crate::screen::Screen;
use crate::secret::Redactor;
use crate::settings::setting::{ENDPOINT, RUN_ID, TOKEN_FILE};
use crate::settings::{
    Arguments, Environment, HandedOn, Logging, Setting, SettingsError, cluster_access,
    cluster_template,
};

/// How long a run is followed at most.
const LONGEST_RUN: Duration = Duration::from_hours(24);

/// What `--help` says of the exit codes.
const EXIT_CODES: &str = "Exit codes: 0 printed, created, or the run succeeded; with --apply the \
exit code of the runner in the pod, 1 where it has none; 2 usage, 128+n stopped by signal n";

/// A Job for a Kubernetes cluster; with --apply, created there and followed to its end
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub(super) struct Kubernetes {
    #[command(flatten)]
    job: JobFlags,
    /// Create it in the cluster that kubeconfig or the pod's account points at, and follow the run
    #[arg(long, conflicts_with_all = ["output", "force"])]
    apply: bool,
    /// Do not follow the run
    #[arg(long, requires = "apply")]
    detach: bool,
    /// Have the cluster check everything, and create nothing
    #[arg(long, requires = "apply", value_name = "WHERE")]
    dry_run: Option<DryRun>,
    #[command(flatten)]
    place: PlaceFlags,
    #[command(flatten)]
    run: Flags<RunFlags>,
    #[command(flatten)]
    output: Output,
}

#[derive(Clone, Copy, ValueEnum)]
enum DryRun {
    /// In the cluster, with its policies and quotas
    Server,
}

/// Which cluster.
#[derive(Args)]
pub(super) struct PlaceFlags {
    /// A file that describes clusters [default: KUBECONFIG, else ~/.kube/config, else the pod's account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context in it [default: its current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// The namespace [default: the context's]
    #[arg(long, value_name = "NAME", value_parser = name)]
    namespace: Option<String>,
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
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = timeout)]
    timeout: Duration,
    /// How long the tool may take to end when the pod is to end; the pod gets 10s more
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = timeout)]
    grace_period: Duration,
    /// How long the ended Job and its log are kept
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = timeout)]
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

impl Kubernetes {
    pub(super) fn run(self, log: Arguments, environment: &Environment) -> u8 {
        let arguments = together(log, self.run.into_arguments());
        let options = self.job.into_options(self.place.namespace.clone());
        if !self.apply {
            return print(&options, &arguments, &self.output);
        }
        let (logging, given) = match given(&arguments, environment) {
            Ok(given) => given,
            Err(error) => return refuse(&error),
        };
        let redactor = Arc::new(Redactor::new());
        redactor.register([&given.token]);
        let _log = logging::start(&logging, environment, &redactor, &Screen::default());
        let run = run(given);
        let access = self.place.access(environment);
        let carried_out = block_on(async {
            let cluster = Cluster::connect(&access, options.namespace.as_deref()).await?;
            let manifests = Manifests::new(&options, &run);
            if let Some(DryRun::Server) = self.dry_run {
                check(&cluster, &manifests).await?;
                let (namespace, name) = (cluster.namespace(), manifests.name());
                tracing::info!("the cluster would take the Job {name} in namespace {namespace}");
                return Ok(Exit::Success.code());
            }
            Box::pin(carry_out(&cluster, manifests, self.detach)).await
        });
        match carried_out {
            Some(Ok(code)) => code,
            Some(Err(error)) => report(&error, &redactor),
            None => Exit::Failed.code(),
        }
    }
}

impl PlaceFlags {
    fn access(self, environment: &Environment) -> Access {
        cluster_access(self.kubeconfig, self.context, environment)
    }
}

fn given(
    arguments: &Arguments,
    environment: &Environment,
) -> Result<(Logging, HandedOn), SettingsError> {
    let logging = Logging::resolve(arguments, environment)?;
    Ok((logging, HandedOn::resolve(arguments, environment)?))
}

/// The run for a Job, once there is a log for what looks like a mistake.
fn run(given: HandedOn) -> Run {
    for warning in &given.warnings {
        tracing::warn!("{warning}");
    }
    let HandedOn { endpoint, run_id, token, .. } = given;
    Run { endpoint: endpoint.to_string(), id: run_id.to_string(), token }
}

/// Starts a run as a Job, and does not wait for it: `trigger kubernetes`.
#[derive(Args)]
pub(super) struct Start {
    #[command(flatten)]
    job: JobFlags,
    #[command(flatten)]
    place: PlaceFlags,
    /// The address of a page on the run, in which {namespace} and {job} are put
    #[arg(long, value_name = "URL")]
    page: Option<String>,
    #[command(flatten)]
    run: Flags<RunFlags>,
}

impl Start {
    pub(super) fn run(self, log: Arguments, environment: &Environment) -> u8 {
        let arguments = together(log, self.run.into_arguments());
        let (logging, given) = match given(&arguments, environment) {
            Ok(given) => given,
            Err(error) => return refuse(&error),
        };
        let redactor = Arc::new(Redactor::new());
        redactor.register([&given.token]);
        let _log = logging::start(&logging, environment, &redactor, &Screen::default());
        let options = self.job.into_options(self.place.namespace.clone());
        let (run, access) = (run(given), self.place.access(environment));
        let started = block_on(async {
            let cluster = Cluster::connect(&access, options.namespace.as_deref()).await?;
            let manifests = Manifests::new(&options, &run);
            Box::pin(create(&cluster, manifests, self.page.as_deref())).await
        });
        match started {
            Some(Ok(progress)) => say(&progress, Exit::Success.code()),
            Some(Err(error)) => report(&error, &redactor),
            None => Exit::Failed.code(),
        }
    }
}

/// Says how a run's Job stands: `ci-status kubernetes`.
#[derive(Args)]
pub(super) struct Look {
    /// NAMESPACE/JOB: `externalRunId` of trigger
    #[arg(long, value_name = "ID", value_parser = place)]
    external_run_id: (String, String),
    /// Follow the run until it is over
    #[arg(long)]
    wait: bool,
    /// How long to wait [default: 24h]
    #[arg(long, value_name = "DURATION", value_parser = timeout)]
    timeout: Option<Duration>,
    /// A file that describes clusters [default: KUBECONFIG, else ~/.kube/config, else the pod's account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context in it [default: its current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// The address of a page on the run, in which {namespace} and {job} are put
    #[arg(long, value_name = "URL")]
    page: Option<String>,
}

impl Look {
    /// `not_over` is the exit code for a run that is under way.
    pub(super) fn run(self, log: &Arguments, environment: &Environment, not_over: u8) -> u8 {
        let logging = match Logging::resolve(log, environment) {
            Ok(logging) => logging,
            Err(error) => return refuse(&error),
        };
        let redactor = Arc::new(Redactor::new());
        let _log = logging::start(&logging, environment, &redactor, &Screen::default());
        let access = cluster_access(self.kubeconfig, self.context, environment);
        let (namespace, job) = self.external_run_id;
        let looked = block_on(async {
            let cluster = Cluster::connect(&access, Some(&namespace)).await?;
            let limit = self.timeout.unwrap_or(LONGEST_RUN);
            let deadline = self.wait.then(|| Instant::now() + limit);
            status(&cluster, &JobName::given(job), self.page.as_deref(), deadline).await
        });
        match looked {
            Some(Ok(progress)) => {
                let code = match progress.status {
                    Some("succeeded") => Exit::Success.code(),
                    Some("cancelled") => Exit::Cancelled.code(),
                    _ if progress.is_over() => Exit::Failed.code(),
                    _ => not_over,
                };
                say(&progress, code)
            }
            Some(Err(error)) => report(&error, &redactor),
            None => Exit::Failed.code(),
        }
    }
}

/// Prints an answer for programs; `code` where it could be.
fn say(progress: &Progress, code: u8) -> u8 {
    let text = serde_json::to_string(progress).unwrap_or_default();
    match writeln!(std::io::stdout(), "{text}") {
        Ok(()) => code,
        Err(_) => Exit::Failed.code(),
    }
}

fn place(text: &str) -> Result<(String, String), String> {
    let (namespace, job) =
        text.split_once('/').ok_or_else(|| "it has to be NAMESPACE/JOB".to_owned())?;
    Ok((name(namespace)?, name(job)?))
}

fn print(options: &JobOptions, arguments: &Arguments, output: &Output) -> u8 {
    let run = match cluster_template(arguments) {
        Ok(run) => run,
        Err(error) => return refuse(&error),
    };
    match Manifests::new(options, &run).to_yaml() {
        Ok(text) => output.write(&text),
        Err(error) => {
            complain(&format!("an object is broken (a bug): {error}"), None);
            Exit::Failed.code()
        }
    }
}

/// Creates the objects and, unless `detach`ed, follows the run.
async fn carry_out(
    cluster: &Cluster,
    manifests: Manifests,
    detach: bool,
) -> Result<u8, ClusterError> {
    let stop = Stop::new();
    let _signals = match signals(&stop) {
        Ok(watch) => watch,
        Err(error) => {
            complain(&format!("cannot watch for signals: {error}"), None);
            return Ok(Exit::Failed.code());
        }
    };
    let name = manifests.name();
    let applied = tokio::select! {
        applied = apply(cluster, manifests) => applied?,
        () = stop.urgent() => {
            complain(&format!("left while the Job `{name}` was being created: it may be there"), None);
            return Ok(Exit::Failed.code());
        }
    };
    let (name, namespace) = (&applied.name, cluster.namespace());
    tracing::info!("created the Job {name} in namespace {namespace}");
    if detach {
        return Ok(Exit::Success.code());
    }
    match follow(cluster, &applied, &stop, &mut OnTerminal).await {
        Ok(Outcome { code, summary, hint }) => {
            if code == 0 {
                tracing::info!("{summary}");
            } else {
                complain(&summary, hint.as_deref());
            }
            Ok(code)
        }
        Err(error) => {
            tracing::warn!(
                "the Job {name} in namespace {namespace} goes on without being followed"
            );
            Err(error)
        }
    }
}

/// Says why the cluster was of no use, without secrets; returns the exit code for it.
fn report(error: &ClusterError, redactor: &Redactor) -> u8 {
    let message = chain(error);
    let shown = redactor.redact_lines(message.as_bytes());
    complain(&shown, error.advice().as_deref());
    Exit::Failed.code()
}

/// The run's log is standard output, what the cluster does is the runner's own log.
struct OnTerminal;

impl Follower for OnTerminal {
    fn line(&mut self, line: &str) -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{line}")?;
        out.flush()
    }

    fn notice(&mut self, notice: &str) {
        tracing::info!("{notice}");
    }
}

/// The name of an object (RFC 1123).
fn name(text: &str) -> Result<String, String> {
    let is_plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    let ends = [text.bytes().next(), text.bytes().last()];
    let ends_well = ends.iter().all(|byte| byte.is_some_and(|byte| byte.is_ascii_alphanumeric()));
    if text.len() <= 253 && text.bytes().all(is_plain) && ends_well {
        return Ok(text.to_owned());
    }
    Err("it has to consist of lower-case letters, digits, `-` and `.`".to_owned())
}

/// An amount as Kubernetes writes it.
fn quantity(text: &str) -> Result<String, String> {
    let number = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = &text[number.len()..];
    let units = ["", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let is_positive = number.parse::<f64>().is_ok_and(|number| number > 0.0);
    if is_positive && !number.starts_with('+') && units.contains(&unit) {
        return Ok(text.to_owned());
    }
    Err("it has to be an amount such as 500m or 2Gi".to_owned())
}

fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let pair = pair.map(|(key, value)| (key.to_owned(), value.to_owned()));
    pair.ok_or_else(|| "it has to be KEY=VALUE".to_owned())
}

/// A network as `10.0.0.0/8`.
fn network(text: &str) -> Result<String, String> {
    let wrong = || "it has to be a network such as 10.0.0.0/8".to_owned();
    let (address, length) = text.split_once('/').ok_or_else(wrong)?;
    let address: std::net::IpAddr = address.parse().map_err(|_| wrong())?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let is_length = length.parse::<u8>().is_ok_and(|length| length <= longest);
    if is_length { Ok(text.to_owned()) } else { Err(wrong()) }
}
