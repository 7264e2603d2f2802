//! The options of all targets.

use std::time::Duration;

use url::Url;

use super::{GenerateError, Secret};
use butler_base::error::visible;

/// Where the project's own releases are, without the version.
pub const RELEASES: &str = "https://github.com/butlerdotdev/butler-runner/releases";

/// The project's own image.
pub const IMAGE: &str = "ghcr.io/butlerdotdev/butler-runner";

/// The options of a wrapper. They are the same for all targets; an unsupported option is an error.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Options {
    /// The registry; where none is given, a variable of the CI system's names it.
    pub endpoint: Option<Url>,
    /// Which version of the runner is used.
    pub version: Version,
    /// How the runner gets there.
    pub install: Install,
    /// Who the job is to the clouds.
    pub cloud: Cloud,
    /// The environment or approval that the job has to pass.
    pub gate: Option<String>,
    /// Whether installed tools and providers are kept for the next job.
    pub cache: bool,
    /// On which machines of the CI system the job runs: runner labels, tags, pools, agents.
    pub labels: Vec<String>,
    /// When the CI system ends the job; after an hour where nothing is said.
    pub timeout: Option<Duration>,
    /// How the job gets to the network.
    pub network: Network,
    /// What of the CI system's secrets the run finds in its environment.
    pub secrets: Vec<Secret>,
    /// Whether the text is for an existing file instead of one of its own.
    pub fragment: bool,
}

/// A version of the runner.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Version {
    /// This one.
    Exactly(semver::Version),
    /// The newest release when the job runs.
    Latest,
}

/// How the runner is installed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Install {
    /// Its archive is downloaded, and verified with the release's checksum file and attestation.
    Binary {
        /// The SHA-256 (hex) of each archive that may be used, one a platform; none for all that
        /// the release's checksum file names.
        sha256: Vec<String>,
        /// Where releases are, without the version; the project's own where none is given.
        releases: Option<Url>,
    },
    /// The job runs in its image.
    Image {
        /// The image without a tag.
        name: String,
        /// `sha256:...`, where it is to be no other.
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
    /// Whether the job logs in to none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What a file takes from the CI system.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Need {
    /// The variable, secret or credential.
    pub name: String,
    /// What it is.
    pub what: String,
}

impl Need {
    /// `name`, which is `what`.
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
    /// The application.
    pub client_id: Option<String>,
    /// The directory that it is in.
    pub tenant_id: Option<String>,
    /// What it works on.
    pub subscription_id: Option<String>,
}

/// How the job gets to the network.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Network {
    /// The proxy for everything but `no_proxy`.
    pub proxy: Option<Url>,
    /// Hosts that are asked directly, separated by commas.
    pub no_proxy: Option<String>,
    /// A PEM file on the job's machine with certificates to trust beside the system's.
    pub ca_bundle: Option<String>,
}

impl Default for Version {
    fn default() -> Self {
        Self::Exactly(env!("CARGO_PKG_VERSION").parse().expect("cargo has read it"))
    }
}

impl Default for Install {
    fn default() -> Self {
        Self::Binary { sha256: Vec::new(), releases: None }
    }
}

impl Options {
    /// Refuses what the target would not take as the text that it is. `evaluated` are the marks by
    /// which its files say that something is to be put in their place.
    ///
    /// # Errors
    /// When a value holds one of `evaluated`, or a character that is not to be seen.
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

    /// Everything that was typed in, each with the option that it belongs to.
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

    /// The variables by which the job gets to the network.
    #[must_use]
    pub fn network_variables(&self) -> Vec<(&'static str, String)> {
        let Network { proxy, no_proxy, ca_bundle } = &self.network;
        // A proxy is an origin, and programs differ on a slash at its end.
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

    /// When the CI system ends the job, in whole minutes.
    #[must_use]
    pub fn timeout_minutes(&self) -> u64 {
        self.timeout.map_or(60, |timeout| timeout.as_secs().div_ceil(60).max(1))
    }

    /// Refuses a timeout that the target would not keep to.
    ///
    /// # Errors
    /// When it is longer than `hours`.
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

    /// The variables of the CI system's that the file reads for all runs, each with what it is.
    #[must_use]
    pub fn needs(&self) -> Vec<Need> {
        let registry = || Need::new("BUTLER_REGISTRY_URL", "the registry's address, with its path");
        let mut needs = Vec::new();
        needs.extend(self.endpoint.is_none().then(registry));
        needs.extend(self.identity_needs());
        needs
    }

    /// The same with the secrets of runs.
    #[must_use]
    pub fn needs_with_secrets(&self) -> Vec<Need> {
        let secrets =
            self.secrets.iter().map(|secret| Need::new(&secret.name, secret.description()));
        self.needs().into_iter().chain(secrets).collect()
    }

    /// Refuses a part of a file where the target has only whole ones.
    ///
    /// # Errors
    /// When a part is asked for.
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

    /// The image with its tag and digest, where the job runs in it.
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
