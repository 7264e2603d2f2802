//! `generate server`: the installation of a server in a Kubernetes cluster.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use butler_cluster::{
    FollowedKind, Installation, InstalledFollowers, InstalledResources, ServerCertificate,
    SharedStore, object_name, quantity,
};
use butler_follower::config::{Adapter, StageWork};
use butler_follower::state::copy_name;
use butler_server::api::new_token;
use butler_server::artifacts::{AddressError, ArtifactsAddress};
use butler_server::config::{self, git_host};
use butler_server::resources::definitions;
use butler_server::serve::read_registry;
use butler_start::generate::IMAGE;
use clap::Args;
use url::Url;

use super::destination::{Destination, Readers};
use super::values::{digest, endpoint, image, text};
use crate::cli::flags::{Flags, Selection};
use crate::cli::output::{complain, refuse};
use crate::exit::Exit;
use crate::settings::{
    Environment, SERVER_SETTINGS, Section, Setting, SettingsError, egress_ports,
};

/// The namespace of a server, if no other one is named.
pub(in crate::cli) const NAMESPACE: &str = "butler-system";

/// A server in a Kubernetes cluster, whose attempts are Jobs: all objects, for `kubectl apply`
///
/// The file contains the private key of a new certificate of the server, whose authority attempts trust. Its mode is 0600.
#[derive(Args)]
pub(in crate::cli) struct Server {
    #[command(flatten)]
    installation: InstallationFlags,
    #[command(flatten)]
    output: Destination,
}

/// What differs between installations.
#[derive(Args)]
pub(in crate::cli) struct InstallationFlags {
    /// The configuration of the server, which becomes a config map [default: no layers]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The registry of followers, which becomes a key of the same config map [default: no followers]
    #[arg(long, value_name = "FILE")]
    followers: Option<PathBuf>,
    /// A namespace whose custom resources are part of the desired state; can be repeated
    #[arg(long, value_name = "NAME", value_parser = object_name)]
    resources: Vec<String>,
    /// A host, without a port, of the repositories that custom resources define; `*` matches any text; can be repeated
    #[arg(long, value_name = "GLOB", requires = "resources", value_parser = git_host)]
    allowed_git_host: Vec<String>,
    /// The namespace of the server
    #[arg(long, value_name = "NAME", default_value = NAMESPACE, value_parser = object_name)]
    namespace: String,
    /// The namespace of its attempts
    #[arg(long, value_name = "NAME", default_value = "butler-attempts", value_parser = object_name)]
    job_namespace: String,
    /// The image of the server and of its attempts, without a tag
    #[arg(long, value_name = "NAME", default_value = IMAGE, value_parser = image)]
    image: String,
    /// The version of the runner, which is the tag of the image [default: the version of this executable]
    #[arg(long, value_name = "VERSION")]
    runner_version: Option<semver::Version>,
    /// The required digest of the image: sha256:...
    #[arg(long, value_name = "DIGEST", value_parser = digest)]
    digest: Option<String>,
    /// A Secret in both namespaces with a login for the image's registry
    #[arg(long, value_name = "NAME", value_parser = object_name)]
    pull_secret: Option<String>,
    /// The address under which people reach the server, for example that of an Ingress
    #[arg(long, value_name = "URL", value_parser = endpoint)]
    public_url: Option<Url>,
    /// The namespace of the proxy that hands requests of people on
    #[arg(long, value_name = "NAME", value_parser = object_name)]
    ingress_namespace: Option<String>,
    /// Install several servers that share a PostgreSQL database: the Secret with the keys `url`, `access.yaml` and `plan.key`
    #[arg(long, value_name = "NAME", value_parser = object_name)]
    shared_secret: Option<String>,
    /// The number of servers that share the database
    #[arg(long, value_name = "N", default_value_t = 2, requires = "shared_secret", value_parser = clap::value_parser!(u32).range(1..=9))]
    replicas: u32,
    /// The port of the database
    #[arg(long, value_name = "PORT", default_value_t = 5432, requires = "shared_secret")]
    database_port: u16,
    /// The object store for logs and plans, which the servers share
    #[arg(long, value_name = "URL", requires = "shared_secret", value_parser = artifacts)]
    artifacts: Option<String>,
    #[command(flatten)]
    settings: Flags<InstallationSettings>,
    /// The size of the volume of a server, for its store, mirrors, logs and plans
    #[arg(long, value_name = "QUANTITY", default_value = "10Gi", value_parser = quantity)]
    storage: String,
    /// The storage class of the volume [default: that of the cluster]
    #[arg(long, value_name = "NAME", value_parser = text)]
    storage_class: Option<String>,
}

/// The settings of an installation.
struct InstallationSettings;

impl Selection for InstallationSettings {
    fn has(setting: &Setting) -> bool {
        setting.section == Section::Installation
    }

    fn table() -> impl Iterator<Item = &'static Setting> {
        SERVER_SETTINGS.iter().copied()
    }
}

impl Server {
    pub(in crate::cli) fn run(self, environment: &Environment) -> u8 {
        let made = self.installation.installation(environment).and_then(|installation| {
            let certificate = new_certificate(&installation)?;
            Ok(installation.to_yaml(&certificate))
        });
        match made {
            Ok(text) => self.output.write(&text, Readers::Owner),
            Err(errors) => errors.report(),
        }
    }
}

/// Why an installation cannot be made.
pub(in crate::cli) enum InstallationError {
    /// What is wrong with its files.
    Files(Vec<String>),
    /// Its settings.
    Settings(SettingsError),
    /// Its certificate.
    Certificate(String),
}

impl InstallationError {
    /// Tells it. Returns the exit code.
    pub(in crate::cli) fn report(&self) -> u8 {
        match self {
            Self::Files(errors) => {
                for error in errors {
                    complain(error, None);
                }
                Exit::Usage.code()
            }
            Self::Settings(error) => refuse(error),
            Self::Certificate(error) => {
                complain(&format!("cannot make a certificate: {error}"), None);
                Exit::Failed.code()
            }
        }
    }
}

/// A certificate that is valid from today.
pub(in crate::cli) fn new_certificate(
    installation: &Installation,
) -> Result<ServerCertificate, InstallationError> {
    let today = jiff::Zoned::now().with_time_zone(jiff::tz::TimeZone::UTC).date();
    let made = installation.certificate(today);
    made.map_err(|error| InstallationError::Certificate(error.to_string()))
}

impl InstallationFlags {
    /// The installation.
    ///
    /// # Errors
    /// Everything that is wrong with its files and settings.
    pub(in crate::cli) fn installation(
        self,
        environment: &Environment,
    ) -> Result<Installation, InstallationError> {
        let egress_ports = egress_ports(&self.settings.into_arguments(), environment)
            .map_err(InstallationError::Settings)?;
        let config =
            self.config.as_ref().map(read).transpose().map_err(InstallationError::Files)?;
        let followers = self.followers.as_deref().map(followers).transpose();
        let followers = followers.map_err(InstallationError::Files)?;
        let namespaces: BTreeSet<String> = self.resources.into_iter().collect();
        // The server reads the Secrets that resources name.
        for own in [&self.namespace, &self.job_namespace] {
            if namespaces.contains(own) {
                let why = format!(
                    "the namespace `{own}` of --resources has the Secrets of the server or of its attempts, which users who \
                     write resources could read; use another namespace"
                );
                return Err(InstallationError::Files(vec![why]));
            }
        }
        let resources = (!namespaces.is_empty()).then(|| InstalledResources {
            namespaces: namespaces.into_iter().collect(),
            git_hosts: self.allowed_git_host,
            definitions: definitions(),
        });
        let has_followers = followers.is_some() || resources.is_some();
        let token = has_followers.then(new_token).transpose();
        let follower_token = token.map_err(|error| {
            InstallationError::Files(vec![format!("cannot make a token: {error}")])
        })?;
        let version = self.runner_version.map(|version| version.to_string());
        let version = version.unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned());
        let digest = self.digest.map(|digest| format!("@{digest}")).unwrap_or_default();
        let (replicas, database_port, artifacts) =
            (self.replicas, self.database_port, self.artifacts);
        let shared = self.shared_secret;
        let shared =
            shared.map(|secret| SharedStore { replicas, secret, database_port, artifacts });
        Ok(Installation {
            shared,
            namespace: self.namespace,
            job_namespace: self.job_namespace,
            image: format!("{}:{version}{digest}", self.image),
            pull_secret: self.pull_secret,
            public_url: self.public_url.map(|url| url.to_string()),
            ingress_namespace: self.ingress_namespace,
            storage: self.storage,
            storage_class: self.storage_class,
            egress_ports,
            config,
            followers,
            follower_token,
            resources,
        })
    }

    /// Whether a configuration is given.
    pub(in crate::cli) const fn has_config(&self) -> bool {
        self.config.is_some()
    }

    /// Whether the server can have followers.
    pub(in crate::cli) const fn has_followers(&self) -> bool {
        self.followers.is_some() || !self.resources.is_empty()
    }
}

/// The followers of a registry, and what their stages create and read.
fn followers(path: &Path) -> Result<InstalledFollowers, Vec<String>> {
    let (registry, text) = read_registry(path)?;
    let namespace = registry.controller.namespace;
    let native = registry.followers.iter().filter(|it| it.adapter == Adapter::Kubernetes);
    let copies = native.clone().map(|follower| copy_name(&follower.id)).collect();
    let kinds = native.flat_map(|follower| &follower.stages).filter_map(|stage| {
        let (object, is_created) = match &stage.work {
            StageWork::Create(template) => (template.kind_of_object(), true),
            StageWork::Observe(object) => (object.clone(), false),
            StageWork::Run(_) => return None,
        };
        let own = object.namespace.unwrap_or_else(|| namespace.clone());
        let (api_version, kind) = (object.api_version, object.kind);
        Some(FollowedKind { namespace: own, api_version, kind, is_created })
    });
    let objects = kinds.collect();
    Ok(InstalledFollowers { registry: text, namespace: namespace.clone(), copies, objects })
}

/// The text of a configuration that a server accepts, or what is wrong with it.
fn read(path: &PathBuf) -> Result<String, Vec<String>> {
    let text = fs_err::read_to_string(path).map_err(|error| vec![error.to_string()])?;
    match config::load(path, None) {
        Ok(_) => Ok(text),
        Err(errors) => Err(errors.iter().map(ToString::to_string).collect()),
    }
}

/// The address of an object store.
fn artifacts(text: &str) -> Result<String, String> {
    let parsed: Result<ArtifactsAddress, AddressError> = text.parse();
    parsed.map(|_| text.to_owned()).map_err(|error| error.to_string())
}
