//! Layers that take over the history of an earlier name.

use super::*;
use Phase::{Observed, PendingTrigger, Skipped, Triggering};

/// A plan that waits, of a layer that was called `old-name` and is to take over its history.
fn renamed(running: Option<(RunId, u32)>) -> World {
    auto().with(|world| {
        world.plan();
        let name = "old-name".parse().unwrap();
        world.layer.as_mut().unwrap().formerly = Some(Formerly { name, is_certain: true });
        world.surroundings.former = Some(Former { running });
    })
}

pub(super) fn rows() -> Vec<Row> {
    vec![
        (
            "history of the earlier name",
            renamed(None),
            (PendingTrigger, "take over old-name", &[], false),
        ),
        (
            "history of a paused layer",
            renamed(None).with(|w| w.facts.paused_by = Some("ana".to_owned())),
            (PendingTrigger, "take over old-name", &[], false),
        ),
        (
            "attempt of the earlier name runs",
            renamed(Some((RunId::new("r"), 1))),
            (PendingTrigger, "", &[Gate::Lease], false),
        ),
        (
            "earlier name can be a layer of a set",
            renamed(None).with(|w| {
                w.layer.as_mut().unwrap().formerly.as_mut().unwrap().is_certain = false;
            }),
            (PendingTrigger, "", &[Gate::Source], false),
        ),
        (
            "layer that was not read",
            renamed(None).with(|w| w.observation = None),
            (Observed, "", &[Gate::Source], false),
        ),
        (
            "history was taken over, and its files were not moved",
            renamed(None).with(|w| {
                w.surroundings.former = None;
                w.facts.files_of = vec!["old-name".parse().unwrap()];
            }),
            (PendingTrigger, "move files of old-name", &[], false),
        ),
        (
            "the same after `formerly` was removed",
            auto().with(|w| {
                w.plan();
                w.facts.files_of = vec!["old-name".parse().unwrap()];
            }),
            (PendingTrigger, "move files of old-name", &[], false),
        ),
        (
            "the same after the layer was removed",
            auto().with(|w| {
                w.plan();
                w.layer = None;
                w.facts.files_of = vec!["old-name".parse().unwrap()];
            }),
            (Skipped, "", &[Gate::Source], false),
        ),
        (
            "history was taken over",
            renamed(None).with(|w| w.surroundings.former = None),
            (Triggering, "start 1", &[], false),
        ),
    ]
}
