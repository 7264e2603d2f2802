//! Looks at a follower, with a cluster in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use butler_cluster::Creation;
use butler_follower::config::{Registry, Source};
use butler_follower::object::ObjectReference;
use butler_follower::{Action, Commit, Decision, Head, Phase, Request, Sighting, Submission};
use serde_json::{Value, json};

use super::*;
use crate::model::Moment;
use crate::store::{Followers as _, MemoryStore, StoreResult};

const CHAIN: &str = "
controller: {namespace: ci, poll: 30s, watch: 5s, retry: {first: 30s, longest: 10m}}
followers:
  - id: web
    source: {repository: shop, branch: main}
    adapter:
      kubernetes:
        stages:
          - {name: image, preset: job, create: {apiVersion: batch/v1, kind: Job}}
          - {name: pipeline, preset: pipeline-run, create: {apiVersion: tekton.dev/v1, kind: PipelineRun}}
";

/// A cluster in which each object is complete as soon as it exists.
#[derive(Clone, Default)]
struct Cluster(Arc<Mutex<Objects>>);

#[derive(Default)]
struct Objects {
    existing: BTreeMap<ObjectReference, Value>,
    /// The names of all submitted objects.
    submitted: Vec<String>,
    /// Whether readings come from before the last submissions.
    lags: bool,
    /// The answers to the next submissions; without one, the object is created.
    answers: Vec<Creation>,
}

impl Surroundings for Cluster {
    async fn head(&self, _: &Source) -> Head {
        Head::Found(Commit::parse(&"a".repeat(40)).unwrap())
    }

    async fn read(&self, object: &ObjectReference) -> Sighting {
        // Other servers read at the same time.
        tokio::task::yield_now().await;
        let objects = self.0.lock().unwrap();
        let found = objects.existing.get(object).filter(|_| !objects.lags).cloned();
        found.map_or(Sighting::Absent, Sighting::Found)
    }

    async fn submit(&self, action: &Action) -> Creation {
        let mut objects = self.0.lock().unwrap();
        objects.submitted.push(action.object.name.clone());
        if !objects.answers.is_empty() {
            return objects.answers.remove(0);
        }
        let Submission::Object(mut object) = action.submission.clone() else { panic!() };
        let condition = if action.object.kind == "Job" { "Complete" } else { "Succeeded" };
        object["status"] = json!({"conditions": [{"type": condition, "status": "True"}]});
        objects.existing.entry(action.object.clone()).or_insert(object);
        Creation::Exists
    }
}

impl Cluster {
    fn submitted(&self) -> Vec<String> {
        self.0.lock().unwrap().submitted.clone()
    }
}

/// A server that looks at the follower.
struct Server {
    looks: FollowerLooks<MemoryStore, Cluster>,
    registry: Registry,
    now: Moment,
}

impl Server {
    fn new(store: &Arc<MemoryStore>, cluster: &Cluster) -> Self {
        let looks = FollowerLooks::new(Arc::clone(store), cluster.clone());
        let registry = Registry::parse(CHAIN).unwrap();
        Self { looks, registry, now: Moment::from_millis(1_000_000) }
    }

    async fn look(&mut self) -> StoreResult<Option<Decision>> {
        let Registry { controller, followers } = &self.registry;
        self.looks.look(controller, &followers[0], Request::None, self.now).await
    }

    /// Looks, each time when it is due, until the follower has this phase.
    async fn until(&mut self, phase: Phase) -> Decision {
        for _ in 0..20 {
            let decision = self.look().await.unwrap().unwrap();
            if decision.phase == phase {
                return decision;
            }
            self.now = decision.next_look.max(self.now);
        }
        panic!("the follower is never {phase:?}")
    }
}

fn store() -> Arc<MemoryStore> {
    Arc::new(MemoryStore::new(Arc::new(Moment::default)))
}

#[tokio::test]
async fn each_stage_is_submitted_once_until_the_commit_is_delivered() {
    let (store, cluster) = (store(), Cluster::default());
    let decision = Server::new(&store, &cluster).until(Phase::Succeeded).await;
    let submitted = cluster.submitted();
    assert_eq!(submitted.len(), 2, "{submitted:?}");
    assert!(submitted[0].starts_with("web-image-") && submitted[1].starts_with("web-pipeline-"));
    let stored = store.follower("web").await.unwrap().unwrap();
    assert_eq!(stored.record, decision.record);
    // A server that starts now has nothing to do.
    let again = Server::new(&store, &cluster).until(Phase::Noop).await;
    assert_eq!((again.action, cluster.submitted()), (None, submitted));
}

#[tokio::test]
async fn two_servers_that_look_at_the_same_time_submit_each_object_once() {
    let (store, cluster) = (store(), Cluster::default());
    let (mut one, mut other) = (Server::new(&store, &cluster), Server::new(&store, &cluster));
    let mut refused = 0;
    for _ in 0..10 {
        let (first, second) = tokio::join!(one.look(), other.look());
        let decided = [first.unwrap(), second.unwrap()];
        refused += decided.iter().filter(|decision| decision.is_none()).count();
        assert!(decided.iter().any(Option::is_some));
        for server in [&mut one, &mut other] {
            server.now = server.now + Duration::from_secs(5);
        }
    }
    assert_eq!((refused, cluster.submitted().len()), (10, 2));
    let stored = store.follower("web").await.unwrap().unwrap();
    assert_eq!(stored.record.phase, Phase::Noop);
}

#[tokio::test]
async fn refused_object_blocks_with_its_reason_and_is_tried_again_later() {
    let (store, cluster) = (store(), Cluster::default());
    let why = "spec: Required value".to_owned();
    cluster.0.lock().unwrap().answers.push(Creation::Refused { why: why.clone() });
    let mut server = Server::new(&store, &cluster);
    let first = server.look().await.unwrap().unwrap();
    assert_eq!((first.phase, first.next_look), (Phase::Triggering, server.now));
    let blocked = server.look().await.unwrap().unwrap();
    assert_eq!(blocked.phase, Phase::Blocked);
    assert!(blocked.reasons[0].contains(&why), "{:?}", blocked.reasons);
    assert!(blocked.next_look > server.now);
    assert_eq!(cluster.submitted().len(), 1);
    server.now = blocked.next_look;
    // It is accepted now, and not visible yet.
    cluster.0.lock().unwrap().lags = true;
    for _ in 0..2 {
        assert_eq!(server.look().await.unwrap().unwrap().phase, Phase::Triggering);
    }
    cluster.0.lock().unwrap().lags = false;
    server.until(Phase::Succeeded).await;
    assert_eq!(cluster.submitted().len(), 3);
}

#[tokio::test]
async fn submission_without_an_answer_is_repeated_under_the_same_name() {
    let (store, cluster) = (store(), Cluster::default());
    let why = "no answer within 10 s".to_owned();
    cluster.0.lock().unwrap().answers.push(Creation::Unknown { why });
    Server::new(&store, &cluster).until(Phase::Succeeded).await;
    let submitted = cluster.submitted();
    assert_eq!((submitted.len(), &submitted[0]), (3, &submitted[1]), "{submitted:?}");
}
