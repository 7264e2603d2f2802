//! Layers that get another name, or their earlier one back.

use std::collections::BTreeSet;

use butler_server::controller::ConfiguredLayer;
use butler_server::model::{Facts, Former, Formerly, LayerName, Run, RunId};
use butler_server::store::{AttemptId, Store};

use crate::faulty_store::Crash;
use crate::world::{World, now};

/// The key of a state in the data directory, in the directory of a layer.
pub(crate) fn local_state(layer: &LayerName) -> String {
    format!("layer|{layer}")
}

/// What the store knows of a layer before its history moves.
#[derive(Debug)]
pub(crate) struct Moved {
    from: LayerName,
    facts: Facts,
    runs: Vec<Run>,
    /// The drift that was told last.
    drift: Option<String>,
}

impl World {
    /// The layer that has this name, or had it.
    pub(crate) fn index_of(&self, name: &LayerName) -> usize {
        self.names.iter().position(|names| names.contains(name)).unwrap()
    }

    /// The runs of a layer under all its names.
    pub(crate) fn runs_of(&self, layer: usize) -> Vec<Run> {
        self.names[layer].iter().flat_map(|name| self.store.inner.runs(name)).collect()
    }

    /// The runs of a layer, without those that a slow server has created for a name that did not have the history. They
    /// never start: a move of the history removes them.
    pub(crate) fn checked_runs(&self, layer: usize) -> Vec<Run> {
        let has_started = |run: &Run| !run.attempts.is_empty();
        let mut by_name: Vec<Vec<Run>> =
            self.names[layer].iter().map(|name| self.store.inner.runs(name)).collect();
        if by_name.iter().flatten().any(has_started) {
            by_name.retain(|runs| runs.iter().any(has_started));
        }
        by_name.concat()
    }

    /// The attempt with the name that its layer has in the store now, as the server finds it at each request.
    pub(crate) fn current(&self, id: &AttemptId) -> AttemptId {
        let found = now(self.store.inner.run(&id.run)).unwrap();
        AttemptId {
            layer: found.map_or_else(|| id.layer.clone(), |(layer, _)| layer),
            ..id.clone()
        }
    }

    /// The keys of the states that a layer has had.
    pub(crate) fn state_keys(&self, layer: usize) -> Vec<String> {
        if self.is_local(layer) {
            self.names[layer].iter().map(local_state).collect()
        } else {
            vec![self.layers[layer].state_key.clone()]
        }
    }

    pub(crate) fn is_local(&self, layer: usize) -> bool {
        self.layers[layer].state_key == local_state(&self.name(layer))
    }

    /// The key below which the state of a layer is, if it has one.
    fn found_state(&self, layer: usize) -> Option<String> {
        let machine = self.executor.machine.lock().unwrap();
        let has_state = |key: &String| {
            machine.infrastructure.get(key).is_some_and(|infrastructure| infrastructure.serial > 0)
        };
        self.state_keys(layer).into_iter().find(has_state)
    }

    /// The key below which the state of a layer is, or will be.
    pub(crate) fn place_of_state(&self, layer: usize) -> String {
        self.found_state(layer).unwrap_or_else(|| self.layers[layer].state_key.clone())
    }

    /// The earlier name of a layer, if the history of the layer is still there.
    pub(crate) fn former(&self, configured: &ConfiguredLayer) -> Option<Former> {
        let layer = &configured.layer;
        let formerly = layer.formerly.as_ref()?;
        now(self.store.inner.former(&layer.name, &formerly.name)).unwrap()
    }

    pub(crate) fn waits_for_history(&self, configured: &ConfiguredLayer) -> bool {
        self.former(configured).is_some()
    }

    /// A layer gets a new name in the configuration, or its earlier one `back`. The server can end while it moves
    /// the history.
    pub(crate) fn rename(&mut self, layer: usize, back: bool, crash: Option<Crash>) {
        let current = self.name(layer);
        let earlier = self.layers[layer].layer.formerly.clone().map(|formerly| formerly.name);
        let name = match earlier {
            Some(earlier) if back => earlier,
            // The history would stay at a name that no layer mentions.
            _ if self.waits_for_history(&self.layers[layer]) => return,
            _ => format!("layer-{layer}-{}", self.names[layer].len()).parse().unwrap(),
        };
        self.executor.machine.lock().unwrap().count(if self.names[layer].contains(&name) {
            "a layer got its earlier name back"
        } else {
            "a layer got a new name"
        });
        if self.runs_of(layer).iter().any(|run| run.running().is_some()) {
            self.executor.machine.lock().unwrap().count("a layer was renamed during an attempt");
        }
        if !self.names[layer].contains(&name) {
            self.names[layer].push(name.clone());
        }
        if self.is_local(layer) {
            self.layers[layer].state_key = local_state(&name);
        }
        let formerly = Some(Formerly { name: current.clone(), is_certain: true });
        let renamed = &mut self.layers[layer].layer;
        (renamed.name, renamed.formerly) = (name.clone(), formerly);
        let after = self.layers.iter_mut().flat_map(|other| &mut other.layer.after);
        after.filter(|upstream| **upstream == current).for_each(|it| it.clone_from(&name));
        self.rested[layer] = None;
        self.conditions.version += 1;
        if crash.is_some() {
            self.store.faults.lock().unwrap().crash = crash;
        }
        self.poll();
        self.pass();
    }

    /// What is known of the earlier name before its history moves.
    pub(crate) fn before_move(&mut self, from: &LayerName) -> Moved {
        let drift = self.told_drift(from);
        let facts = now(self.store.inner.snapshot(from, "", &[])).unwrap().facts;
        Moved { from: from.clone(), facts, runs: self.store.inner.runs(from), drift }
    }

    /// The drift of a layer that was told last and has not ended.
    fn told_drift(&mut self, name: &LayerName) -> Option<String> {
        if let Err(violation) = self.hear_alarms() {
            self.violation = Some(violation);
        }
        self.alarms.open.get(&self.index_of(name)).cloned()
    }

    /// The history, the applied revision and the known drift are at the new name, and only there.
    pub(crate) fn check_move(&mut self, to: &LayerName, before: &Moved) {
        let Moved { from, facts, runs, drift } = before;
        if runs.is_empty() || !self.store.inner.runs(from).is_empty() {
            return;
        }
        self.executor.machine.lock().unwrap().count("a history was moved");
        let after = now(self.store.inner.snapshot(to, "", &[])).unwrap().facts;
        let ids = |runs: &[Run]| runs.iter().map(|run| run.id.clone()).collect::<Vec<_>>();
        let left = now(self.store.inner.snapshot(from, "", &[])).unwrap().facts;
        let is_same = (&after.applied, after.applied_at, &after.drift)
            == (&facts.applied, facts.applied_at, &facts.drift)
            && ids(&self.store.inner.runs(to)) == ids(runs)
            && after.files_of.contains(from);
        if !is_same || left.applied.is_some() || left.drift.is_some() {
            self.violation = Some(format!("the history of {from} is not that of {to}: {after:?}"));
        }
        let told = self.told_drift(to);
        if told != *drift {
            self.violation = Some(format!("drift {drift:?} of {from} became {told:?}"));
        }
        if facts.runs.iter().chain(runs).any(|run| run.running().is_some()) {
            self.violation = Some(format!("the history of {from} moved during an attempt"));
        }
    }

    /// Nothing starts before the history and the files are at the layer's name.
    pub(crate) fn check_name(&mut self, name: &LayerName, was_moved: bool) {
        let layer = self.index_of(name);
        let own = local_state(name);
        let other = self.found_state(layer).filter(|place| self.is_local(layer) && *place != own);
        if !was_moved {
            self.violation = Some(format!("{name} starts before its history and files were moved"));
        } else if let Some(place) = other {
            self.violation = Some(format!("{name} starts without its state, which is {place}"));
        }
    }

    /// Invariant 4: no run with an attempt is lost, and those of one layer have one name.
    pub(crate) fn check_history(&mut self, layer: usize, runs: &[Run]) -> Result<(), String> {
        let started: BTreeSet<&RunId> =
            runs.iter().filter(|run| !run.attempts.is_empty()).map(|run| &run.id).collect();
        if let Some(lost) = self.started[layer].iter().find(|known| !started.contains(known)) {
            return Err(format!("run {lost} of {} was lost", self.name(layer)));
        }
        for run in started {
            if !self.started[layer].contains(run) {
                self.started[layer].insert(run.clone());
            }
        }
        let has_history = |name: &&LayerName| {
            self.store.inner.runs(name).iter().any(|run| !run.attempts.is_empty())
        };
        if self.names[layer].len() > 1 && self.names[layer].iter().filter(has_history).count() > 1 {
            return Err(format!("the runs of {} have two names", self.name(layer)));
        }
        Ok(())
    }

    /// Old runs of a layer were removed.
    pub(crate) fn forget_removed(&mut self, layer: usize) {
        let known: BTreeSet<RunId> = self.runs_of(layer).into_iter().map(|run| run.id).collect();
        self.started[layer].retain(|run| known.contains(run));
    }
}
