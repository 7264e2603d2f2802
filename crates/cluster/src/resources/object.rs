//! The objects of the custom resources, as watches report them.
//!
//! Each watch begins with a list, and begins again with one if the cluster does not keep its version any
//! more (410) or the connection breaks, so that no change is missed for longer than that takes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::{StreamExt as _, future, pin_mut};
use kube::api::{Api, DynamicObject, ListParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::{Map, Value};
use tokio::sync::Notify;

use super::kinds::ResourceKind;
use super::status::ResourceStatus;
use crate::native::NativeObjects;

/// How many tries in a row fail before a user is told.
const WARN_AFTER: u32 = 3;

/// Which object it is.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ResourceKey {
    /// The namespace.
    pub namespace: String,
    /// The kind.
    pub kind: ResourceKind,
    /// The name in the namespace.
    pub name: String,
}

impl ResourceKey {
    /// The name of the repository, layer or follower that the object defines: `NAMESPACE.NAME`.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.namespace, self.name)
    }
}

impl fmt::Display for ResourceKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// An object, as the cluster reported it last.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomObject {
    /// Which one it is.
    pub key: ResourceKey,
    /// What tells it from an earlier object with the same name.
    pub uid: String,
    /// Incremented by each change of what it wants.
    pub generation: i64,
    /// The version, which changes of it must name.
    pub resource_version: String,
    /// What it wants.
    pub spec: Map<String, Value>,
    /// What the server has written.
    pub status: Option<ResourceStatus>,
}

impl CustomObject {
    fn new(kind: ResourceKind, object: DynamicObject) -> Option<Self> {
        let DynamicObject { metadata, mut data, .. } = object;
        let mut take = |field: &str| data.as_object_mut().and_then(|data| data.remove(field));
        // One that another version has written is written anew.
        let status = take("status").and_then(|status| serde_json::from_value(status).ok());
        let Some(Value::Object(spec)) = take("spec") else { return None };
        Some(Self {
            key: ResourceKey { namespace: metadata.namespace?, kind, name: metadata.name? },
            uid: metadata.uid.unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            spec,
            status,
        })
    }
}

/// The objects of a kind cannot be listed.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot list {kind} in the namespace `{namespace}`: {why}; the cluster must have the kinds of this server, and must \
     allow it to list and watch them (`butler-runner generate server --resources {namespace}` prints both)"
)]
pub struct ListError {
    kind: String,
    namespace: String,
    why: String,
}

/// All objects, by their keys.
type Objects = BTreeMap<ResourceKey, Arc<CustomObject>>;

/// The objects in some namespaces.
#[derive(Debug)]
pub struct WatchedResources {
    namespaces: Vec<String>,
    objects: Mutex<Objects>,
    changed: Notify,
}

impl WatchedResources {
    /// The objects that the cluster has now.
    ///
    /// # Errors
    /// If the cluster does not answer, does not have the kinds, or does not allow to list them.
    pub async fn list(cluster: &NativeObjects, namespaces: Vec<String>) -> Result<Self, ListError> {
        let mut objects = Objects::new();
        for (namespace, kind) in places(&namespaces) {
            let api = api(cluster, kind, namespace);
            let parameters = ListParams::default();
            let list = cluster.answer(api.list(&parameters)).await;
            let list = list.map_err(|why| ListError {
                kind: kind.plural(),
                namespace: namespace.to_owned(),
                why,
            })?;
            let found = list.items.into_iter().filter_map(|object| CustomObject::new(kind, object));
            objects.extend(found.map(|object| (object.key.clone(), Arc::new(object))));
        }
        Ok(Self { namespaces, objects: Mutex::new(objects), changed: Notify::new() })
    }

    /// The objects, in the order of their keys.
    #[must_use]
    pub fn objects(&self) -> Vec<Arc<CustomObject>> {
        self.lock().values().cloned().collect()
    }

    /// Waits until objects have changed since the last call.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Keeps the objects up to date. Never ends.
    pub async fn watch(&self, cluster: &NativeObjects) {
        let places = places(&self.namespaces);
        future::join_all(places.map(|(namespace, kind)| self.watch_one(cluster, namespace, kind)))
            .await;
    }

    async fn watch_one(&self, cluster: &NativeObjects, namespace: &str, kind: ResourceKind) {
        let api = api(cluster, kind, namespace);
        let events = watcher(api, watcher::Config::default()).default_backoff();
        pin_mut!(events);
        let mut failures = 0_u32;
        let mut listed: Option<Objects> = None;
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    // A list is tried after that, and can fail.
                    if !matches!(event, Event::Init) {
                        failures = 0;
                    }
                    self.take(namespace, kind, event, &mut listed);
                }
                Err(error) => {
                    failures = failures.saturating_add(1);
                    // A watch ends at times. One that does not begin again needs a person.
                    if failures == WARN_AFTER {
                        tracing::warn!(
                            %error,
                            "cannot watch {} in the namespace `{namespace}`: changes are not seen until that is \
                             possible again", kind.plural()
                        );
                    }
                }
            }
        }
    }

    /// Takes an event of a watch. `listed` are the objects of a list that is not complete.
    fn take(
        &self,
        namespace: &str,
        kind: ResourceKind,
        event: Event<DynamicObject>,
        listed: &mut Option<Objects>,
    ) {
        let object = |object| CustomObject::new(kind, object).map(Arc::new);
        let mut objects = self.lock();
        match event {
            Event::Init => {
                *listed = Some(Objects::new());
                return;
            }
            Event::InitApply(found) => {
                if let (Some(found), Some(listed)) = (object(found), listed) {
                    listed.insert(found.key.clone(), found);
                }
                return;
            }
            Event::InitDone => {
                objects.retain(|key, _| key.namespace != namespace || key.kind != kind);
                objects.extend(listed.take().unwrap_or_default());
            }
            Event::Apply(found) => {
                let Some(found) = object(found) else { return };
                objects.insert(found.key.clone(), found);
            }
            Event::Delete(DynamicObject { metadata, .. }) => {
                let (Some(namespace), Some(name)) = (metadata.namespace, metadata.name) else {
                    return;
                };
                objects.remove(&ResourceKey { namespace, kind, name });
            }
        }
        drop(objects);
        self.changed.notify_one();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Objects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All that is watched.
fn places(namespaces: &[String]) -> impl Iterator<Item = (&str, ResourceKind)> {
    let kinds = |namespace| ResourceKind::ALL.map(|kind| (namespace, kind));
    namespaces.iter().map(String::as_str).flat_map(kinds)
}

pub(super) fn api(
    cluster: &NativeObjects,
    kind: ResourceKind,
    namespace: &str,
) -> Api<DynamicObject> {
    let (client, namespace) = cluster.place(Some(namespace));
    Api::namespaced_with(client, namespace, &kind.api_resource())
}
