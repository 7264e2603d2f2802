//! Attempts in a store, with directories, for tests.

use std::time::Duration;

use butler_registry::TokenHash;

use crate::attempts::AttemptDirectory;
use crate::data::{DataAccess, DataDirectory};
use crate::model::{
    Action, Cause, ChangeCounts, Commit, Digest, Ending, LayerName, Moment, NewRun, PlanDigest,
    Revision, RunId, SavedPlan, THIS_MACHINE,
};
use crate::store::{AttemptId, AttemptResult, MemoryStore, Outcome, StartRequest, Store as _};

/// Starts the first attempt of a new plan of the first change, with a plan in its directory.
pub(crate) async fn start(
    store: &MemoryStore,
    data: &DataDirectory,
    layer: &str,
    request: &str,
) -> AttemptId {
    let layer: LayerName = layer.parse().unwrap();
    let revision = Revision { commit: Commit::new("c"), digest: Digest::new("d") };
    let (action, cause) = (Action::Plan, Cause::Person { request: request.to_owned() });
    let run = RunId::derived(&layer, &revision.digest, action, &cause);
    let new = NewRun { id: run.clone(), action, cause, revision, change: 1, destroys: false };
    assert_eq!(store.insert_run(&layer, new).await.unwrap(), Outcome::Made);
    let attempt = AttemptId { layer, run, number: 1 };
    let request = StartRequest {
        attempt: &attempt,
        state_key: attempt.layer.as_str(),
        after: &[],
        concurrency: 9,
        repository: "infra",
        repository_concurrency: None,
        timeout: Duration::from_mins(1),
        place: THIS_MACHINE,
        token: &TokenHash::of("brce_test"),
        fence: None,
    };
    assert_eq!(store.start_attempt(request).await.unwrap(), Outcome::Made);
    let directory = AttemptDirectory::of(&data.attempts(), &attempt);
    directory.create(DataAccess::Server).unwrap();
    for name in ["saved-plan", "saved-plan.new", "output.log"] {
        std::fs::write(directory.path().join(name), "x").unwrap();
    }
    attempt
}

/// Ends an attempt with a saved plan.
pub(crate) async fn end(store: &MemoryStore, attempt: &AttemptId) {
    let plan = SavedPlan {
        digest: PlanDigest::new(attempt.to_string()),
        counts: ChangeCounts { add: 1, ..ChangeCounts::default() },
        is_empty: false,
        is_stored: true,
        saved: Moment::default(),
        discarded: None,
        stale: None,
    };
    let result = AttemptResult { plan: Some(plan), ..AttemptResult::ended(Ending::Succeeded) };
    assert_eq!(store.finish(attempt, result).await.unwrap(), Outcome::Made);
}
