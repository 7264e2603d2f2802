//! The parts without which a server cannot begin, and how it waits for them.
//!
//! As long as its database is away, the process lives, answers `/healthz`, says in `/readyz` what it waits for, and
//! answers everything else with 503. It does not end: the cluster would start it again and again, later each time. What
//! can never work ends it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::header::{CONNECTION, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use butler_base::cancel::Stop;
use butler_base::error::chain;
use butler_base::platform::raise_open_files;
use butler_cluster::Cluster;
use serde_json::json;
use tokio_rustls::TlsAcceptor;

use super::ailing::{Ailing, Part};
use super::connection::LimitedListener;
use super::connections::{Patience, serve_connections};
use super::limits::{Limits, Places, UNKNOWN_LIMIT};
use super::listener::listen;
use super::options::{Options, ServeError};
use super::tls::TlsListener;
use crate::api::ApiError;
use crate::data::DataDirectory;
use crate::followers::log_in;
use crate::store::{AnyStore, StoreOpening};

/// The first pause between two tries.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// The parts without which a server cannot begin.
pub(super) struct Essentials {
    pub(super) store: AnyStore,
    /// The cluster of attempts that are Jobs.
    pub(super) jobs: Option<Cluster>,
}

impl Essentials {
    /// Opens everything in one try.
    ///
    /// # Errors
    /// If something is away, or cannot be used.
    pub(super) async fn open(options: &Options, data: &DataDirectory) -> Result<Self, ServeError> {
        let opening = StoreOpening::new(options.store.clone(), &data.store())?;
        Self::of(options, &opening).await
    }

    async fn of(options: &Options, opening: &StoreOpening) -> Result<Self, ServeError> {
        let jobs = match &options.jobs {
            Some(jobs) => Some(log_in(&jobs.access, jobs.namespace.as_deref()).await?),
            None => None,
        };
        let store = opening.open(options.ca_bundle.as_deref()).await?;
        Ok(Self { store, jobs })
    }

    /// Opens everything, and tries again as long as something is away. Returns nothing if the server is to stop.
    ///
    /// # Errors
    /// If something can never be used, or the server cannot listen.
    pub(super) async fn wait(
        options: &Options,
        data: &DataDirectory,
        acceptor: Option<TlsAcceptor>,
        stop: &Stop,
    ) -> Result<Option<Self>, ServeError> {
        let opening = StoreOpening::new(options.store.clone(), &data.store())?;
        let error = match Self::of(options, &opening).await {
            Err(error) if error.is_temporary() => error,
            opened => return opened.map(Some),
        };
        let ailing = Arc::<Ailing>::default();
        let listener = listen(options.listen, &data.port("listen")).await?;
        let limits = Limits::of_people(raise_open_files().unwrap_or(UNKNOWN_LIMIT));
        let places = Places::new(limits, &options.hosts.trusted_proxies);
        let listener = LimitedListener::new(listener, places);
        let router = not_ready(Arc::clone(&ailing), &options.isolation);
        tokio::select! {
            never = serve_http(listener, acceptor, router) => match never {},
            opened = Self::until_open(options, &opening, error, &ailing) => opened.map(Some),
            _ = stop.requested() => Ok(None),
        }
    }

    async fn until_open(
        options: &Options,
        opening: &StoreOpening,
        mut error: ServeError,
        ailing: &Ailing,
    ) -> Result<Self, ServeError> {
        let (mut told, mut pause) = (None, FIRST_PAUSE);
        loop {
            let part = part_of(&error);
            let why = chain(&error);
            if told.replace(part) == Some(part) {
                tracing::debug!("{why}");
            } else {
                tracing::warn!("{why}; the server waits for it, and tries again");
            }
            ailing.replace(part, vec![why]);
            tokio::time::sleep(pause).await;
            pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
            match Self::of(options, opening).await {
                Err(next) if next.is_temporary() => error = next,
                Err(next) => return Err(next),
                Ok(essentials) => {
                    tracing::info!("what the server has waited for answers; it goes on");
                    return Ok(essentials);
                }
            }
        }
    }
}

/// The part that a start waits for because of this error.
const fn part_of(error: &ServeError) -> Part {
    match error {
        ServeError::Cluster(_) => Part::Jobs,
        _ => Part::Store,
    }
}

/// Serves `router` over TLS or without it.
pub(super) async fn serve_http(
    listener: LimitedListener,
    acceptor: Option<TlsAcceptor>,
    router: Router,
) -> Infallible {
    let patience = Patience::default();
    match acceptor {
        Some(acceptor) => {
            serve_connections(TlsListener::new(listener, acceptor), router, patience).await
        }
        None => serve_connections(listener, router, patience).await,
    }
}

/// The state of a server that waits.
#[derive(Clone)]
struct NotReady {
    ailing: Arc<Ailing>,
    isolation: String,
}

/// The routes of a server that waits. Each connection ends with its answer: later requests are for the server that has
/// begun.
fn not_ready(ailing: Arc<Ailing>, isolation: &str) -> Router {
    let state = NotReady { ailing, isolation: isolation.to_owned() };
    let router = Router::new()
        .route("/healthz", get(async || "ok"))
        .route("/readyz", get(readyz))
        .fallback(async || {
            let why = "the server waits for what it cannot begin without; `/readyz` names it";
            ApiError::unavailable(why.to_owned())
        })
        .with_state(state);
    router.layer(axum::middleware::map_response(async |mut response: Response| {
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        if response.status() == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5"));
        }
        response
    }))
}

async fn readyz(State(state): State<NotReady>) -> Response {
    let failed = state.ailing.first().map(Part::as_str);
    let body = json!({"ok": false, "isolation": state.isolation, "failed": failed});
    (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
}
