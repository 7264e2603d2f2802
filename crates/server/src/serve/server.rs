//! Puts the parts of the server together.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use butler_base::cancel::Stop;
use butler_base::process::Environment;
use butler_cluster::ClusterError;
use butler_source::git::GitEnvironment;
use secrecy::SecretString;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};

use super::connections::{HEAD, serve_connections};
use super::copies::Copies;
use super::desired::Desired;
use super::leadership::{LIFETIME, Leadership, lead};
use super::listener::{ListenError, listen, listen_to_attempts};
use super::poller::{PollSettings, Poller, poll_each};
use super::read_includes::recall;
use super::reload::{ConfigFiles, reload};
use super::retention::remove_old;
use super::scheduler::{Capacity, Scheduler, Shared, until};
use super::stopping::end_attempts;
use super::tls::{TlsError, TlsFiles, TlsListener, acceptor};
use super::view::Views;
use crate::api::{self, Access, ApiState, Hosts, SignIns};
use crate::artifacts::{ArtifactsSettings, BucketError};
use crate::attempts::{
    AttemptSettings, Executors, JobExecutor, JobSettings, LogWatch, PlanFiles, ProcessExecutor,
    Secrets, StoreRegistry,
};
use crate::config::{Config, ConfigError, RemoteLimits};
use crate::data::{DataAccess, DataDirectory};
use crate::event::Event;
use crate::metrics::{AttemptMetrics, NotificationMetrics, count_attempts};
use crate::model::RunId;
use crate::notifications::{Notifier, Setup};
use crate::pages;
use crate::plans::{KeyError, PlanKeys};
use crate::store::{AnyStore, Deciders as _, Store, StoreError, StorePlace, THIS_MACHINE};
use crate::webhooks::{self, Receiver};

/// What the server is started with.
#[derive(Debug)]
pub struct Options {
    /// The desired state.
    pub config: Config,
    /// What included configuration may use.
    pub limits: RemoteLimits,
    /// The files that it was read from, to be read again when they change.
    pub config_files: Option<ConfigFiles>,
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
    Cluster(#[from] ClusterError),
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

/// One error in each line.
fn lines(errors: &[ConfigError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// The parts of a server. Its scheduler works beside them.
struct Parts {
    store: Arc<AnyStore>,
    data: DataDirectory,
    desired: Arc<Desired>,
    views: Arc<Views>,
    sender: mpsc::UnboundedSender<Event>,
    polls: Arc<PollSettings>,
    attempts: Arc<AttemptMetrics>,
    followers: Arc<LogWatch>,
    copies: Copies<AnyStore>,
    /// Where attempts that are Jobs report.
    reports: Option<Router>,
    /// The name of this server among those that share the store.
    name: String,
    leadership: watch::Receiver<Leadership>,
    /// Take the reports of attempts, and renew the lease of the server that decides, until the parts are dropped.
    tasks: JoinSet<()>,
}

impl Parts {
    fn poller(&self, repository: &str) -> Poller<AnyStore> {
        Poller::new(
            repository,
            Arc::clone(&self.store),
            Arc::clone(&self.polls),
            Arc::clone(&self.desired),
            self.sender.clone(),
        )
    }

    /// Lets another server decide, if others share the store.
    async fn resign(&mut self) {
        // The lease is not renewed any more.
        self.tasks.shutdown().await;
        if self.store.is_shared()
            && let Err(error) = self.store.resign(&self.name).await
        {
            tracing::warn!(%error, "another server decides only after some seconds");
        }
    }

    /// Removes what is no longer kept. Never ends.
    fn remove_old(&self) -> impl Future<Output = ()> + Send + use<> {
        let store = Arc::clone(&self.store);
        remove_old(store, self.data.clone(), self.copies.bucket.clone(), Arc::clone(&self.desired))
    }

    /// Polls each repository of the configuration, and of each later one.
    async fn poll_all(&self, stop: &Stop) {
        let mut configs = self.desired.configs();
        let mut tasks = JoinSet::new();
        let mut running = BTreeMap::<String, AbortHandle>::new();
        loop {
            for name in configs.borrow_and_update().repositories.keys() {
                if running.get(name).is_none_or(AbortHandle::is_finished) {
                    let (poller, stop) = (self.poller(name), stop.clone());
                    let task = tasks.spawn(async move { poller.run(&stop).await });
                    running.insert(name.clone(), task);
                }
            }
            if configs.changed().await.is_err() {
                return;
            }
        }
    }
}

/// What one pass did.
#[derive(Debug)]
pub struct Pass {
    /// The runs that did not succeed.
    pub failed: Vec<RunId>,
    /// Why repositories could not be read, by their names.
    pub unread: BTreeMap<String, String>,
    /// What is wrong with included configuration.
    pub include_errors: Vec<String>,
    /// The layers, as they are now.
    pub views: Arc<Views>,
}

/// Serves until `stop`. Attempts go on after that, or are ended ([`Options::stop_attempts`]). `ready`
/// is called with the URL, and with the one-time code if one was made, when the server answers, and can show every layer that the store knows.
///
/// # Errors
/// If the server cannot start.
pub async fn serve(
    options: Options,
    stop: &Stop,
    ready: impl FnOnce(&str, Option<&SecretString>),
) -> Result<(), ServeError> {
    let (listen_at, config_files) = (options.listen, options.config_files.clone());
    let (hosts, stop_attempts) = (options.hosts.clone(), options.stop_attempts);
    // The code signs in the administrator that exists without an access file, at the printed address. Forms
    // count only at the public URL, if there is one.
    let is_local = options.access_file.is_none() && hosts.public_url.is_none();
    let with_code = options.with_sign_in_code && is_local;
    let (isolation, metrics_open) = (options.isolation.clone(), options.metrics_open);
    let ca_bundle = options.ca_bundle.clone();
    // Read before anything is written.
    let of_file = options.access_file.as_deref().map(Access::of_file);
    let of_file = of_file.transpose().map_err(ServeError::Access)?;
    let acceptor = options.tls.clone().map(acceptor).transpose()?;
    let (mut parts, mut scheduler, mut events) = prepare(options).await?;
    parts.desired.log_include_errors();
    let failed = |source| ServeError::Data { path: parts.data.root().to_owned(), source };
    let access = match of_file {
        Some(access) => access,
        None => Access::administrator(&parts.data.administrator_token()).map_err(failed)?,
    };
    let notifications = Arc::<NotificationMetrics>::default();
    let setup = Setup {
        secrets: parts.polls.secrets.clone(),
        ca_bundle,
        public_url: hosts.public_url.clone(),
        metrics: Arc::clone(&notifications),
    };
    let state = ApiState {
        store: Arc::clone(&parts.store),
        views: Arc::clone(&parts.views),
        desired: Arc::clone(&parts.desired),
        data: parts.data.clone(),
        events: parts.sender.clone(),
        access,
        sign_ins: SignIns::default(),
        hosts,
        isolation,
        leadership: parts.leadership.clone(),
        attempts: Arc::clone(&parts.attempts),
        poll_durations: Arc::clone(&parts.polls.durations),
        transactions: parts.store.durations(),
        followers: Arc::clone(&parts.followers),
        files: Arc::clone(&parts.copies.files),
        not_copied: Arc::clone(&parts.copies.not_copied),
        deliveries: Arc::clone(&parts.polls.deliveries),
        notifications,
        metrics_open,
    };
    let listener = listen(listen_at, &parts.data.port("listen")).await?;
    let address = listener.local_addr().map_err(ServeError::Serve)?;
    let receiver = Receiver {
        desired: Arc::clone(&parts.desired),
        secrets: parts.polls.secrets.clone(),
        deliveries: Arc::clone(&parts.polls.deliveries),
    };
    let code = with_code.then(|| state.sign_ins.new_code()).transpose().map_err(failed)?;
    let state = Arc::new(state);
    let mut others = webhooks::router(Arc::new(receiver)).merge(pages::router(Arc::clone(&state)));
    if let Some(reports) = parts.reports.take() {
        others = others.merge(reports);
    }
    let router = api::router(state, others);
    let scheme = if acceptor.is_some() { "https" } else { "http" };
    let served = async {
        match acceptor {
            Some(acceptor) => {
                serve_connections(TlsListener::new(listener, acceptor), router, HEAD).await
            }
            None => serve_connections(listener, router, HEAD).await,
        }
    };
    let (end_notifications, ended) = oneshot::channel();
    let notifications = tokio::spawn(notify(
        Arc::clone(&parts.store),
        Arc::clone(&parts.desired),
        setup,
        parts.leadership.clone(),
        ended,
    ));
    scheduler.find_attempts().await?;
    scheduler.look_at_all().await?;
    ready(&format!("{scheme}://{address}/"), code.as_ref());
    tokio::select! {
        never = served => match never {},
        () = parts.copies.run() => {}
        () = scheduler.run(&mut events) => {}
        () = parts.poll_all(stop) => {}
        // After the first look at all layers, which it would delay.
        () = parts.remove_old() => {}
        () = count_attempts(&*parts.store, &parts.attempts) => {}
        () = reload(config_files, parts.data.root(), &parts.desired) => {}
        _ = stop.requested() => {}
    }
    if let Some(limit) = stop_attempts {
        end_attempts(&*parts.store, &mut scheduler, &mut events, stop, limit).await?;
    }
    parts.copies.finish().await;
    let _ = end_notifications.send(());
    // It has its own limit of time.
    let _ = notifications.await;
    parts.resign().await;
    Ok(())
}

/// Notifies as long as this server decides, and until it ends.
async fn notify(
    store: Arc<AnyStore>,
    desired: Arc<Desired>,
    setup: Setup,
    mut leadership: watch::Receiver<Leadership>,
    mut end: oneshot::Receiver<()>,
) {
    loop {
        tokio::select! {
            decides = leadership.wait_for(|leadership| leadership.decides()) => {
                if decides.is_err() {
                    return;
                }
            }
            _ = &mut end => return,
        }
        let notifier = Notifier::start(Arc::clone(&store), &desired, setup.clone());
        let is_over = tokio::select! {
            Ok(_) = leadership.wait_for(|leadership| !leadership.decides()) => false,
            _ = &mut end => true,
        };
        notifier.stop().await;
        if is_over {
            return;
        }
    }
}

/// Polls once, does what can be done now, and waits for what it has started. After `stop`, attempts
/// go on or are ended, as with [`serve`].
///
/// # Errors
/// If the server cannot start, for example because another one uses the data directory.
pub async fn once(mut options: Options, stop: &Stop) -> Result<Pass, ServeError> {
    // The next pass would be limited again.
    options.starts_per_minute = u32::MAX;
    let stop_attempts = options.stop_attempts;
    let (mut parts, mut scheduler, mut events) = prepare(options).await?;
    if parts.store.is_shared() {
        let lease = parts.store.decide(&parts.name, LIFETIME).await?;
        if lease.holder != parts.name {
            return Err(ServeError::Decided(lease.holder));
        }
        let _ = parts.leadership.clone().wait_for(|leadership| leadership.decides()).await;
    }
    let unread = poll_each(&parts.desired, |name| parts.poller(name), stop).await;
    // If it does not get to its end, the next pass continues.
    tokio::spawn(parts.remove_old());
    scheduler.started = Some(Vec::new());
    scheduler.find_attempts().await?;
    scheduler.wake_all().await;
    // How many attempts were started before the last look at all layers.
    let mut looked_after = None;
    loop {
        scheduler.work_off(&mut events).await;
        if stop.reason().is_some() {
            break;
        }
        if parts.store.busy().await?.is_empty() {
            let started = scheduler.started.as_ref().map(Vec::len);
            if looked_after == started {
                break;
            }
            // All attempts have reported, perhaps after the last look at their layers: what is shown
            // would be old, and a layer that waited for them would not be started.
            tokio::select! {
                () = scheduler.executor().all_ended() => {}
                _ = stop.requested() => {}
            }
            scheduler.wake_all().await;
            looked_after = started;
            continue;
        }
        tokio::select! {
            event = events.recv() => if let Some(event) = event {
                scheduler.handle(event).await;
            },
            // A look at an attempt that is silent, or at a step that failed.
            () = until(scheduler.next_look()) => {}
            _ = stop.requested() => break,
        }
    }
    if let Some(limit) = stop_attempts.filter(|_| stop.reason().is_some()) {
        end_attempts(&*parts.store, &mut scheduler, &mut events, stop, limit).await?;
    }
    let mut failed = Vec::new();
    let started: BTreeSet<_> = scheduler.started.take().into_iter().flatten().collect();
    for id in started {
        let run = parts.store.run(&id).await?;
        if run.is_none_or(|(_, run)| !run.has_succeeded()) {
            failed.push(id);
        }
    }
    let include_errors = parts.desired.include_errors();
    parts.copies.finish().await;
    parts.resign().await;
    Ok(Pass { failed, unread, include_errors, views: parts.views })
}

/// The parts, the scheduler, and what happens.
type Prepared = (Parts, Scheduler<AnyStore, Executors>, mpsc::UnboundedReceiver<Event>);

/// Opens the store, listens for attempts, and makes everything else.
async fn prepare(options: Options) -> Result<Prepared, ServeError> {
    let failed = |source| ServeError::Data { path: options.data.clone(), source };
    let data = DataDirectory::create(&options.data).map_err(failed)?;
    let keys = match &options.key_file {
        Some(path) => PlanKeys::at(path)?,
        None => PlanKeys::at_or_new(&data.plan_key())?,
    };
    let bundle = options.ca_bundle.as_deref();
    let store = Arc::new(AnyStore::open(options.store, &data.store(), bundle).await?);
    // After the store is locked: another server that runs here needs its own modes.
    let data = data.with_access(options.access).map_err(failed)?;
    // Attempts of earlier versions have this name, which only the one server of their store reads.
    let place = if store.is_shared() {
        data.server_name().map_err(failed)?
    } else {
        THIS_MACHINE.to_owned()
    };
    let copies = Copies::open(options.artifacts.as_ref(), bundle, &store, &data, &place)?;
    // Before an attempt can report.
    let attempt_metrics = Arc::new(AttemptMetrics::after(*store.journal().borrow()));
    let desired = Arc::new(Desired::new(options.config, options.limits));
    recall(&desired, &data);
    let (sender, events) = mpsc::unbounded_channel();

    // Attempts report to a listener of their own, whose address stays the same.
    let listener = listen_to_attempts(&data).await?;
    let address = listener.local_addr().map_err(ServeError::Serve)?;
    let registry = StoreRegistry::new(
        Arc::clone(&store),
        desired.catalogs(),
        data.clone(),
        options.secrets.clone(),
        PlanFiles::new(keys),
        Arc::clone(&copies.files),
        sender.clone(),
    );
    let followers = registry.followers();
    let registry = Arc::new(registry);
    let reports = options.jobs.is_some().then(|| butler_registry::routes(Arc::clone(&registry)));
    let router = butler_registry::router(registry);
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(%error, "attempts cannot report any more");
        }
    });

    let mut environment = options.environment;
    environment.set_default("BUTLER_CACHE_DIR", data.cache());
    let attempts = AttemptSettings {
        place: place.clone(),
        executable: options.executable,
        data: data.clone(),
        catalog: desired.catalogs(),
        endpoint: format!("http://{address}"),
        environment,
    };
    let executor = executors(attempts, options.jobs, &sender, &mut tasks).await?;
    let views = Arc::new(Views::default());
    let capacity =
        Capacity { concurrency: options.concurrency, starts_per_minute: options.starts_per_minute };
    let mut scheduler = Scheduler::new(
        Arc::clone(&store),
        Arc::new(executor),
        capacity,
        data.root().to_owned(),
        Arc::clone(&desired),
        Arc::clone(&views),
    );
    let (leads, leadership) = watch::channel(Leadership::Decides(None));
    if store.is_shared() {
        leads.send_replace(Leadership::Waits);
        let journal = store.journal();
        scheduler.share(Shared { leadership: leadership.clone(), journal });
        tasks.spawn(lead(Arc::clone(&store), place.clone(), leads));
    }
    let polls = Arc::new(PollSettings {
        data: data.clone(),
        secrets: options.secrets,
        git_of_includes: options.git.without_credentials(),
        git: options.git,
        mirror_memory: options.mirror_memory,
        deliveries: Arc::default(),
        durations: Arc::default(),
    });
    let parts = Parts {
        store,
        data,
        desired,
        views,
        sender,
        polls,
        attempts: attempt_metrics,
        followers,
        copies,
        reports,
        name: place,
        leadership,
        tasks,
    };
    Ok((parts, scheduler, events))
}

/// What starts attempts: processes, or Jobs if `jobs` is given. Temporary files of earlier attempts are removed meanwhile.
async fn executors(
    settings: AttemptSettings,
    jobs: Option<JobSettings>,
    sender: &mpsc::UnboundedSender<Event>,
    tasks: &mut JoinSet<()>,
) -> Result<Executors, ServeError> {
    let (data, catalog) = (settings.data.clone(), settings.catalog.clone());
    let processes = Arc::new(ProcessExecutor::new(settings, sender.clone()));
    let failed = |source| ServeError::Data { path: data.root().to_owned(), source };
    let (tidying, leftovers) = (Arc::clone(&processes), processes.leftovers().map_err(failed)?);
    tokio::spawn(async move {
        if let Err(error) = tidying.tidy(leftovers).await {
            tracing::warn!(%error, "cannot remove the temporary files of attempts");
        }
    });
    let jobs = match jobs {
        Some(settings) => {
            let jobs =
                JobExecutor::connect(settings, data.clone(), catalog, sender.clone()).await?;
            tasks.spawn(jobs.watch());
            Some(jobs)
        }
        None => None,
    };
    Ok(Executors::new(data, processes, jobs))
}
