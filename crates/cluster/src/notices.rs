//! Notices about a run for the user who follows it, each printed once.
//!
//! The pod's status and its events report the same wait in different words. The status takes precedence;
//! events only add what no status reports.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;

use crate::client::Cluster;
use crate::events::Warnings;
use crate::outcome::{RunHistory, end_condition, reason};
use crate::pod::{Stage, ended, is_on_silent_node, is_same_wait, name, node, stage, wait_reason};

/// The notices so far, and the history of the run.
#[derive(Default)]
pub(crate) struct Notices {
    returned: BTreeSet<String>,
    warnings: Warnings,
    /// Whether the pod's node did not respond at the last change.
    is_silent: bool,
    pub(crate) seen: RunHistory,
}

impl Notices {
    /// The new notice about the pod, if any.
    pub(crate) fn about_pod(&mut self, pod: &Pod) -> Option<String> {
        if let Some(why) = wait_reason(pod) {
            return self.about_wait(why);
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

    /// The new notice about the end of the Job while its pod still runs, which has `grace` to end.
    pub(crate) fn about_job(&mut self, job: &Job, pod: &Pod, grace: Duration) -> Option<String> {
        let condition = end_condition(job).filter(|condition| condition.type_ != "Complete")?;
        if stage(pod) != Stage::Running {
            return None;
        }
        self.once(format!("{}; the run has {} s to end", reason(condition), grace.as_secs()))
    }

    /// The new notices from events: why the pod does not start, or why the Job has no pod.
    pub(crate) async fn about_events(&mut self, cluster: &Cluster, name: &str) -> Vec<String> {
        let warnings = self.warnings.read_new(cluster, name).await;
        warnings.into_iter().filter_map(|why| self.about_wait(why)).collect()
    }

    fn about_wait(&mut self, why: String) -> Option<String> {
        if self.seen.wait.as_ref().is_some_and(|wait| is_same_wait(&why, wait)) {
            return None;
        }
        let notice = format!("waiting: {why}");
        self.seen.wait = Some(why);
        self.once(notice)
    }

    fn once(&mut self, notice: String) -> Option<String> {
        self.returned.insert(notice.clone()).then_some(notice)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn waiting_pod(reason: &str, message: &str) -> Pod {
        let state = json!({"waiting": {"reason": reason, "message": message}});
        let status = json!({"name": "runner", "image": "", "imageID": "", "ready": false,
            "restartCount": 0, "state": state});
        let pod = json!({"metadata": {}, "status": {"containerStatuses": [status]}});
        serde_json::from_value(pod).unwrap()
    }

    /// The kubelet alternates between the two reasons while the image cannot be pulled.
    #[test]
    fn failed_pull_is_reported_once_with_the_reason() {
        let pull = || waiting_pod("ErrImagePull", "denied");
        let newer = || {
            waiting_pod("ImagePullBackOff", "Back-off pulling image \"x\": ErrImagePull: denied")
        };
        let older = || waiting_pod("ImagePullBackOff", "Back-off pulling image \"x\"");
        let sequences = vec![
            vec![pull(), newer(), pull()],
            vec![newer(), pull(), newer()],
            vec![pull(), older(), pull()],
        ];
        for pods in sequences {
            let mut notices = Notices::default();
            let reported: Vec<_> = pods.iter().filter_map(|pod| notices.about_pod(pod)).collect();
            assert_eq!(reported, ["waiting: ErrImagePull: denied"]);
            assert_eq!(notices.seen.wait.as_deref(), Some("ErrImagePull: denied"));
        }
        // If the pause is seen first, its message does not contain the reason yet.
        let mut notices = Notices::default();
        let reported: Vec<_> =
            [older(), pull(), older()].iter().filter_map(|pod| notices.about_pod(pod)).collect();
        assert_eq!(reported.len(), 2, "{reported:?}");
        assert_eq!(notices.seen.wait.as_deref(), Some("ErrImagePull: denied"));
    }
}
