//! Looks at a follower, with a cluster in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use butler_cluster::Creation;
use butler_follower::config::{Follower, Registry, Source};
use butler_follower::object::ObjectReference;
use butler_follower::state::Record;
use butler_follower::{Action, Commit, Decision, Head, Phase, Request, Sighting, Submission};
use serde_json::{Value, json};

use super::*;
use crate::model::{Moment, StoredFollower};
use crate::store::{Followers as _, MemoryStore, Outcome, StoreResult};

pub(crate) const CHAIN: &str = "
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
pub(crate) struct Cluster(Arc<Mutex<Objects>>);

struct Objects {
    /// The digit of the commit at the head of the branch, and the second at which it was read.
    head: (char, u64),
    existing: BTreeMap<ObjectReference, Value>,
    /// The names of all objects that were read.
    read: Vec<String>,
    /// The names of all submitted objects.
    submitted: Vec<String>,
    /// Whether readings come from before the last submissions.
    lags: bool,
    /// The last copy of the record, with its namespace.
    copy: Option<(String, Record)>,
    /// Whether nothing can be read.
    is_away: bool,
    /// The answers to the next submissions; without one, the object is created.
    answers: Vec<Creation>,
}

impl Default for Objects {
    fn default() -> Self {
        Self {
            head: ('a', 1),
            existing: BTreeMap::new(),
            read: Vec::new(),
            submitted: Vec::new(),
            lags: false,
            copy: None,
            is_away: false,
            answers: Vec::new(),
        }
    }
}

impl Surroundings for Cluster {
    async fn head(&self, _: &Source) -> BranchHead {
        // Other servers read at the same time.
        tokio::task::yield_now().await;
        let (digit, second) = self.0.lock().unwrap().head;
        let head = Head::Found(Commit::parse(&digit.to_string().repeat(40)).unwrap());
        BranchHead { head, read_at: Some(Moment::from_millis(second * 1000)) }
    }

    async fn read(&self, Wanted { object, .. }: Wanted<'_>) -> Sighting {
        let mut objects = self.0.lock().unwrap();
        objects.read.push(object.name.clone());
        if objects.is_away {
            return Sighting::Unknown { why: "no answer".to_owned() };
        }
        let found = objects.existing.get(object).filter(|_| !objects.lags).cloned();
        found.map_or(Sighting::Absent, Sighting::Found)
    }

    async fn task_runs(&self, pipeline_run: &ObjectReference) -> Result<Vec<Value>, String> {
        self.0.lock().unwrap().read.push(format!("TaskRuns of {}", pipeline_run.name));
        Ok(vec![json!({
            "metadata": {"name": "web-1-build", "labels": {"tekton.dev/pipelineTask": "build"}},
            "status": {"startTime": "2026-03-01T10:00:00Z", "completionTime": "2026-03-01T10:00:09Z"},
        })])
    }

    async fn submit(&self, _: &Follower, action: &Action) -> Creation {
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

    async fn copy(&self, namespace: &str, record: &Record) {
        self.0.lock().unwrap().copy = Some((namespace.to_owned(), record.clone()));
    }
}

impl Cluster {
    pub(crate) fn submitted(&self) -> Vec<String> {
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
        let looks = FollowerLooks::new(Arc::clone(store), Arc::new(cluster.clone()));
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
    let tasks = &stored.record.stage("pipeline").unwrap().tasks;
    assert_eq!((tasks.len(), &*tasks[0].name), (1, "build"));
    let copy = cluster.0.lock().unwrap().copy.clone();
    assert_eq!(copy, Some(("ci".to_owned(), stored.record)));
    // A server that starts now has nothing to do, and does not read what is complete.
    cluster.0.lock().unwrap().read.clear();
    let again = Server::new(&store, &cluster).until(Phase::Noop).await;
    assert_eq!((again.action, cluster.submitted()), (None, submitted));
    assert_eq!(cluster.0.lock().unwrap().read, Vec::<String>::new());
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
    assert_eq!((first.action, first.next_look), (None, server.now));
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
async fn reason_of_a_refusal_outlives_a_reading_that_failed() {
    let (store, cluster) = (store(), Cluster::default());
    let why = "spec: Required value".to_owned();
    cluster.0.lock().unwrap().answers.push(Creation::Refused { why: why.clone() });
    let mut server = Server::new(&store, &cluster);
    server.look().await.unwrap();
    cluster.0.lock().unwrap().is_away = true;
    assert_ne!(server.look().await.unwrap().unwrap().phase, Phase::Blocked);
    cluster.0.lock().unwrap().is_away = false;
    let blocked = server.look().await.unwrap().unwrap();
    assert_eq!(blocked.phase, Phase::Blocked);
    assert!(blocked.reasons[0].contains(&why), "{:?}", blocked.reasons);
}

#[tokio::test]
async fn refusal_does_not_count_after_another_server_has_submitted_the_object() {
    let (store, cluster) = (store(), Cluster::default());
    let refused = Creation::Refused { why: "quota".to_owned() };
    cluster.0.lock().unwrap().answers.push(refused);
    let (mut one, mut other) = (Server::new(&store, &cluster), Server::new(&store, &cluster));
    assert_eq!(one.look().await.unwrap().unwrap().phase, Phase::Triggering);
    // The other one does not know of the refusal, and does not see its own object yet.
    cluster.0.lock().unwrap().lags = true;
    other.now = other.now + Duration::from_mins(1);
    assert!(other.look().await.unwrap().unwrap().action.is_some());
    one.now = other.now + Duration::from_secs(1);
    let decision = one.look().await.unwrap().unwrap();
    assert_eq!((decision.phase, decision.record.failure), (Phase::Triggering, None));
}

#[tokio::test]
async fn server_with_an_older_mirror_does_not_go_back_to_an_earlier_commit() {
    let (store, cluster) = (store(), Cluster::default());
    let mut server = Server::new(&store, &cluster);
    server.until(Phase::Succeeded).await;
    cluster.0.lock().unwrap().head = ('b', 5);
    let delivered = server.until(Phase::Succeeded).await;
    // Another server still has the earlier head.
    cluster.0.lock().unwrap().head = ('a', 4);
    let mut other = Server::new(&store, &cluster);
    for _ in 0..3 {
        let decision = other.look().await.unwrap().unwrap();
        assert_eq!((decision.phase, &decision.action), (Phase::Observed, &None));
        assert_eq!(decision.record.target, delivered.record.target);
    }
    // A clock that was ahead does not freeze the follower.
    let StoredFollower { version, mut record } = store.follower("web").await.unwrap().unwrap();
    record.observed_at = Some(other.now + Duration::from_hours(1));
    assert_eq!(store.write_follower(version, record).await.unwrap(), Outcome::Made);
    // The branch can go back.
    cluster.0.lock().unwrap().head = ('a', 6);
    assert_ne!(other.look().await.unwrap().unwrap().record.target, delivered.record.target);
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
