//! The layers that are looked at after an attempt has ended.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use butler_registry::TokenHash;

use super::*;
use crate::config::{Config, RemoteLimits, parse};
use crate::controller::{ExecutorError, Probe};
use crate::model::{
    Action, AttemptToken, Commit, Digest, Liveness, Moment, Revision, RunId, Sighting, StopReason,
};
use crate::store::{MemoryStore, Note, StartRequest};

#[path = "shared_tests.rs"]
mod shared_tests;

/// Finds no process, and starts none.
#[derive(Debug)]
struct Machine {
    name: &'static str,
    /// Whether starts fail.
    is_broken: AtomicBool,
    /// Whether the repositories were read.
    has_commits: AtomicBool,
    /// The attempts that were started and stopped.
    done: Mutex<Vec<String>>,
}

impl Machine {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            is_broken: AtomicBool::new(false),
            has_commits: AtomicBool::new(true),
            done: Mutex::default(),
        }
    }

    /// What was done since this was asked last.
    fn done(&self) -> Vec<String> {
        std::mem::take(&mut self.done.lock().unwrap())
    }
}

impl Executor for Machine {
    async fn launch(
        &self,
        attempt: &AttemptId,
        _: &AttemptToken,
        _: Duration,
    ) -> Result<(), ExecutorError> {
        if self.is_broken.load(Ordering::Relaxed) {
            return Err(ExecutorError("the disk is broken".to_owned()));
        }
        self.done.lock().unwrap().push(format!("start {}", attempt.layer));
        Ok(())
    }

    async fn stop(&self, attempt: &AttemptId) -> Result<(), ExecutorError> {
        self.done.lock().unwrap().push(format!("stop {}", attempt.layer));
        Ok(())
    }

    fn move_files(&self, _: &[LayerName], _: &LayerName) -> Result<(), ExecutorError> {
        Ok(())
    }

    fn remove_plan(&self, _: &AttemptId) {}

    async fn probe(&self, _: &AttemptId) -> Probe {
        Probe::Liveness(Liveness::Gone)
    }

    fn place(&self) -> &str {
        self.name
    }

    fn has_commit(&self, _: &str, _: &Commit) -> bool {
        self.has_commits.load(Ordering::Relaxed)
    }
}

fn layer(name: &str) -> LayerName {
    name.parse().unwrap()
}

/// A configuration with a layer `a` of this repository, and a layer `b` of the repository `one`. Both have the same
/// limit.
fn config(repository_of_a: &str) -> Config {
    let text = format!(
        "repositories: {{one: {{url: 'file:///one', concurrency: 1}}, two: {{url: 'file:///two'}}}}\n\
         layers: {{a: {{repository: {repository_of_a}, path: a}}, b: {{repository: one, path: b}}}}"
    );
    parse(&[(PathBuf::from("butler.yaml"), text)]).unwrap()
}

struct Tested {
    scheduler: Scheduler<MemoryStore, Machine>,
    _data: tempfile::TempDir,
}

impl Tested {
    /// The plan of `a` was replaced by that of a newer commit, and its process is gone. `b` waits for its slot.
    async fn new(repository_of_a: &str, concurrency: u32) -> Self {
        let store = Arc::new(MemoryStore::new(Arc::new(|| Moment::from_millis(1_000))));
        let data = tempfile::tempdir().unwrap();
        let desired = Arc::new(Desired::new(config(repository_of_a), RemoteLimits::default()));
        let capacity = Capacity { concurrency, starts_per_minute: 60 };
        let (machine, views) = (Arc::new(Machine::new("nowhere")), Arc::default());
        let root = data.path().to_owned();
        let mut scheduler =
            Scheduler::new(Arc::clone(&store), machine, capacity, root, desired, views);
        let see = async |readings, digest: &str, names: &[&str]| {
            let revision = Revision { commit: Commit::new(digest), digest: Digest::new(digest) };
            let seen: Vec<_> =
                names.iter().map(|name| (layer(name), Sighting::Found(revision.clone()))).collect();
            assert_eq!(store.observe("one", readings, &seen, &[]).await.unwrap(), Outcome::Made);
        };
        see(0, "d1", &["a", "b"]).await;
        let cause = crate::model::Cause::Commit { change: 1 };
        let revision = Revision { commit: Commit::new("d1"), digest: Digest::new("d1") };
        let run = RunId::derived(&layer("a"), &revision.digest, Action::Plan, &cause);
        let (id, action) = (run.clone(), Action::Plan);
        let new = crate::model::NewRun { id, action, cause, revision, change: 1, destroys: false };
        assert_eq!(store.insert_run(&layer("a"), new).await.unwrap(), Outcome::Made);
        let attempt = AttemptId { layer: layer("a"), run, number: 1 };
        let catalog = Arc::clone(&scheduler.catalog.borrow());
        let request = StartRequest {
            attempt: &attempt,
            state_key: &catalog.layers[&layer("a")].configured.state_key,
            after: &[],
            concurrency: 9,
            repository: "one",
            repository_concurrency: None,
            timeout: Duration::from_mins(1),
            place: "nowhere",
            token: &TokenHash::of("brce_test"),
            fence: None,
        };
        assert_eq!(store.start_attempt(request).await.unwrap(), Outcome::Made);
        scheduler.occupied.insert(layer("a"), "one".to_owned());
        see(1, "d2", &["a"]).await;
        scheduler.drive(&layer("b")).await;
        assert_eq!(store.snapshot(&layer("b"), "", &[]).await.unwrap().running.total().attempts, 1);
        assert!(!scheduler.looks.contains_key(&layer("b")), "it waits for an event");
        for note in [
            Note::StopRequested(StopReason::Superseded),
            Note::StopDelivered,
            Note::Probed { liveness: Liveness::Gone, reports: 0 },
        ] {
            assert_eq!(store.note(&attempt, note).await.unwrap(), Outcome::Made);
        }
        Self { scheduler, _data: data }
    }

    fn is_due(&self, name: &str) -> bool {
        self.scheduler.looks.get(&layer(name)).is_some_and(|look| *look <= Instant::now())
    }
}

#[tokio::test]
async fn slot_is_offered_although_the_next_step_of_the_layer_that_had_it_fails() {
    let mut tested = Tested::new("one", 1).await;
    tested.scheduler.executor.is_broken.store(true, Ordering::Relaxed);
    tested.scheduler.drive(&layer("a")).await;
    assert!(!tested.is_due("a"), "its step has failed");
    assert!(tested.is_due("b"));
}

#[tokio::test]
async fn slot_of_the_earlier_repository_is_offered_when_the_layer_starts_in_another_one() {
    let mut tested = Tested::new("two", 9).await;
    tested.scheduler.drive(&layer("a")).await;
    let occupied = &tested.scheduler.occupied[&layer("a")];
    assert_eq!(occupied, "two", "the layer has started in its new repository");
    assert!(tested.is_due("b"));
}
