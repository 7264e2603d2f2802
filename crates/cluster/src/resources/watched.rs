//! The objects of the custom resources, as lists and watches report them.
//!
//! Each watch begins with a list, and begins again with one if the cluster does not keep its version any
//! more (410) or the connection breaks, so that no change is missed for longer than that takes. What cannot be read
//! is tried again, and does not keep the rest from being known.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{StreamExt as _, future, pin_mut};
use kube::api::{Api, DynamicObject, ListParams};
use kube::runtime::watcher::{self, Event, watcher};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::kinds::ResourceKind;
use super::object::{CustomObject, ResourceKey};
use super::outages::{Outages, Place};
use crate::native::NativeObjects;
use crate::unreadable::{FIRST_PAUSE, Unreadable, WARN_AFTER, WatchPauses};

/// All objects, by their keys.
type Objects = BTreeMap<ResourceKey, Arc<CustomObject>>;

/// The state of the custom resources that is known at one moment.
#[derive(Clone, Debug, Default)]
pub struct KnownResources {
    /// The objects, in the order of their keys, except those of `unlisted` namespaces.
    pub objects: Vec<Arc<CustomObject>>,
    /// Those of `unlisted` namespaces, as far as they are known. They mean nothing without the others.
    pub held: Vec<Arc<CustomObject>>,
    /// The namespaces whose repositories and layers have not all been listed since the start: what they define is not
    /// known.
    pub unlisted: BTreeSet<String>,
    /// The places that cannot be read now, in sentences.
    pub problems: Vec<String>,
}

impl From<Vec<Arc<CustomObject>>> for KnownResources {
    fn from(objects: Vec<Arc<CustomObject>>) -> Self {
        Self { objects, ..Self::default() }
    }
}

/// The objects in some namespaces.
#[derive(Debug)]
pub struct WatchedResources {
    namespaces: Vec<String>,
    known: Mutex<Known>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Known {
    objects: Objects,
    /// The places that were listed at least once.
    listed: BTreeSet<Place>,
    outages: Outages,
}

impl Known {
    /// Whether it is not known what the namespace defines.
    fn is_unlisted(&self, namespace: &str) -> bool {
        let is_listed = |kind: &ResourceKind| self.listed.contains(&(namespace.to_owned(), *kind));
        // A follower defines nothing that others need.
        ![ResourceKind::Repository, ResourceKind::Layer].iter().all(is_listed)
    }
}

impl WatchedResources {
    /// The objects in these namespaces, none of which was listed yet.
    #[must_use]
    pub fn new(namespaces: Vec<String>) -> Self {
        Self { namespaces, known: Mutex::default(), changed: Notify::new() }
    }

    /// Lists all objects once, each place for itself.
    pub async fn list(&self, cluster: &NativeObjects) {
        let all = self.places().map(|(namespace, kind)| async move {
            let listed = api(cluster, kind, &namespace);
            let parameters = ListParams::default();
            let listed = cluster.readable(listed.list(&parameters)).await;
            let place = (namespace, kind);
            match listed {
                Ok(list) => {
                    let found = list.items.into_iter();
                    let found = found.filter_map(|object| CustomObject::new(kind, object));
                    let found = found.map(|object| (object.key.clone(), Arc::new(object)));
                    self.replace(&place, found.collect());
                    self.works(&place);
                }
                Err(error) => self.fails(&place, &error, FIRST_PAUSE),
            }
        });
        future::join_all(all).await;
    }

    /// Notes that nothing can be read, because the cluster cannot be used.
    pub fn cannot_log_in(&self, why: &str) {
        let error = Unreadable { code: None, why: why.to_owned(), retry_after: None };
        for place in self.places() {
            self.fails(&place, &error, Duration::ZERO);
        }
    }

    /// The state that is known now.
    #[must_use]
    pub fn known(&self) -> KnownResources {
        let known = self.lock();
        let namespaces = self.namespaces.iter().filter(|namespace| known.is_unlisted(namespace));
        let unlisted: BTreeSet<String> = namespaces.cloned().collect();
        let (held, objects) = known
            .objects
            .values()
            .cloned()
            .partition(|object| unlisted.contains(&object.key.namespace));
        let problems = known.outages.sentences().into_iter().map(|(namespace, sentence)| {
            let effect = if unlisted.contains(namespace) {
                "nothing is started for its layers until they are listed"
            } else {
                "changes are not seen until then"
            };
            format!("{sentence}; it is tried again, and {effect}")
        });
        KnownResources { objects, held, problems: problems.collect(), unlisted }
    }

    /// Waits until something else is known than at the last call.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Keeps the objects up to date. Never ends.
    pub async fn watch(&self, cluster: &NativeObjects) {
        future::join_all(self.places().map(|place| self.watch_one(cluster, place))).await;
    }

    async fn watch_one(&self, cluster: &NativeObjects, place: Place) {
        let again = self.lock().outages.again(&place);
        if let Some(again) = again {
            sleep_until(again).await;
        }
        let mut pauses = WatchPauses::default();
        loop {
            self.watch_until_told(cluster, &place, &mut pauses).await;
        }
    }

    /// Watches until people are told that it does not work. The next watch begins with a list, which says that it works
    /// again: a watch that goes on says nothing until something changes.
    async fn watch_until_told(
        &self,
        cluster: &NativeObjects,
        place: &Place,
        pauses: &mut WatchPauses,
    ) {
        let events = watcher(api(cluster, place.1, &place.0), watcher::Config::default());
        pin_mut!(events);
        let mut listed: Option<Objects> = None;
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    // A list is tried after that, and can fail.
                    if !matches!(event, Event::Init) {
                        pauses.reset();
                        self.works(place);
                    }
                    self.take(place, event, &mut listed);
                }
                Err(error) => {
                    let error = cluster.cluster().unreadable_watch(&error);
                    let pause = pauses.next(&error);
                    let is_listed = self.lock().listed.contains(place);
                    let is_told = !is_listed || pauses.failures() >= WARN_AFTER;
                    if is_told {
                        self.fails(place, &error, pause);
                    }
                    tokio::time::sleep(pause).await;
                    if is_told {
                        return;
                    }
                }
            }
        }
    }

    /// Notes that a place cannot be read, and is tried again after this pause.
    fn fails(&self, place: &Place, error: &Unreadable, pause: Duration) {
        let pause = pause.max(error.retry_after.unwrap_or_default());
        let told = self.lock().outages.fails(place, error, Instant::now() + pause);
        if let Some(told) = told {
            tracing::warn!("{told}");
        }
        self.changed.notify_one();
    }

    /// Notes that a place can be read.
    fn works(&self, place: &Place) {
        let told = self.lock().outages.works(place);
        if let Some(told) = told {
            tracing::info!("{told}");
            self.changed.notify_one();
        }
    }

    /// Takes an event of a watch. `listed` are the objects of a list that is not complete.
    fn take(&self, place: &Place, event: Event<DynamicObject>, listed: &mut Option<Objects>) {
        let kind = place.1;
        let object = |object| CustomObject::new(kind, object).map(Arc::new);
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
            Event::InitDone => self.replace(place, listed.take().unwrap_or_default()),
            Event::Apply(found) => {
                let Some(found) = object(found) else { return };
                self.lock().objects.insert(found.key.clone(), found);
            }
            Event::Delete(DynamicObject { metadata, .. }) => {
                let (Some(namespace), Some(name)) = (metadata.namespace, metadata.name) else {
                    return;
                };
                self.lock().objects.remove(&ResourceKey { namespace, kind, name });
            }
        }
        self.changed.notify_one();
    }

    /// Replaces the objects of a place by those of a list.
    fn replace(&self, place: &Place, listed: Objects) {
        let mut known = self.lock();
        known.objects.retain(|key, _| (&key.namespace, key.kind) != (&place.0, place.1));
        known.objects.extend(listed);
        known.listed.insert(place.clone());
    }

    /// All that is watched.
    fn places(&self) -> impl Iterator<Item = Place> {
        let kinds = |namespace: &String| ResourceKind::ALL.map(|kind| (namespace.clone(), kind));
        self.namespaces.iter().flat_map(kinds)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn api(
    cluster: &NativeObjects,
    kind: ResourceKind,
    namespace: &str,
) -> Api<DynamicObject> {
    let (client, namespace) = cluster.place(Some(namespace));
    Api::namespaced_with(client, namespace, &kind.api_resource())
}
