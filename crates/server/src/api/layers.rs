//! Requests about layers.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::error::ApiError;
use super::repositories::{self, PollView};
use super::state::{ApiState, Shared};
use super::user::User;
use super::{breaker, configuration};
use crate::event::Event;
use crate::layers::LayerSource;
use crate::model::{Gate, LayerName, Observation, Phase};
use crate::serve::{DriftView, LayerView};
use crate::store::{Snapshot, Store};

/// The most layers of one answer, and how many there are if the request does not say.
const MOST: usize = 1_000;

/// What layers can wait for in a list.
const WAITING: [&str; 2] = ["approval", "breaker"];

/// Which layers are listed.
#[derive(Debug, Default, JsonSchema)]
#[schemars(default)]
pub(crate) struct Filter {
    /// Only layers in this phase; can be repeated.
    #[schemars(rename = "phase", with = "Vec<Phase>")]
    pub(crate) phases: Vec<String>,
    /// Only layers that wait for this: `approval`, or `breaker` if the breaker holds them.
    pub(crate) waiting: Option<String>,
    /// Only layers with this drift.
    #[schemars(with = "Option<DriftView>")]
    pub(crate) drift: Option<String>,
    /// Only layers that are no longer in the configuration. They are left out otherwise.
    pub(crate) removed: bool,
    /// Only layers of this repository.
    pub(crate) repository: Option<String>,
    /// Only layers with this text in their name.
    pub(crate) q: Option<String>,
    /// The most layers of the answer, at most 1,000.
    pub(crate) limit: Option<usize>,
    /// The last layer of the answer before: only those that come after it.
    pub(crate) after: Option<String>,
}

impl Filter {
    /// `phase` can be given several times.
    pub(crate) fn parse(pairs: Vec<(String, String)>) -> Result<Self, ApiError> {
        let mut filter = Self::default();
        for (name, value) in pairs {
            match name.as_str() {
                "phase" => filter.phases.push(value),
                "waiting" => filter.waiting = Some(value),
                "drift" => filter.drift = Some(value),
                "repository" => filter.repository = Some(value),
                "removed" => {
                    one_of("removed", &value, &["true", "false"])?;
                    filter.removed = value == "true";
                }
                "q" => filter.q = Some(value),
                "after" => filter.after = Some(value),
                "limit" => {
                    let limit = value.parse::<usize>();
                    filter.limit = Some(limit.map_err(|_| {
                        ApiError::bad_request(format!("`limit` is a number, not `{value}`"))
                    })?);
                }
                _ => {
                    return Err(ApiError::bad_request(format!(
                        "`{name}` is not a parameter: use phase, waiting, drift, repository, removed, \
                         q, limit or after"
                    )));
                }
            }
        }
        let phases = Phase::ALL.map(name_of);
        for phase in &filter.phases {
            one_of("phase", phase, &phases)?;
        }
        for (name, given, values) in [
            ("waiting", &filter.waiting, &WAITING[..]),
            ("drift", &filter.drift, &DriftView::NAMES),
        ] {
            if let Some(given) = given {
                one_of(name, given, values)?;
            }
        }
        Ok(filter)
    }

    pub(crate) fn allows(&self, view: &LayerView) -> bool {
        let phases = &self.phases;
        let is =
            |given: &Option<String>, value: &str| given.as_deref().is_none_or(|it| it == value);
        let has_phase =
            phases.is_empty() || phases.iter().any(|phase| *phase == name_of(view.phase));
        let waits = self.waiting.as_deref().is_none_or(|gate| match gate {
            "breaker" => view.is_held(),
            _ => view.waiting_run.is_some(),
        });
        self.removed == view.is_removed()
            && has_phase
            && waits
            && is(&self.drift, view.drift.name())
            && is(&self.repository, view.repository.as_deref().unwrap_or_default())
            && self.q.as_deref().is_none_or(|part| view.name.as_str().contains(part))
            && self.after.as_deref().is_none_or(|after| view.name.as_str() > after)
    }
}

/// Refuses a value of the parameter `name` that is not one of `values`.
fn one_of(name: &str, given: &str, values: &[impl AsRef<str>]) -> Result<(), ApiError> {
    let values: Vec<&str> = values.iter().map(AsRef::as_ref).collect();
    if values.contains(&given) {
        return Ok(());
    }
    let values = values.join(", ");
    Err(ApiError::bad_request(format!("`{given}` is not a value of `{name}`: use {values}")))
}

fn name_of(phase: Phase) -> String {
    format!("{phase:?}")
}

pub(super) async fn list<S: Store>(
    State(state): State<Shared<S>>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<Json<Value>, ApiError> {
    let filter = Filter::parse(pairs)?;
    let limit = filter.limit.unwrap_or(MOST).clamp(1, MOST);
    let mut items: Vec<_> =
        state.views.all().into_iter().filter(|view| filter.allows(view)).take(limit + 1).collect();
    let next = (items.len() > limit).then(|| items[limit - 1].name.clone());
    items.truncate(limit);
    let items: Vec<&LayerView> = items.iter().map(|view| &**view).collect();
    let mut problems = state.desired.problems();
    problems.extend(breaker::problem(&*state.store).await?);
    Ok(Json(json!({"items": items, "next": next, "problems": problems})))
}

/// The view of a layer.
pub(crate) fn view<S>(state: &ApiState<S>, layer: &str) -> Result<Arc<LayerView>, ApiError> {
    let name: Option<LayerName> = layer.parse().ok();
    let view = name.and_then(|name| state.views.layer(&name));
    view.ok_or_else(|| ApiError::not_found(format!("there is no layer `{layer}`")))
}

/// A layer in full.
#[derive(Debug, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LayerInFull {
    #[serde(flatten)]
    view: LayerView,
    /// Whether the server has decided about the layer since its facts have changed.
    up_to_date: bool,
    /// All gates.
    gates: Vec<GateView>,
    /// The configuration in force, with the keys of configuration files; `null` if the layer is no
    /// longer in it.
    configuration: Option<Value>,
}

/// A gate, and why it is closed.
#[derive(Debug, JsonSchema, Serialize)]
pub(super) struct GateView {
    /// The gate.
    gate: Gate,
    /// Whether it is open.
    open: bool,
    /// Why it is closed.
    reason: Option<String>,
}

impl GateView {
    fn new(gate: Gate, view: &LayerView) -> Self {
        let reasons = view.reasons.iter().filter(|reason| reason.gate == gate);
        let reasons: Vec<&str> = reasons.map(|reason| reason.text.as_str()).collect();
        let open = reasons.is_empty();
        Self { gate, open, reason: (!open).then(|| reasons.join("; ")) }
    }
}

pub(super) async fn show<S: Store>(
    State(state): State<Shared<S>>,
    Path(layer): Path<String>,
) -> Result<Json<LayerInFull>, ApiError> {
    let view = view(&state, &layer)?;
    let Snapshot { observation, newest_run, .. } =
        state.store.snapshot(&view.name, "", &[]).await?;
    let revision = observation.as_ref().and_then(Observation::revision);
    let (seen, last) = (view.last_run.as_ref().map(|run| &run.id), newest_run);
    let is_current = view.revision.as_ref() == revision && seen == last.as_ref().map(|run| &run.id);
    let gates = Gate::ALL.iter().map(|gate| GateView::new(*gate, &view)).collect();
    let source = state.source(&view.name);
    let configuration = source.map(|source| configuration::in_force(&source)).transpose()?;
    let view = (*view).clone();
    Ok(Json(LayerInFull { view, up_to_date: is_current, gates, configuration }))
}

/// What the configuration says about a layer.
pub(super) fn configured<S>(
    state: &ApiState<S>,
    name: &LayerName,
) -> Result<Arc<LayerSource>, ApiError> {
    state.source(name).ok_or_else(|| {
        ApiError::conflict(format!("the layer `{name}` is no longer in the configuration"))
    })
}

pub(super) async fn sync<S: Store>(
    State(state): State<Shared<S>>,
    Path(layer): Path<String>,
) -> Result<(StatusCode, Json<PollView>), ApiError> {
    let source = configured(&state, &view(&state, &layer)?.name)?;
    repositories::poll(&state, &source.configured.repository)
}

/// Whether a layer is paused.
#[derive(Debug, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PauseView {
    /// The layer.
    name: LayerName,
    /// Who paused it.
    paused_by: Option<String>,
}

pub(super) async fn pause<S: Store>(
    State(state): State<Shared<S>>,
    Extension(user): Extension<User>,
    Path(layer): Path<String>,
) -> Result<Json<PauseView>, ApiError> {
    set_pause(&state, &layer, Some(&user.name)).await
}

pub(super) async fn resume<S: Store>(
    State(state): State<Shared<S>>,
    Path(layer): Path<String>,
) -> Result<Json<PauseView>, ApiError> {
    set_pause(&state, &layer, None).await
}

async fn set_pause<S: Store>(
    state: &ApiState<S>,
    layer: &str,
    by: Option<&str>,
) -> Result<Json<PauseView>, ApiError> {
    let view = view(state, layer)?;
    state.store.pause(&view.name, by).await?;
    // The receiver is gone when the server stops.
    let _ = state.events.send(Event::Changed(view.name.clone()));
    Ok(Json(PauseView { name: view.name.clone(), paused_by: by.map(str::to_owned) }))
}
