//! All requests of the API, and the role that each needs.

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::http::Method;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{MethodRouter, get, post};
use axum::{Json, Router};
use butler_follower::status::{EventStatus, FollowerStatus};
use serde_json::Value;

use super::authorize::{Rule, authorize};
use super::breaker::{BreakerView, ResetView};
use super::error::ApiError;
use super::events::EventView;
use super::followers::{Looked, RunOnce, StageLogs, WhichStage};
use super::forget::Forgotten;
use super::hosts::check_address;
use super::layers::{LayerInFull, PauseView};
use super::logs::{Lines, LogView};
use super::openapi;
use super::policy::PolicyView;
use super::refusals::{MOST_BODY, errors_as_json, limit_bodies};
use super::repositories::{PollView, RepositoryView};
use super::route::{BASE, Route};
use super::shape::Shape;
use super::state::{ApiState, Shared};
use super::unlock::{Unlock, Unlocked};
use super::user::{Role, UserView};
use super::{
    approvals, breaker, events, followers, forget, health, layers, logs, metrics, planning, policy,
    repositories, runs, unlock, users, windows,
};
use crate::serve::{LayerView, RunView};
use crate::store::Store;

/// The requests about followers are this path and those below it.
const FOLLOWERS: &str = "/followers";

/// All requests.
#[must_use]
pub fn routes<S: Store + 'static>() -> Vec<Route<S>> {
    of_layers().into_iter().chain(of_runs()).chain(of_followers()).chain(of_the_server()).collect()
}

/// A request that changes nothing.
fn read<S>(
    path: &'static str,
    summary: &'static str,
    shape: Shape,
    handler: MethodRouter<Shared<S>>,
) -> Route<S> {
    Route { method: Method::GET, path, role: Role::Viewer, summary, shape, handler }
}

/// A change.
fn change<S>(
    path: &'static str,
    summary: &'static str,
    shape: Shape,
    handler: MethodRouter<Shared<S>>,
) -> Route<S> {
    Route { method: Method::POST, path, role: Role::Operator, summary, shape, handler }
}

/// The same for administrators only.
fn administered<S>(route: Route<S>) -> Route<S> {
    Route { role: Role::Administrator, ..route }
}

fn of_layers<S: Store + 'static>() -> Vec<Route<S>> {
    let key = "Requests with the same key make one run.";
    let paused = Shape::of::<PauseView>();
    vec![
        read(
            "/layers",
            "Lists layers.",
            Shape::list::<LayerView>().query::<layers::Filter>(),
            get(layers::list::<S>),
        ),
        read(
            "/layers/{layer}",
            "Shows a layer.",
            Shape::of::<LayerInFull>(),
            get(layers::show::<S>),
        ),
        change(
            "/layers/{layer}/plan",
            "Plans a layer.",
            Shape::of::<RunView>().accepted().header("Idempotency-Key", key),
            post(planning::plan::<S>),
        ),
        change(
            "/layers/{layer}/apply",
            "Applies the newest plan of a layer, which approves it.",
            Shape::of::<RunView>().accepted(),
            post(approvals::apply::<S>),
        ),
        change(
            "/layers/{layer}/retry",
            "Plans a layer again whose work has failed.",
            Shape::of::<RunView>().accepted().header("Idempotency-Key", key),
            post(planning::retry::<S>),
        ),
        change(
            "/layers/{layer}/accept",
            "Makes a plan that writes what was changed outside of Terraform into the state.",
            Shape::of::<RunView>().accepted().header("Idempotency-Key", key),
            post(planning::accept::<S>),
        ),
        administered(change(
            "/layers/{layer}/destroy",
            "Makes a plan that destroys everything, which needs an approval.",
            Shape::of::<RunView>()
                .accepted()
                .body::<planning::Destroy>()
                .header("Idempotency-Key", key),
            post(planning::destroy::<S>),
        )),
        change(
            "/layers/{layer}/sync",
            "Reads the repository of a layer at once.",
            Shape::of::<PollView>().accepted(),
            post(layers::sync::<S>),
        ),
        administered(change(
            "/layers/{layer}/unlock",
            "Frees the state of a layer whose attempt has ended, or with `force=true` of any. With `stateLock=ID`, \
             creates a plan that first removes this lock of Terraform.",
            Shape::of::<Unlocked>().query::<Unlock>().header("Idempotency-Key", key),
            post(unlock::unlock::<S>),
        )),
        administered(change(
            "/layers/{layer}/forget",
            "Removes the runs of a layer that is no longer in the configuration, and what is known of it.",
            Shape::of::<Forgotten>(),
            post(forget::forget::<S>),
        )),
        administered(change(
            "/layers/{layer}/pause",
            "Starts nothing more for a layer.",
            paused,
            post(layers::pause::<S>),
        )),
        administered(change(
            "/layers/{layer}/resume",
            "Ends the pause of a layer.",
            paused,
            post(layers::resume::<S>),
        )),
    ]
}

fn of_runs<S: Store + 'static>() -> Vec<Route<S>> {
    vec![
        read(
            "/runs",
            "Lists the runs of all layers or of one, the newest first.",
            Shape::list::<RunView>().query::<runs::Which>(),
            get(runs::list::<S>),
        ),
        read("/runs/{run}", "Shows a run.", Shape::of::<RunView>(), get(runs::show::<S>)),
        read(
            "/runs/{run}/logs",
            "Reads the log of an attempt, or follows that of the run as `text/event-stream`.",
            Shape::of::<LogView>().query::<Lines>().streamed(),
            get(logs::logs::<S>),
        ),
        read(
            "/runs/{run}/plan",
            "Reads the plan of a run.",
            Shape::of::<Value>().also("text/plain"),
            get(runs::plan::<S>),
        ),
        read(
            "/runs/{run}/policy",
            "Reads what the program has said that checks the plan of a run (`after-plan`).",
            Shape::list::<PolicyView>(),
            get(policy::policy::<S>),
        ),
        change(
            "/approvals",
            "Applies the plans of several runs, each if it is still the one with this digest.",
            Shape::list::<approvals::Approved>().body::<approvals::Several>(),
            post(approvals::approve_several::<S>),
        ),
        change(
            "/runs/{run}/approve",
            "Applies the plan of a run, if it is still the one with this digest.",
            Shape::of::<RunView>().accepted().body::<approvals::Approval>(),
            post(approvals::approve::<S>),
        ),
        administered(change(
            "/runs/{run}/override-window",
            "Lets a run start although a window forbids it, with a reason that is kept.",
            Shape::of::<RunView>().body::<windows::Override>(),
            post(windows::override_window::<S>),
        )),
        change(
            "/runs/{run}/discard",
            "Discards the plan of a run: it is never applied.",
            Shape::of::<RunView>(),
            post(approvals::discard::<S>),
        ),
        change(
            "/runs/{run}/cancel",
            "Cancels a run: closes it if it waits, and stops its attempt.",
            Shape::of::<RunView>().accepted(),
            post(runs::cancel::<S>),
        ),
    ]
}

fn of_followers<S: Store + 'static>() -> Vec<Route<S>> {
    vec![
        read(
            FOLLOWERS,
            "Lists followers.",
            Shape::list::<FollowerStatus>(),
            get(followers::list::<S>),
        ),
        read(
            "/followers/{follower}",
            "Shows a follower.",
            Shape::of::<FollowerStatus>(),
            get(followers::show::<S>),
        ),
        read(
            "/followers/{follower}/events",
            "Lists the last decisions about a follower, the oldest first.",
            Shape::list::<EventStatus>(),
            get(followers::events::<S>),
        ),
        // Logs of other programs are not redacted.
        Route {
            role: Role::Operator,
            ..read(
                "/followers/{follower}/logs",
                "Reads the ends of the logs of the pods of a stage.",
                Shape::of::<StageLogs>().query::<WhichStage>(),
                get(followers::logs::<S>),
            )
        },
        change(
            "/followers/{follower}/run",
            "Looks at a follower now. `confirm` triggers the next stage; `dryRun` only refreshes the status.",
            Shape::of::<Looked>().body::<RunOnce>(),
            post(followers::run::<S>),
        ),
    ]
}

fn of_the_server<S: Store + 'static>() -> Vec<Route<S>> {
    vec![
        read(
            "/events",
            "Lists what happened, the oldest first, or follows it as `text/event-stream`.",
            Shape::list::<EventView<'static>>().query::<events::Which>().streamed(),
            get(events::list::<S>),
        ),
        read(
            "/breaker",
            "Shows whether failures of several layers in a row have stopped automatic applies, and which ones.",
            Shape::of::<BreakerView>(),
            get(breaker::show::<S>),
        ),
        administered(change(
            "/breaker/reset",
            "Allows automatic applies again, after failures of several layers in a row have stopped them.",
            Shape::of::<ResetView>(),
            post(breaker::reset::<S>),
        )),
        administered(read(
            "/access",
            "Lists users with roles and layers.",
            Shape::list::<UserView>(),
            get(users::list::<S>),
        )),
        read(
            "/repositories",
            "Lists repositories.",
            Shape::list::<RepositoryView>(),
            get(repositories::list::<S>),
        ),
        change(
            "/repositories/{repository}/sync",
            "Reads a repository at once.",
            Shape::of::<PollView>().accepted(),
            post(repositories::sync::<S>),
        ),
    ]
}

/// The router of the API, and of `others`, which authorize their requests themselves, and whose fallback
/// answers requests for unknown paths. Each request of the API is authorized before its handler is called, and
/// requests for another host are refused before that.
pub fn router<S: Store + 'static>(state: Arc<ApiState<S>>, others: Router) -> Router {
    let mut router = Router::new();
    let all = routes::<S>();
    let document = openapi::document(&all);
    for route in all {
        let takes_follower_token =
            route.path == FOLLOWERS || route.path.starts_with(&format!("{FOLLOWERS}/"));
        let state = (Arc::clone(&state), Rule { role: route.role, takes_follower_token });
        let handler = route.handler.layer(from_fn_with_state(state, authorize::<S>));
        router = router.route(&format!("{BASE}{}", route.path), handler);
    }
    let answer = get(move || async move { Json(document) });
    let mut measured = get(metrics::metrics::<S>);
    if !state.metrics_open {
        let rule = Rule { role: Role::Viewer, takes_follower_token: false };
        let viewer = (Arc::clone(&state), rule);
        measured = measured.layer(from_fn_with_state(viewer, authorize::<S>));
    }
    let hosts = from_fn_with_state(Arc::new(state.hosts.clone()), check_address);
    let base = state.hosts.base().to_owned();
    let router = router
        .route(&format!("{BASE}/openapi.json"), answer)
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz::<S>))
        .route("/metrics", measured)
        .layer(DefaultBodyLimit::max(MOST_BODY))
        .layer(from_fn(limit_bodies))
        .with_state(state)
        .merge(others)
        .layer(hosts)
        .layer(from_fn(errors_as_json));
    // A proxy may hand on the path of the public URL, or remove it.
    match base.as_str() {
        "" => router,
        base => Router::new().nest_service(base, router.clone()).fallback_service(router),
    }
}

/// The error about a path that does not exist.
pub(crate) fn unknown(path: &str) -> ApiError {
    ApiError::not_found(format!("there is no `{path}`"))
}
