//! Reads custom resources with the desired state, and writes their status.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use butler_cluster::{
    KnownResources, NativeObjects, ResourceKey, ResourceKind, SecretUnread, WatchedResources,
};
use futures_util::{StreamExt as _, stream};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::Instant;

use super::desired::Desired;
use super::leadership::Leadership;
use super::options::{Options, ServeError};
use super::resource_status::Known;
use super::view::Views;
use crate::followers::FollowerCluster;
use crate::resources::{status, status_of_held};
use crate::store::Followers;

/// How long further changes are waited for: `kubectl apply` of a directory makes many.
const SETTLES: Duration = Duration::from_millis(200);

/// The time between two writes of what has changed in the status.
const WRITES: Duration = Duration::from_secs(2);

/// How many statuses are written at the same time. A cluster needs some time for each of them.
const WRITERS: usize = 16;

/// The time between two looks at resources that are not used.
const AGAIN: Duration = Duration::from_mins(1);

/// The time until a status is written again that the cluster has refused.
const AFTER_REFUSAL: Duration = Duration::from_secs(10);

/// The time until a login is tried again that has failed.
const LOGIN_AGAIN: Duration = Duration::from_secs(10);

/// Why the last writes have failed, and when they are tried again.
type Refused = BTreeMap<ResourceKey, (String, Instant)>;

/// Custom resources of a cluster.
pub(super) struct CustomResources {
    access: Arc<FollowerCluster>,
    watched: WatchedResources,
}

impl CustomResources {
    /// The resources of `options`, if there are any. Their Secrets can be read from now on.
    ///
    /// # Errors
    /// If the configuration of the cluster cannot be used.
    pub(super) async fn connect(
        access: &Arc<FollowerCluster>,
        options: &mut Options,
    ) -> Result<Option<Self>, ServeError> {
        if options.resources.is_empty() {
            return Ok(None);
        }
        if let Err(error) = access.login().await
            && error.is_permanent
        {
            return Err(ServeError::Resources(error.why));
        }
        let watched = WatchedResources::new(options.resources.clone());
        let (reader, runtime) = (Arc::clone(access), Handle::current());
        options.secrets.read_cluster(Arc::new(move |namespace, name| {
            runtime.block_on(async {
                let cluster = reader.objects().await.map_err(SecretUnread::away)?;
                cluster.secret(namespace, name).await
            })
        }));
        Ok(Some(Self { access: Arc::clone(access), watched }))
    }

    /// Lists the resources, as far as that is possible now.
    pub(super) async fn list(&self) -> KnownResources {
        match self.access.login().await {
            Ok(cluster) => self.watched.list(&cluster).await,
            Err(error) => self.watched.cannot_log_in(&error.why),
        }
        self.watched.known()
    }

    /// The cluster, as soon as there is a login.
    async fn cluster(&self) -> Arc<NativeObjects> {
        loop {
            match self.access.login().await {
                Ok(cluster) => return cluster,
                Err(error) => self.watched.cannot_log_in(&error.why),
            }
            tokio::time::sleep(LOGIN_AGAIN).await;
        }
    }

    /// Takes each change, and writes what comes of it. Never ends.
    pub(super) async fn run<S: Followers>(
        &self,
        desired: &Desired,
        views: &Views,
        store: &S,
        mut leadership: watch::Receiver<Leadership>,
    ) {
        let take = async {
            loop {
                // What a resource that is not used needs can be there without a change of resources.
                let _ = tokio::time::timeout(AGAIN, self.watched.changed()).await;
                tokio::time::sleep(SETTLES).await;
                desired.take_resources(self.watched.known());
            }
        };
        let write = async {
            let cluster = self.cluster().await;
            let mut refused = Refused::new();
            // Servers that do not decide would write what they do not know.
            while leadership.wait_for(|leadership| leadership.decides()).await.is_ok() {
                self.write(&cluster, desired, views, store, &mut refused).await;
                tokio::time::sleep(WRITES).await;
            }
            std::future::pending::<()>().await;
        };
        let watch = async { self.watched.watch(&*self.cluster().await).await };
        tokio::join!(watch, take, write);
    }

    /// Writes each status that has changed. `refused` is why the last writes have failed.
    async fn write<S: Followers>(
        &self,
        cluster: &NativeObjects,
        desired: &Desired,
        views: &Views,
        store: &S,
        refused: &mut Refused,
    ) {
        let KnownResources { objects, held, .. } = self.watched.known();
        let has_followers = objects.iter().any(|it| it.key.kind == ResourceKind::Follower);
        let stored = if has_followers { store.followers().await } else { Ok(Vec::new()) };
        // The store says itself why it does not answer.
        let Ok(stored) = stored else { return };
        let records = stored.into_iter().map(|it| (it.record.follower.clone(), it.record));
        let known = Known::new(desired, views, records.collect());
        let taken = desired.taken_resources();
        let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let is_written = |key: &ResourceKey| objects.iter().chain(&held).any(|it| it.key == *key);
        refused.retain(|key, _| is_written(key));
        let of_objects = objects.iter().filter_map(|object| {
            let key = &object.key;
            // A newer generation is taken first.
            let taken = taken.get(key).filter(|taken| taken.is_of(object))?;
            let observed = taken.is_in_force.then(|| known.of(key));
            Some((object, status(object, taken.refusal.as_ref(), observed.as_ref(), &now)))
        });
        let of_held = held.iter().map(|object| (object, status_of_held(object, &now)));
        let mut due = Vec::new();
        for (object, status) in of_objects.chain(of_held) {
            let key = &object.key;
            let waits = refused.get(key).is_some_and(|(_, next)| *next > Instant::now());
            if !waits && object.status.as_ref() != Some(&status) {
                due.push((Arc::clone(object), status));
            }
        }
        let writes = stream::iter(due).map(|(object, status)| async move {
            (cluster.write_status(&object, &status).await, object)
        });
        let mut written = std::pin::pin!(writes.buffer_unordered(WRITERS));
        while let Some((result, object)) = written.next().await {
            let key = &object.key;
            match result {
                Ok(()) => {
                    refused.remove(key);
                }
                Err(why) => {
                    // An outage has one reason for all.
                    if refused.values().all(|(known, _)| *known != why) {
                        tracing::warn!("cannot write the status of {key}: {why}");
                    }
                    refused.insert(key.clone(), (why, Instant::now() + AFTER_REFUSAL));
                }
            }
        }
    }
}
