//! `/layers/NAME`: the state, why nothing runs, the history, and what can be done.

use std::time::SystemTime;

use askama::Template;
use axum::Extension;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;

use super::commits::named;
use super::layout::{Layout, Notice, respond, sentence};
use super::message::error_page;
use super::run_row::RunRow;
use super::state_words::{StateWord, has_drift, has_failed, of_layer, wanted, why};
use super::when::When;
use crate::api::{ApiError, ApiState, Browser, Role, Shared, in_force, layer_view};
use crate::model::DriftKind;
use crate::serve::{DriftView, LayerView, RunView, Timestamp};
use crate::store::Store;

/// The most runs of the history.
const MOST_RUNS: u32 = 30;

#[derive(Template)]
#[template(path = "layer.html")]
struct LayerPage {
    layout: Layout,
    name: String,
    state: StateWord,
    why: String,
    /// What else keeps it from running, and what people should know.
    notes: Vec<String>,
    facts: Vec<(&'static str, String)>,
    /// Whether infrastructure and state differ, and when that was checked.
    drift: (String, Option<When>),
    next_look: Option<When>,
    /// The run whose plan waits for an approval; may be empty.
    waiting_run: String,
    /// The run that found drift; may be empty.
    drift_run: String,
    /// The lock of Terraform that a run reported: its id, and who holds it.
    state_lock: Option<(String, String)>,
    runs: Vec<RunRow>,
    /// As JSON; empty if the layer is no longer in the configuration.
    configuration: String,
    may: May,
    is_paused: bool,
    has_failed: bool,
    has_lease: bool,
}

/// What the user may do with the layer.
struct May {
    operate: bool,
    administer: bool,
}

/// `GET /layers/NAME`.
pub(super) async fn show<S: Store>(
    State(state): State<Shared<S>>,
    Extension(browser): Extension<Browser>,
    Path(name): Path<String>,
) -> Response {
    let page = page(&state, &browser, &name, None, StatusCode::OK).await;
    page.unwrap_or_else(|error| error_page(&state, Some(&browser), &error))
}

/// The page, with a notice.
pub(super) async fn page<S: Store>(
    state: &Shared<S>,
    browser: &Browser,
    name: &str,
    notice: Option<Notice>,
    status: StatusCode,
) -> Result<Response, ApiError> {
    // Before the layer is read: what happens after that refreshes the page.
    let events = *state.store.journal().borrow();
    let now = Timestamp::of(SystemTime::now()).0;
    let view = layer_view(state, name)?;
    let snapshot = state.store.snapshot(&view.name, "", &[]).await?;
    let source = state.source(&view.name);
    let runs = state.store.history(&view.name, None, MOST_RUNS).await?;
    let runs: Vec<RunView> = runs
        .iter()
        .map(|run| RunView::new(&view.name, source.as_deref(), &snapshot, run))
        .collect();
    let configuration = source.map(|source| in_force(&source)).transpose()?;
    let configuration = configuration.map(|it| format!("{it:#}")).unwrap_or_default();
    let may_change = browser.user.may_change(Some(name));
    let role = browser.user.role;
    let checked = runs.iter().find(|run| Some(&run.id) == view.drift_run.as_ref());
    let page = LayerPage {
        layout: Layout::new(state, Some(browser), name)
            .refreshed(Some(name), events)
            .with(notice, &format!("/layers/{name}")),
        name: name.to_owned(),
        state: of_layer(&view),
        why: why(&view),
        notes: {
            let reasons = view.reasons.iter().skip(1).map(|reason| &reason.text);
            reasons.chain(&view.notes).map(|text| sentence(text)).collect()
        },
        facts: facts(state, &view).await,
        drift: (drift(&view), checked.map(|run| When::new(run.created.0, now))),
        next_look: view.next_look.map(|at| When::new(at.0, now)),
        waiting_run: view.waiting_run.as_ref().map(ToString::to_string).unwrap_or_default(),
        drift_run: view
            .drift_run
            .as_ref()
            .filter(|_| has_drift(&view))
            .map(ToString::to_string)
            .unwrap_or_default(),
        state_lock: view.state_lock.as_ref().and_then(|lock| {
            Some((lock.id.clone()?, lock.who.clone().unwrap_or_else(|| "unknown".to_owned())))
        }),
        runs: runs.iter().map(|run| RunRow::new(Some(&view), run, now)).collect(),
        configuration,
        may: May {
            operate: role >= Role::Operator && may_change,
            administer: role == Role::Administrator && may_change,
        },
        is_paused: view.paused_by.is_some(),
        has_failed: has_failed(&view),
        has_lease: view.lease.is_some(),
    };
    Ok(respond(status, &page))
}

fn drift(view: &LayerView) -> String {
    let words = match view.drift {
        DriftView::Found if view.drift_kind == Some(DriftKind::CodeDiffers) => return wanted(view),
        DriftView::Found if view.drift_kind == Some(DriftKind::ChangedOutside) => {
            "changed outside of this server"
        }
        DriftView::Unknown => "nothing is applied",
        DriftView::Unchecked => "not checked since the last apply",
        DriftView::None => "none",
        DriftView::Found => "found",
    };
    words.to_owned()
}

/// The branch or tag. `HEAD` is a name that only git uses.
fn branch(reference: Option<&str>) -> String {
    match reference {
        Some("HEAD") => "default branch".to_owned(),
        Some(reference) => reference.to_owned(),
        None => "none".to_owned(),
    }
}

async fn facts<S>(state: &ApiState<S>, view: &LayerView) -> Vec<(&'static str, String)> {
    let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".to_owned());
    let revisions = [
        ("Read", &view.revision),
        ("Planned", &view.planned_revision),
        ("Applied", &view.applied_revision),
    ];
    let commits = revisions.iter().filter_map(|(_, revision)| revision.as_ref());
    let commits = commits.map(|revision| revision.commit.clone()).collect();
    let mut names = named(state, &view.name, commits).await.into_iter();
    let mut facts = vec![
        ("Repository", text(&view.repository)),
        ("Branch", branch(view.reference.as_deref())),
        ("Path", text(&view.path)),
    ];
    for (label, revision) in revisions {
        let name = revision.as_ref().and_then(|_| names.next());
        facts.push((label, name.unwrap_or_else(|| "none".to_owned())));
    }
    if !view.unmatched_ignores.is_empty() {
        facts
            .push(("Entries of drift.ignore that name nothing", view.unmatched_ignores.join(", ")));
    }
    facts
}
