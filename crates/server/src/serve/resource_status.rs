//! What the server knows about the repositories, layers and followers that custom resources define.

use std::collections::BTreeMap;
use std::sync::Arc;

use butler_cluster::{ConditionStatus, ResourceKey, ResourceKind};
use butler_follower::state::Record;

use super::desired::{Desired, Poll};
use super::view::{DriftView, LayerView, Views};
use crate::layers::Catalog;
use crate::resources::{Holds, Observed};

/// The most names of layers in a message.
const MOST_NAMES: usize = 10;

/// The most letters of a message.
const MOST_LETTERS: usize = 2_000;

/// What the server knows at one moment.
pub(super) struct Known<'a> {
    desired: &'a Desired,
    polls: BTreeMap<String, Poll>,
    catalog: Arc<Catalog>,
    views: &'a Views,
    /// By the ids of the followers.
    records: BTreeMap<String, Record>,
}

impl<'a> Known<'a> {
    pub(super) fn new(
        desired: &'a Desired,
        views: &'a Views,
        records: BTreeMap<String, Record>,
    ) -> Self {
        let catalog = desired.catalogs().borrow().clone();
        Self { desired, polls: desired.polls(), catalog, views, records }
    }

    /// What is known of what a resource defines.
    pub(super) fn of(&self, key: &ResourceKey) -> Observed {
        let name = key.full_name();
        let known = match key.kind {
            ResourceKind::Repository => self.polls.get(&name).map(of_repository),
            ResourceKind::Layer => self.of_layer(&name),
            ResourceKind::Follower => self.records.get(&name).map(of_follower),
        };
        let mut known = known.unwrap_or_else(Observed::nothing);
        if !self.desired.is_read(key) {
            known.ready =
                unknown("Pending", "the repository was not read since the resource has changed");
        }
        known
    }

    fn of_layer(&self, name: &str) -> Option<Observed> {
        let Some(members) = self.catalog.members.get(name) else {
            let config = self.desired.config();
            let has_path = config.layers.get(name)?.entry.path.is_some();
            let ready = if has_path {
                holds(false, "NameConflict", "another layer has this name: rename one of them")
            } else {
                holds(
                    false,
                    "NoLayers",
                    "no directory matches `paths`, or there are too many; `layer list` says more",
                )
            };
            return Some(Observed {
                layers: (!has_path).then_some(0),
                ready,
                ..Observed::nothing()
            });
        };
        let views: Vec<_> = members.iter().filter_map(|name| self.views.layer(name)).collect();
        match (&members[..], &views[..]) {
            ([only], [view]) if only.as_str() == name => Some(of_view(view)),
            (_, views) if views.len() < members.len() => None,
            (_, views) => Some(of_set(views)),
        }
    }
}

fn of_repository(poll: &Poll) -> Observed {
    let ready = match &poll.error {
        None => holds(true, "Read", "the server has read it"),
        Some(error) => holds(false, "Unreadable", error),
    };
    Observed { ready, ..Observed::nothing() }
}

fn of_view(view: &LayerView) -> Observed {
    let phase = format!("{:?}", view.phase);
    let reasons: Vec<String> = view.reasons.iter().map(ToString::to_string).collect();
    let drifted = match view.drift {
        DriftView::Found => holds(true, "Found", "the last check found drift"),
        DriftView::None => holds(false, "NotFound", "the last check found no drift"),
        DriftView::Unknown => unknown("NotApplied", "nothing was applied yet"),
        DriftView::Unchecked => unknown("NotChecked", "it was not checked since the last apply"),
    };
    Observed {
        ready: holds(view.is_done(), &phase, &reasons.join("; ")),
        keeps_ready: view.is_checked(),
        phase: Some(phase),
        commit: view.applied_revision.as_ref().map(|revision| revision.commit.to_string()),
        layers: None,
        drifted: Some(drifted),
    }
}

/// The layers of a set together.
fn of_set(views: &[Arc<LayerView>]) -> Observed {
    let named = |selects: &dyn Fn(&LayerView) -> bool| {
        let names: Vec<_> =
            views.iter().filter(|view| selects(view)).map(|view| view.name.as_str()).collect();
        match names.len().checked_sub(MOST_NAMES) {
            Some(more @ 1..) => format!("{}, and {more} more", names[..MOST_NAMES].join(", ")),
            _ => names.join(", "),
        }
    };
    let open = named(&|view| !view.is_done() && !view.is_checked());
    let drifted = named(&|view| view.drift == DriftView::Found);
    let ready = if open.is_empty() {
        holds(true, "AllReady", "all layers are ready")
    } else {
        holds(false, "NotAllReady", &format!("not ready: {open}"))
    };
    let drifted = if drifted.is_empty() {
        holds(false, "NotFound", "no check found drift")
    } else {
        holds(true, "Found", &format!("drift was found: {drifted}"))
    };
    Observed {
        phase: None,
        commit: None,
        layers: Some(views.len()),
        ready,
        keeps_ready: false,
        drifted: Some(drifted),
    }
}

fn of_follower(record: &Record) -> Observed {
    let phase = record.phase.as_str();
    let is_delivered =
        matches!(record.phase, butler_follower::Phase::Noop | butler_follower::Phase::Succeeded);
    Observed {
        phase: Some(phase.to_owned()),
        commit: record.succeeded.as_ref().map(ToString::to_string),
        ready: holds(is_delivered, phase, &record.message),
        ..Observed::nothing()
    }
}

fn holds(holds: bool, reason: &str, message: &str) -> Holds {
    let status = if holds { ConditionStatus::True } else { ConditionStatus::False };
    Holds {
        status,
        reason: reason.to_owned(),
        message: message.chars().take(MOST_LETTERS).collect(),
    }
}

fn unknown(reason: &str, message: &str) -> Holds {
    Holds { status: ConditionStatus::Unknown, ..holds(false, reason, message) }
}
