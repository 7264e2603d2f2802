//! Tells which Jobs of a server have changed, across broken connections and expired versions.
//!
//! It only says when to ask. Changes that are missed while no watch is open are found by asking again after a while.

use std::collections::BTreeMap;
use std::fmt::Debug;

use futures_util::{StreamExt, pin_mut};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::Sender;

use crate::client::Cluster;
use crate::names::RUN_ID;
use crate::outcome::end_condition;
use crate::pod::{Stage, stage, wait_reason};
use crate::unreadable::{WARN_AFTER, WatchPauses};

/// A Job whose end or wait may have changed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ChangedJob {
    /// The id of its run.
    pub run: String,
    /// Its annotations, which [`JobOptions::annotations`](crate::JobOptions::annotations) are among.
    pub annotations: BTreeMap<String, String>,
}

/// A change that the watches of Jobs report: of a Job, or of the watches.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum JobNews {
    /// A Job may have changed.
    Changed(ChangedJob),
    /// Changes are not seen, because these objects cannot be watched.
    Unwatched {
        /// The objects: `jobs` or `pods`.
        objects: String,
        /// Why.
        why: String,
    },
    /// These objects can be watched again.
    Watched {
        /// The objects: `jobs` or `pods`.
        objects: String,
    },
}

/// Tells of the Jobs with this label that end, are deleted, or have a pod that ends or waits for something. Ends when
/// the receiver is gone.
pub async fn watch_jobs(cluster: &Cluster, label: &str, news: &Sender<JobNews>) {
    let jobs = watch(cluster, label, news, |job: &Job| end_condition(job).is_some());
    let pods = watch(cluster, label, news, |pod: &Pod| {
        stage(pod) == Stage::Over || wait_reason(pod).is_some()
    });
    tokio::join!(jobs, pods);
}

/// Tells of the objects of one kind that `concerns` selects, or that were deleted.
async fn watch<K>(cluster: &Cluster, label: &str, news: &Sender<JobNews>, concerns: fn(&K) -> bool)
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + 'static,
{
    let objects = K::plural(&()).into_owned();
    let api: Api<K> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let mut pauses = WatchPauses::default();
    loop {
        // After an outage that was told, the next watch begins with a list, which says that it works again.
        let events = watcher(api.clone(), watcher::Config::default().labels(label));
        pin_mut!(events);
        while let Some(event) = events.next().await {
            let told = match event {
                // A list is tried after that, and can fail.
                Ok(Event::Init) => None,
                Ok(event) => {
                    let was_told = pauses.failures() >= WARN_AFTER;
                    pauses.reset();
                    let watched = JobNews::Watched { objects: objects.clone() };
                    if was_told && news.send(watched).await.is_err() {
                        return;
                    }
                    changed(event, concerns).map(JobNews::Changed)
                }
                Err(error) => {
                    let error = cluster.unreadable_watch(&error);
                    let pause = pauses.next(&error);
                    // A watch ends at times. One that does not begin again needs a person.
                    let unwatched = JobNews::Unwatched { objects: objects.clone(), why: error.why };
                    if pauses.failures() == WARN_AFTER && news.send(unwatched).await.is_err() {
                        return;
                    }
                    tokio::time::sleep(pause).await;
                    if pauses.failures() >= WARN_AFTER {
                        break;
                    }
                    None
                }
            };
            if let Some(told) = told
                && news.send(told).await.is_err()
            {
                return;
            }
        }
    }
}

/// The Job that an event is about, if `concerns` selects its object.
fn changed<K: Resource>(event: Event<K>, concerns: fn(&K) -> bool) -> Option<ChangedJob> {
    let object = match event {
        Event::Apply(object) | Event::InitApply(object) => Some(object).filter(concerns),
        Event::Delete(object) => Some(object),
        Event::Init | Event::InitDone => None,
    }?;
    let annotations = object.annotations().clone();
    let run = annotations.get(RUN_ID)?.clone();
    Some(ChangedJob { run, annotations })
}
