//! Polls and decides once, for a cron job.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use butler_base::cancel::Stop;
use butler_cluster::KnownResources;

use super::leadership::LIFETIME;
use super::options::{Options, ServeError};
use super::parts::{Ground, prepare};
use super::poller::poll_each;
use super::scheduler::until;
use super::starting::Essentials;
use super::stopping::end_attempts;
use super::view::Views;
use crate::model::RunId;
use crate::store::{Deciders as _, Store};

/// What one pass did.
#[derive(Debug)]
pub struct Pass {
    /// The runs that did not succeed.
    pub failed: Vec<RunId>,
    /// Why repositories could not be read, by their names.
    pub unread: BTreeMap<String, String>,
    /// What is wrong with included configuration.
    pub include_errors: Vec<String>,
    /// The layers, as they are now.
    pub views: Arc<Views>,
}

/// Polls once, does what can be done now, and waits for what it has started. After `stop`, attempts
/// go on or are ended, as with [`serve`](super::serve).
///
/// # Errors
/// If the server cannot start, for example because another one uses the data directory.
pub async fn once(mut options: Options, stop: &Stop) -> Result<Pass, ServeError> {
    // The next pass would be limited again.
    options.starts_per_minute = u32::MAX;
    let stop_attempts = options.stop_attempts;
    let ground = Ground::of(&options)?;
    let essentials = Essentials::open(&options, &ground.data).await?;
    let prepared = prepare(options, ground, essentials, KnownResources::default()).await?;
    let (mut parts, mut scheduler, mut events) = prepared;
    if parts.store.is_shared() {
        let lease = parts.store.decide(&parts.name, LIFETIME).await?;
        if lease.holder != parts.name {
            return Err(ServeError::Decided(lease.holder));
        }
        let _ = parts.leadership.clone().wait_for(|leadership| leadership.decides()).await;
    }
    let unread = poll_each(&parts.desired, |name| parts.poller(name), stop).await;
    // If it does not get to its end, the next pass continues.
    tokio::spawn(parts.remove_old());
    scheduler.started = Some(Vec::new());
    scheduler.find_attempts().await?;
    scheduler.wake_all().await;
    // How many attempts were started before the last look at all layers.
    let mut looked_after = None;
    loop {
        scheduler.work_off(&mut events).await;
        if stop.reason().is_some() {
            break;
        }
        if parts.store.busy().await?.is_empty() {
            let started = scheduler.started.as_ref().map(Vec::len);
            if looked_after == started {
                break;
            }
            // All attempts have reported, perhaps after the last look at their layers: what is shown
            // would be old, and a layer that waited for them would not be started.
            tokio::select! {
                () = scheduler.executor().all_ended() => {}
                _ = stop.requested() => {}
            }
            scheduler.wake_all().await;
            looked_after = started;
            continue;
        }
        tokio::select! {
            event = events.recv() => if let Some(event) = event {
                scheduler.handle(event).await;
            },
            // A look at an attempt that is silent, or at a step that failed.
            () = until(scheduler.next_look()) => {}
            _ = stop.requested() => break,
        }
    }
    if let Some(limit) = stop_attempts.filter(|_| stop.reason().is_some()) {
        end_attempts(&*parts.store, &mut scheduler, &mut events, stop, limit).await?;
    }
    let mut failed = Vec::new();
    let started: BTreeSet<_> = scheduler.started.take().into_iter().flatten().collect();
    for id in started {
        let run = parts.store.run(&id).await?;
        if run.is_none_or(|(_, run)| !run.has_succeeded()) {
            failed.push(id);
        }
    }
    let include_errors = parts.desired.include_errors();
    parts.copies.finish().await;
    parts.resign().await;
    Ok(Pass { failed, unread, include_errors, views: parts.views })
}
