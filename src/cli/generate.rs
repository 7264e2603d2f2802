//! `generate`: writes the file that a CI system needs to start the runner.

pub(super) mod destination;
pub(super) mod server;
pub(super) mod values;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use url::Url;

use self::destination::{Destination, Readers};
use self::server::Server;
use self::values::{digest, endpoint, https, image, sha256, text, timeout, version};
use super::kubernetes::Kubernetes;
use super::output::complain;
use crate::exit::Exit;
use crate::settings::{Arguments, Environment};
use butler_base::error::Advice;
use butler_start::generate::{
    Aws, Azure, Cloud, Gcp, GenerateError, IMAGE, Install, Network, Options, Secret, Version,
    azure_pipelines, bitbucket_pipelines, circleci, generic, github_actions, gitlab_ci, jenkins,
    parse_run_outline, tekton,
};

#[derive(Args)]
pub(super) struct Generate {
    #[command(subcommand)]
    target: Target,
}

#[derive(Subcommand)]
enum Target {
    Kubernetes(Box<Kubernetes>),
    Server(Box<Server>),
    /// A workflow for GitHub Actions
    #[command(name = "github-actions")]
    GitHubActions(Wrapper),
    /// A pipeline for Azure Pipelines
    AzurePipelines(Wrapper),
    /// A custom pipeline for Bitbucket Pipelines
    BitbucketPipelines(Wrapper),
    #[command(name = "circleci", about = "A configuration for CircleCI")]
    CircleCi(Wrapper),
    /// A task, a pipeline and a trigger template for Tekton
    Tekton(Wrapper),
    /// A job for GitLab CI
    #[command(name = "gitlab-ci")]
    GitLabCi(Wrapper),
    /// A declarative pipeline for Jenkins
    Jenkins(Wrapper),
    /// Instructions for executing a run as JSON, for CI systems without a target
    Generic(Generic),
}

/// The target `generic`, whose output can describe one run.
#[derive(Args)]
struct Generic {
    /// The file with the run, in the registry's format [default: placeholders]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    wrapper: Wrapper,
}

/// The flags of all targets. A variable of the CI system provides each value without a flag.
#[derive(Args)]
pub(super) struct Wrapper {
    /// The URL of the registry, including its path
    #[arg(long, value_name = "URL", value_parser = endpoint)]
    endpoint: Option<Url>,
    /// The version of the runner that jobs use [default: the version of this executable]
    #[arg(long, value_name = "VERSION", value_parser = version)]
    runner_version: Option<semver::Version>,
    /// Use the newest version when the job runs
    #[arg(long, conflicts_with_all = ["runner_version", "checksums", "digest"])]
    latest: bool,
    /// The allowed SHA-256 checksum of the archive; can be repeated for other platforms
    #[arg(long = "checksum", value_name = "SHA256", value_parser = sha256)]
    checksums: Vec<String>,
    /// The base URL of releases, without the version [default: the project's releases]
    #[arg(long, value_name = "URL", value_parser = https)]
    releases: Option<Url>,
    /// Run in a container image instead of installing the binary [default image: the project's image]
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = IMAGE, value_parser = image)]
    #[arg(conflicts_with_all = ["checksums", "releases"])]
    image: Option<String>,
    /// The required digest of the image: sha256:...
    #[arg(long, value_name = "DIGEST", requires = "image", value_parser = digest)]
    digest: Option<String>,
    /// Log in to this cloud with an OIDC token of the CI system; can be repeated
    #[arg(long, value_name = "CLOUD")]
    oidc: Vec<Provider>,
    /// The AWS role that the job assumes
    #[arg(long, value_name = "ARN")]
    aws_role: Option<String>,
    /// The AWS region
    #[arg(long, value_name = "REGION")]
    aws_region: Option<String>,
    /// The Google Cloud workload identity provider: projects/.../providers/...
    #[arg(long, value_name = "NAME")]
    gcp_provider: Option<String>,
    /// The Google Cloud service account
    #[arg(long, value_name = "EMAIL")]
    gcp_service_account: Option<String>,
    /// The client id of the Azure application
    #[arg(long, value_name = "ID")]
    azure_client_id: Option<String>,
    /// The Azure tenant of the application
    #[arg(long, value_name = "ID")]
    azure_tenant_id: Option<String>,
    /// The Azure subscription
    #[arg(long, value_name = "ID")]
    azure_subscription_id: Option<String>,
    /// Pass a secret of the CI system to the run as this environment variable; OTHER is its name in the
    /// CI system if it differs; can be repeated
    #[arg(long = "secret", value_name = "NAME[=OTHER]", value_parser = Secret::parse)]
    secrets: Vec<Secret>,
    /// The environment or approval that the job requires
    #[arg(long, value_name = "NAME", value_parser = text)]
    gate: Option<String>,
    /// Cache installed tools and providers for the next job
    #[arg(long)]
    cache: bool,
    /// The runner label, tag, pool or agent on which the job runs; can be repeated
    #[arg(long = "label", value_name = "LABEL", value_parser = text)]
    labels: Vec<String>,
    /// The timeout of the job [default: 1h]
    #[arg(long, value_name = "DURATION", value_parser = timeout)]
    timeout: Option<Duration>,
    /// The proxy that the job uses
    #[arg(long, value_name = "URL", value_parser = endpoint)]
    proxy: Option<Url>,
    /// Hosts that are accessed without the proxy, separated by commas
    #[arg(long, value_name = "HOSTS", value_parser = text)]
    no_proxy: Option<String>,
    /// A PEM file on the job's machine with CA certificates to trust in addition to the system's
    #[arg(long, value_name = "FILE", value_parser = text)]
    ca_bundle: Option<String>,
    /// Print a fragment for an existing file of the CI system instead of a complete file
    #[arg(long)]
    fragment: bool,
    #[command(flatten)]
    output: Destination,
}

/// A cloud that supports logins without a key.
#[derive(Clone, Copy, Eq, PartialEq, ValueEnum)]
enum Provider {
    Aws,
    Gcp,
    Azure,
}

impl Generate {
    pub(super) fn run(self, log: Arguments, environment: &Environment) -> u8 {
        match self.target {
            Target::Kubernetes(kubernetes) => kubernetes.run(log, environment),
            Target::Server(server) => server.run(environment),
            Target::GitHubActions(wrapper) => wrapper.write(github_actions),
            Target::AzurePipelines(wrapper) => wrapper.write(azure_pipelines),
            Target::BitbucketPipelines(wrapper) => wrapper.write(bitbucket_pipelines),
            Target::CircleCi(wrapper) => wrapper.write(circleci),
            Target::Tekton(wrapper) => wrapper.write(tekton),
            Target::GitLabCi(wrapper) => wrapper.write(gitlab_ci),
            Target::Jenkins(wrapper) => wrapper.write(jenkins),
            Target::Generic(target) => target.write(),
        }
    }
}

impl Generic {
    fn write(self) -> u8 {
        let read = |path: &PathBuf| -> anyhow::Result<_> {
            let cannot = || format!("cannot read the run `{}`", path.display());
            let json = std::fs::read(path).with_context(cannot)?;
            parse_run_outline(&json).with_context(cannot)
        };
        match self.config.as_ref().map(read).transpose() {
            Ok(run) => {
                let run = run.unwrap_or_default();
                self.wrapper.write(|options| generic(options, &run))
            }
            Err(error) => {
                complain(&format!("{error:#}"), None);
                Exit::Usage.code()
            }
        }
    }
}

impl Wrapper {
    fn write(self, render: impl FnOnce(&Options) -> Result<String, GenerateError>) -> u8 {
        let (options, output) = self.into_options();
        match render(&options) {
            Ok(text) => output.write(&text, Readers::All),
            Err(error) => {
                complain(&error.to_string(), error.advice().as_deref());
                Exit::Usage.code()
            }
        }
    }

    fn into_options(self) -> (Options, Destination) {
        let version = if self.latest {
            Version::Latest
        } else {
            self.runner_version.map_or_else(Version::default, Version::Exactly)
        };
        let install = match self.image {
            Some(name) => Install::Image { name, digest: self.digest },
            None => Install::Binary { sha256: self.checksums, releases: self.releases },
        };
        let is_requested = |provider| self.oidc.contains(&provider);
        let aws = Aws { role: self.aws_role, region: self.aws_region };
        let gcp = Gcp { provider: self.gcp_provider, service_account: self.gcp_service_account };
        let azure = Azure {
            client_id: self.azure_client_id,
            tenant_id: self.azure_tenant_id,
            subscription_id: self.azure_subscription_id,
        };
        let cloud = Cloud {
            aws: (is_requested(Provider::Aws) || aws != Aws::default()).then_some(aws),
            gcp: (is_requested(Provider::Gcp) || gcp != Gcp::default()).then_some(gcp),
            azure: (is_requested(Provider::Azure) || azure != Azure::default()).then_some(azure),
        };
        let network =
            Network { proxy: self.proxy, no_proxy: self.no_proxy, ca_bundle: self.ca_bundle };
        let options = Options {
            endpoint: self.endpoint,
            version,
            install,
            cloud,
            gate: self.gate,
            cache: self.cache,
            labels: self.labels,
            timeout: self.timeout,
            network,
            secrets: self.secrets,
            fragment: self.fragment,
        };
        (options, self.output)
    }
}
