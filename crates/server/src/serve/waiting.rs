//! The layers that wait for what others have, and which of them are looked at when it becomes free.
//!
//! Looking at every layer that waits whenever one attempt ends would take time that grows with the
//! square of their number. So a slot that becomes free is offered to one layer after the other, until
//! one of them finds none.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::decision::Decision;
use crate::model::{Action, Gate, LayerName};

/// What a layer waits for.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum WaitsFor {
    /// A slot, for work that a commit or a person caused.
    Slot,
    /// A slot, for a check for drift only. It comes after everything else.
    DriftSlot,
    /// A state that another layer uses.
    State,
}

impl WaitsFor {
    /// What a layer waits for that was decided about like this. What opens by itself or by an event
    /// of the layer needs no place here.
    pub(super) fn of(decision: &Decision) -> Option<Self> {
        let needs_state = || decision.reasons.iter().any(|reason| reason.gate == Gate::Lease);
        match decision.slot_for {
            Some(Action::Drift) => Some(Self::DriftSlot),
            Some(_) => Some(Self::Slot),
            None => needs_state().then_some(Self::State),
        }
    }
}

/// The place of a layer: the one that began to wait first comes first.
type Place = (WaitsFor, u64);

/// The layers that wait.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    layers: BTreeMap<Place, LayerName>,
    places: HashMap<LayerName, Place>,
    /// The layers to which a slot was offered, with the places that they had.
    offered: HashMap<LayerName, Place>,
    /// How many layers began to wait.
    count: u64,
}

impl Waiting {
    /// The layer was looked at, and waits for this. Returns the layer to which a slot is offered next.
    pub(super) fn looked_at(
        &mut self,
        layer: &LayerName,
        waits_for: Option<WaitsFor>,
    ) -> Option<LayerName> {
        let offered = self.offered.remove(layer);
        let known = self.places.remove(layer).inspect(|place| {
            self.layers.remove(place);
        });
        let finds_none = matches!(waits_for, Some(WaitsFor::Slot | WaitsFor::DriftSlot));
        if let Some(waits_for) = waits_for {
            // It keeps its turn.
            let turn = known.or(offered).map_or_else(
                || {
                    self.count += 1;
                    self.count
                },
                |(_, turn)| turn,
            );
            self.places.insert(layer.clone(), (waits_for, turn));
            self.layers.insert((waits_for, turn), layer.clone());
        }
        // It took the slot, or has no use for it: perhaps there is another one.
        if offered.is_some() && !finds_none { self.offer() } else { None }
    }

    /// A slot is free. Returns the layer to which it is offered: it has to be looked at.
    pub(super) fn offer(&mut self) -> Option<LayerName> {
        let entry = self.layers.first_entry()?;
        let place = *entry.key();
        if place.0 == WaitsFor::State {
            return None;
        }
        let layer = entry.remove();
        self.places.remove(&layer);
        self.offered.insert(layer.clone(), place);
        Some(layer)
    }

    /// The layers that wait for a state.
    pub(super) fn for_states(&self) -> BTreeSet<LayerName> {
        self.layers.range((WaitsFor::State, 0)..).map(|(_, layer)| layer.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    fn name(number: usize) -> LayerName {
        format!("layer{number:04}").parse().unwrap()
    }

    #[test]
    fn slots_are_offered_in_turn_and_drift_comes_last() {
        let mut waiting = Waiting::default();
        for (layer, waits_for) in [
            (1, WaitsFor::DriftSlot),
            (2, WaitsFor::State),
            (3, WaitsFor::Slot),
            (4, WaitsFor::Slot),
        ] {
            assert_eq!(waiting.looked_at(&name(layer), Some(waits_for)), None);
        }
        assert_eq!(waiting.for_states(), BTreeSet::from([name(2)]));
        // Looked at for another reason, a layer keeps its turn.
        assert_eq!(waiting.looked_at(&name(3), Some(WaitsFor::Slot)), None);
        assert_eq!(waiting.offer(), Some(name(3)));
        // It waits for a state now, so the slot is still free.
        assert_eq!(waiting.looked_at(&name(3), Some(WaitsFor::State)), Some(name(4)));
        // There was none: nobody else is asked, and it stays the first one.
        assert_eq!(waiting.looked_at(&name(4), Some(WaitsFor::Slot)), None);
        assert_eq!(waiting.offer(), Some(name(4)));
        assert_eq!(waiting.looked_at(&name(4), None), Some(name(1)));
        assert_eq!(waiting.looked_at(&name(1), None), None);
        assert_eq!(waiting.offer(), None);
        assert_eq!(waiting.for_states(), BTreeSet::from([name(2), name(3)]));
    }

    #[test]
    fn all_layers_start_and_few_are_looked_at_in_vain() {
        const LAYERS: usize = 500;
        const SLOTS: usize = 7;
        let mut waiting = Waiting::default();
        let (mut running, mut looks, mut done) = (VecDeque::new(), 0, 0);
        let mut queue: VecDeque<LayerName> = (0..LAYERS).map(name).collect();
        loop {
            while let Some(layer) = queue.pop_front() {
                looks += 1;
                let has_slot = running.len() < SLOTS;
                if has_slot {
                    running.push_back(layer.clone());
                }
                let waits_for = (!has_slot).then_some(WaitsFor::Slot);
                queue.extend(waiting.looked_at(&layer, waits_for));
            }
            if running.pop_front().is_none() {
                break;
            }
            done += 1;
            queue.extend(waiting.offer());
        }
        assert_eq!(done, LAYERS);
        assert!(looks <= 3 * LAYERS, "{looks}");
    }
}
