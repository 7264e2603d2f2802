//! Crashes while a layer takes over the history of its earlier name.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

use super::*;
use crate::config::parse;
use crate::layers::Catalog;
use crate::model::{
    Cause, Commit, Digest, Ending, FailureClass, Moment, NewRun, Phase, Revision, Sighting,
};
use crate::store::MemoryStore;

/// States by the name of the layer, and where the server ends while it moves one.
#[derive(Default)]
struct States {
    by_name: Mutex<BTreeMap<String, String>>,
    crash: Mutex<Option<Crash>>,
    launched: Mutex<Vec<AttemptId>>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Crash {
    Before,
    After,
}

impl Executor for States {
    async fn launch(
        &self,
        attempt: &AttemptId,
        _: &AttemptToken,
        _: Duration,
    ) -> Result<(), ExecutorError> {
        self.launched.lock().unwrap().push(attempt.clone());
        Ok(())
    }

    async fn stop(&self, _: &AttemptId) -> Result<(), ExecutorError> {
        Ok(())
    }

    async fn probe(&self, _: &AttemptId) -> Probe {
        Probe::Liveness(Liveness::Alive)
    }

    fn remove_plan(&self, _: &AttemptId) {}

    fn move_files(&self, from: &[LayerName], to: &LayerName) -> Result<(), ExecutorError> {
        let crash = self.crash.lock().unwrap().take();
        if crash != Some(Crash::Before) {
            let mut states = self.by_name.lock().unwrap();
            for from in from {
                if let Some(state) = states.remove(from.as_str()) {
                    assert_eq!(states.insert(to.to_string(), state), None);
                }
            }
        }
        crash.map_or(Ok(()), |_| Err(ExecutorError("the server ended".to_owned())))
    }

    fn place(&self) -> &'static str {
        "this machine"
    }
}

/// The layer `new`, which was called `old`.
fn configured() -> ConfiguredLayer {
    let text = "repositories: {infra: {url: 'file:///infra'}}
layers:
  new: {repository: infra, path: a, formerly: old, strategy: auto, backend: {type: local}}
";
    let config = parse(&[(PathBuf::from("butler.yaml"), text.to_owned())]).unwrap();
    let catalog = Catalog::new(&config, &BTreeMap::new());
    catalog.layers[&"new".parse().unwrap()].configured.clone()
}

/// A store in which `old` had a plan that failed, and in which `new` was read.
async fn store() -> MemoryStore {
    let store = MemoryStore::new(Arc::new(Moment::default));
    let old: LayerName = "old".parse().unwrap();
    let revision = Revision { commit: Commit::new("c"), digest: Digest::new("d") };
    let seen = Sighting::Found(revision.clone());
    let both = [(old.clone(), seen.clone()), ("new".parse().unwrap(), seen)];
    assert_eq!(store.observe("infra", 0, &both, &[]).await.unwrap(), Outcome::Made);
    let (action, cause, change) = (Action::Plan, Cause::Commit { change: 1 }, 1);
    let id = RunId::derived(&old, &revision.digest, action, &cause);
    let run = NewRun { id: id.clone(), action, cause, revision, change, destroys: false };
    assert_eq!(store.insert_run(&old, run).await.unwrap(), Outcome::Made);
    let attempt = AttemptId { layer: old, run: id, number: 1 };
    let request = StartRequest {
        attempt: &attempt,
        state_key: "layer|old",
        after: &[],
        concurrency: 1,
        repository: "infra",
        repository_concurrency: None,
        timeout: Duration::from_mins(1),
        place: "this machine",
        token: &AttemptToken::random().unwrap().hash(),
        fence: None,
    };
    assert_eq!(store.start_attempt(request).await.unwrap(), Outcome::Made);
    let failed = AttemptResult::ended(Ending::Failed(FailureClass::Syntax));
    assert_eq!(store.finish(&attempt, failed).await.unwrap(), Outcome::Made);
    store
}

#[tokio::test]
async fn state_moves_with_the_history_wherever_the_server_ends() {
    for crash in [None, Some(Crash::Before), Some(Crash::After)] {
        let (store, states, configured) = (store().await, States::default(), configured());
        states.by_name.lock().unwrap().insert("old".to_owned(), "resources".to_owned());
        *states.crash.lock().unwrap() = crash;
        let name = configured.layer.name.clone();
        let mut steps = Vec::new();
        loop {
            // Each pass is that of a new server.
            let controller = Controller::new(&store, &states, Limits::concurrency(1));
            let (_, decision) = controller.decide(&name, Some(&configured)).await.unwrap();
            let Some(step) = decision.step else {
                assert_eq!(decision.phase, Phase::Failed, "the plan of the earlier name");
                break;
            };
            steps.push(match &step {
                Step::TakeOver { .. } => "take over",
                Step::MoveFiles { .. } => "move files",
                _ => "another step",
            });
            // A crash shows as an error.
            let _ = controller.perform(&name, Some(&configured), step).await;
        }
        let moves = if crash.is_some() { 2 } else { 1 };
        let expected = ["take over"].into_iter().chain(vec!["move files"; moves]);
        assert_eq!(steps, expected.collect::<Vec<_>>(), "{crash:?}");
        let expected = BTreeMap::from([("new".to_owned(), "resources".to_owned())]);
        assert_eq!(*states.by_name.lock().unwrap(), expected, "{crash:?}");
        assert_eq!(*states.launched.lock().unwrap(), []);
        assert_eq!(store.runs(&name).len(), 1);
    }
}
