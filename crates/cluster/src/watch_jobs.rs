//! Tells which Jobs of a server have changed, across broken connections and expired versions.
//!
//! It only says when to ask. Changes that are missed while no watch is open are found by asking again after a while.

use std::collections::BTreeMap;
use std::fmt::Debug;

use futures_util::{Stream, StreamExt, stream};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;

use crate::client::Cluster;
use crate::names::RUN_ID;
use crate::outcome::end_condition;
use crate::pod::{Stage, stage, wait_reason};

/// How many tries in a row fail before a user is told.
const WARN_AFTER: u32 = 3;

/// A Job whose end or wait may have changed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ChangedJob {
    /// The id of its run.
    pub run: String,
    /// Its annotations, which [`JobOptions::annotations`](crate::JobOptions::annotations) are among.
    pub annotations: BTreeMap<String, String>,
}

/// The Jobs with this label that end, are deleted, or have a pod that ends or waits for something. Never ends.
pub fn watch_jobs(cluster: &Cluster, label: &str) -> impl Stream<Item = ChangedJob> + Send + use<> {
    let jobs = watch(cluster, label, |job: &Job| end_condition(job).is_some());
    let pods =
        watch(cluster, label, |pod: &Pod| stage(pod) == Stage::Over || wait_reason(pod).is_some());
    stream::select(jobs, pods)
}

/// The objects of one kind that `concerns` selects, or that were deleted.
fn watch<K>(
    cluster: &Cluster,
    label: &str,
    concerns: fn(&K) -> bool,
) -> impl Stream<Item = ChangedJob> + Send + use<K>
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + 'static,
{
    let api: Api<K> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let events = watcher(api, watcher::Config::default().labels(label)).default_backoff();
    let mut failures = 0_u32;
    events
        .filter_map(move |event| {
            failures = if event.is_ok() { 0 } else { failures.saturating_add(1) };
            let object = match event {
                Ok(Event::Apply(object) | Event::InitApply(object)) => {
                    Some(object).filter(concerns)
                }
                Ok(Event::Delete(object)) => Some(object),
                Ok(Event::Init | Event::InitDone) => None,
                Err(error) => {
                    // A watch ends at times. One that does not begin again needs a person.
                    if failures == WARN_AFTER {
                        let kind = K::plural(&());
                        tracing::warn!(
                            %error,
                            "cannot watch {kind}: the server notices the end of an attempt up to a minute late"
                        );
                    }
                    None
                }
            };
            let changed = object.and_then(|object| {
                let annotations = object.annotations().clone();
                let run = annotations.get(RUN_ID)?.clone();
                Some(ChangedJob { run, annotations })
            });
            std::future::ready(changed)
        })
        .boxed()
}
