//! What the scheduler does when the server starts: it finds the attempts of earlier servers, and looks
//! at every layer once, so that the server is ready only when it can show all of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Scheduler;
use crate::controller::{Controller, Executor, Probe};
use crate::model::{LayerName, Liveness};
use crate::store::{AttemptId, Store, StoreResult};

impl<S: Store, E: Executor> Scheduler<S, E> {
    /// Finds the attempts of an earlier server again. Those that have ended meanwhile are recorded.
    pub(in crate::serve) async fn find_attempts(&mut self) -> StoreResult<()> {
        let mut alive = 0;
        for layer in self.store.busy().await? {
            let snapshot = self.store.snapshot(&layer, "", &[]).await?;
            for run in &snapshot.facts.runs {
                let Some(running) = run.running() else { continue };
                self.occupied.insert(layer.clone(), running.repository.clone());
                if !self.executor.reaches(&running.place) {
                    continue;
                }
                let (layer, run) = (layer.clone(), run.id.clone());
                let attempt = AttemptId { layer, run, number: running.number };
                match self.executor.probe(&attempt).await {
                    Probe::Liveness(Liveness::Alive) => alive += 1,
                    // A process that has not recorded itself yet is told that it comes too late.
                    _ => self.probe(&attempt).await,
                }
            }
            // Before all others.
            self.wake(&layer);
        }
        if alive > 0 {
            tracing::info!("{alive} attempts that an earlier server has started still run");
        }
        Ok(())
    }

    /// Looks at all layers without a step for any of them. Layers for which something can be done are
    /// due afterwards. The starts of all layers are limited until they are at rest for the first time.
    pub(in crate::serve) async fn look_at_all(&mut self) -> StoreResult<()> {
        let all = self.all_layers().await?;
        self.first_pass.extend(all.iter().cloned());
        let catalog = Arc::clone(&self.catalog.borrow());
        let (store, executor) = (Arc::clone(&self.store), Arc::clone(&self.executor));
        let limits = self.limits(true);
        for name in &all {
            let source = catalog.layers.get(name).map(|source| &**source);
            let limits = self.limits_of(name, source, &limits);
            let controller = Controller::new(&*store, &*executor, limits);
            let configured = source.map(|source| &source.configured);
            let (snapshot, decision) = controller.decide(name, configured).await?;
            let has_step = decision.step.is_some();
            self.breaker = snapshot.breaker;
            self.looked(name, source, &snapshot, decision);
            if has_step {
                self.wake(name);
            }
        }
        Ok(())
    }

    /// Looks at all layers soon.
    pub(in crate::serve) async fn wake_all(&mut self) {
        self.waiting.limits_changed();
        match self.all_layers().await {
            Ok(all) => all.iter().for_each(|layer| self.wake(layer)),
            Err(error) => tracing::error!(%error, "cannot read the names of layers"),
        }
    }

    /// The layers of the configuration, and those that were in it: the store has facts about them, or
    /// they were shown before anything was known about them.
    async fn all_layers(&self) -> StoreResult<BTreeSet<LayerName>> {
        let mut all: BTreeSet<LayerName> = self.catalog.borrow().layers.keys().cloned().collect();
        all.extend(self.views.all().iter().map(|view| view.name.clone()));
        all.extend(self.store.layers().await?);
        Ok(all)
    }
}
