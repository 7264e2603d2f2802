//! The settings of `serve`, and of the commands that ask a server.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::SecretString;
use url::Url;

use super::attempts::{environment as environment_of_attempts, isolation};
use super::cluster::cluster_access;
use super::git_environment::git_environment;
use super::jobs::jobs;
use super::reader::Reader;
use super::server_address::{ServerAddress, spelled};
use super::setting::{
    ACCESS_FILE, ALLOWED_GIT_HOST, ARTIFACTS, CA_BUNDLE, CONCURRENCY, DATA, DRY_RUN, EXECUTOR,
    FOLLOWER_TOKEN_FILE, FOLLOWERS, KEY_FILE, LAYER_PATH, METRICS_OPEN, MIRROR_MEMORY, ONCE,
    REFERENCE, REPO, RESOURCES, SECRETS_DIR, SERVER, SERVER_CONFIG, SERVER_TOKEN_FILE,
    STARTS_PER_MINUTE, STOP_ATTEMPTS, STOP_TIMEOUT, STORE, STORE_PASSWORD_FILE,
};
use super::{
    Arguments, Environment, IsolationLevel, Logging, Setting, SettingsError, parse, variable,
};
use butler_base::platform::{Landlock, landlock as landlock_of_kernel};
use butler_base::process;
use butler_cluster::{ClusterAccess, object_name};
use butler_server::artifacts::{AddressError, ArtifactsSettings};
use butler_server::attempts::JobSettings;
use butler_server::config::{RemoteLimits, git_host};
use butler_server::data::DataAccess;
use butler_server::serve::{ServerOfData, server_of};
use butler_server::store::{PostgresAddress, StorePlace};
use butler_source::git::GitEnvironment;

/// The most memory of a process that fetches, in bytes.
const MIRROR_MEMORY_DEFAULT: u64 = 1024 * 1024 * 1024;

/// The default of `--starts-per-minute`.
const STARTS_PER_MINUTE_DEFAULT: u32 = 60;

/// How long the server waits for attempts that it has asked to end, if nothing else is said.
const STOP_TIMEOUT_DEFAULT: Duration = Duration::from_mins(10);

/// Everything that `serve` needs.
#[derive(Debug)]
pub struct ServerSettings {
    /// Where the desired state is.
    pub config: ServerConfig,
    /// What included configuration may use.
    pub limits: RemoteLimits,
    /// The registry of followers.
    pub followers: Option<PathBuf>,
    /// The file with the token of Jobs that ask about followers.
    pub follower_token_file: Option<PathBuf>,
    /// The namespaces with custom resources.
    pub resources: Vec<String>,
    /// The cluster of followers and custom resources.
    pub cluster: ClusterAccess,
    /// The data directory; may not exist yet.
    pub data: PathBuf,
    /// Where the server listens, and how it is reached.
    pub address: ServerAddress,
    /// The file of users.
    pub access_file: Option<PathBuf>,
    /// Which database has the facts.
    pub store: StorePlace,
    /// The object store for copies of the files of attempts.
    pub artifacts: Option<ArtifactsSettings>,
    /// The keys of saved plans; `None`: a file in the data directory.
    pub key_file: Option<PathBuf>,
    /// Whether `/metrics` needs no token.
    pub metrics_open: bool,
    /// The most attempts at the same time.
    pub concurrency: u32,
    /// The most starts in a minute, of checks for drift and of what is due after a start.
    pub starts_per_minute: u32,
    /// The most memory of a process that fetches, in bytes.
    pub mirror_memory: u64,
    /// How long attempts are waited for that are asked to end when the server ends; `None` if they
    /// go on.
    pub stop_attempts: Option<Duration>,
    /// Whether one pass is made.
    pub once: bool,
    /// Whether this pass starts and writes nothing.
    pub dry_run: bool,
    /// This executable.
    pub executable: PathBuf,
    /// What attempts that are Jobs are started with; `None` if they are processes.
    pub jobs: Option<JobSettings>,
    /// What modules are kept from, if attempts are processes.
    pub isolation: IsolationLevel,
    /// Who can enter the data directory.
    pub access: DataAccess,
    /// What attempts inherit.
    pub attempts: process::Environment,
    /// How repositories are reached.
    pub git: GitEnvironment,
    /// Additional certificates.
    pub ca_bundle: Option<PathBuf>,
    /// How the server logs.
    pub logging: Logging,
}

/// Where the desired state is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ServerConfig {
    /// In custom resources only.
    Resources,
    /// In a file, or in the files of a directory.
    Path(PathBuf),
    /// On the command line.
    Repository {
        /// The address.
        url: String,
        /// Which directories are layers.
        glob: String,
        /// The branch or tag.
        reference: Option<String>,
    },
}

/// How a command reaches a server.
#[derive(Debug)]
pub struct ServerAccess {
    /// The address.
    pub server: Url,
    /// The token.
    pub token: SecretString,
    /// Additional certificates.
    pub ca_bundle: Option<PathBuf>,
}

impl ServerSettings {
    /// Reads and checks the settings of `serve`.
    ///
    /// # Errors
    /// If a setting is missing or not usable.
    pub fn resolve(
        arguments: &Arguments,
        environment: &Environment,
    ) -> Result<Self, SettingsError> {
        let reader = Reader { arguments, environment };
        let ca_bundle = reader.existing(&CA_BUNDLE, Path::is_file)?;
        // Otherwise, each attempt would fail.
        let secrets = reader.existing(&SECRETS_DIR, Path::is_dir)?;
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let concurrency = reader.parsed(&CONCURRENCY, number)?;
        let starts = reader.parsed(&STARTS_PER_MINUTE, number)?;
        let (once, dry_run) = (reader.switch(&ONCE)?, reader.switch(&DRY_RUN)?);
        if dry_run && !once {
            let mode = "`serve` without `--once`";
            return Err(SettingsError::OutOfPlace { flag: DRY_RUN.flags[0], mode });
        }
        let mut address = ServerAddress::resolve(&reader, once)?;
        let jobs = jobs(&reader, &address)?;
        if let Some(jobs) = &jobs {
            if once && !dry_run {
                let problem = "attempts that are Jobs report to a server that listens, which one with `--once` does not";
                return Err(unusable(&EXECUTOR, problem.to_owned()));
            }
            address.hosts.extend(host_of(&jobs.endpoint));
        }
        // Nothing is left of a process namespace whose process 1 has ended.
        let loses_attempts = jobs.is_none() && std::process::id() == 1;
        let stops_attempts = reader.switch(&STOP_ATTEMPTS)? || loses_attempts;
        let stop_timeout = reader.parsed(&STOP_TIMEOUT, parse::duration)?;
        let stop_timeout = stop_timeout.unwrap_or(STOP_TIMEOUT_DEFAULT);
        let store = store(&reader)?;
        if dry_run && matches!(store, StorePlace::Postgres(_)) {
            return Err(SettingsError::Conflict { first: &DRY_RUN, second: &STORE });
        }
        let data = data(&reader)?;
        let isolation = match jobs {
            // Modules run in the pods of their attempts.
            Some(_) => IsolationLevel::None,
            None => isolation(&reader, &data)?,
        };
        let limits = RemoteLimits {
            secrets,
            data: Some(data.clone()),
            git_hosts: reader.values(&ALLOWED_GIT_HOST, git_host)?,
        };
        Ok(Self {
            config: config(&reader)?,
            followers: followers(&reader, once)?,
            follower_token_file: reader.path(&FOLLOWER_TOKEN_FILE)?,
            resources: resources(&reader, once)?,
            cluster: cluster_access(None, None, environment),
            limits,
            data,
            address,
            access_file: reader.existing(&ACCESS_FILE, |path| !path.is_dir() && path.exists())?,
            store,
            artifacts: artifacts(&reader)?,
            key_file: reader.existing(&KEY_FILE, Path::is_file)?,
            metrics_open: reader.switch(&METRICS_OPEN)?,
            concurrency: concurrency.unwrap_or(u32::try_from(processors).unwrap_or(u32::MAX)),
            starts_per_minute: starts.unwrap_or(STARTS_PER_MINUTE_DEFAULT),
            mirror_memory: reader
                .parsed(&MIRROR_MEMORY, parse::bytes)?
                .unwrap_or(MIRROR_MEMORY_DEFAULT),
            stop_attempts: stops_attempts.then_some(stop_timeout),
            once,
            dry_run,
            executable: environment.executable().to_owned(),
            jobs,
            isolation,
            access: match isolation {
                IsolationLevel::User => DataAccess::AttemptUsers,
                _ => DataAccess::Server,
            },
            attempts: environment_of_attempts(&reader, isolation)?,
            git: git_environment(environment, ca_bundle.clone()),
            ca_bundle,
            logging: Logging::resolve(arguments, environment)?,
        })
    }
}

impl ServerSettings {
    /// What modules are kept from, in words.
    #[must_use]
    pub fn isolation_name(&self) -> &'static str {
        if self.jobs.is_some() {
            return "pod";
        }
        let landlock = Some(self.isolation).filter(|level| *level == IsolationLevel::Landlock);
        landlock.and_then(|_| landlock_of_kernel()).map_or(self.isolation.name(), Landlock::name)
    }
}

impl ServerAccess {
    /// Whether a server or its data directory is named, or a server has used the default data directory.
    #[must_use]
    pub fn is_known(arguments: &Arguments, environment: &Environment) -> bool {
        let reader = Reader { arguments, environment };
        let is_named = [&SERVER, &SERVER_TOKEN_FILE, &DATA].iter().any(|it| reader.is_given(it));
        // A token that cannot be read is one.
        is_named || data(&reader).is_ok_and(|data| token_of(&data).try_exists().unwrap_or(true))
    }

    /// Reads and checks how a command reaches a server.
    ///
    /// # Errors
    /// If a setting is not usable, or the token cannot be read.
    pub fn resolve(
        arguments: &Arguments,
        environment: &Environment,
    ) -> Result<Self, SettingsError> {
        let reader = Reader { arguments, environment };
        let server = server_address(&reader)?;
        let given = reader.path(&SERVER_TOKEN_FILE)?;
        let (file, data) = match given {
            Some(file) => (file, None),
            None => data(&reader).map(|data| (token_of(&data), Some(data)))?,
        };
        let token = fs_err::read_to_string(&file).map_err(|source| match data {
            Some(data) if source.kind() == ErrorKind::NotFound => SettingsError::NoServer { data },
            _ => SettingsError::Path { setting: &SERVER_TOKEN_FILE, path: file, source },
        })?;
        let token = SecretString::from(token.trim());
        Ok(Self { server, token, ca_bundle: reader.existing(&CA_BUNDLE, Path::is_file)? })
    }
}

/// The address of the server to ask. A data directory that is given names its server, unless the address is given in the
/// same way or a nearer one: the token in the directory is for no other server.
fn server_address(reader: &Reader<'_>) -> Result<Url, SettingsError> {
    let is_nearer = reader.arguments.value(&DATA).is_some()
        && reader.arguments.value(&SERVER).is_none()
        && reader.arguments.value(&SERVER_TOKEN_FILE).is_none();
    if let Some(given) = reader.parsed(&SERVER, server)?.filter(|_| !is_nearer) {
        return Ok(given);
    }
    let parse = |text: &str| server(text).map_err(|problem| unusable(&SERVER, problem));
    if reader.is_given(&SERVER_TOKEN_FILE) && !is_nearer {
        return parse(SERVER.default);
    }
    let data = data(reader)?;
    let found = server_of(&data).map_err(|source| SettingsError::Path {
        setting: &DATA,
        path: data.clone(),
        source,
    })?;
    match found {
        ServerOfData::At(address) => parse(&address),
        // The default directory can be that of a server in a container.
        ServerOfData::Unknown if !reader.is_given(&DATA) => parse(SERVER.default),
        // Whether a server has used it at all is told later.
        ServerOfData::Unknown if !token_of(&data).exists() => parse(SERVER.default),
        ServerOfData::Unknown | ServerOfData::NotRunning => Err(SettingsError::NotRunning { data }),
    }
}

/// The file with the token of the administrator.
fn token_of(data: &Path) -> PathBuf {
    data.join("admin.token")
}

/// The host of an endpoint, under which the server answers too.
fn host_of(endpoint: &str) -> Option<String> {
    Url::parse(endpoint).ok()?.host().map(|host| spelled(&host))
}

fn unusable(setting: &'static Setting, problem: String) -> SettingsError {
    SettingsError::Unusable { setting, problem }
}

pub(super) fn config(reader: &Reader<'_>) -> Result<ServerConfig, SettingsError> {
    let text = |text: &str| Ok(text.to_owned());
    let (url, glob) = (reader.parsed(&REPO, repository)?, reader.parsed(&LAYER_PATH, text)?);
    let given = reader.path(&SERVER_CONFIG)?;
    match (url, glob, given) {
        (Some(_), _, Some(_)) => {
            Err(SettingsError::Conflict { first: &REPO, second: &SERVER_CONFIG })
        }
        (Some(url), Some(glob), None) => {
            let reference = reader.parsed(&REFERENCE, text)?;
            Ok(ServerConfig::Repository { url, glob, reference })
        }
        (Some(_), None, None) => Err(SettingsError::Missing { setting: &LAYER_PATH }),
        (None, Some(_), None) => Err(SettingsError::Missing { setting: &REPO }),
        (None, _, Some(path)) => Ok(ServerConfig::Path(path)),
        (None, None, None) => {
            let defaults = ["butler.yaml", "butler.d"].map(PathBuf::from);
            let found = defaults.into_iter().find(|path| path.exists());
            match found {
                Some(path) => Ok(ServerConfig::Path(path)),
                None if reader.is_given(&RESOURCES) => Ok(ServerConfig::Resources),
                None => Err(SettingsError::Missing { setting: &SERVER_CONFIG }),
            }
        }
    }
}

/// The registry of followers. One pass ends before their stages do.
fn followers(reader: &Reader<'_>, once: bool) -> Result<Option<PathBuf>, SettingsError> {
    let file = reader.existing(&FOLLOWERS, |path| !path.is_dir() && path.exists())?;
    if once && file.is_some() {
        return Err(SettingsError::Conflict { first: &FOLLOWERS, second: &ONCE });
    }
    Ok(file)
}

/// The namespaces with custom resources. One pass does not write their status.
fn resources(reader: &Reader<'_>, once: bool) -> Result<Vec<String>, SettingsError> {
    let mut namespaces = reader.values(&RESOURCES, object_name)?;
    if once && !namespaces.is_empty() {
        return Err(SettingsError::Conflict { first: &RESOURCES, second: &ONCE });
    }
    namespaces.sort();
    namespaces.dedup();
    Ok(namespaces)
}

/// Which database has the facts.
fn store(reader: &Reader<'_>) -> Result<StorePlace, SettingsError> {
    let address = reader.parsed(&STORE, |text| match text {
        "sqlite" => Ok(None),
        // The message does not contain the text, which can have a password.
        url => url.parse::<PostgresAddress>().map(Some).map_err(|error| error.to_string()),
    })?;
    let file = reader.existing(&STORE_PASSWORD_FILE, |path| !path.is_dir() && path.exists())?;
    match (address.flatten(), file) {
        (None, None) => Ok(StorePlace::Sqlite),
        (None, Some(_)) => Err(SettingsError::Missing { setting: &STORE }),
        (Some(address), None) => Ok(StorePlace::Postgres(Box::new(address))),
        (Some(address), Some(path)) => {
            let password = fs_err::read_to_string(&path).map_err(|source| SettingsError::Path {
                setting: &STORE_PASSWORD_FILE,
                path,
                source,
            })?;
            let password = SecretString::from(password.trim_end_matches(['\r', '\n']));
            Ok(StorePlace::Postgres(Box::new(address.with_password(&password))))
        }
    }
}

/// The object store for copies of the files of attempts.
fn artifacts(reader: &Reader<'_>) -> Result<Option<ArtifactsSettings>, SettingsError> {
    let address = reader
        .parsed(&ARTIFACTS, |text| text.parse().map_err(|error: AddressError| error.to_string()))?;
    Ok(address.map(|address| {
        let variables = reader.environment.variables().iter().filter_map(|(name, value)| {
            let name = name.to_str()?;
            let is_of_provider =
                ["AWS_", "AZURE_", "GOOGLE_"].iter().any(|it| name.starts_with(it));
            is_of_provider.then_some((name.to_owned(), SecretString::from(value.to_str()?)))
        });
        ArtifactsSettings { address, variables: variables.collect() }
    }))
}

/// A directory becomes a file URL.
fn repository(text: &str) -> Result<String, String> {
    if !Path::new(text).is_dir() {
        return Ok(text.to_owned());
    }
    let path = std::fs::canonicalize(text)
        .map_err(|error| format!("cannot find the directory `{text}`: {error}"))?;
    let url = Url::from_directory_path(&path)
        .map_err(|()| format!("`{text}` cannot be written as a URL"))?;
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

/// The settings of `store migrate`: the PostgreSQL database, and additional certificates.
///
/// # Errors
/// If the address is missing or not valid, or a file cannot be read.
pub fn database(
    arguments: &Arguments,
    environment: &Environment,
) -> Result<(PostgresAddress, Option<PathBuf>), SettingsError> {
    let reader = Reader { arguments, environment };
    match store(&reader)? {
        StorePlace::Postgres(address) => {
            let ca_bundle = reader.existing(&CA_BUNDLE, Path::is_file)?;
            Ok((*address, ca_bundle))
        }
        StorePlace::Sqlite => Err(SettingsError::Missing { setting: &STORE }),
    }
}

/// The data directory of a server.
///
/// # Errors
/// If it is not given, and the environment does not name a home directory.
pub fn data_directory(
    arguments: &Arguments,
    environment: &Environment,
) -> Result<PathBuf, SettingsError> {
    data(&Reader { arguments, environment })
}

fn data(reader: &Reader<'_>) -> Result<PathBuf, SettingsError> {
    if let Some(data) = reader.path(&DATA)? {
        return Ok(data);
    }
    let given = |name| reader.environment.value(name).map(PathBuf::from);
    let general = given("XDG_DATA_HOME")
        .filter(|path| path.is_absolute())
        .or_else(|| Some(given(variable::HOME.name)?.join(".local/share")));
    let general = general.ok_or(SettingsError::Missing { setting: &DATA })?;
    Ok(general.join("butler-runner"))
}

fn number(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(number) if (1..=10_000).contains(&number) => Ok(number),
        _ => Err(format!("`{text}` is not a number from 1 to 10000")),
    }
}

fn server(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("`{text}` is not a URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
        return Err(format!("`{text}` is not an http or https URL"));
    }
    Ok(url)
}
