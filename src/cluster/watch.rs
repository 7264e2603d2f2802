//! Keeps an eye on objects of the cluster, over broken connections and forgotten histories.
//!
//! A list says what there is, a watch from there on what changes. The server ends a watch after a
//! while, forgets old versions (410), and connections die without a word: all of that begins again
//! with a list, so that nothing is missed but what came and went in between.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use backon::BackoffBuilder;
use futures_util::{StreamExt, TryStreamExt};
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::watch::Sender;
use tokio::time::{Instant, timeout};

use super::JobName;
use super::client::{Cluster, patience};
use super::error::{ClusterError, Request};

/// How long the server keeps one watch up; bounds how long a dead connection goes unnoticed.
const WATCH_SECONDS: u32 = 50;
/// When a watch is given up that the server should have ended.
const WATCH_LIMIT: Duration = Duration::from_mins(1);
/// Between two watches: a server that ends each at once is not asked all the time.
const PAUSE: Duration = Duration::from_millis(250);
/// How long a cluster may be away before nobody waits for it any more. The run itself goes on.
const AWAY_LIMIT: Duration = Duration::from_mins(10);

/// What is seen of one kind of object: at most one counts, the newest.
#[derive(Clone, Debug, Default)]
pub(super) enum Sight<K> {
    /// Nobody has looked yet.
    #[default]
    Unknown,
    /// There was never one.
    Nothing,
    /// It is there.
    There(Box<K>),
    /// It was there; this is what was seen of it last.
    Gone(Box<K>),
}

impl<K> Sight<K> {
    /// The object, there or as it was last seen.
    pub(super) fn last(&self) -> Option<&K> {
        match self {
            Self::Unknown | Self::Nothing => None,
            Self::There(object) | Self::Gone(object) => Some(object),
        }
    }
}

/// Which objects are looked at.
pub(super) struct Selection {
    pub(super) labels: Option<String>,
    pub(super) fields: Option<String>,
    /// As permissions name them.
    pub(super) resource: &'static str,
}

/// Publishes what there is of `selection` until that cannot be known any more.
pub(super) async fn observe<K>(
    cluster: &Cluster,
    api: &Api<K>,
    selection: &Selection,
    name: &JobName,
    sight: &Sender<Sight<K>>,
) -> ClusterError
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let mut since: Option<Instant> = None;
    let mut pauses = patience().build();
    loop {
        let round = round(cluster, api, selection, name, sight);
        let Err(error) = round.await else {
            (since, pauses) = (None, patience().build());
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let away = since.get_or_insert_with(Instant::now).elapsed();
        if !matches!(error, ClusterError::Silent { .. } | ClusterError::Refused { .. })
            || away > AWAY_LIMIT
        {
            return error;
        }
        tracing::debug!(%error, "the cluster is looked at again");
        tokio::time::sleep(pauses.next().unwrap_or(Duration::from_secs(8))).await;
    }
}

/// One list and what changes after it, until that has to begin again.
async fn round<K>(
    cluster: &Cluster,
    api: &Api<K>,
    selection: &Selection,
    name: &JobName,
    sight: &Sender<Sight<K>>,
) -> Result<(), ClusterError>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let parameters = ListParams {
        label_selector: selection.labels.clone(),
        field_selector: selection.fields.clone(),
        ..ListParams::default()
    };
    let request = Request { verb: "list", resource: selection.resource };
    let list = cluster.ask(request, name, || api.list(&parameters)).await?;
    let mut version = list.metadata.resource_version.unwrap_or_default();
    let mut known: BTreeMap<String, K> =
        list.items.into_iter().map(|object| (object.name_any(), object)).collect();
    publish(&known, sight);
    let parameters = WatchParams {
        label_selector: selection.labels.clone(),
        field_selector: selection.fields.clone(),
        timeout: Some(WATCH_SECONDS),
        ..WatchParams::default()
    };
    loop {
        let request = Request { verb: "watch", resource: selection.resource };
        let stream = cluster
            .ask(request, name, || async { Ok(api.watch(&parameters, &version).await?.boxed()) });
        let mut stream = stream.await?;
        let end = Instant::now() + WATCH_LIMIT;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            // A stream that breaks, or does not end when it should: the next watch goes on from here.
            let Ok(Ok(Some(event))) = timeout(left, stream.try_next()).await else { break };
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    version = object.resource_version().unwrap_or(version);
                    known.insert(object.name_any(), object);
                }
                WatchEvent::Deleted(object) => {
                    version = object.resource_version().unwrap_or(version);
                    known.remove(&object.name_any());
                    sight.send_if_modified(|sight| {
                        // Its last state comes with its end.
                        *sight = Sight::There(Box::new(object.clone()));
                        false
                    });
                }
                WatchEvent::Bookmark(bookmark) => {
                    version = bookmark.metadata.resource_version;
                    continue;
                }
                // Most often 410: what is asked for is forgotten.
                WatchEvent::Error(status) => {
                    tracing::debug!(%status, "the watch begins again");
                    return Ok(());
                }
            }
            publish(&known, sight);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Says what there is now.
fn publish<K: Resource + Clone>(known: &BTreeMap<String, K>, sight: &Sender<Sight<K>>) {
    let newest = known.values().max_by_key(|object| object.creation_timestamp().map(|it| it.0));
    sight.send_modify(|sight| {
        *sight = match (newest, std::mem::take(sight)) {
            (Some(object), _) => Sight::There(Box::new(object.clone())),
            (None, Sight::There(last) | Sight::Gone(last)) => Sight::Gone(last),
            (None, Sight::Unknown | Sight::Nothing) => Sight::Nothing,
        };
    });
}
