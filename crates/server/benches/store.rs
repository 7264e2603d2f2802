//! How long the store in a file takes to begin and end 1,000 runs.
//!
//! A cycle is what a commit needs: the layer's new digest is recorded, its run is inserted, an
//! attempt claims it together with the lease of its state, and the attempt ends. Each of the four is
//! durable when its call returns.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it has measured")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use butler_registry::TokenHash;
use butler_server::model::{
    Action, Cause, Commit, Digest, Ending, LayerName, NewRun, Revision, RunId, Sighting,
};
use butler_server::store::{
    AttemptId, AttemptResult, Outcome, SqliteStore, StartRequest, Store, StoreResult,
};

/// How long cycles are counted.
const DURATION: Duration = Duration::from_secs(5);

/// The callers at the same time: one that waits for each answer, and as many as attempts that run.
const CALLERS: [u32; 2] = [1, 100];

#[tokio::main(flavor = "current_thread")]
async fn main() -> StoreResult<()> {
    for callers in CALLERS {
        println!("callers={callers} seconds={:.3}", 1_000.0 / measure(callers).await?);
    }
    Ok(())
}

/// The cycles per second of this number of callers, each with a layer of its own.
async fn measure(callers: u32) -> StoreResult<f64> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let store = Arc::new(SqliteStore::open(&directory.path().join("store.sqlite"))?);
    let layers: Vec<LayerName> =
        (0..callers).map(|index| format!("l{index}").parse().expect("a name")).collect();

    let begun = Instant::now();
    let tasks = layers.into_iter().map(|layer| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let mut cycles = 0_u32;
            while begun.elapsed() < DURATION {
                cycle(&*store, &layer, cycles).await?;
                cycles += 1;
            }
            StoreResult::Ok(cycles)
        })
    });
    let mut cycles = 0;
    for task in tasks.collect::<Vec<_>>() {
        cycles += task.await.expect("no panic")?;
    }
    Ok(f64::from(cycles) / begun.elapsed().as_secs_f64())
}

async fn cycle(store: &impl Store, layer: &LayerName, number: u32) -> StoreResult<()> {
    let digest = Digest::new(number.to_string());
    let revision = Revision { commit: Commit::new(number.to_string()), digest };
    let seen = [(layer.clone(), Sighting::Found(revision.clone()))];
    // Each layer has a repository of its own, so no reading is older than another one.
    let readings = u64::from(number);
    assert_eq!(store.observe(layer.as_str(), readings, &seen, &[]).await?, Outcome::Made);
    let change = readings + 1;
    let (action, cause) = (Action::Plan, Cause::Commit { change });
    let id = RunId::derived(layer, &revision.digest, action, &cause);
    let run = NewRun { id: id.clone(), action, cause, revision, change, destroys: false };
    assert_eq!(store.insert_run(layer, run).await?, Outcome::Made);
    let attempt = AttemptId { layer: layer.clone(), run: id, number: 1 };
    let request = StartRequest {
        attempt: &attempt,
        state_key: layer.as_str(),
        after: &[],
        concurrency: u32::MAX,
        repository: "infra",
        repository_concurrency: None,
        timeout: Duration::from_mins(1),
        place: "this machine",
        token: &TokenHash::of("token"),
        fence: None,
    };
    assert_eq!(store.start_attempt(request).await?, Outcome::Made);
    let ended = store.finish(&attempt, AttemptResult::ended(Ending::Succeeded)).await?;
    assert_eq!(ended, Outcome::Made);
    Ok(())
}
