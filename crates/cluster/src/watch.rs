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

use crate::JobName;
use crate::client::Cluster;
use crate::error::{ClusterError, Request};
use crate::outage::OutageRetries;

/// How long the server keeps a watch open, in seconds. It limits how long a broken connection stays undetected.
const WATCH_SECONDS: u32 = 50;
/// The timeout of a watch that the server should have ended.
const WATCH_LIMIT: Duration = Duration::from_mins(1);
/// The pause between two watches, in case the server ends each of them at once.
const PAUSE: Duration = Duration::from_millis(250);
/// The status for a version that the server does not keep any more.
const GONE: u16 = 410;

/// The observed state of one kind of object. If there are several objects, the newest is used.
#[derive(Clone, Debug, Default)]
pub(crate) enum ObservedObject<K> {
    /// No answer has arrived yet.
    #[default]
    Unknown,
    /// The cluster has no such object, and never had one.
    Nothing,
    /// The object exists.
    There(Box<K>),
    /// The object was deleted; this is its last state.
    Gone(Box<K>),
}

impl<K> ObservedObject<K> {
    /// The object's current or last state.
    pub(crate) fn last(&self) -> Option<&K> {
        match self {
            Self::Unknown | Self::Nothing => None,
            Self::There(object) | Self::Gone(object) => Some(object),
        }
    }
}

/// The objects that are watched.
pub(crate) struct Selection {
    pub(crate) labels: Option<String>,
    pub(crate) fields: Option<String>,
    /// The uid of the object, if several can have its name.
    pub(crate) uid: Option<String>,
    /// The resource, as permissions name it.
    pub(crate) resource: &'static str,
}

impl Selection {
    fn matches<K: Resource>(&self, object: &K) -> bool {
        self.uid.is_none() || object.meta().uid == self.uid
    }
}

/// Publishes the state of the selected object until an error is permanent.
pub(crate) async fn observe<K>(
    cluster: &Cluster,
    api: &Api<K>,
    selection: &Selection,
    name: &JobName,
    sight: &Sender<ObservedObject<K>>,
) -> ClusterError
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let mut retries = OutageRetries::for_run();
    loop {
        if let Err(error) = list_and_watch(cluster, api, selection, name, sight, &mut retries).await
        {
            return error;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Lists the objects and watches their changes, until a new list is necessary.
async fn list_and_watch<K>(
    cluster: &Cluster,
    api: &Api<K>,
    selection: &Selection,
    name: &JobName,
    sight: &Sender<ObservedObject<K>>,
    retries: &mut OutageRetries,
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
    let list = cluster.send_with(retries, request, name, || api.list(&parameters)).await?;
    let mut version = list.metadata.resource_version.unwrap_or_default();
    let items = list.items.into_iter().filter(|object| selection.matches(object));
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
        let stream = cluster.send_with(retries, request, name, || async {
            match api.watch(&parameters, &version).await {
                Err(kube::Error::Api(status)) if status.code == GONE => Ok(None),
                answer => Ok(Some(answer?.boxed())),
            }
        });
        let Some(mut stream) = stream.await? else { return Ok(()) };
        retries.mark_accepted();
        let end = Instant::now() + WATCH_LIMIT;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let event = match timeout(left, stream.try_next()).await {
                Ok(Ok(Some(event))) => event,
                // The watch ended, or did not end in time. The next watch continues at `version`.
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
                    if !selection.matches(&object) =>
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
                        // The event contains the last state.
                        *sight = ObservedObject::There(Box::new(object.clone()));
                        false
                    });
                }
                WatchEvent::Bookmark(bookmark) => {
                    version = bookmark.metadata.resource_version;
                    continue;
                }
                // Usually 410: the server does not keep this version any more.
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

/// Publishes the newest of the known objects.
fn publish<K: Resource + Clone>(known: &BTreeMap<String, K>, sight: &Sender<ObservedObject<K>>) {
    let newest = known.values().max_by_key(|object| object.creation_timestamp().map(|it| it.0));
    sight.send_modify(|sight| {
        *sight = match (newest, std::mem::take(sight)) {
            (Some(object), _) => ObservedObject::There(Box::new(object.clone())),
            (None, ObservedObject::There(last) | ObservedObject::Gone(last)) => {
                ObservedObject::Gone(last)
            }
            (None, ObservedObject::Unknown | ObservedObject::Nothing) => ObservedObject::Nothing,
        };
    });
}
