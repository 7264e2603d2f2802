//! What the configuration says about a layer.

use std::time::Duration;

use butler_protocol::backend::DriftComparison;

use super::LayerName;

/// What happens to a plan that has changes.
#[derive(
    Clone, Copy, Debug, Eq, PartialEq, schemars::JsonSchema, serde::Deserialize, serde::Serialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// It is never applied.
    PlanOnly,
    /// It is applied after an approval.
    Approve,
    /// It is applied at once.
    Auto,
}

/// When a layer is checked for drift, and what follows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DriftCheck {
    /// The time between two checks.
    pub every: Duration,
    /// Whether drift that was found is planned, so that the strategy can repair it.
    pub repair: bool,
    /// The side that each check compares with the state.
    pub compare: DriftComparison,
}

/// How long an attempt may take before it is stopped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Timeouts {
    /// For plans and drift checks.
    pub plan: Duration,
    /// For applies and destroys.
    pub apply: Duration,
}

/// The earlier name of a layer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Formerly {
    /// The name.
    pub name: LayerName,
    /// Whether it is certain that no layer of the configuration has the name. Members of layer sets can be
    /// unknown until their repository is read.
    pub is_certain: bool,
}

/// The part of a layer's configuration that the decision needs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Layer {
    /// The layer's name.
    pub name: LayerName,
    /// What happens to a plan.
    pub strategy: Strategy,
    /// `None` if the layer is not checked for drift.
    pub drift: Option<DriftCheck>,
    /// The most resources that a plan deletes, replaces or forgets if it needs no approval.
    pub destroy_limit: Option<u64>,
    /// The most attempts for one digest and action.
    pub most_attempts: u32,
    /// The limits of attempts.
    pub timeouts: Timeouts,
    /// How long a plan may wait before a new plan is made.
    pub plan_lifetime: Duration,
    /// The layers that must be applied first.
    pub after: Vec<LayerName>,
    /// Whether the module or the configuration names a state backend.
    pub has_backend: bool,
    /// The earlier name of the layer, whose history it takes over.
    pub formerly: Option<Formerly>,
    /// Why the layer cannot be used beside other layers, in one sentence.
    pub conflict: Option<String>,
}
