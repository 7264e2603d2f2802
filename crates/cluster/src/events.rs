//! The cluster's events about objects that do not start, such as quotas, volumes and pull errors.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams};

use crate::client::Cluster;
use crate::pod::sentence;

/// Reasons that are in the pod's status too, earlier than in events. Printing both would repeat them.
const IN_STATUS: [&str; 5] =
    ["BackOff", "ErrImageNeverPull", "Failed", "FailedScheduling", "InspectFailed"];

/// The timeout of the request for events. It is short because events are optional.
const LIMIT: Duration = Duration::from_secs(5);

/// Warnings about the objects of a run, each returned once.
#[derive(Default)]
pub(crate) struct Warnings {
    returned: BTreeSet<String>,
    forbidden: bool,
}

impl Warnings {
    /// The new warnings about the object with this name. Without the permission to read events the result is
    /// empty, because the outcome of the run contains the reason too.
    pub(crate) async fn read_new(&mut self, cluster: &Cluster, name: &str) -> Vec<String> {
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
        sentences.filter(|sentence| self.returned.insert(sentence.clone())).collect()
    }
}
