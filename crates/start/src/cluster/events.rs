//! The cluster's events about objects that do not start: quotas, volumes, pull errors.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams};

use super::client::Cluster;
use super::pod::sentence;

/// What the pod's own status says as well, and sooner: telling both would tell one wait twice.
const IN_STATUS: [&str; 5] =
    ["BackOff", "ErrImageNeverPull", "Failed", "FailedScheduling", "InspectFailed"];

/// Events are only a help, so the wait for them is short.
const LIMIT: Duration = Duration::from_secs(5);

/// Warnings about the objects of a run, each told once.
#[derive(Default)]
pub(super) struct Warnings {
    told: BTreeSet<String>,
    forbidden: bool,
}

impl Warnings {
    /// What is new about the object with this name. Who may not read events hears nothing: they
    /// only say sooner what the end says as well.
    pub(super) async fn about(&mut self, cluster: &Cluster, name: &str) -> Vec<String> {
        if self.forbidden {
            return Vec::new();
        }
        let api: Api<Event> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
        let fields = format!("involvedObject.name={name},type=Warning");
        let parameters = ListParams::default().fields(&fields);
        let Ok(list) = tokio::time::timeout(LIMIT, api.list(&parameters)).await else {
            return Vec::new();
        };
        let list = match list {
            Ok(list) => list,
            Err(error) => {
                self.forbidden = matches!(&error, kube::Error::Api(status) if status.code == 403);
                tracing::debug!(%error, "events cannot be read");
                return Vec::new();
            }
        };
        let sentences = list.items.into_iter().filter_map(|event| {
            let reason = event.reason.unwrap_or_default();
            let is_new = !IN_STATUS.contains(&&*reason);
            is_new.then(|| sentence(&reason, event.message.as_deref()))
        });
        sentences.filter(|sentence| self.told.insert(sentence.clone())).collect()
    }
}
