//! The adapter `terraform`: a follower whose commits are delivered by a layer.
//!
//! The scheduler plans, applies and retries by itself, as the layer says. A follower makes it read the repository at once,
//! and reads how far the layer is with a commit. It asks for a plan only if a person has confirmed a run.

use butler_cluster::Creation;
use butler_follower::config::{ExternalRun, Follower, StageWork};
use butler_follower::state::StageProgress;
use butler_follower::{Action, Sighting};
use serde_json::json;

use super::view::{LayerView, Views};
use crate::api::{ApiState, plan_layer};
use crate::followers::Wanted;
use crate::model::{Cause, Gate, LayerName, Phase};
use crate::store::Store;

/// How far a layer is with the commit of its follower.
pub(super) fn read(views: &Views, wanted: Wanted<'_>) -> Sighting {
    // The run begins with its submission, also if the layer is already at the commit.
    if wanted.known.is_none_or(|known| known.progress == StageProgress::Waiting) {
        return Sighting::Absent;
    }
    let unknown = |why: String| Sighting::Unknown { why };
    let layer = match layer_of(wanted.follower, wanted.stage) {
        Ok(layer) => layer,
        Err(why) => return unknown(why),
    };
    match views.layer(&layer) {
        Some(view) => {
            let (phase, why) = standing(&view, wanted.commit.as_str());
            Sighting::Found(json!({
                "spec": {"commit": wanted.commit.as_str(), "layer": layer},
                "status": {
                    "phase": phase,
                    "message": why,
                    "run": view.last_run.as_ref().map(|run| &run.id),
                },
            }))
        }
        None => unknown(format!(
            "the layer `{layer}` is not in the configuration of the server, or was not read yet"
        )),
    }
}

/// Makes a layer deliver a commit.
pub(super) async fn submit<S: Store>(
    state: &ApiState<S>,
    follower: &Follower,
    action: &Action,
) -> Creation {
    let refused = |why: String| Creation::Refused { why };
    let layer = match layer_of(follower, &action.stage) {
        Ok(layer) => layer,
        Err(why) => return refused(why),
    };
    let Some(source) = state.source(&layer) else {
        return refused(format!("the layer `{layer}` is not in the configuration of the server"));
    };
    if action.is_confirmed {
        // A repetition names the same run.
        let cause = Cause::Person { request: action.object.name.clone() };
        if let Err(error) = plan_layer(state, layer.as_str(), cause).await {
            return refused(error.to_string());
        }
    } else {
        state.desired.request_poll(&source.configured.repository);
    }
    Creation::Exists
}

/// The layer of a stage.
fn layer_of(follower: &Follower, stage: &str) -> Result<LayerName, String> {
    let stage = follower.stages.iter().find(|known| known.name == stage);
    match stage.map(|stage| &stage.work) {
        Some(StageWork::Run(ExternalRun::Terraform { layer })) => {
            layer.parse().map_err(|_| format!("`{layer}` is not a name of a layer"))
        }
        _ => Err(format!("the adapter `{}` has no layer", follower.adapter.as_str())),
    }
}

/// The phase of a run, and why.
fn standing(view: &LayerView, commit: &str) -> (&'static str, String) {
    let reasons: Vec<String> = view.reasons.iter().map(ToString::to_string).collect();
    let because = reasons.join("; ");
    let has = |gate| view.reasons.iter().any(|reason| reason.gate == gate);
    let known = view.revision.as_ref().map(|revision| revision.commit.as_str());
    if known != Some(commit) {
        let known = known.unwrap_or("no commit");
        let mut why = format!(
            "the layer was read at {known}; its repository and its ref must be those of the follower"
        );
        if !because.is_empty() {
            why = format!("{why}; {because}");
        }
        return ("running", why);
    }
    let phase = match view.phase {
        Phase::Noop | Phase::Succeeded if view.is_done() => "succeeded",
        // The scheduler tries again by itself.
        Phase::Failed if has(Gate::Retry) => "running",
        // A layer that is not done then was destroyed by a person, or its plan was discarded.
        Phase::Failed | Phase::Blocked | Phase::Noop | Phase::Succeeded => "failed",
        Phase::Observed
        | Phase::PendingTrigger
        | Phase::Triggering
        | Phase::ClosingOut
        | Phase::Superseded
        | Phase::Skipped => "running",
    };
    (phase, because)
}
