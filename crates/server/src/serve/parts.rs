//! Makes the parts of the server, and puts them together.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use butler_base::cancel::Stop;
use butler_base::platform::raise_open_files;
use butler_cluster::{Cluster, KnownResources};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};

use super::ailing::Ailing;
use super::connection::LimitedListener;
use super::connections::{Patience, serve_connections};
use super::copies::Copies;
use super::desired::Desired;
use super::leadership::{Leadership, lead};
use super::limits::{Limits, Places, UNKNOWN_LIMIT};
use super::listener::listen_to_attempts;
use super::options::{Options, ServeError};
use super::poller::{PollSettings, Poller};
use super::read_includes::recall;
use super::retention::remove_old;
use super::scheduler::{Capacity, Scheduler, Shared};
use super::starting::Essentials;
use super::view::Views;
use crate::attempts::{
    AttemptSettings, Executors, JobExecutor, JobSettings, LogWatch, PlanFiles, ProcessExecutor,
    StoreRegistry,
};
use crate::data::DataDirectory;
use crate::event::Event;
use crate::metrics::AttemptMetrics;
use crate::model::THIS_MACHINE;
use crate::plans::PlanKeys;
use crate::store::{AnyStore, Deciders as _, Store};

/// The parts of a server. Its scheduler works beside them.
pub(super) struct Parts {
    pub(super) store: Arc<AnyStore>,
    pub(super) data: DataDirectory,
    pub(super) desired: Arc<Desired>,
    pub(super) views: Arc<Views>,
    pub(super) sender: mpsc::UnboundedSender<Event>,
    pub(super) polls: Arc<PollSettings>,
    pub(super) attempts: Arc<AttemptMetrics>,
    pub(super) log_watch: Arc<LogWatch>,
    pub(super) copies: Copies<AnyStore>,
    /// Where attempts that are Jobs report.
    pub(super) reports: Option<Router>,
    /// The name of this server among those that share the store.
    pub(super) name: String,
    pub(super) leadership: watch::Receiver<Leadership>,
    /// How many files and connections this process can have open.
    pub(super) descriptors: u64,
    /// Take the reports of attempts, and renew the lease of the server that decides, until the parts are dropped.
    pub(super) tasks: JoinSet<()>,
}

impl Parts {
    pub(super) fn poller(&self, repository: &str) -> Poller<AnyStore> {
        Poller::new(
            repository,
            Arc::clone(&self.store),
            Arc::clone(&self.polls),
            Arc::clone(&self.desired),
            self.sender.clone(),
        )
    }

    /// Lets another server decide, if others share the store.
    pub(super) async fn resign(&mut self) {
        // The lease is not renewed any more.
        self.tasks.shutdown().await;
        if self.store.is_shared()
            && let Err(error) = self.store.resign(&self.name).await
        {
            tracing::warn!(%error, "another server decides only after some seconds");
        }
    }

    /// Removes what is no longer kept. Never ends.
    pub(super) fn remove_old(&self) -> impl Future<Output = ()> + Send + use<> {
        let store = Arc::clone(&self.store);
        remove_old(store, self.data.clone(), self.copies.bucket.clone(), Arc::clone(&self.desired))
    }

    /// Polls each repository of the configuration, and of each later one.
    pub(super) async fn poll_all(&self, stop: &Stop) {
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

/// The parts, the scheduler, and what happens.
pub(super) type Prepared = (Parts, Scheduler<AnyStore, Executors>, mpsc::UnboundedReceiver<Event>);

/// The parts on this machine: the data directory, and the keys of saved plans. The start waits for none of them.
pub(super) struct Ground {
    pub(super) data: DataDirectory,
    keys: PlanKeys,
}

impl Ground {
    /// Creates what does not exist.
    ///
    /// # Errors
    /// If something cannot be used.
    pub(super) fn of(options: &Options) -> Result<Self, ServeError> {
        let failed = |source| ServeError::Data { path: options.data.clone(), source };
        let data = DataDirectory::create(&options.data).map_err(failed)?;
        let keys = match &options.key_file {
            Some(path) => PlanKeys::at(path)?,
            None => PlanKeys::at_or_new(&data.plan_key())?,
        };
        Ok(Self { data, keys })
    }
}

/// Listens for attempts, and makes everything else.
/// The desired state is that of `options` and of these custom resources.
pub(super) async fn prepare(
    options: Options,
    ground: Ground,
    essentials: Essentials,
    resources: KnownResources,
) -> Result<Prepared, ServeError> {
    let descriptors = raise_open_files().unwrap_or(UNKNOWN_LIMIT);
    let failed = |source| ServeError::Data { path: options.data.clone(), source };
    let Ground { data, keys } = ground;
    let bundle = options.ca_bundle.as_deref();
    let store = Arc::new(essentials.store);
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
    desired.followed.replace(options.followers);
    recall(&desired, &data, resources);
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
    let log_watch = registry.log_watch();
    let registry = Arc::new(registry);
    let reports = options.jobs.is_some().then(|| butler_registry::routes(Arc::clone(&registry)));
    let router = butler_registry::router(registry);
    let mut tasks = JoinSet::new();
    let places = Places::new(Limits::of_attempts(descriptors), &[]);
    let listener = LimitedListener::new(listener, places);
    tasks.spawn(
        async move { match serve_connections(listener, router, Patience::default()).await {} },
    );

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
    let jobs = options.jobs.zip(essentials.jobs);
    let executor = executors(attempts, jobs, &sender, &desired.ailing, &mut tasks)?;
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
        log_watch,
        copies,
        reports,
        name: place,
        leadership,
        descriptors,
        tasks,
    };
    Ok((parts, scheduler, events))
}

/// What starts attempts: processes, or Jobs if `jobs` is given. Temporary files of earlier attempts are removed meanwhile.
fn executors(
    settings: AttemptSettings,
    jobs: Option<(JobSettings, Cluster)>,
    sender: &mpsc::UnboundedSender<Event>,
    ailing: &Arc<Ailing>,
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
    let jobs = jobs.map(|(settings, cluster)| {
        let ailing = Arc::clone(ailing);
        JobExecutor::new(settings, cluster, data.clone(), catalog, sender.clone(), ailing)
    });
    if let Some(jobs) = &jobs {
        tasks.spawn(jobs.watch());
    }
    Ok(Executors::new(data, processes, jobs))
}
