//! `GET /metrics`: what the server measures, in the text format of Prometheus.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;

use super::error::ApiError;
use super::state::{ApiState, Shared};
use crate::metrics::{
    ATTEMPTS_NOT_COPIED, ATTEMPTS_RUNNING, BREAKER_OPEN, BUILD_INFO, CONTENT_TYPE, DECIDES,
    Exposition, LAST_SUCCESSFUL_POLL, LAYERS, LAYERS_DRIFTED, LAYERS_GATED, OLDEST_DRIFT,
    OLDEST_WAITING_RUN, POLLS, PROBLEMS, RUNS_WAITING, RUNS_WAITING_GATED, WEBHOOK_DELIVERIES,
};
use crate::model::{Breaker, Gate, Moment, Phase};
use crate::serve::{Desired, DriftView, LayerView, Timestamp};
use crate::store::Store;
use crate::webhooks::{Deliveries, DeliveryCounts};

/// Of the store, it reads only which attempts run and the breaker: everything else is in memory, however
/// many layers there are.
pub(super) async fn metrics<S: Store>(
    State(state): State<Shared<S>>,
) -> Result<impl IntoResponse, ApiError> {
    let running = state.store.busy().await?.len();
    let breaker = state.store.breaker().await?;
    let text = exposition(&state, running, breaker, Timestamp::of(SystemTime::now()).0);
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], text))
}

/// A layer has at most one attempt that runs, so `running` is the number of busy layers.
fn exposition<S>(state: &ApiState<S>, running: usize, breaker: Breaker, now: Moment) -> String {
    let mut text = Exposition::default();
    text.family(&BUILD_INFO);
    text.sample(&BUILD_INFO, &[env!("CARGO_PKG_VERSION")], 1);
    text.single(&DECIDES, u8::from(state.leadership.borrow().decides()));
    text.single(&ATTEMPTS_NOT_COPIED, state.not_copied.count(tokio::time::Instant::now()));
    let views = state.views.all();
    let views = || views.iter().map(AsRef::as_ref);
    write_layers(views, now, &mut text);
    text.single(&PROBLEMS, state.desired.problems().len());
    write_waiting(views, now, &mut text);
    text.single(&BREAKER_OPEN, u8::from(breaker == Breaker::Open));
    text.single(&ATTEMPTS_RUNNING, running);
    state.attempts.write(&mut text);
    write_polls(state, &mut text);
    write_deliveries(&state.desired, &state.deliveries, &mut text);
    state.transactions.write(&mut text);
    let config = state.desired.config();
    let receivers = config.notifications.iter().filter_map(|placed| placed.entry.receiver());
    state.notifications.write(receivers, &mut text);
    text.into_text()
}

fn write_layers<'a, I: Iterator<Item = &'a LayerView>>(
    views: impl Fn() -> I,
    now: Moment,
    text: &mut Exposition,
) {
    text.family(&LAYERS);
    for phase in Phase::ALL {
        let count = views().filter(|view| view.phase == phase).count();
        text.sample(&LAYERS, &[&format!("{phase:?}")], count);
    }
    let drifted = views().filter(|view| view.drift == DriftView::Found).count();
    text.single(&LAYERS_DRIFTED, drifted);
    let oldest = views().filter_map(|view| view.drift_since).min();
    let age = oldest.map(|since| now.since(since)).unwrap_or_default();
    text.single(&OLDEST_DRIFT, age.as_secs_f64());
    text.family(&LAYERS_GATED);
    for gate in Gate::ALL {
        let has = |view: &&LayerView| view.reasons.iter().any(|reason| reason.gate == gate);
        text.sample(&LAYERS_GATED, &[gate.as_str()], views().filter(has).count());
    }
}

fn write_waiting<'a, I: Iterator<Item = &'a LayerView>>(
    views: impl Fn() -> I,
    now: Moment,
    text: &mut Exposition,
) {
    let created = || views().flat_map(|view| view.waiting_runs.iter().copied());
    text.single(&RUNS_WAITING, created().count());
    text.family(&RUNS_WAITING_GATED);
    for gate in Gate::ALL {
        let has = |view: &&LayerView| view.reasons.iter().any(|reason| reason.gate == gate);
        let count: usize = views().filter(has).map(|view| view.waiting_runs.len()).sum();
        text.sample(&RUNS_WAITING_GATED, &[gate.as_str()], count);
    }
    let oldest = created().min().map(|created| now.since(created)).unwrap_or_default();
    text.single(&OLDEST_WAITING_RUN, oldest.as_secs_f64());
}

/// The repositories of the configuration.
fn write_polls<S>(state: &ApiState<S>, text: &mut Exposition) {
    let desired = &state.desired;
    let config = desired.config();
    let polls = config.repositories.keys().map(|name| (name, desired.poll_results(name)));
    let polls: Vec<_> = polls.collect();
    text.family(&POLLS);
    for (name, results) in &polls {
        text.sample(&POLLS, &[name, "succeeded"], results.succeeded);
        text.sample(&POLLS, &[name, "failed"], results.failed);
    }
    state.poll_durations.write(text);
    text.family(&LAST_SUCCESSFUL_POLL);
    for (name, results) in &polls {
        let since = results.last_success.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        if let Some(since) = since {
            text.sample(&LAST_SUCCESSFUL_POLL, &[name], since.as_secs_f64());
        }
    }
}

/// The repositories of the configuration that have a webhook.
fn write_deliveries(desired: &Desired, deliveries: &Deliveries, text: &mut Exposition) {
    text.family(&WEBHOOK_DELIVERIES);
    for (name, repository) in &desired.config().repositories {
        if repository.entry.webhook.is_some() {
            let DeliveryCounts { accepted, ignored, refused } = deliveries.counts(name);
            for (result, count) in
                [("accepted", accepted), ("ignored", ignored), ("refused", refused)]
            {
                text.sample(&WEBHOOK_DELIVERIES, &[name, result], count);
            }
        }
    }
}
