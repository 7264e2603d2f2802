//! What every target is asked for.

use std::time::Duration;

use url::Url;

/// What a wrapper is to do. The same for all targets; what a target cannot do is an error.
#[derive(Clone, Debug, Eq, PartialEq)]
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
    /// When the CI system ends the job.
    pub timeout: Duration,
    /// How the job gets to the network.
    pub network: Network,
}

/// A version of the runner.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Version {
    /// This one.
    Exactly(semver::Version),
    /// Whatever is newest when the job runs.
    Latest,
}

/// How the runner gets to where it runs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Install {
    /// Its archive is downloaded, and verified with the release's checksum file and attestation.
    Binary {
        /// The archive's SHA-256 (hex), where it is to be no other.
        sha256: Option<String>,
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

/// Who the job is to the clouds: it gets a token of its own from the CI system (OIDC) and no key.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Cloud {
    /// Amazon Web Services.
    pub aws: Option<Aws>,
    /// Google Cloud.
    pub gcp: Option<Gcp>,
    /// Microsoft Azure.
    pub azure: Option<Azure>,
}

/// A role that trusts the CI system.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Aws {
    /// `arn:aws:iam::123456789012:role/terraform`.
    pub role: String,
    /// `eu-central-1`.
    pub region: String,
}

/// A pool that trusts the CI system.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Gcp {
    /// `projects/123/locations/global/workloadIdentityPools/ci/providers/github`.
    pub provider: String,
    /// `terraform@project.iam.gserviceaccount.com`.
    pub service_account: String,
}

/// An application that trusts the CI system. None of these is secret.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Azure {
    /// The application.
    pub client_id: String,
    /// The directory that it is in.
    pub tenant_id: String,
    /// What it works on.
    pub subscription_id: String,
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
