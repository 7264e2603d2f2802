//! Listens, decides and answers until the server is stopped.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use butler_base::cancel::Stop;
use butler_cluster::KnownResources;
use secrecy::SecretString;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::address_file::{AddressFile, reachable};
use super::config_files::ConfigFiles;
use super::connection::LimitedListener;
use super::desired::Desired;
use super::follower_ci::CiRuns;
use super::follower_objects::FollowerObjects;
use super::follower_tasks::FollowerTasks;
use super::leadership::Leadership;
use super::limits::{Limits, Places};
use super::listener::listen;
use super::options::{Options, ServeError};
use super::parts::{Ground, Parts, prepare};
use super::reload::{reload, reload_followers};
use super::resource_tasks::CustomResources;
use super::scheduler::Scheduler;
use super::starting::{Essentials, serve_http};
use super::stopping::end_attempts;
use super::tls::acceptor;
use crate::api::{self, Access, ApiState, DiskLook, Hosts, Rendered, SignIns};
use crate::controller::Executor;
use crate::followers::FollowerCluster;
use crate::metrics::{NotificationMetrics, count_attempts};
use crate::notifications::{Notifier, Setup};
use crate::pages;
use crate::store::{AnyStore, StoreError, StoreResult};
use crate::webhooks::{self, Receiver};

/// The time until a store that was away is asked again.
const AGAIN: Duration = Duration::from_secs(5);

/// Serves until `stop`. Attempts go on after that, or are ended ([`Options::stop_attempts`]). `ready`
/// is called with the URL, and with the one-time code if one was made, when the server answers, and can show every layer that the store knows.
///
/// # Errors
/// If the server cannot start.
pub async fn serve(
    mut options: Options,
    stop: &Stop,
    ready: impl FnOnce(&str, Option<&SecretString>),
) -> Result<(), ServeError> {
    let (listen_at, config_files) = (options.listen, options.config_files.clone());
    let (hosts, stop_attempts) = (options.hosts.clone(), options.stop_attempts);
    let trusted_proxies = hosts.trusted_proxies.clone();
    // The code signs in the administrator that exists without an access file, at the printed address. Forms
    // count only at the public URL, if there is one.
    let is_local = options.access_file.is_none() && hosts.public_url.is_none();
    let with_code = options.with_sign_in_code && is_local;
    let public_url = hosts.public_url.clone();
    let (isolation, metrics_open) = (options.isolation.clone(), options.metrics_open);
    let ca_bundle = options.ca_bundle.clone();
    let followers_file = options.followers_file.clone();
    let follower_token_file = options.follower_token_file.take();
    let cluster = Arc::new(FollowerCluster::new(options.cluster.clone()));
    let bundle = ca_bundle.clone();
    // Read before anything is written.
    let of_file = options.access_file.as_deref().map(Access::of_file);
    let of_file = of_file.transpose().map_err(ServeError::Access)?;
    let acceptor = options.tls.clone().map(acceptor).transpose()?;
    let resources = CustomResources::connect(&cluster, &mut options).await?;
    let ground = Ground::of(&options)?;
    let essentials = Essentials::wait(&options, &ground.data, acceptor.clone(), stop).await?;
    let Some(essentials) = essentials else { return Ok(()) };
    // After the wait: what was listed before it would be old.
    let known = match &resources {
        Some(resources) => resources.list().await,
        None => KnownResources::default(),
    };
    let prepared = prepare(options, ground, essentials, known).await?;
    let (mut parts, mut scheduler, mut events) = prepared;
    parts.desired.log_include_errors();
    let failed = |source| ServeError::Data { path: parts.data.root().to_owned(), source };
    let administrator = || Access::administrator(&parts.data.administrator_token());
    let access = of_file.map_or_else(administrator, Ok).map_err(failed)?;
    let access = access.with_follower_token(follower_token_file);
    let notifications = Arc::<NotificationMetrics>::default();
    let setup = Setup {
        secrets: parts.polls.secrets.clone(),
        ca_bundle,
        public_url: hosts.public_url.clone(),
        metrics: Arc::clone(&notifications),
    };
    let state = api_state(&parts, access, hosts, cluster, notifications, isolation, metrics_open);
    let listener = listen(listen_at, &parts.data.port("listen")).await?;
    let address = listener.local_addr().map_err(ServeError::Serve)?;
    let places = Places::new(Limits::of_people(parts.descriptors), &trusted_proxies);
    let listener = LimitedListener::new(listener, places);
    let code = with_code.then(|| state.sign_ins.new_code()).transpose().map_err(failed)?;
    let state = Arc::new(state);
    let following = follow(&parts, &state, followers_file, bundle, resources);
    let router = api::router(Arc::clone(&state), other_routes(&mut parts, &state));
    let scheme = if acceptor.is_some() { "https" } else { "http" };
    // A certificate is seldom for the address of a listener.
    let own = public_url.filter(|_| acceptor.is_some()).map(String::from);
    let own = own.unwrap_or_else(|| format!("{scheme}://{}/", reachable(address)));
    let _address = publish_address(parts.data.root(), &own);
    let mut served = Box::pin(serve_http(listener, acceptor, router));
    let (end_notifications, notifications) = start_notifications(&parts, setup);
    begin(&mut scheduler, &mut served, stop).await?;
    ready(&format!("{scheme}://{address}/"), code.as_ref());
    tokio::select! {
        never = &mut served => match never {},
        () = parts.copies.run() => {}
        () = scheduler.run(&mut events) => {}
        () = parts.poll_all(stop) => {}
        // After the first look at all layers, which it would delay.
        () = parts.remove_old() => {}
        () = count_attempts(&*parts.store, &parts.attempts) => {}
        () = reload(config_files, parts.data.root(), &parts.desired) => {}
        () = following => {}
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

/// Looks at everything once. If the store is away, it is tried again, and requests are answered meanwhile.
async fn begin<E: Executor>(
    scheduler: &mut Scheduler<AnyStore, E>,
    served: &mut (impl Future<Output = Infallible> + Unpin),
    stop: &Stop,
) -> StoreResult<()> {
    let looked = look(scheduler).await;
    if !looked.as_ref().is_err_and(StoreError::is_away) {
        return looked;
    }
    tracing::warn!("the store does not answer; the server waits for it, and tries again");
    tokio::select! {
        never = served => match never {},
        looked = look_again(scheduler) => looked,
        _ = stop.requested() => Ok(()),
    }
}

async fn look_again<E: Executor>(scheduler: &mut Scheduler<AnyStore, E>) -> StoreResult<()> {
    loop {
        tokio::time::sleep(AGAIN).await;
        match look(scheduler).await {
            Err(error) if error.is_away() => tracing::debug!("{error}"),
            looked => {
                tracing::info!("the store answers again");
                return looked;
            }
        }
    }
}

async fn look<E: Executor>(scheduler: &mut Scheduler<AnyStore, E>) -> StoreResult<()> {
    scheduler.find_attempts().await?;
    scheduler.look_at_all().await
}

/// The state that answers to requests need.
fn api_state(
    parts: &Parts,
    access: Access,
    hosts: Hosts,
    follower_cluster: Arc<FollowerCluster>,
    notifications: Arc<NotificationMetrics>,
    isolation: String,
    metrics_open: bool,
) -> ApiState<AnyStore> {
    ApiState {
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
        log_watch: Arc::clone(&parts.log_watch),
        followers: Arc::default(),
        follower_cluster,
        files: Arc::clone(&parts.copies.files),
        disk: DiskLook::default(),
        plans: Rendered::default(),
        not_copied: Arc::clone(&parts.copies.not_copied),
        deliveries: Arc::clone(&parts.polls.deliveries),
        notifications,
        metrics_open,
    }
}

/// The routes beside those of the API: webhooks, pages, and reports of attempts.
fn other_routes(parts: &mut Parts, state: &Arc<ApiState<AnyStore>>) -> Router {
    let receiver = Receiver {
        desired: Arc::clone(&parts.desired),
        secrets: parts.polls.secrets.clone(),
        deliveries: Arc::clone(&parts.polls.deliveries),
    };
    let others = webhooks::router(Arc::new(receiver)).merge(pages::router(Arc::clone(state)));
    match parts.reports.take() {
        Some(reports) => others.merge(reports),
        None => others,
    }
}

/// Tells commands with the same data directory the address of this server, as long as the value exists.
fn publish_address(root: &Path, address: &str) -> Option<AddressFile> {
    let written = AddressFile::write(root, address);
    // Commands can still be given `--server`.
    written
        .inspect_err(|error| {
            tracing::warn!(%error, "commands with the data directory do not find this server");
        })
        .ok()
}

/// Looks at followers, reads their registry again when it changes, and takes custom resources. Never ends.
fn follow(
    parts: &Parts,
    state: &Arc<ApiState<AnyStore>>,
    registry: Option<ConfigFiles>,
    ca_bundle: Option<PathBuf>,
    resources: Option<CustomResources>,
) -> impl Future<Output = ()> + use<> {
    let ci = CiRuns::new(parts.polls.secrets.clone(), ca_bundle);
    let tasks = FollowerTasks {
        store: Arc::clone(&parts.store),
        surroundings: Arc::new(FollowerObjects::new(Arc::clone(state), ci)),
        desired: Arc::clone(&parts.desired),
        leadership: parts.leadership.clone(),
        requests: Arc::clone(&state.followers),
    };
    let (desired, views) = (Arc::clone(&parts.desired), Arc::clone(&parts.views));
    let (store, leadership) = (Arc::clone(&parts.store), parts.leadership.clone());
    let resources = {
        let desired = Arc::clone(&desired);
        async move {
            let Some(resources) = resources else { return std::future::pending().await };
            resources.run(&desired, &views, &*store, leadership).await;
        }
    };
    async move {
        tokio::select! {
            () = tasks.run() => {}
            () = reload_followers(registry, &desired) => {}
            () = resources => {}
        }
    }
}

/// Starts to notify. The sender ends it.
fn start_notifications(parts: &Parts, setup: Setup) -> (oneshot::Sender<()>, JoinHandle<()>) {
    let (end, ended) = oneshot::channel();
    let (store, desired) = (Arc::clone(&parts.store), Arc::clone(&parts.desired));
    (end, tokio::spawn(notify(store, desired, setup, parts.leadership.clone(), ended)))
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
