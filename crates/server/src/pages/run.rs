//! `/runs/ID`: the plan with its approval, the live log, diagnostics and timings.

use std::time::SystemTime;

use askama::Template;
use axum::Extension;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::Response;

use super::address::with_query;
use super::commits::named;
use super::layout::{Layout, Notice, Placeholder, respond_with, sentence};
use super::log_view::LogView;
use super::message::error_page;
use super::result::AttemptResult;
use super::state_words::{StateWord, counts, of_run, title};
use super::when::When;
use crate::api::{
    ApiError, Browser, Role, Shared, apply_of, attempt, directory, run as find_run, run_view,
    waits_for_window, why_not,
};
use crate::model::{Action, LayerName, Phase, Strategy};
use crate::serve::{LayerView, RunView, Timestamp};
use crate::store::{AttemptId, Store};

#[derive(Template)]
#[template(path = "run.html")]
struct RunPage {
    layout: Layout,
    id: String,
    layer: String,
    title: &'static str,
    state: StateWord,
    /// Why the run is in its state; may be empty.
    why: String,
    facts: Vec<(&'static str, String)>,
    created: When,
    counts: String,
    approval: Option<Approval>,
    can_cancel: bool,
    /// Whether the user may let the run start although a window forbids it.
    can_override_window: bool,
    /// The run that applies this plan; may be empty.
    apply_run: String,
    result: AttemptResult,
    /// The place of the plan.
    plan: Placeholder,
    log: LogView,
    /// The address of the stream that follows the log; empty if there is nothing to follow.
    follow: String,
    /// The address of the lines that follow; empty if there are none.
    more: String,
    /// The number of the attempt that is shown; empty if there is none.
    attempt: String,
    /// The numbers of all attempts, and whether each is shown.
    attempts: Vec<(u32, bool)>,
}

/// What a person decides about the plan.
struct Approval {
    digest: String,
    /// Why it cannot be approved; empty if it can.
    why_not: String,
    /// What the plan does to everything.
    destroys: bool,
    /// Whether the user may decide.
    is_allowed: bool,
}

/// Which part of the log is shown.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Shown {
    attempt: Option<u32>,
    after: u32,
}

/// `GET /runs/ID`.
pub(super) async fn show<S: Store>(
    State(state): State<Shared<S>>,
    Extension(browser): Extension<Browser>,
    Path(id): Path<String>,
    Query(shown): Query<Shown>,
) -> Response {
    let page = page(&state, &browser, &id, Some(shown), None, StatusCode::OK).await;
    page.unwrap_or_else(|error| error_page(&state, Some(&browser), &error))
}

/// The page, with a notice.
pub(super) async fn page<S: Store>(
    state: &Shared<S>,
    browser: &Browser,
    id: &str,
    shown: Option<Shown>,
    mut notice: Option<Notice>,
    status: StatusCode,
) -> Result<Response, ApiError> {
    let shown = shown.unwrap_or_default();
    // Before the run is read: what happens after that refreshes the page.
    let events = *state.store.journal().borrow();
    let now = Timestamp::of(SystemTime::now()).0;
    let (layer, run) = find_run(state, id).await?;
    let view = run_view(state, &layer, &run).await?;
    let number = attempt(&run, shown.attempt);
    let number = match (number, shown.attempt) {
        (Ok(number), _) => Some(number),
        (Err(error), Some(_)) => return Err(error),
        (Err(_), None) => None,
    };
    let (mut log, mut result) = (LogView::default(), AttemptResult::default());
    if let Some(number) = number {
        let directory = match directory(state, layer.clone(), &run, number).await {
            Ok(directory) => directory,
            // The rest of the page is known.
            Err(error) => {
                notice.get_or_insert(Notice::without_files(&error));
                let id = AttemptId { layer: layer.clone(), run: run.id.clone(), number };
                state.files.local(&id)
            }
        };
        log = LogView::read(directory.clone(), shown.after).await?;
        result = AttemptResult::read(directory, run.action, &state.plans).await;
    }
    let may_decide =
        browser.user.role >= Role::Operator && browser.user.may_change(Some(layer.as_str()));
    let is_plan_only = state
        .source(&layer)
        .is_some_and(|source| source.configured.layer.strategy == Strategy::PlanOnly);
    let apply_run = apply_of(state, &layer, &run).await?;
    let approval = match (&run.plan, run.action) {
        // Nothing is decided about plans that are never applied.
        (Some(saved), Action::Plan)
            if apply_run.is_none() && !saved.is_empty && (run.destroys || !is_plan_only) =>
        {
            let why = why_not(state, &layer, &run, saved).await?;
            Some(Approval {
                digest: saved.digest.as_str().to_owned(),
                why_not: why.as_deref().map(sentence).unwrap_or_default(),
                destroys: run.destroys,
                is_allowed: may_decide,
            })
        }
        _ => None,
    };
    let can_override_window = !view.over
        && may_override(browser, &layer)
        && waits_for_window(state, &layer, &run).await?;
    let layer_view = state.views.layer(&layer);
    if matches!(view.phase, Phase::Skipped | Phase::Superseded) {
        // That its process was asked to end says less than why.
        result.problem = None;
    }
    let is_running = view.attempts.iter().any(|it| Some(it.number) == number && it.ended.is_none());
    let base = state.hosts.base();
    let of_attempt = number.map(|number| number.to_string()).unwrap_or_default();
    let last = log.last.to_string();
    let rest: Vec<(&str, &str)> = [("attempt", of_attempt.as_str()), ("after", last.as_str())]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .collect();
    let has_more = log.has_more;
    let follows = is_running || has_more;
    let title = title(view.action);
    let commit = named(state, &layer, vec![view.commit.clone()]).await.concat();
    let page = RunPage {
        layout: Layout::new(state, Some(browser), format!("{title} of {layer}"))
            .refreshed(Some(layer.as_str()), events)
            .with(notice, &format!("/runs/{id}")),
        id: id.to_owned(),
        layer: layer.to_string(),
        title,
        state: of_run(layer_view.as_deref(), &view),
        why: why(layer_view.as_deref(), &view),
        facts: facts(&view, commit, &result),
        created: When::new(run.created, now),
        counts: counts(view.counts),
        approval,
        can_cancel: !view.over && !view.cancelling && may_decide,
        can_override_window,
        apply_run: apply_run.map(|run| run.to_string()).unwrap_or_default(),
        follow: if follows {
            let mut pairs = rest.clone();
            pairs.push(("shown", "true"));
            with_query(&format!("{base}/api/v1/runs/{id}/logs"), &pairs)
        } else {
            String::new()
        },
        more: if has_more {
            with_query(&format!("{base}/runs/{id}"), &rest)
        } else {
            String::new()
        },
        attempt: of_attempt.clone(),
        attempts: run.attempts.iter().map(|it| (it.number, Some(it.number) == number)).collect(),
        plan: Placeholder::new(std::mem::take(&mut result.plan)),
        result,
        log,
    };
    Ok(respond_with(status, &page, &page.plan))
}

/// Whether the user may let runs of the layer start that a window forbids.
fn may_override(browser: &Browser, layer: &LayerName) -> bool {
    let user = &browser.user;
    user.role >= Role::Administrator && user.may_change(Some(layer.as_str()))
}

/// Why a run is in its state.
fn why(layer: Option<&LayerView>, view: &RunView) -> String {
    if view.cancelling {
        return "A person has cancelled the run; Terraform is asked to end.".to_owned();
    }
    let waits = !view.over && matches!(view.phase, Phase::PendingTrigger | Phase::Failed);
    // The layer waits for the same as its run.
    let reason = layer.filter(|_| waits).and_then(|layer| layer.reasons.first());
    let why = [view.ended.as_deref(), reason.map(|reason| reason.text.as_str())];
    why.into_iter().flatten().map(sentence).collect::<Vec<_>>().join(" ")
}

/// The layers that were not applied when the plan was made.
fn made_before(view: &RunView) -> String {
    let names: Vec<&str> = view.made_before.iter().map(LayerName::as_str).collect();
    let is = if names.len() == 1 { "is" } else { "are" };
    format!("{} {is} applied", names.join(", "))
}

fn facts(view: &RunView, commit: String, result: &AttemptResult) -> Vec<(&'static str, String)> {
    let mut facts = vec![("Commit", commit), ("Cause", view.cause.to_owned())];
    if !result.tool.is_empty() {
        facts.push(("Tool", result.tool.clone()));
    }
    if let Some(by) = &view.approved_by {
        facts.push(("Approved by", by.clone()));
    }
    if let Some(by) = &view.discarded_by {
        facts.push(("Discarded by", by.clone()));
    }
    if let Some(given) = &view.window_override {
        facts.push(("Window overridden by", format!("{}: {}", given.by, given.reason)));
    }
    if !view.made_before.is_empty() {
        facts.push(("Made before", made_before(view)));
    }
    if view.attempts.len() > 1 {
        facts.push(("Attempts", view.attempts.len().to_string()));
    }
    facts
}
