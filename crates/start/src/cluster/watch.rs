//! Watches objects of the cluster, across broken connections and expired versions.
//!
//! A list returns the current objects, and a watch the changes since then. The server ends a watch after
//! a while, expires old versions (410), and connections break silently. In each case a new list follows, so
//! that only objects that came and went in between are missed. Objects are compared by their uid: another
//! object may have the same name by now.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::watch::Sender;
use tokio::time::{Instant, timeout};

use super::JobName;
use super::absence::Patience;
use super::client::Cluster;
use super::error::{ClusterError, Request};

/// How long the server keeps one watch up; bounds how long a dead connection goes unnoticed.
const WATCH_SECONDS: u32 = 50;
/// The timeout of a watch that the server should have ended.
const WATCH_LIMIT: Duration = Duration::from_mins(1);
/// Between two watches: a server that ends each at once is not asked all the time.
const PAUSE: Duration = Duration::from_millis(250);
/// Says that the version is forgotten from which on changes are asked for.
const GONE: u16 = 410;

/// What is seen of one kind of object: at most one counts, the newest.
#[derive(Clone, Debug, Default)]
pub(super) enum Sight<K> {
    /// No answer has arrived yet.
    #[default]
    Unknown,
    /// The cluster has no such object, and never had one.
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
    /// The one that is meant, of all that had its name.
    pub(super) uid: Option<String>,
    /// As permissions name them.
    pub(super) resource: &'static str,
}

impl Selection {
    fn takes<K: Resource>(&self, object: &K) -> bool {
        self.uid.is_none() || object.meta().uid == self.uid
    }
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
    let mut patience = Patience::for_a_run();
    loop {
        if let Err(error) = round(cluster, api, selection, name, sight, &mut patience).await {
            return error;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// One list and what changes after it, until that has to begin again.
async fn round<K>(
    cluster: &Cluster,
    api: &Api<K>,
    selection: &Selection,
    name: &JobName,
    sight: &Sender<Sight<K>>,
    patience: &mut Patience,
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
    let list = cluster.ask_for(patience, request, name, || api.list(&parameters)).await?;
    let mut version = list.metadata.resource_version.unwrap_or_default();
    let items = list.items.into_iter().filter(|object| selection.takes(object));
    let mut known: BTreeMap<String, K> = items.map(|object| (object.name_any(), object)).collect();
    publish(&known, sight);
    let parameters = WatchParams {
        label_selector: selection.labels.clone(),
        field_selector: selection.fields.clone(),
        timeout: Some(WATCH_SECONDS),
        ..WatchParams::default()
    };
    loop {
        let request = Request { verb: "watch", resource: selection.resource };
        let stream = cluster.ask_for(patience, request, name, || async {
            match api.watch(&parameters, &version).await {
                Err(kube::Error::Api(status)) if status.code == GONE => Ok(None),
                answer => Ok(Some(answer?.boxed())),
            }
        });
        let Some(mut stream) = stream.await? else { return Ok(()) };
        patience.mark_accepted();
        let end = Instant::now() + WATCH_LIMIT;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let event = match timeout(left, stream.try_next()).await {
                Ok(Ok(Some(event))) => event,
                // It ended, or did not when it should: the next watch goes on from here.
                Ok(Ok(None)) | Err(_) => break,
                Ok(Err(error)) => {
                    tracing::debug!(%error, "the watch broke and is restarted");
                    return Ok(());
                }
            };
            match event {
                WatchEvent::Added(object)
                | WatchEvent::Modified(object)
                | WatchEvent::Deleted(object)
                    if !selection.takes(&object) =>
                {
                    version = object.resource_version().unwrap_or(version);
                    continue;
                }
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
