//! The options of all targets.

use std::time::Duration;

use url::Url;

use super::{GenerateError, Secret};
use butler_base::error::visible;

/// The address of the project's releases, without the version.
pub const RELEASES: &str = "https://github.com/butlerdotdev/butler-runner/releases";

/// The project's image, without a tag.
pub const IMAGE: &str = "ghcr.io/butlerdotdev/butler-runner";

/// The options of a wrapper. They are the same for all targets; an unsupported option is an error.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Options {
    /// The registry's address; the default is a variable of the CI system.
    pub endpoint: Option<Url>,
    /// The version of the runner.
    pub version: Version,
    /// The way the runner is installed.
    pub install: Install,
    /// The job's identity in clouds.
    pub cloud: Cloud,
    /// The environment or approval that gates the job.
    pub gate: Option<String>,
    /// Whether the CI system caches installed tools and providers.
    pub cache: bool,
    /// The machines on which the job may run: runner labels, tags, pools, agents.
    pub labels: Vec<String>,
    /// The time limit of the job; one hour by default.
    pub timeout: Option<Duration>,
    /// Proxy and certificates.
    pub network: Network,
    /// Secrets of the CI system that the run gets as environment variables.
    pub secrets: Vec<Secret>,
    /// Whether the text is a fragment for an existing file.
    pub fragment: bool,
}

/// A version of the runner.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Version {
    /// A fixed version.
    Exactly(semver::Version),
    /// The newest release at the time of the job.
    Latest,
}

/// How the runner is installed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Install {
    /// The archive is downloaded, and verified with the release's checksum file and attestation.
    Binary {
        /// The SHA-256 digests (hex) of the allowed archives, one per platform. If empty, the release's checksum
        /// file is used.
        sha256: Vec<String>,
        /// The address of the releases without the version; the default is the project's.
        releases: Option<Url>,
    },
    /// The job runs the runner's image.
    Image {
        /// The image without a tag.
        name: String,
        /// The image's digest: `sha256:...`.
        digest: Option<String>,
    },
}

/// The job's identity in the clouds: it gets a token from the CI system (OIDC) and no key. A variable of
/// the CI system provides every value that is not set here.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Cloud {
    /// Amazon Web Services.
    pub aws: Option<Aws>,
    /// Google Cloud.
    pub gcp: Option<Gcp>,
    /// Microsoft Azure.
    pub azure: Option<Azure>,
}

impl Cloud {
    /// Whether the job does not log in to a cloud.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A value that the generated file reads from the CI system.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Need {
    /// The name of the variable, secret or credential.
    pub name: String,
    /// A description for users.
    pub what: String,
}

impl Need {
    /// A value with its description.
    pub fn new(name: impl Into<String>, what: impl Into<String>) -> Self {
        Self { name: name.into(), what: what.into() }
    }
}

/// A role that trusts the CI system.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Aws {
    /// `arn:aws:iam::123456789012:role/terraform`.
    pub role: Option<String>,
    /// `eu-central-1`.
    pub region: Option<String>,
}

/// A pool that trusts the CI system.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Gcp {
    /// `projects/123/locations/global/workloadIdentityPools/ci/providers/github`.
    pub provider: Option<String>,
    /// `terraform@project.iam.gserviceaccount.com`.
    pub service_account: Option<String>,
}

/// An application that trusts the CI system. None of these is secret.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Azure {
    /// The id of the application.
    pub client_id: Option<String>,
    /// The id of its directory.
    pub tenant_id: Option<String>,
    /// The id of the subscription that providers manage.
    pub subscription_id: Option<String>,
}

/// Settings for the job's connections.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Network {
    /// The proxy for all hosts except `no_proxy`.
    pub proxy: Option<Url>,
    /// Hosts that are contacted without the proxy, separated by commas.
    pub no_proxy: Option<String>,
    /// A PEM file on the job's machine with additional trusted certificates.
    pub ca_bundle: Option<String>,
}

impl Default for Version {
    fn default() -> Self {
        Self::Exactly(env!("CARGO_PKG_VERSION").parse().expect("Cargo checks the version"))
    }
}

impl Default for Install {
    fn default() -> Self {
        Self::Binary { sha256: Vec::new(), releases: None }
    }
}

impl Options {
    /// Refuses values that the target would not use as literal text. `evaluated` are the beginnings of expressions
    /// in its files.
    ///
    /// # Errors
    /// If a value contains one of `evaluated`, or an invisible character.
    pub fn check(&self, target: &'static str, evaluated: &[&str]) -> Result<(), GenerateError> {
        for (option, text) in self.texts() {
            if !visible(&text).eq(text.chars()) {
                return Err(GenerateError::Invisible { option, text });
            }
            if let Some(mark) = evaluated.iter().find(|mark| text.contains(**mark)) {
                let mark = (*mark).to_owned();
                return Err(GenerateError::Evaluated { target, option, text, mark });
            }
        }
        Ok(())
    }

    /// All values that the user entered, each with its option.
    fn texts(&self) -> impl Iterator<Item = (&'static str, String)> {
        let Self { endpoint, install, cloud, gate, labels, network, secrets, .. } = self;
        let url = |url: &Option<Url>| url.as_ref().map(ToString::to_string);
        let (releases, image, digest) = match install {
            Install::Binary { releases, .. } => (url(releases), None, None),
            Install::Image { name, digest } => (None, Some(name.clone()), digest.clone()),
        };
        let aws = cloud.aws.clone().unwrap_or_default();
        let gcp = cloud.gcp.clone().unwrap_or_default();
        let azure = cloud.azure.clone().unwrap_or_default();
        let single = [
            ("--endpoint", url(endpoint)),
            ("--releases", releases),
            ("--image", image),
            ("--digest", digest),
            ("--aws-role", aws.role),
            ("--aws-region", aws.region),
            ("--gcp-provider", gcp.provider),
            ("--gcp-service-account", gcp.service_account),
            ("--azure-client-id", azure.client_id),
            ("--azure-tenant-id", azure.tenant_id),
            ("--azure-subscription-id", azure.subscription_id),
            ("--gate", gate.clone()),
            ("--proxy", url(&network.proxy)),
            ("--no-proxy", network.no_proxy.clone()),
            ("--ca-bundle", network.ca_bundle.clone()),
        ];
        let single = single.into_iter().filter_map(|(option, text)| Some((option, text?)));
        let secrets = secrets.iter().map(|secret| ("--secret", secret.name.clone()));
        single.chain(labels.iter().map(|label| ("--label", label.clone()))).chain(secrets)
    }

    /// The variables for proxy and certificates.
    #[must_use]
    pub fn network_variables(&self) -> Vec<(&'static str, String)> {
        let Network { proxy, no_proxy, ca_bundle } = &self.network;
        // Some programs do not accept a slash at the end of a proxy's address.
        let proxy = proxy.as_ref().map(|url| url.as_str().trim_end_matches('/').to_owned());
        [
            ("HTTPS_PROXY", proxy.clone()),
            ("HTTP_PROXY", proxy),
            ("NO_PROXY", no_proxy.clone()),
            ("BUTLER_CA_BUNDLE", ca_bundle.clone()),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
    }

    /// The time limit of the job, in whole minutes.
    #[must_use]
    pub fn timeout_minutes(&self) -> u64 {
        self.timeout.map_or(60, |timeout| timeout.as_secs().div_ceil(60).max(1))
    }

    /// Refuses a timeout that is longer than the target's limit.
    ///
    /// # Errors
    /// If it is longer than `hours`.
    pub(super) fn check_timeout(
        &self,
        target: &'static str,
        hours: u64,
        instead: &'static str,
    ) -> Result<(), GenerateError> {
        if self.timeout_minutes() <= hours * 60 {
            return Ok(());
        }
        Err(GenerateError::Unsupported { target, option: "--timeout", instead })
    }

    /// The variables of the CI system that the file reads, without the secrets of runs.
    #[must_use]
    pub fn needs(&self) -> Vec<Need> {
        let registry = || Need::new("BUTLER_REGISTRY_URL", "the registry's address, with its path");
        let mut needs = Vec::new();
        needs.extend(self.endpoint.is_none().then(registry));
        needs.extend(self.identity_needs());
        needs
    }

    /// The variables of the CI system that the file reads, including the secrets of runs.
    #[must_use]
    pub fn needs_with_secrets(&self) -> Vec<Need> {
        let secrets =
            self.secrets.iter().map(|secret| Need::new(&secret.name, secret.description()));
        self.needs().into_iter().chain(secrets).collect()
    }

    /// Refuses `--fragment` for a target that only has whole files.
    ///
    /// # Errors
    /// If a fragment is requested.
    pub(super) fn refuse_fragment(
        &self,
        target: &'static str,
        instead: &'static str,
    ) -> Result<(), GenerateError> {
        if !self.fragment {
            return Ok(());
        }
        Err(GenerateError::Unsupported { target, option: "--fragment", instead })
    }

    /// The image with its tag and digest, if the job uses the image.
    #[must_use]
    pub fn image(&self) -> Option<String> {
        let Install::Image { name, digest } = &self.install else { return None };
        let digest = digest.as_ref().map(|digest| format!("@{digest}")).unwrap_or_default();
        Some(format!("{name}:{}{digest}", self.version))
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exactly(version) => version.fmt(formatter),
            Self::Latest => formatter.write_str("latest"),
        }
    }
}
