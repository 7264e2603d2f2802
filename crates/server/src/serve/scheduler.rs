//! Decides about layers when something happened to them, and when their time has come.

mod limits;
mod news;
mod shared;
mod start;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

pub(super) use self::news::Shared;
use self::news::news;
use super::desired::Desired;
use super::start_rate::StartRate;
use super::view::{LayerView, Views};
use super::waiting::{Waiting, WaitsFor};
use crate::controller::{Controller, Executor, Limits, StepError};
use crate::decision::{Decision, Step};
use crate::event::Event;
use crate::layers::{Catalog, LayerSource};
use crate::model::{Breaker, Gate, LayerName, Phase, Reason, RunId};
use crate::store::{AttemptId, Outcome, Snapshot, Store};

/// How many steps are made for a layer before others get their turn.
const MOST_STEPS: u32 = 32;

/// The wait after a step that failed, for example because the store did not answer.
const AFTER_FAILURE: Duration = Duration::from_secs(5);

/// The time after which a server looks again whether it has read a commit that another one has read.
const READ_AGAIN: Duration = Duration::from_secs(2);

/// The time after which the room on the disk is looked at again.
const PLATFORM: Duration = Duration::from_mins(1);

/// How much may run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Capacity {
    /// The most attempts at the same time.
    pub(super) concurrency: u32,
    /// The most starts in a minute: of checks for drift, and of what is due after a start of the server.
    pub(super) starts_per_minute: u32,
}

/// Decides about one layer after the other. There is one for each server.
#[derive(Debug)]
pub(super) struct Scheduler<S, E> {
    store: Arc<S>,
    executor: Arc<E>,
    capacity: Capacity,
    rate: StartRate,
    /// The layers that have not been at rest since the server started.
    first_pass: HashSet<LayerName>,
    /// The breaker, as it was seen last.
    breaker: Breaker,
    /// The data directory.
    data: PathBuf,
    desired: Arc<Desired>,
    catalog: watch::Receiver<Arc<Catalog>>,
    views: Arc<Views>,
    /// When to look at each layer again.
    looks: HashMap<LayerName, Instant>,
    queue: BTreeSet<(Instant, LayerName)>,
    waiting: Waiting,
    /// The repository of the newest attempt of each layer. The layer can have another one now.
    occupied: HashMap<LayerName, String>,
    /// The run of each attempt that was started, if they are collected: a server would collect them
    /// for ever.
    pub(super) started: Option<Vec<RunId>>,
    /// What other servers do, if they share the store.
    shared: Option<Shared>,
    /// The last entry of the journal that was heard of.
    heard: u64,
}

impl<S: Store, E: Executor> Scheduler<S, E> {
    pub(super) fn new(
        store: Arc<S>,
        executor: Arc<E>,
        capacity: Capacity,
        data: PathBuf,
        desired: Arc<Desired>,
        views: Arc<Views>,
    ) -> Self {
        Self {
            store,
            executor,
            capacity,
            rate: StartRate::new(capacity.starts_per_minute),
            first_pass: HashSet::new(),
            breaker: Breaker::Closed,
            data,
            catalog: desired.catalogs(),
            desired,
            views,
            looks: HashMap::new(),
            queue: BTreeSet::new(),
            waiting: Waiting::default(),
            occupied: HashMap::new(),
            started: None,
            shared: None,
            heard: 0,
        }
    }

    /// Looks at a layer at `moment`, and not at the moment that was planned before.
    fn look_at(&mut self, layer: &LayerName, moment: Option<Instant>) {
        if let Some(planned) = self.looks.remove(layer) {
            self.queue.remove(&(planned, layer.clone()));
        }
        if let Some(moment) = moment {
            self.looks.insert(layer.clone(), moment);
            self.queue.insert((moment, layer.clone()));
        }
    }

    /// Looks at a layer as soon as possible. One that is due already keeps its turn.
    pub(super) fn wake(&mut self, layer: &LayerName) {
        let now = Instant::now();
        if self.looks.get(layer).is_none_or(|planned| *planned > now) {
            self.look_at(layer, Some(now));
        }
    }

    pub(super) fn executor(&self) -> &E {
        &self.executor
    }

    /// When the next layer is to be looked at.
    pub(super) fn next_look(&self) -> Option<Instant> {
        self.queue.first().map(|(moment, _)| *moment)
    }

    /// Handles events and due layers until `events` is closed.
    pub(super) async fn run(&mut self, events: &mut mpsc::UnboundedReceiver<Event>) {
        let mut catalog = self.catalog.clone();
        let mut shared = self.shared.clone();
        loop {
            let due = until(self.next_look());
            tokio::select! {
                event = events.recv() => match event {
                    Some(event) => self.handle(event).await,
                    None => return,
                },
                changed = catalog.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    self.wake_all().await;
                }
                news = news(&mut shared) => self.hear(news).await,
                () = due => {}
            }
            self.work_off(events).await;
        }
    }

    /// Looks at all layers that are due.
    pub(super) async fn work_off(&mut self, events: &mut mpsc::UnboundedReceiver<Event>) {
        loop {
            while let Ok(event) = events.try_recv() {
                self.handle(event).await;
            }
            let Some((moment, layer)) = self.queue.first().cloned() else { return };
            if moment > Instant::now() {
                return;
            }
            self.look_at(&layer, None);
            self.drive(&layer).await;
        }
    }

    pub(super) async fn handle(&mut self, event: Event) {
        match event {
            Event::FirstRead(layer) => {
                self.first_pass.insert(layer.clone());
                self.changed(&layer);
            }
            Event::Changed(layer) => self.changed(&layer),
            Event::Unread(repository) => self.unread(&repository),
            Event::BreakerReset => self.wake_all().await,
            Event::Finished(layer) => {
                self.wake(&layer);
                self.wake_others(&layer);
            }
            Event::Exited(attempt) => {
                self.probe(&attempt).await;
                self.wake(&attempt.layer);
                self.wake_others(&attempt.layer);
            }
        }
    }

    /// Looks at a layer, and at those that wait for it: a revert can make it applied again.
    fn changed(&mut self, layer: &LayerName) {
        let dependents: Vec<_> = self.catalog.borrow().dependents(layer).collect();
        for layer in dependents.iter().chain([layer]) {
            self.wake(layer);
        }
    }

    /// Looks at the layers that wait for the first reading of a repository: they say why it fails.
    fn unread(&mut self, repository: &str) {
        let catalog = Arc::clone(&self.catalog.borrow());
        for (name, source) in &catalog.layers {
            let is_read = self.views.layer(name).is_some_and(|view| view.phase != Phase::Observed);
            if source.configured.repository == repository && !is_read {
                self.wake(name);
            }
        }
    }

    /// Records the end of an attempt whose process has ended without reporting it.
    async fn probe(&self, attempt: &AttemptId) {
        let known = match self.store.run(&attempt.run).await {
            Ok(known) => known,
            Err(error) => {
                tracing::error!(%error, run = %attempt.run, "cannot read a run");
                return;
            }
        };
        let Some(running) = known.as_ref().and_then(|(_, run)| run.running()) else { return };
        // Only the server that started an attempt can look for it: others would take it for gone.
        if running.number != attempt.number || !self.executor.reaches(&running.place) {
            return;
        }
        let (run, number, reports) = (attempt.run.clone(), attempt.number, running.reports);
        let step = Step::Probe { run, attempt: number, reports };
        let limits = Limits::concurrency(self.capacity.concurrency);
        let controller = Controller::new(&*self.store, &*self.executor, limits);
        if let Err(error) = controller.perform(&attempt.layer, None, step).await {
            tracing::error!(%error, run = %attempt.run, "cannot record the end of an attempt");
        }
    }

    /// Decides about a layer until nothing can be done now. Others are looked at afterwards if an attempt has ended,
    /// also if a later step fails.
    async fn drive(&mut self, layer: &LayerName) {
        if self.make_steps(layer).await {
            self.wake_others(layer);
        }
    }

    /// Makes the steps of a layer. Returns whether one of them may have freed what others wait for.
    async fn make_steps(&mut self, layer: &LayerName) -> bool {
        let source = self.catalog.borrow().layers.get(layer).cloned();
        let configured = source.as_ref().map(|source| &source.configured);
        let (store, executor) = (Arc::clone(&self.store), Arc::clone(&self.executor));
        let limits = self.limits(self.first_pass.contains(layer));
        let limits = self.limits_of(layer, source.as_deref(), &limits);
        let controller = Controller::new(&*store, &*executor, limits);
        let mut frees_others = false;
        let mut last_step = None;
        for _ in 0..MOST_STEPS {
            let decided = match controller.decide(layer, configured).await {
                Ok(decided) => decided,
                Err(error) => {
                    self.failed(layer, &error);
                    return frees_others;
                }
            };
            let (snapshot, decision) = decided;
            // It concerns all layers, whichever attempt has opened it.
            if std::mem::replace(&mut self.breaker, snapshot.breaker) != snapshot.breaker {
                self.wake_all().await;
            }
            let Some(step) = decision.step.clone().filter(|step| self.makes(step)) else {
                // What is not known to be a layer any more can be one with a plan that waits.
                let may_be_missing = self.catalog.borrow().may_be_missing(layer);
                if !may_be_missing
                    && let Err(error) = controller.remove_plans(layer, configured, &snapshot).await
                {
                    tracing::warn!(%layer, %error, "cannot read which plan files are needed");
                }
                self.looked(layer, source.as_deref(), &snapshot, decision);
                return frees_others;
            };
            if self.waits_for_commit(source.as_deref(), &snapshot, &step) {
                self.looked(layer, source.as_deref(), &snapshot, decision);
                self.look_at(layer, Some(Instant::now() + READ_AGAIN));
                return frees_others;
            }
            let started = match &step {
                Step::Start { run, .. } => Some(run.clone()),
                _ => None,
            };
            let may_free = matches!(step, Step::EndAttempt { .. } | Step::Probe { .. });
            let former = match &step {
                Step::TakeOver { from } => Some(from.clone()),
                _ => None,
            };
            let moves_files = matches!(step, Step::MoveFiles { .. });
            let performed = controller.perform(layer, configured, step).await;
            let was_made = matches!(performed, Ok(Outcome::Made));
            if let Some(former) = former.filter(|_| was_made) {
                self.views.remove(&former);
                self.look_at(&former, None);
            }
            if may_free && was_made {
                frees_others = true;
                // Before the next start, which can be in another repository.
                self.free(layer);
            }
            if let Some(started) = started.filter(|_| !matches!(performed, Ok(Outcome::Refused))) {
                if let Some(all) = &mut self.started {
                    all.push(started);
                }
                self.rate.started(Instant::now());
                let repository = configured.map(|it| it.repository.clone()).unwrap_or_default();
                self.occupied.insert(layer.clone(), repository);
            }
            match performed {
                // If it was refused, the facts have changed since: decide again.
                Ok(Outcome::Made | Outcome::Refused) => {}
                // A person has to say which state is the right one.
                Err(StepError::Executor(error)) if moves_files => {
                    tracing::error!(%layer, %error, "cannot move the files of a renamed layer");
                    let reason = Reason::new(Gate::Platform, error.0);
                    let decision = Decision::blocked(reason);
                    self.looked(layer, source.as_deref(), &snapshot, decision);
                    return frees_others;
                }
                Err(error) => {
                    self.failed(layer, &error);
                    return frees_others;
                }
            }
            last_step = decision.step;
        }
        // Other layers get their turn. A step that is always refused is a bug, but must not be lost.
        tracing::warn!(%layer, ?last_step, "many steps were made at once; the layer is looked at again");
        self.looked_at(layer, source.as_deref(), None);
        self.look_at(layer, Some(Instant::now() + AFTER_FAILURE));
        frees_others
    }

    /// Shows what was decided about a layer, and looks at it again when it is time.
    fn looked(
        &mut self,
        layer: &LayerName,
        source: Option<&LayerSource>,
        snapshot: &Snapshot,
        mut decision: Decision,
    ) {
        // A plan can wait for its start behind an apply that waits for its retry.
        let is_limited = decision.reasons.iter().any(|reason| reason.gate == Gate::Rate);
        if decision.step.is_none() && decision.phase != Phase::PendingTrigger && !is_limited {
            self.first_pass.remove(layer);
        }
        let unread = source.filter(|_| decision.phase == Phase::Observed);
        if let Some(error) =
            unread.and_then(|it| self.desired.poll_error(&it.configured.repository))
        {
            let text = format!("cannot read the repository: {error}");
            decision.reasons = vec![Reason::new(Gate::Source, text)];
        }
        let waits_for = WaitsFor::of(&decision);
        self.looked_at(layer, source, waits_for);
        let mut next = decision.next_look.map(|next| Instant::now() + next.since(snapshot.now));
        if decision.reasons.iter().any(|reason| reason.gate == Gate::Platform) {
            let again = Instant::now() + PLATFORM;
            next = Some(next.map_or(again, |next| next.min(again)));
        }
        self.look_at(layer, next);
        // A layer that a person has forgotten, and that is not configured, is not shown.
        if source.is_none() && snapshot.observation.is_none() && snapshot.newest_run.is_none() {
            self.views.remove(layer);
        } else {
            let mut view = LayerView::new(layer, source, snapshot, &decision);
            view.is_unlisted = self.catalog.borrow().unlisted_namespace(layer).is_some();
            self.views.set(view);
        }
    }

    /// A slot that the layer does not take is offered to the next one.
    fn looked_at(
        &mut self,
        layer: &LayerName,
        source: Option<&LayerSource>,
        waits_for: Option<WaitsFor>,
    ) {
        let repository = source.map_or("", |source| &*source.configured.repository);
        if let Some(next) = self.waiting.looked_at(layer, repository, waits_for) {
            self.wake(&next);
        }
    }

    /// An attempt of the layer may have ended: its repository may have a slot.
    fn free(&mut self, layer: &LayerName) {
        if let Some(repository) = self.occupied.get(layer) {
            self.waiting.freed(repository);
        }
    }

    /// Looks at the layers that wait for what `layer` had, and at those that come after it.
    fn wake_others(&mut self, layer: &LayerName) {
        self.free(layer);
        let mut others = self.waiting.for_states();
        others.extend(self.waiting.offer());
        others.extend(self.catalog.borrow().dependents(layer));
        others.extend(self.catalog.borrow().successors(layer));
        for other in others {
            self.wake(&other);
        }
    }

    fn failed(&mut self, layer: &LayerName, error: &dyn std::error::Error) {
        tracing::error!(%layer, %error, "a step failed; it is tried again");
        self.looked_at(layer, None, None);
        self.look_at(layer, Some(Instant::now() + AFTER_FAILURE));
    }
}

/// Waits until `moment`, or for ever.
pub(super) async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
#[path = "scheduler/tests.rs"]
mod tests;
