//! The state of a layer or a run in words, with the style of its colour.

use super::layout::sentence;
use crate::model::{Action, ChangeCounts, DriftKind, Phase};
use crate::serve::{DriftView, LayerView, RunView};

/// A state in one or two words.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct StateWord {
    /// The name of its style: `succeeded`, `failed`, `planned`, `running`, `cancelled` or `idle`.
    pub(super) style: &'static str,
    pub(super) word: &'static str,
}

const fn word(style: &'static str, word: &'static str) -> StateWord {
    StateWord { style, word }
}

/// Whether a layer waits for a person who approves its plan.
pub(super) const fn waits_for_approval(view: &LayerView) -> bool {
    view.waiting_run.is_some()
}

/// Whether the work of a layer has failed, so that a person or a retry is needed.
pub(super) fn has_failed(view: &LayerView) -> bool {
    matches!(view.phase, Phase::Failed | Phase::Blocked) && !view.is_held()
}

/// Whether the breaker holds a layer.
pub(super) fn is_held(view: &LayerView) -> bool {
    view.is_held()
}

/// Whether something was changed outside of Terraform.
pub(super) fn has_drift(view: &LayerView) -> bool {
    view.drift == DriftView::Found
}

/// Whether an attempt runs.
pub(super) const fn is_running(view: &LayerView) -> bool {
    matches!(view.phase, Phase::Triggering | Phase::ClosingOut)
}

/// The state of a layer.
pub(super) fn of_layer(view: &LayerView) -> StateWord {
    match view.phase {
        _ if view.repository.is_none() => word("idle", "Not configured"),
        Phase::Triggering | Phase::ClosingOut => word("running", "Running"),
        _ if view.paused_by.is_some() => word("cancelled", "Paused"),
        _ if waits_for_approval(view) => word("planned", "Waiting for approval"),
        Phase::Failed => word("failed", "Failed"),
        Phase::Blocked if view.is_held() => word("planned", "Held"),
        Phase::Blocked => word("failed", "Blocked"),
        _ if has_drift(view) => word("cancelled", "Drifted"),
        Phase::PendingTrigger => word("idle", "Waiting"),
        Phase::Observed => word("idle", "New"),
        Phase::Noop | Phase::Succeeded => word("succeeded", "Up to date"),
        Phase::Superseded => word("idle", "Superseded"),
        Phase::Skipped => word("idle", "Skipped"),
    }
}

/// Why a layer is in its state, in one sentence.
pub(super) fn why(view: &LayerView) -> String {
    if let Some(reason) = view.reasons.first() {
        return sentence(&reason.text);
    }
    match view.phase {
        _ if view.repository.is_none() => "The layer is no longer in the configuration.".to_owned(),
        Phase::Observed => "Its repository was read; nothing was decided yet.".to_owned(),
        Phase::Triggering => "A run is being started.".to_owned(),
        Phase::ClosingOut => {
            let action = view.last_run.as_ref().map(|run| doing(run.action));
            format!("{} now.", action.unwrap_or("Running"))
        }
        _ if view.drift_kind == Some(DriftKind::ChangedOutside) && has_drift(view) => {
            "The layer was changed outside of this server: another program has written its state."
                .to_owned()
        }
        _ if view.drift_kind == Some(DriftKind::CodeDiffers) && has_drift(view) => {
            format!("{}; nothing was committed since.", wanted(view))
        }
        _ if has_drift(view) => {
            "Something was changed outside of Terraform; the configuration was not changed since."
                .to_owned()
        }
        Phase::Noop | Phase::Succeeded if !view.failing_checks.is_empty() => {
            format!("Checks fail: {}.", view.failing_checks.join(", "))
        }
        Phase::Noop | Phase::Succeeded => {
            if view.drift == DriftView::None {
                "Nothing to do; the last check has found no drift.".to_owned()
            } else {
                "Nothing to do.".to_owned()
            }
        }
        Phase::PendingTrigger => "A run is due.".to_owned(),
        Phase::Failed | Phase::Blocked => "The last run has failed.".to_owned(),
        Phase::Superseded => "A newer commit took over.".to_owned(),
        Phase::Skipped => "Nothing is started.".to_owned(),
    }
}

/// The number of changes that the code wants, in words.
pub(super) fn wanted(view: &LayerView) -> String {
    match view.wanted_changes {
        Some(1) => "The code wants 1 change".to_owned(),
        Some(count) => format!("The code wants {count} changes"),
        None => "The code wants changes".to_owned(),
    }
}

/// The state of a run of a layer.
pub(super) fn of_run(layer: Option<&LayerView>, run: &RunView) -> StateWord {
    let is_last_check = |view: &&LayerView| view.drift_run.as_ref() == Some(&run.id);
    match run.phase {
        _ if layer.filter(is_last_check).is_some_and(has_drift) => word("cancelled", "Drift found"),
        _ if run.cancelling => word("cancelled", "Stopping"),
        Phase::Succeeded => word("succeeded", "Succeeded"),
        Phase::Failed if !run.over => word("failed", "Failed, is retried"),
        Phase::Failed | Phase::Blocked => word("failed", "Failed"),
        Phase::Skipped => word("cancelled", "Cancelled"),
        Phase::Superseded => word("idle", "Superseded"),
        Phase::Triggering => word("running", "Starting"),
        Phase::ClosingOut => word("running", "Running"),
        Phase::Noop | Phase::Observed | Phase::PendingTrigger => word("idle", "Waiting"),
    }
}

/// `Apply`, as the beginning of a title.
pub(super) const fn title(action: Action) -> &'static str {
    match action {
        Action::Plan => "Plan",
        Action::Apply => "Apply",
        Action::Destroy => "Destroy",
        Action::Drift => "Drift check",
        Action::Trigger => "Trigger",
    }
}

const fn doing(action: Action) -> &'static str {
    match action {
        Action::Plan => "Planning",
        Action::Apply => "Applying",
        Action::Destroy => "Destroying",
        Action::Drift => "Checking for drift",
        Action::Trigger => "Triggering",
    }
}

/// `+1 ~2 −3`, for a narrow column.
pub(super) fn counts(counts: Option<ChangeCounts>) -> String {
    counts.map(|it| it.short('\u{2212}')).unwrap_or_default()
}

/// The first eight digits of a commit.
pub(super) fn short(commit: &str) -> &str {
    commit.get(..8).unwrap_or(commit)
}
