//! `/followers`.

use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use butler_follower::Phase;
use butler_follower::status::{FollowerStatus, TimingRow};

use super::layout::{Layout, respond, sentence};
use super::message::error_page;
use super::state_words::StateWord;
use crate::api::{ApiError, Browser, Role, Shared, follower_statuses};
use crate::store::Store;

#[derive(Template)]
#[template(path = "followers.html")]
struct Followers {
    layout: Layout,
    rows: Vec<Row>,
    problems: Vec<String>,
    /// Whether the user may make the server look at a follower.
    can_look: bool,
}

struct Row {
    id: String,
    adapter: String,
    source: String,
    state: StateWord,
    message: String,
    observed: String,
    succeeded: String,
    in_flight: String,
    /// The total and the budget.
    timing: String,
    is_over_budget: bool,
    stages: Vec<StageRow>,
}

struct StageRow {
    row: String,
    stage: String,
    time: String,
    progress: String,
}

/// `GET /followers`.
pub(super) async fn show<S: Store>(
    State(state): State<Shared<S>>,
    Extension(browser): Extension<Browser>,
) -> Response {
    match page(&state, &browser).await {
        Ok(page) => respond(StatusCode::OK, &page),
        Err(error) => error_page(&state, Some(&browser), &error),
    }
}

async fn page<S: Store>(state: &Shared<S>, browser: &Browser) -> Result<Followers, ApiError> {
    let events = *state.store.journal().borrow();
    let statuses = follower_statuses(state).await?;
    Ok(Followers {
        rows: statuses.iter().map(Row::new).collect(),
        problems: state.desired.followed.errors().iter().map(|it| sentence(it)).collect(),
        layout: Layout::new(state, Some(browser), "Followers").refreshed(None, events),
        can_look: browser.user.role >= Role::Operator && browser.user.may_change(None),
    })
}

impl Row {
    fn new(follower: &FollowerStatus) -> Self {
        let short = |commit: Option<&butler_follower::Commit>| {
            commit.map_or("none", butler_follower::Commit::short).to_owned()
        };
        let in_flight = follower.in_flight.as_ref();
        Self {
            id: follower.id.clone(),
            adapter: follower.adapter.clone(),
            source: format!("{} {}", follower.repository, follower.branch),
            state: state_of(follower.phase),
            message: sentence(&follower.message),
            observed: short(follower.observed.as_ref()),
            succeeded: short(follower.succeeded.as_ref()),
            in_flight: in_flight.map(|it| it.object.to_string()).unwrap_or_default(),
            timing: follower.timings.summary(),
            is_over_budget: follower.timings.is_over_budget == Some(true),
            stages: follower.timings.rows.iter().map(StageRow::new).collect(),
        }
    }
}

impl StageRow {
    fn new(row: &TimingRow) -> Self {
        let reused = if row.is_reused { ", reused" } else { "" };
        let progress = row.progress.map(|progress| format!("{}{reused}", progress.as_str()));
        Self {
            row: row.row.clone(),
            stage: row.stage.clone().unwrap_or_default(),
            time: row.seconds.map_or_else(|| "–".to_owned(), |seconds| format!("{seconds:.1} s")),
            progress: progress.unwrap_or_default(),
        }
    }
}

/// The phase of a follower, with the style of its colour.
const fn state_of(phase: Phase) -> StateWord {
    let style = match phase {
        Phase::Noop | Phase::Succeeded => "succeeded",
        Phase::Failed | Phase::Blocked => "failed",
        Phase::Triggering | Phase::ClosingOut => "running",
        Phase::Skipped => "cancelled",
        Phase::Observed | Phase::PendingTrigger | Phase::Superseded => "idle",
    };
    StateWord { style, word: phase.as_str() }
}
