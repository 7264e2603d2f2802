use std::collections::VecDeque;

use super::*;

const NO_SERVER_SLOT: Option<WaitsFor> = Some(slot(SlotClass::Work, true, false));
const NO_REPOSITORY_SLOT: Option<WaitsFor> = Some(slot(SlotClass::Work, false, true));

const fn slot(class: SlotClass, is_server_full: bool, is_repository_full: bool) -> WaitsFor {
    WaitsFor::Slot { class, is_server_full, is_repository_full }
}

fn name(number: usize) -> LayerName {
    format!("layer{number:05}").parse().unwrap()
}

#[test]
fn slots_are_offered_in_turn_and_drift_comes_last() {
    let mut waiting = Waiting::default();
    let mut looked_at = |layer, waits_for| waiting.looked_at(&name(layer), "infra", waits_for);
    for (layer, waits_for) in [
        (1, Some(slot(SlotClass::Drift, true, false))),
        (2, Some(WaitsFor::State)),
        (3, NO_SERVER_SLOT),
        (4, NO_SERVER_SLOT),
    ] {
        assert_eq!(looked_at(layer, waits_for), None);
    }
    // Looked at for another reason, a layer keeps its turn.
    assert_eq!(looked_at(3, NO_SERVER_SLOT), None);
    assert_eq!(waiting.for_states(), BTreeSet::from([name(2)]));
    assert_eq!(waiting.offer(), Some(name(3)));
    let mut looked_at = |layer, waits_for| waiting.looked_at(&name(layer), "infra", waits_for);
    // It waits for a state now, so the slot is still free.
    assert_eq!(looked_at(3, Some(WaitsFor::State)), Some(name(4)));
    // The server had none: no other layer is asked, and it stays the first one.
    assert_eq!(looked_at(4, NO_SERVER_SLOT), None);
    assert_eq!(waiting.offer(), Some(name(4)));
    assert_eq!(waiting.looked_at(&name(4), "infra", None), Some(name(1)));
    assert_eq!(waiting.looked_at(&name(1), "infra", None), None);
    assert_eq!(waiting.offer(), None);
    assert_eq!(waiting.for_states(), BTreeSet::from([name(2), name(3)]));
}

#[test]
fn full_repository_does_not_keep_a_slot_from_others_and_gets_its_turn_again() {
    let mut waiting = Waiting::default();
    for (layer, repository) in [(1, "full"), (2, "full"), (3, "other"), (4, "full")] {
        assert_eq!(waiting.looked_at(&name(layer), repository, NO_SERVER_SLOT), None);
    }
    assert_eq!(waiting.offer(), Some(name(1)));
    // Of the other layers of its repository, none is asked.
    assert_eq!(waiting.looked_at(&name(1), "full", NO_REPOSITORY_SLOT), Some(name(3)));
    assert_eq!(waiting.looked_at(&name(3), "other", None), None);
    assert_eq!(waiting.offer(), None);
    // A layer that begins to wait for its full repository is not asked either.
    assert_eq!(waiting.looked_at(&name(5), "full", NO_REPOSITORY_SLOT), None);
    assert_eq!(waiting.offer(), None);
    waiting.freed("other");
    assert_eq!(waiting.offer(), None);
    // An attempt of the repository has ended: the first one has kept its turn.
    waiting.freed("full");
    assert_eq!(waiting.offer(), Some(name(1)));
    assert_eq!(waiting.looked_at(&name(1), "full", None), Some(name(2)));
    assert_eq!(waiting.looked_at(&name(2), "full", NO_REPOSITORY_SLOT), None);
    // A new configuration has a higher limit.
    waiting.limits_changed();
    assert_eq!(waiting.offer(), Some(name(2)));
    // The layer has another repository now.
    assert_eq!(waiting.looked_at(&name(2), "other", NO_REPOSITORY_SLOT), Some(name(4)));
}

#[test]
fn repository_without_a_slot_for_drift_has_one_for_commits() {
    let mut waiting = Waiting::default();
    let no_drift_slot = Some(slot(SlotClass::Drift, false, true));
    assert_eq!(waiting.looked_at(&name(1), "infra", no_drift_slot), None);
    assert_eq!(waiting.offer(), None);
    assert_eq!(waiting.looked_at(&name(2), "infra", NO_SERVER_SLOT), None);
    assert_eq!(waiting.offer(), Some(name(2)));
    assert_eq!(waiting.looked_at(&name(2), "infra", None), None);
    waiting.freed("infra");
    assert_eq!(waiting.offer(), Some(name(1)));
}

/// Ten thousand layers of three repositories, of which two are limited. Each layer runs once, and ends
/// in the order of the starts. Returns the number of looks.
fn looks_until_all_ran(layers: usize) -> usize {
    const SLOTS: usize = 7;
    let repository = |layer: usize| ["one", "two", "unlimited"][layer % 3];
    let limit = |repository: &str| match repository {
        "one" => 1,
        "two" => 2,
        _ => usize::MAX,
    };
    let mut waiting = Waiting::default();
    let (mut running, mut looks) = (VecDeque::<usize>::new(), 0);
    let mut done = HashMap::<&str, Vec<usize>>::new();
    let numbers: HashMap<LayerName, usize> = (0..layers).map(|it| (name(it), it)).collect();
    let mut queue: VecDeque<LayerName> = (0..layers).map(name).collect();
    loop {
        while let Some(layer) = queue.pop_front() {
            looks += 1;
            let number = numbers[&layer];
            let own = repository(number);
            let of_repository = running.iter().filter(|it| repository(**it) == own).count();
            let is_server_full = running.len() >= SLOTS;
            let is_repository_full = of_repository >= limit(own);
            let starts = !is_server_full && !is_repository_full;
            if starts {
                running.push_back(number);
            }
            let waits_for =
                (!starts).then_some(slot(SlotClass::Work, is_server_full, is_repository_full));
            queue.extend(waiting.looked_at(&layer, own, waits_for));
        }
        let Some(ended) = running.pop_front() else { break };
        done.entry(repository(ended)).or_default().push(ended);
        waiting.freed(repository(ended));
        queue.extend(waiting.offer());
    }
    assert_eq!(done.values().map(Vec::len).sum::<usize>(), layers);
    // No layer is overtaken within its repository.
    for (repository, ended) in done {
        assert!(ended.is_sorted(), "{repository}");
    }
    looks
}

#[test]
fn all_layers_start_and_few_are_looked_at_in_vain() {
    for layers in [500, 10_000] {
        let looks = looks_until_all_ran(layers);
        assert!(looks <= 4 * layers, "{layers}: {looks}");
    }
}
