//! Saved plans.

use std::time::Duration;

pub use butler_result::ChangeCounts;

use super::{Moment, PlanDigest};

/// What a successful plan run saved.
#[derive(Clone, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct SavedPlan {
    /// The SHA-256 of the plan file.
    pub digest: PlanDigest,
    /// What it would change.
    pub counts: ChangeCounts,
    /// Whether it changes nothing, outputs included.
    pub is_empty: bool,
    /// Whether its file is kept, so that it can be applied. Stores of the first version do not have it.
    #[serde(default)]
    pub is_stored: bool,
    /// When it was saved.
    pub saved: Moment,
    /// Who discarded it.
    pub discarded: Option<String>,
    /// Why it can no longer be applied, although the layer's digest is the same.
    pub stale: Option<StalePlan>,
}

impl SavedPlan {
    /// How long a plan can be applied, if the configuration does not say it.
    pub const LIFETIME: Duration = Duration::from_hours(7 * 24);

    /// Whether it was neither discarded nor found to be stale.
    #[must_use]
    pub const fn is_valid(&self) -> bool {
        self.discarded.is_none() && self.stale.is_none()
    }
}

/// Why a saved plan can no longer be applied.
#[derive(
    Clone, Copy, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum StalePlan {
    /// Another version of the tool is configured.
    Tool,
    /// Variables have other values.
    Variables,
    /// A secret has another value.
    Secrets,
    /// The state was changed since, as the attempt found.
    State,
    /// The layer was renamed. Plans contain paths with the name.
    Renamed,
    /// Its file is missing or cannot be decrypted.
    File,
}
