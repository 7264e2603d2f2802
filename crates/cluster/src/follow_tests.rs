//! Follows runs in a cluster in which nothing ever changes, on a clock that jumps.

use std::convert::Infallible;

use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::JobName;

/// A cluster with one Job and one pod that never change.
fn unchanging_cluster(job: &Value, pod: &Value) -> Cluster {
    let list = |object: &Value| {
        json!({"metadata": {"resourceVersion": "1"}, "items": [object]}).to_string()
    };
    let (jobs, pods) = (list(job), list(pod));
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let uri = request.uri().clone();
        let response = match uri.path().rsplit('/').next() {
            _ if uri.query().is_some_and(|query| query.contains("watch")) => None,
            Some("jobs") => Some(jobs.clone()),
            Some("pods") => Some(pods.clone()),
            _ => None,
        };
        async move {
            let Some(response) = response else { return std::future::pending().await };
            Ok::<_, Infallible>(http::Response::new(Body::from(response.into_bytes())))
        }
    });
    Cluster::from_client(Client::new(service, "runs"), "https://server".into(), "runs".into())
}

struct RecordedNotices(Vec<String>);

impl Follower for RecordedNotices {
    fn line(&mut self, _: &str) -> std::io::Result<()> {
        Ok(())
    }

    fn notice(&mut self, notice: &str) {
        self.0.push(notice.to_owned());
    }
}

#[tokio::test(start_paused = true)]
async fn following_ends_if_a_lost_node_does_not_end_the_pod() {
    let job = json!({"metadata": {"name": "butler-run-7", "uid": "u"}, "status": {
        "conditions": [{
            "type": "FailureTarget", "status": "True", "reason": "DeadlineExceeded",
            "message": "Job was active longer than specified deadline",
        }],
    }});
    let pod = json!({
        "metadata": {
            "name": "butler-run-7-abcde", "deletionTimestamp": "2026-11-21T10:00:00Z",
            "deletionGracePeriodSeconds": 70,
        },
        "spec": {"nodeName": "node-1", "containers": []},
        "status": {
            "phase": "Running", "conditions": [{"type": "Ready", "status": "False"}],
            "containerStatuses": [{
                "name": "runner", "image": "", "imageID": "", "ready": true,
                "restartCount": 0, "state": {"running": {}},
            }],
        },
    });
    let applied = CreatedJob {
        name: JobName::for_run("7"),
        uid: "u".to_owned(),
        grace: Duration::from_secs(70),
    };
    let mut recorded = RecordedNotices(Vec::new());
    let begun = Instant::now();
    let followed =
        follow(&unchanging_cluster(&job, &pod), &applied, &Stop::new(), &mut recorded).await;
    let outcome = followed.unwrap();
    assert_eq!(begun.elapsed().as_secs(), 130, "its grace, and what its end may take");
    assert_eq!(outcome.code, 1);
    assert_eq!(
        outcome.summary,
        "the pod `butler-run-7-abcde` did not end in time, and its node `node-1` does not answer (NotReady): DeadlineExceeded: Job was active longer than specified deadline"
    );
    assert_eq!(
        recorded.0,
        [
            "the node `node-1` does not answer (NotReady); the run may go on there",
            "DeadlineExceeded: Job was active longer than specified deadline; the run has 70 s to end",
        ]
    );
}
