//! The watch of a server: what it tells about Jobs when connections break, versions expire, events are repeated,
//! and the API server restarts.

use std::time::Duration;

use butler_cluster::{Cluster, ClusterAccess, JobNews, KubeconfigFiles, watch_jobs};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use butler_testing::api_server::{ApiServer, FaultEffect, NAMESPACE};
use butler_testing::world::eventually;

/// Limit for the next Job; only a watch that hangs needs longer.
const PATIENCE: Duration = Duration::from_mins(1);

/// A cluster, and what is told about its Jobs.
struct Watch {
    cluster: ApiServer,
    told: mpsc::Receiver<JobNews>,
    _task: JoinSet<()>,
    _directory: TempDir,
}

impl Watch {
    async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let cluster = ApiServer::start(directory.path(), &[]).await;
        let kubeconfig = directory.path().join("kubeconfig");
        std::fs::write(&kubeconfig, cluster.kubeconfig()).unwrap();
        let access = ClusterAccess {
            kubeconfig: KubeconfigFiles::Named(kubeconfig),
            ..ClusterAccess::default()
        };
        let connected = Cluster::connect(&access, None).await.unwrap();
        let (sender, told) = mpsc::channel(1);
        let mut task = JoinSet::new();
        task.spawn(async move { Box::pin(watch_jobs(&connected, "team=ours", &sender)).await });
        let mut watch = Self { cluster, told, _task: task, _directory: directory };
        // From the list, and from the watch that follows it.
        for name in ["first", "open"] {
            watch.put(name, "ours", "Complete");
            watch.tells(name).await;
        }
        watch
    }

    /// A Job of this team, with this condition.
    fn put(&self, name: &str, team: &str, condition: &str) {
        let path = format!("/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{name}");
        let job = json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {
                "name": name, "namespace": NAMESPACE, "labels": {"team": team},
                "annotations": {"butler.dev/run-id": name},
            },
            "spec": {"template": {}},
            "status": {"conditions": [{"type": condition, "status": "True"}]},
        });
        self.cluster.put(&path, job);
    }

    /// A Job of ours that fails, and whose event is lost with the connection.
    fn lose(&self, name: &str) {
        self.cluster.hold_events(true);
        self.put(name, "ours", "Failed");
        self.cluster.break_watches();
        self.cluster.hold_events(false);
    }

    /// Waits until a Job is told. No other one is told before.
    async fn tells(&mut self, name: &str) {
        loop {
            if let JobNews::Changed(job) = self.next(name).await {
                assert_eq!(job.run, name);
                return;
            }
        }
    }

    /// The next news, which should be this.
    async fn next(&mut self, expected: &str) -> JobNews {
        let told = tokio::time::timeout(PATIENCE, self.told.recv()).await;
        told.unwrap_or_else(|_| panic!("{expected} is never told")).unwrap()
    }

    /// How often Jobs were listed.
    fn lists(&self) -> usize {
        let requests = self.cluster.requests();
        let jobs = requests.iter().filter(|it| it.contains("/jobs?") && !it.contains("watch="));
        jobs.count()
    }
}

#[tokio::test]
async fn watch_goes_on_after_the_last_event_when_its_connection_breaks() {
    let mut watch = Watch::start().await;
    let lists = watch.lists();
    for name in ["second", "third"] {
        watch.put("of-others", "others", "Failed");
        watch.lose(name);
        watch.tells(name).await;
    }
    assert_eq!(watch.lists(), lists);
}

#[tokio::test]
async fn jobs_are_listed_again_when_the_version_of_a_watch_has_expired() {
    let mut watch = Watch::start().await;
    let lists = watch.lists();
    watch.lose("second");
    watch.cluster.forget_history();
    // A list tells about all Jobs that have ended.
    for name in ["first", "open", "second"] {
        watch.tells(name).await;
    }
    assert!(watch.lists() > lists);
}

#[tokio::test]
async fn bookmark_keeps_a_watch_without_events_from_expiring() {
    let mut watch = Watch::start().await;
    let lists = watch.lists();
    for count in 0..10 {
        watch.put(&format!("of-others-{count}"), "others", "Complete");
    }
    watch.cluster.bookmark();
    watch.cluster.forget_history();
    let cluster = &watch.cluster;
    let watches = || {
        let requests = cluster.requests();
        requests.iter().filter(|it| it.contains("/jobs?") && it.contains("watch=")).count()
    };
    let before = watches();
    cluster.break_watches();
    // Nothing is told before the connection is open again, because nothing has happened.
    tokio::select! {
        told = watch.told.recv() => panic!("{told:?} is told"),
        () = eventually("another watch", || watches() > before) => {}
    }
    watch.put("second", "ours", "Complete");
    watch.tells("second").await;
    assert_eq!(watch.lists(), lists);
}

#[tokio::test]
async fn repeated_events_are_told_in_their_order() {
    let mut watch = Watch::start().await;
    watch.cluster.repeat_events();
    watch.put("second", "ours", "Complete");
    watch.put("third", "ours", "Suspended");
    watch.put("fourth", "ours", "Failed");
    // The third one has not ended.
    for name in ["second", "second", "fourth", "fourth"] {
        watch.tells(name).await;
    }
}

#[tokio::test]
async fn api_server_that_restarts_is_watched_again() {
    let mut watch = Watch::start().await;
    let lists = watch.lists();
    let away = FaultEffect::Status(503, "ServiceUnavailable", "the server is starting");
    watch.cluster.fault("GET", "/jobs", away);
    watch.lose("second");
    // It comes back without its history.
    watch.cluster.forget_history();
    for name in ["first", "open", "second"] {
        watch.tells(name).await;
    }
    assert_eq!(watch.lists(), lists + 2);
}

#[tokio::test]
async fn outage_of_a_watch_is_told_once_and_its_end_without_a_change_of_a_job() {
    let mut watch = Watch::start().await;
    let away = FaultEffect::Status(503, "ServiceUnavailable", "the server is starting");
    watch.cluster.faults("GET", "/jobs?watch", away.clone(), 3);
    // The list after it.
    watch.cluster.faults("GET", "/jobs", away, 1);
    watch.cluster.break_watches();
    let JobNews::Unwatched { objects, why } = watch.next("an outage").await else {
        panic!("no outage is told");
    };
    assert_eq!((&*objects, &*why), ("jobs", "the server is starting (503)"));
    assert_eq!(watch.next("its end").await, JobNews::Watched { objects });
    for name in ["first", "open"] {
        watch.tells(name).await;
    }
}
