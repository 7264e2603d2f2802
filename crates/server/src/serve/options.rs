//! What the server is started with, and why it cannot start.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use butler_base::process::Environment;
use butler_cluster::ClusterAccess;
use butler_follower::config::Registry;
use butler_source::git::GitEnvironment;

use super::config_files::ConfigFiles;
use super::listener::ListenError;
use super::tls::{TlsError, TlsFiles};
use crate::api::Hosts;
use crate::artifacts::{ArtifactsSettings, BucketError};
use crate::attempts::{JobSettings, Secrets};
use crate::config::{Config, ConfigError, RemoteLimits};
use crate::data::DataAccess;
use crate::followers::LoginError;
use crate::plans::KeyError;
use crate::store::{StoreError, StorePlace};

/// What the server is started with.
#[derive(Debug)]
pub struct Options {
    /// The desired state.
    pub config: Config,
    /// What included configuration may use.
    pub limits: RemoteLimits,
    /// The files that it was read from, to be read again when they change.
    pub config_files: Option<ConfigFiles>,
    /// The followers.
    pub followers: Registry,
    /// The file that they were read from, to be read again when it changes.
    pub followers_file: Option<ConfigFiles>,
    /// The namespaces with custom resources that are part of the desired state.
    pub resources: Vec<String>,
    /// The cluster of followers whose stages are objects, and of custom resources.
    pub cluster: ClusterAccess,
    /// The data directory.
    pub data: PathBuf,
    /// Which database has the facts.
    pub store: StorePlace,
    /// Where people and programs reach the server.
    pub listen: SocketAddr,
    /// Under which names they reach it, and which proxies are trusted.
    pub hosts: Hosts,
    /// The certificate with which the server speaks TLS; without it, it speaks HTTP.
    pub tls: Option<TlsFiles>,
    /// How long attempts are waited for that are asked to end when the server ends. Without it,
    /// they are left alone.
    pub stop_attempts: Option<Duration>,
    /// The file of users; without it there is one administrator.
    pub access_file: Option<PathBuf>,
    /// The file with the token of Jobs that ask about followers.
    pub follower_token_file: Option<PathBuf>,
    /// Whether a one-time code to sign in is made, for a person at a terminal of this machine.
    pub with_sign_in_code: bool,
    /// Whether `/metrics` needs no token.
    pub metrics_open: bool,
    /// What modules are kept from, in one word.
    pub isolation: String,
    /// Who can enter the data directory.
    pub access: DataAccess,
    /// The most attempts at the same time.
    pub concurrency: u32,
    /// The most starts in a minute, of checks for drift and of what is due after a start of the server.
    pub starts_per_minute: u32,
    /// The most memory of a process that fetches a repository, in bytes.
    pub mirror_memory: u64,
    /// What attempts that are Jobs are started with; without it, attempts are processes.
    pub jobs: Option<JobSettings>,
    /// This executable.
    pub executable: PathBuf,
    /// What attempts inherit.
    pub environment: Environment,
    /// How repositories are reached.
    pub git: GitEnvironment,
    /// Additional certificates, for the database, the object store and receivers of notifications.
    pub ca_bundle: Option<PathBuf>,
    /// Where secrets are read.
    pub secrets: Secrets,
    /// The object store for copies of the files of attempts.
    pub artifacts: Option<ArtifactsSettings>,
    /// The keys of saved plans; without a file, one in the data directory, which is made.
    pub key_file: Option<PathBuf>,
}

/// The server cannot start, or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The data directory.
    #[error("cannot use the data directory `{}`", path.display())]
    Data {
        /// The directory.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The access file.
    #[error("{}", lines(.0))]
    Access(Vec<ConfigError>),
    /// The certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The keys of saved plans.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The object store.
    #[error(transparent)]
    Artifacts(#[from] BucketError),
    /// The cluster of attempts that are Jobs.
    #[error("cannot use the Kubernetes cluster")]
    Cluster(#[from] LoginError),
    /// The custom resources.
    #[error("cannot use the custom resources: {0}")]
    Resources(String),
    /// A listener.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Another server decides, so one pass cannot.
    #[error(
        "the server `{0}` decides about the layers of this store; stop it, or ask it with `butler-runner layer`"
    )]
    Decided(String),
    /// The server stopped answering.
    #[error("the server cannot accept connections any more")]
    Serve(#[source] std::io::Error),
}

impl ServeError {
    /// Whether a start can succeed later without a change of anything.
    #[must_use]
    pub const fn is_temporary(&self) -> bool {
        match self {
            Self::Store(error) => error.is_away(),
            Self::Cluster(error) => !error.is_permanent,
            _ => false,
        }
    }
}

/// One error in each line.
fn lines(errors: &[ConfigError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
