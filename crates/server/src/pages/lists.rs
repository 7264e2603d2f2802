//! `/repositories`, `/events` and `/access`.

use std::time::SystemTime;

use askama::Template;
use axum::Extension;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;

use super::address::with_query;
use super::layout::{Layout, respond, sentence};
use super::message::error_page;
use super::state_words::{short, title};
use super::when::When;
use crate::api::{ApiError, Browser, Role, Shared};
use crate::config::without_login;
use crate::model::{Closed, JournalKind, LayerName, StopReason};
use crate::serve::Timestamp;
use crate::store::{EventFilter, Store};

/// The entries of one page of the journal.
const MOST_EVENTS: u32 = 200;

#[derive(Template)]
#[template(path = "repositories.html")]
struct Repositories {
    layout: Layout,
    rows: Vec<RepositoryRow>,
    can_sync: bool,
}

struct RepositoryRow {
    name: String,
    url: String,
    polled: Option<When>,
    error: String,
    /// A sentence about the address; may be empty.
    warning: String,
    delivered: Option<When>,
    layers: usize,
}

/// `GET /repositories`.
pub(super) async fn repositories<S: Store>(
    State(state): State<Shared<S>>,
    Extension(browser): Extension<Browser>,
) -> Response {
    let now = Timestamp::of(SystemTime::now()).0;
    let events = *state.store.journal().borrow();
    let (config, polls, views) = (state.desired.config(), state.desired.polls(), state.views.all());
    let rows = config.repositories.iter().map(|(name, repository)| {
        let poll = polls.get(name);
        let is_here = |of: &Option<String>| of.as_deref() == Some(name.as_str());
        RepositoryRow {
            name: name.clone(),
            url: without_login(&repository.entry.url.value),
            polled: poll.map(|poll| When::new(Timestamp::of(poll.at).0, now)),
            error: poll.and_then(|poll| poll.error.as_deref()).map(sentence).unwrap_or_default(),
            warning: state.desired.move_of(name).as_deref().map(sentence).unwrap_or_default(),
            delivered: state.deliveries.last(name).map(|at| When::new(Timestamp::of(at).0, now)),
            layers: views.iter().filter(|view| is_here(&view.repository)).count(),
        }
    });
    let page = Repositories {
        rows: rows.collect(),
        layout: Layout::new(&state, Some(&browser), "Repositories").refreshed(None, events),
        // A repository has many layers, so a user with a few of them may not.
        can_sync: browser.user.role >= Role::Operator && browser.user.may_change(None),
    };
    respond(StatusCode::OK, &page)
}

#[derive(Template)]
#[template(path = "events.html")]
struct Events {
    layout: Layout,
    layer: String,
    only_drift: bool,
    rows: Vec<EventRow>,
    /// The address of older entries; may be empty.
    older: String,
}

struct EventRow {
    at: When,
    layer: String,
    run: String,
    text: String,
    style: &'static str,
}

/// Which entries are shown.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub(super) struct Which {
    layer: String,
    /// `drift` for what was changed outside of Terraform.
    only: String,
    /// Entries before this one.
    before: Option<u64>,
}

/// `GET /events`: the newest first.
pub(super) async fn events<S: Store>(
    State(state): State<Shared<S>>,
    Extension(browser): Extension<Browser>,
    Query(which): Query<Which>,
) -> Response {
    let page = events_page(&state, &browser, which).await;
    page.unwrap_or_else(|error| error_page(&state, Some(&browser), &error))
}

async fn events_page<S: Store>(
    state: &Shared<S>,
    browser: &Browser,
    which: Which,
) -> Result<Response, ApiError> {
    let now = Timestamp::of(SystemTime::now()).0;
    let last = *state.store.journal().borrow();
    let layer: Option<LayerName> = match which.layer.as_str() {
        "" => None,
        name => Some(
            name.parse().map_err(|_| ApiError::not_found(format!("there is no layer `{name}`")))?,
        ),
    };
    let only_drift = which.only == "drift";
    let before = which.before.unwrap_or(u64::MAX).min(last.saturating_add(1));
    let filter = EventFilter { layer, only_drift };
    // One more shows whether there are older ones.
    let mut entries = state.store.newest_events(before, &filter, MOST_EVENTS + 1).await?;
    let has_more = entries.len() > MOST_EVENTS as usize;
    entries.truncate(MOST_EVENTS as usize);
    let rows = entries.iter().map(|entry| EventRow {
        at: When::new(entry.at, now),
        layer: entry.layer.to_string(),
        run: entry.change.run.as_ref().map(ToString::to_string).unwrap_or_default(),
        text: text(&entry.change.what),
        style: style(&entry.change.what),
    });
    let layout = Layout::new(state, Some(browser), "Events");
    let oldest = entries.last().filter(|_| has_more);
    let older = oldest.map(|oldest| {
        let before = oldest.sequence.to_string();
        let mut pairs = vec![("before", before.as_str())];
        pairs.extend((!which.layer.is_empty()).then_some(("layer", which.layer.as_str())));
        pairs.extend(only_drift.then_some(("only", "drift")));
        with_query(&format!("{}/events", state.hosts.base()), &pairs)
    });
    let layout = match which.before {
        None => layout.refreshed(filter.layer.as_ref().map(LayerName::as_str), last),
        Some(_) => layout,
    };
    let page = Events {
        layout,
        layer: which.layer.clone(),
        only_drift,
        rows: rows.collect(),
        older: older.unwrap_or_default(),
    };
    Ok(respond(StatusCode::OK, &page))
}

/// What happened, in one sentence.
fn text(what: &JournalKind) -> String {
    match what {
        JournalKind::RevisionRead { commit, .. } => {
            format!("The commit {} changes the layer.", short(commit.as_str()))
        }
        JournalKind::RunCreated { action, cause } => {
            format!("{} created. Cause: {cause}.", title(*action))
        }
        JournalKind::PlanApproved { by, .. } => format!("{by} approved the plan."),
        JournalKind::PlanDiscarded { by, .. } => format!("{by} discarded the plan."),
        JournalKind::PlanStale { why, .. } => {
            let why = serde_json::to_value(why).ok();
            let why = why.as_ref().and_then(serde_json::Value::as_str).unwrap_or("it is old");
            format!("The plan can no longer be applied: {}.", why.replace('-', " "))
        }
        JournalKind::AttemptStarted => "An attempt was started.".to_owned(),
        JournalKind::ApplyBegan => "The apply has begun.".to_owned(),
        JournalKind::StopRequested { why } => match why {
            StopReason::Superseded => {
                "The attempt was asked to stop, because a newer commit took over.".to_owned()
            }
            StopReason::Cancelled => "The attempt was asked to stop: it was cancelled.".to_owned(),
            StopReason::TimedOut => {
                "The attempt was asked to stop, because its time was up.".to_owned()
            }
        },
        JournalKind::AttemptEnded { ending } => match crate::serve::describe(*ending) {
            Some(how) => format!("The attempt ended: {how}."),
            None => "The attempt succeeded.".to_owned(),
        },
        JournalKind::RunClosed { why } => match why {
            Closed::Cancelled => "The run was cancelled.".to_owned(),
            Closed::Superseded => "The run is superseded: a newer commit took over.".to_owned(),
        },
        JournalKind::DriftFound { .. } => {
            "Drift was found: something was changed outside of Terraform.".to_owned()
        }
        JournalKind::DriftResolved => "The drift is gone.".to_owned(),
        JournalKind::ChecksFailed { checks } => format!("Checks fail: {}.", checks.join(", ")),
        JournalKind::ChecksPassed => "All checks pass again.".to_owned(),
        JournalKind::BreakerOpened => {
            "Failures of several layers in a row have stopped the automatic applies of all layers."
                .to_owned()
        }
        JournalKind::BreakerReset { by } => format!("{by} allowed automatic applies again."),
        JournalKind::Renamed { from } => format!("The layer took over the history of {from}."),
        JournalKind::WindowOverridden { by, reason } => {
            format!("{by} let the run start although a window is closed: {reason}")
        }
        JournalKind::Paused { by } => format!("{by} paused the layer."),
        JournalKind::Resumed => "The layer was resumed.".to_owned(),
    }
}

fn style(what: &JournalKind) -> &'static str {
    match what {
        JournalKind::AttemptEnded { ending } if crate::serve::describe(*ending).is_some() => {
            "failed"
        }
        JournalKind::AttemptEnded { .. }
        | JournalKind::DriftResolved
        | JournalKind::ChecksPassed => "succeeded",
        JournalKind::DriftFound { .. } | JournalKind::PlanStale { .. } => "cancelled",
        JournalKind::BreakerOpened | JournalKind::ChecksFailed { .. } => "failed",
        JournalKind::PlanApproved { .. } => "planned",
        _ => "idle",
    }
}

#[derive(Template)]
#[template(path = "access.html")]
struct AccessPage {
    layout: Layout,
    /// Name, role and layers.
    rows: Vec<(String, &'static str, String)>,
}

/// `GET /access`.
pub(super) async fn access<S: Store>(
    State(state): State<Shared<S>>,
    Extension(browser): Extension<Browser>,
) -> Response {
    let users = state.access.known();
    let rows = users.iter().map(|user| {
        let layers = user.layer_globs().map_or_else(|| "all".to_owned(), |globs| globs.join(", "));
        (user.name.clone(), user.role.name(), layers)
    });
    let page =
        AccessPage { layout: Layout::new(&state, Some(&browser), "Access"), rows: rows.collect() };
    respond(StatusCode::OK, &page)
}
