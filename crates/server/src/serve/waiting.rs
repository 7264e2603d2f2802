//! The layers that wait for what others have, and which of them are looked at when it becomes free.
//!
//! Looking at every layer that waits whenever one attempt ends would take time that grows with the
//! square of their number. So a slot that becomes free is offered to one layer after the other, until
//! one of them finds none. A layer that finds none only because its repository runs as many attempts
//! as it may does not end this: its repository is left out until one of its attempts has ended.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::decision::Decision;
use crate::model::{Action, Gate, LayerName};

/// What a layer waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum WaitsFor {
    /// A slot.
    Slot {
        /// Which layers it is offered to first.
        class: SlotClass,
        /// Whether the server has none.
        is_server_full: bool,
        /// Whether the layer's repository has none.
        is_repository_full: bool,
    },
    /// A state that another layer uses.
    State,
}

/// What a slot is needed for. The first one comes first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum SlotClass {
    /// Work that a commit or a person caused.
    Work,
    /// A check for drift only.
    Drift,
}

impl WaitsFor {
    /// What a layer waits for that was decided about like this. What opens by itself or by an event
    /// of the layer needs no place here.
    pub(super) fn of(decision: &Decision) -> Option<Self> {
        if let Some(needed) = decision.needs_slot {
            let is_drift = needed.action == Action::Drift;
            return Some(Self::Slot {
                class: if is_drift { SlotClass::Drift } else { SlotClass::Work },
                is_server_full: needed.is_server_full,
                is_repository_full: needed.is_repository_full,
            });
        }
        let needs_state = decision.reasons.iter().any(|reason| reason.gate == Gate::Lease);
        needs_state.then_some(Self::State)
    }
}

/// When it is a layer's turn: of one class, the one that began to wait first comes first.
type Turn = (SlotClass, u64);

/// Where a layer waits.
#[derive(Clone, Debug)]
enum Place {
    Slot(String, Turn),
    State(u64),
}

impl Place {
    /// How many layers had begun to wait when this one did.
    const fn count(&self) -> u64 {
        match self {
            Self::Slot(_, (_, count)) | Self::State(count) => *count,
        }
    }
}

/// The layers of one repository that wait for a slot.
#[derive(Debug, Default)]
struct Queue {
    layers: BTreeMap<Turn, LayerName>,
    /// The first class that the repository has no slot for. It has none for later ones either.
    full_from: Option<SlotClass>,
}

impl Queue {
    /// The turn of the layer that is offered the next slot.
    fn next(&self) -> Option<Turn> {
        let (turn, _) = self.layers.first_key_value()?;
        let is_full = self.full_from.is_some_and(|from| turn.0 >= from);
        (!is_full).then_some(*turn)
    }
}

/// The layers that wait.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// By repository. A queue that is empty is removed.
    queues: HashMap<String, Queue>,
    /// The next layer of each repository that is not known to be full, by its turn.
    next: BTreeMap<Turn, String>,
    for_states: BTreeSet<LayerName>,
    places: HashMap<LayerName, Place>,
    /// The layers to which a slot was offered, with the places that they had.
    offered: HashMap<LayerName, Place>,
    /// How many layers began to wait.
    count: u64,
}

impl Waiting {
    /// The layer of this repository was looked at, and waits for this. Returns the layer to which a
    /// slot is offered next.
    pub(super) fn looked_at(
        &mut self,
        layer: &LayerName,
        repository: &str,
        waits_for: Option<WaitsFor>,
    ) -> Option<LayerName> {
        let offered = self.offered.remove(layer);
        let was_offered = offered.is_some();
        let known = self.remove(layer).or(offered);
        if let Some(waits_for) = waits_for {
            // It keeps its turn.
            let count = known.map_or_else(
                || {
                    self.count += 1;
                    self.count
                },
                |place| place.count(),
            );
            self.insert(layer, repository, waits_for, count);
        }
        let ends = matches!(waits_for, Some(WaitsFor::Slot { is_server_full: true, .. }));
        // It took the slot, or cannot use it: perhaps there is another one.
        if was_offered && !ends { self.offer() } else { None }
    }

    fn insert(&mut self, layer: &LayerName, repository: &str, waits_for: WaitsFor, count: u64) {
        let place = match waits_for {
            WaitsFor::Slot { class, is_repository_full, .. } => {
                let turn = (class, count);
                self.change(repository, |queue| {
                    queue.layers.insert(turn, layer.clone());
                    if is_repository_full {
                        queue.full_from = Some(queue.full_from.map_or(class, |it| it.min(class)));
                    }
                });
                Place::Slot(repository.to_owned(), turn)
            }
            WaitsFor::State => {
                self.for_states.insert(layer.clone());
                Place::State(count)
            }
        };
        self.places.insert(layer.clone(), place);
    }

    /// Removes a layer that waits. Returns the place that it had.
    fn remove(&mut self, layer: &LayerName) -> Option<Place> {
        let place = self.places.remove(layer)?;
        match &place {
            Place::Slot(repository, turn) => {
                self.change(repository, |queue| drop(queue.layers.remove(turn)));
            }
            Place::State(_) => drop(self.for_states.remove(layer)),
        }
        Some(place)
    }

    /// Changes the queue of a repository, and with it the layer that is the next one.
    fn change(&mut self, repository: &str, change: impl FnOnce(&mut Queue)) {
        let queue = self.queues.entry(repository.to_owned()).or_default();
        let before = queue.next();
        change(queue);
        let after = queue.next();
        if queue.layers.is_empty() {
            self.queues.remove(repository);
        }
        if before != after {
            before.map(|turn| self.next.remove(&turn));
            after.map(|turn| self.next.insert(turn, repository.to_owned()));
        }
    }

    /// An attempt of this repository has ended: it may have a slot again.
    pub(super) fn freed(&mut self, repository: &str) {
        self.change(repository, |queue| queue.full_from = None);
    }

    /// The limits may have changed: each repository may have a slot.
    pub(super) fn limits_changed(&mut self) {
        let full: Vec<String> = self.queues.keys().cloned().collect();
        for repository in full {
            self.freed(&repository);
        }
    }

    /// A slot is free. Returns the layer to which it is offered: it has to be looked at.
    pub(super) fn offer(&mut self) -> Option<LayerName> {
        let (turn, repository) = self.next.first_key_value()?;
        let layer = self.queues.get(repository)?.layers.get(turn)?.clone();
        let place = self.remove(&layer)?;
        self.offered.insert(layer.clone(), place);
        Some(layer)
    }

    /// The layers that wait for a state.
    pub(super) fn for_states(&self) -> BTreeSet<LayerName> {
        self.for_states.clone()
    }
}

#[cfg(test)]
#[path = "waiting_tests.rs"]
mod tests;
