//! Ends attempts before the server ends, if that is asked for.
//!
//! Nothing is recorded for it: an attempt that a signal ended has failed, as after a shutdown of the
//! machine, and the next server makes another one.

use std::collections::BTreeSet;
use std::time::Duration;

use butler_base::cancel::Stop;
use futures_util::FutureExt;
use tokio::sync::mpsc;

use super::scheduler::Scheduler;
use crate::attempts::Executors;
use crate::controller::{Executor, Probe};
use crate::event::Event;
use crate::model::Liveness;
use crate::store::{AttemptId, Store, StoreError, StoreResult};

/// The time between two looks at attempts that were asked to end.
const AGAIN: Duration = Duration::from_millis(500);

/// Asks all attempts to end, and waits for their reports: at most `limit`, and only until a second
/// signal. Starts nothing.
pub(super) async fn end_attempts<S: Store>(
    store: &S,
    scheduler: &mut Scheduler<S, Executors>,
    events: &mut mpsc::UnboundedReceiver<Event>,
    stop: &Stop,
    limit: Duration,
) -> Result<(), StoreError> {
    tracing::info!("attempts are asked to end");
    tokio::select! {
        ended = end_all(store, scheduler, events) => return ended,
        () = tokio::time::sleep(limit) => {
            tracing::warn!("attempts did not end within --stop-timeout, and go on");
        }
        () = stop.urgent() => tracing::warn!("a second signal came; attempts are not waited for"),
    }
    Ok(())
}

async fn end_all<S: Store>(
    store: &S,
    scheduler: &mut Scheduler<S, Executors>,
    events: &mut mpsc::UnboundedReceiver<Event>,
) -> Result<(), StoreError> {
    // A second signal would take the time away that a run has for its end.
    let mut asked = BTreeSet::new();
    loop {
        let mut has_alive = false;
        for attempt in running(store).await? {
            match scheduler.executor().probe(&attempt).await {
                // A process that has not recorded itself yet is waited for below.
                Probe::Liveness(Liveness::Gone) => {}
                Probe::Ended(_) => scheduler.handle(Event::Exited(attempt)).await,
                Probe::Liveness(_) => {
                    has_alive = true;
                    if !asked.contains(&attempt) {
                        match scheduler.executor().stop(&attempt).await {
                            Ok(()) => drop(asked.insert(attempt)),
                            Err(error) => tracing::warn!(run = %attempt.run, "{error}"),
                        }
                    }
                }
            }
        }
        if !has_alive && scheduler.executor().all_ended().now_or_never().is_some() {
            return Ok(());
        }
        tokio::select! {
            event = events.recv() => if let Some(event) = event {
                scheduler.handle(event).await;
            },
            () = tokio::time::sleep(AGAIN) => {}
        }
    }
}

/// The attempts that have not ended, of this server and of those before it.
async fn running<S: Store>(store: &S) -> StoreResult<Vec<AttemptId>> {
    let mut found = Vec::new();
    for layer in store.busy().await? {
        let facts = store.snapshot(&layer, "", &[]).await?.facts;
        let attempts = facts.runs.iter().filter_map(|run| {
            let number = run.running()?.number;
            Some(AttemptId { layer: layer.clone(), run: run.id.clone(), number })
        });
        found.extend(attempts);
    }
    Ok(found)
}
