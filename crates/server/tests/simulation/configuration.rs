//! What the configuration of a scenario says about layers.

use std::time::Duration;

use butler_protocol::backend::DriftComparison;
use butler_server::controller::ConfiguredLayer;
use butler_server::model::{DriftCheck, Layer, LayerName, Strategy, Timeouts};

use crate::ops::LayerKind;
use crate::renames::local_state;

const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The layer with this index.
pub(crate) fn configured(index: usize, kind: &LayerKind, kinds: &[LayerKind]) -> ConfiguredLayer {
    let name = |index: usize| -> LayerName { format!("layer-{index}").parse().unwrap() };
    // The configuration refuses layers that come after one that is never applied.
    let applied = |upstream: &&usize| kinds[**upstream].strategy != Strategy::PlanOnly;
    let next = kinds.get(index + 1);
    let shares_state =
        (kind.shares_state && index > 0) || next.is_some_and(|next| next.shares_state);
    ConfiguredLayer {
        layer: Layer {
            name: name(index),
            strategy: kind.strategy,
            drift: kind.drift_repair.map(|repair| DriftCheck {
                every: secs(3600),
                repair,
                compare: DriftComparison::State,
            }),
            destroy_limit: kind.destroy_limit,
            most_attempts: 3,
            timeouts: Timeouts { plan: secs(600), apply: secs(1200) },
            plan_lifetime: secs(kind.plan_lifetime),
            after: kind.after.iter().filter(applied).map(|upstream| name(*upstream)).collect(),
            has_backend: true,
            formerly: None,
            conflict: None,
        },
        repository: if kind.is_limited { "limited" } else { "infra" }.to_owned(),
        state_key: if kind.is_local && !shares_state {
            local_state(&name(index))
        } else {
            format!("state-{}", index - usize::from(kind.shares_state && index > 0))
        },
        windows: Vec::new(),
    }
}
