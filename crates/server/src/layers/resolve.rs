//! What a layer's configuration means for the decision.

use std::time::Duration;

use crate::config::{DEFAULT_REFERENCE, LayerEntry};
use crate::model::{DriftCheck, Layer, LayerName, SavedPlan, Strategy, Timeouts};

/// The time between two checks for drift.
const DRIFT: Duration = Duration::from_hours(4);

/// The most attempts for one digest and action.
const ATTEMPTS: u32 = 5;

/// The limit of a plan.
const PLAN_TIMEOUT: Duration = Duration::from_hours(1);

/// The limit of an apply.
const APPLY_TIMEOUT: Duration = Duration::from_hours(4);

/// What the decision needs to know about a layer.
///
/// [`Layer::after`] is empty, and [`Layer::formerly`] is not set: they depend on other entries.
pub(super) fn layer(name: LayerName, entry: &LayerEntry, has_backend: bool) -> Layer {
    let drift = entry.drift.as_ref();
    let every = drift.and_then(|drift| drift.every).map_or(DRIFT, |span| span.0);
    let repair = drift.and_then(|drift| drift.repair).unwrap_or_default();
    let compare = drift.and_then(|drift| drift.compare).unwrap_or_default();
    let timeout = entry.timeout.unwrap_or_default();
    Layer {
        name,
        // Plans through Terragrunt refer to copies of the module, so they cannot be saved.
        strategy: match entry.strategy {
            _ if entry.is_terragrunt() => Strategy::PlanOnly,
            strategy => strategy.unwrap_or(Strategy::Approve),
        },
        drift: Some(DriftCheck { every, repair, compare }),
        destroy_limit: entry.destroy_limit,
        most_attempts: entry.retries.map_or(ATTEMPTS, |retries| retries.max),
        timeouts: Timeouts {
            plan: timeout.plan.map_or(PLAN_TIMEOUT, |span| span.0),
            apply: timeout.apply.map_or(APPLY_TIMEOUT, |span| span.0),
        },
        plan_lifetime: entry.plan_lifetime.map_or(SavedPlan::LIFETIME, |span| span.0),
        after: Vec::new(),
        has_backend,
        formerly: None,
        conflict: None,
    }
}

/// The ref of a layer.
pub(super) fn reference(entry: &LayerEntry) -> &str {
    entry.reference.as_deref().unwrap_or(DEFAULT_REFERENCE)
}
