//! `/`: what needs a person first, then all layers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use askama::Template;
use axum::Extension;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;

use super::address::with_query;
use super::layout::{Layout, Notice, respond};
use super::message::error_page;
use super::run_row::RunRow;
use super::state_words::{
    StateWord, counts, has_drift, has_failed, is_held, is_running, of_layer, short,
    waits_for_approval, why,
};
use crate::api::{ApiError, Browser, Filter, Role, Shared, breaker_problem};
use crate::model::{LayerName, Moment, Phase};
use crate::serve::{LayerView, Timestamp};
use crate::store::Store;

/// The most layers of one page, so that it stays readable and quick.
const MOST: usize = 200;

/// The most layers of a group of those that need a person.
const MOST_URGENT: usize = 20;

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    layout: Layout,
    problems: Vec<String>,
    /// Whether the user may allow automatic applies again.
    may_reset_breaker: bool,
    /// The plans that one commit made wait, for one decision about several of them.
    batches: Vec<Batch>,
    groups: Vec<Group>,
    rows: Vec<Row>,
    /// How many layers the filter allows.
    found: usize,
    all: usize,
    q: String,
    /// The values of the filter by state: value, text, and whether it is chosen.
    states: Vec<(&'static str, &'static str, bool)>,
    /// The repositories, and whether each is chosen.
    repositories: Vec<(String, bool)>,
    is_filtered: bool,
    /// The address of the next page; empty on the last one.
    next: String,
}

/// Plans that wait for an approval since the same commit.
struct Batch {
    commit: String,
    /// Run, digest, layer and changes of each plan.
    plans: Vec<(String, String, String, String)>,
}

/// Layers that need a person for the same reason.
struct Group {
    title: &'static str,
    style: &'static str,
    count: usize,
    /// The address of the list of all of them.
    all: String,
    rows: Vec<Row>,
}

/// A layer in a list.
struct Row {
    name: String,
    /// The repository and the path.
    place: String,
    state: StateWord,
    why: String,
    /// The layer and those that it waits for, in the form of `chain`; empty if it does not wait for a layer.
    chain: String,
    commit: String,
    last: Option<RunRow>,
    drift_run: Option<String>,
    /// The run whose plan waits for an approval.
    waiting_run: Option<String>,
}

impl Row {
    fn new(view: &LayerView, views: &[Arc<LayerView>], now: Moment) -> Self {
        let parts = [view.repository.as_deref(), view.path.as_deref()];
        Self {
            name: view.name.to_string(),
            place: parts.into_iter().flatten().collect::<Vec<_>>().join("/"),
            state: of_layer(view),
            why: why(view),
            chain: chain(view, views),
            commit: view
                .revision
                .as_ref()
                .map(|it| short(it.commit.as_str()).to_owned())
                .unwrap_or_default(),
            last: view.last_run.as_ref().map(|run| RunRow::new(Some(view), run, now)),
            drift_run: view.drift_run.as_ref().filter(|_| has_drift(view)).map(ToString::to_string),
            waiting_run: view.waiting_run.as_ref().map(ToString::to_string),
        }
    }
}

/// Whether a layer is in a state.
type Wanted = fn(&LayerView) -> bool;

/// The states by which layers are filtered: the value, its text, and which layers are in it.
const STATES: [(&str, &str, Wanted); 8] = [
    ("approval", "waiting for approval", waits_for_approval),
    ("held", "held by the breaker", is_held),
    ("failed", "failed", has_failed),
    ("drift", "drifted", has_drift),
    ("running", "running", is_running),
    ("waiting", "waiting for anything", |view| view.phase == Phase::PendingTrigger),
    ("done", "up to date", |view| matches!(view.phase, Phase::Noop | Phase::Succeeded)),
    (REMOVED, "removed from the configuration", LayerView::is_removed),
];

/// The state of layers that are no longer in the configuration. They are left out of all other lists.
const REMOVED: &str = "removed";

/// `GET /`. The parameters are those of the API's list of layers, and `state`.
pub(super) async fn show<S: Store>(
    State(state): State<Shared<S>>,
    Extension(browser): Extension<Browser>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Response {
    let page = page(&state, &browser, &pairs, None, StatusCode::OK).await;
    page.unwrap_or_else(|error| error_page(&state, Some(&browser), &error))
}

/// The page, with a notice.
pub(super) async fn page<S: Store>(
    state: &Shared<S>,
    browser: &Browser,
    pairs: &[(String, String)],
    notice: Option<Notice>,
    status: StatusCode,
) -> Result<Response, ApiError> {
    // Before the layers are read: what happens after that refreshes the page.
    let events = *state.store.journal().borrow();
    let now = Timestamp::of(SystemTime::now()).0;
    // A form sends its empty fields too.
    let given: Vec<(String, String)> =
        pairs.iter().filter(|(_, value)| !value.is_empty()).cloned().collect();
    let chosen = given.iter().find(|(name, _)| name == "state").map(|(_, value)| value.clone());
    let (mut filter, wanted) = filter(&given)?;
    filter.removed = chosen.as_deref() == Some(REMOVED);
    let views = state.views.all();
    let configured: Vec<_> = views.iter().filter(|view| !view.is_removed()).cloned().collect();
    let is_filtered = given.iter().any(|(name, _)| name != "after");
    let is_first = filter.after.is_none() && !is_filtered;
    let after = filter.after.take();
    let is_wanted =
        |view: &&Arc<LayerView>| filter.allows(view) && wanted.is_none_or(|it| it(view));
    let mut found: Vec<&Arc<LayerView>> = views.iter().filter(is_wanted).collect();
    let count = found.len();
    found.retain(|view| after.as_deref().is_none_or(|after| view.name.as_str() > after));
    let more = found.len() > MOST;
    found.truncate(MOST);
    let next = found.last().filter(|_| more).map(|last| {
        let kept = given.iter().filter(|(name, _)| name != "after");
        let mut pairs: Vec<(&str, &str)> =
            kept.map(|(name, value)| (name.as_str(), value.as_str())).collect();
        pairs.push(("after", last.name.as_str()));
        with_query(&format!("{}/", state.hosts.base()), &pairs)
    });
    let breaker = breaker_problem(&*state.store).await?;
    let user = &browser.user;
    let may_approve = user.role >= Role::Operator && user.may_change(None);
    let may_reset_breaker =
        breaker.is_some() && user.role == Role::Administrator && user.may_change(None);
    let mut problems = state.desired.problems();
    problems.extend(breaker);
    let problems = problems.iter().map(|problem| super::layout::sentence(problem)).collect();
    let repositories = state.desired.config().repositories.keys().cloned().collect::<Vec<_>>();
    let page = Overview {
        layout: Layout::new(state, Some(browser), "Layers")
            .refreshed(None, events)
            .with(notice, "/"),
        problems,
        may_reset_breaker,
        batches: if is_first && may_approve { batches(&configured) } else { Vec::new() },
        groups: if is_first { groups(&configured, state.hosts.base(), now) } else { Vec::new() },
        rows: found.into_iter().map(|view| Row::new(view, &views, now)).collect(),
        found: count,
        all: configured.len(),
        states: STATES
            .iter()
            .map(|(value, text, _)| (*value, *text, chosen.as_deref() == Some(*value)))
            .collect(),
        repositories: repositories
            .into_iter()
            .map(|name| {
                let is_chosen = filter.repository.as_deref() == Some(name.as_str());
                (name, is_chosen)
            })
            .collect(),
        q: filter.q.unwrap_or_default(),
        is_filtered,
        next: next.unwrap_or_default(),
    };
    Ok(respond(status, &page))
}

/// The filter of the API, and the state of the layers.
fn filter(given: &[(String, String)]) -> Result<(Filter, Option<Wanted>), ApiError> {
    let (states, pairs): (Vec<_>, Vec<_>) =
        given.iter().cloned().partition(|(name, _)| name == "state");
    let state = states.last().map(|(_, value)| {
        let known = STATES.iter().find(|(state, ..)| state == value);
        known.map(|(.., wanted)| *wanted).ok_or_else(|| {
            let names = STATES.map(|(state, ..)| state).join(", ");
            ApiError::bad_request(format!("`state` is one of {names}, not `{value}`"))
        })
    });
    Ok((Filter::parse(pairs)?, state.transpose()?))
}

/// The plans that wait, by commit, if a commit made several of them wait.
fn batches(views: &[Arc<LayerView>]) -> Vec<Batch> {
    let mut found: BTreeMap<(&str, &str), Vec<_>> = BTreeMap::new();
    for view in views {
        let Some(plan) = &view.waiting_plan else { continue };
        let Some(digest) = &plan.plan_digest else { continue };
        let key = (view.repository.as_deref().unwrap_or_default(), plan.commit.as_str());
        let (run, layer) = (plan.id.to_string(), view.name.to_string());
        let row = (run, digest.as_str().to_owned(), layer, counts(plan.counts));
        found.entry(key).or_default().push(row);
    }
    let several = found.into_iter().filter(|(_, plans)| plans.len() > 1);
    let batch = several.map(|((_, commit), mut plans)| {
        plans.truncate(MOST);
        Batch { commit: short(commit).to_owned(), plans }
    });
    batch.collect()
}

/// The most layers of a chain.
const MOST_IN_CHAIN: usize = 10;

/// A layer and those that it waits for: `app ← network ← dns`. If it waits for several, the chain goes on with the
/// first one that waits, too. `views` are in the order of names.
fn chain(view: &LayerView, views: &[Arc<LayerView>]) -> String {
    let find = |name: &LayerName| {
        let at = views.binary_search_by(|view| view.name.cmp(name)).ok()?;
        views.get(at)
    };
    let mut chain = vec![view.name.as_str().to_owned()];
    let mut current = view;
    while !current.waits_for.is_empty() && chain.len() < MOST_IN_CHAIN {
        let names: Vec<&str> = current.waits_for.iter().map(LayerName::as_str).collect();
        chain.push(names.join(", "));
        let mut upstreams = current.waits_for.iter().filter_map(find);
        let Some(next) = upstreams.find(|view| !view.waits_for.is_empty()) else { break };
        current = next;
    }
    if chain.len() > 1 { chain.join(" ← ") } else { String::new() }
}

/// The layers that need a person, and those that run.
fn groups(views: &[Arc<LayerView>], base: &str, now: Moment) -> Vec<Group> {
    let all: [(&str, &str, &str, Wanted); 5] = [
        ("Waiting for approval", "planned", "approval", waits_for_approval),
        ("Held", "planned", "held", is_held),
        ("Failed", "failed", "failed", has_failed),
        ("Drifted", "cancelled", "drift", has_drift),
        ("Running now", "running", "running", is_running),
    ];
    let group = |(title, style, state, is_wanted): (&'static str, &'static str, &str, Wanted)| {
        let wanted: Vec<_> = views.iter().filter(|view| is_wanted(view)).collect();
        let rows = wanted.iter().take(MOST_URGENT);
        let rows = rows.map(|view| Row::new(view, views, now)).collect();
        let all = with_query(&format!("{base}/"), &[("state", state)]);
        Group { title, style, count: wanted.len(), all, rows }
    };
    all.into_iter().map(group).filter(|group| group.count > 0).collect()
}
