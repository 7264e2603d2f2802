//! Notices about a run for the user who follows it, each of them once.
//!
//! The pod's status and its events report the same wait in different words. The status takes precedence;
//! events only add what no status reports.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;

use super::client::Cluster;
use super::events::Warnings;
use super::outcome::{Seen, end, reason};
use super::pod::{Stage, ended, is_on_silent_node, is_said_by, name, node, stage, waiting};

/// What was told, and what was seen.
#[derive(Default)]
pub(super) struct Notices {
    told: BTreeSet<String>,
    warnings: Warnings,
    /// Whether the pod's node was silent when it was looked at last.
    is_silent: bool,
    pub(super) seen: Seen,
}

impl Notices {
    /// What is new about the pod.
    pub(super) fn of_pod(&mut self, pod: &Pod) -> Option<String> {
        if let Some(why) = waiting(pod) {
            return self.of_wait(why);
        }
        let stage = stage(pod);
        self.seen.has_run |= stage == Stage::Running || ended(pod).is_some();
        if stage != Stage::Running {
            return None;
        }
        let (name, node) = (name(pod), node(pod).unwrap_or("unknown"));
        let was_silent = std::mem::replace(&mut self.is_silent, is_on_silent_node(pod));
        match (was_silent, self.is_silent) {
            (false, true) => Some(format!(
                "the node `{node}` does not answer (NotReady); the run may go on there"
            )),
            (true, false) => Some(format!("the node `{node}` answers again")),
            (false, false) => self.once(format!("the pod {name} runs on {node}")),
            (true, true) => None,
        }
    }

    /// What is new about the Job, whose pod runs and has so long to end.
    pub(super) fn of_job(&mut self, job: &Job, pod: &Pod, grace: Duration) -> Option<String> {
        let condition = end(job).filter(|condition| condition.type_ != "Complete")?;
        if stage(pod) != Stage::Running {
            return None;
        }
        self.once(format!("{}; the run has {} s to end", reason(condition), grace.as_secs()))
    }

    /// Why the pod does not start, or why the Job has no pod.
    pub(super) async fn of_events(&mut self, cluster: &Cluster, name: &str) -> Vec<String> {
        let warnings = self.warnings.about(cluster, name).await;
        warnings.into_iter().filter_map(|why| self.of_wait(why)).collect()
    }

    fn of_wait(&mut self, why: String) -> Option<String> {
        if self.seen.wait.as_ref().is_some_and(|wait| is_said_by(&why, wait)) {
            return None;
        }
        let notice = format!("waiting: {why}");
        self.seen.wait = Some(why);
        self.once(notice)
    }

    fn once(&mut self, notice: String) -> Option<String> {
        self.told.insert(notice.clone()).then_some(notice)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn waits(reason: &str, message: &str) -> Pod {
        let state = json!({"waiting": {"reason": reason, "message": message}});
        let status = json!({"name": "runner", "image": "", "imageID": "", "ready": false,
            "restartCount": 0, "state": state});
        let pod = json!({"metadata": {}, "status": {"containerStatuses": [status]}});
        serde_json::from_value(pod).unwrap()
    }

    /// The kubelet changes between the two for as long as the image is not there.
    #[test]
    fn image_that_cannot_be_pulled_is_told_once_with_the_reason() {
        let pull = || waits("ErrImagePull", "denied");
        let newer =
            || waits("ImagePullBackOff", "Back-off pulling image \"x\": ErrImagePull: denied");
        let older = || waits("ImagePullBackOff", "Back-off pulling image \"x\"");
        let courses = vec![
            vec![pull(), newer(), pull()],
            vec![newer(), pull(), newer()],
            vec![pull(), older(), pull()],
        ];
        for pods in courses {
            let mut notices = Notices::default();
            let told: Vec<_> = pods.iter().filter_map(|pod| notices.of_pod(pod)).collect();
            assert_eq!(told, ["waiting: ErrImagePull: denied"]);
            assert_eq!(notices.seen.wait.as_deref(), Some("ErrImagePull: denied"));
        }
        // A pause that is seen first says no reason yet.
        let mut notices = Notices::default();
        let told: Vec<_> =
            [older(), pull(), older()].iter().filter_map(|pod| notices.of_pod(pod)).collect();
        assert_eq!(told.len(), 2, "{told:?}");
        assert_eq!(notices.seen.wait.as_deref(), Some("ErrImagePull: denied"));
    }
}
