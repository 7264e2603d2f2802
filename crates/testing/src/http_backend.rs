//! A server for Terraform's `http` backend with locks. It can refuse to store states or be
//! unavailable.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use butler_registry::memory::Server;
use serde_json::{Value, json};

use super::world::eventually;

#[derive(Default)]
struct BackendState {
    state: Option<Bytes>,
    /// The lock as its holder described it.
    lock: Option<Value>,
    /// How often a lock was refused because it was held.
    refusals: usize,
    /// Operations (`OperationTypeApply`, `state-push`) whose states get a 500.
    refused: Vec<&'static str>,
    /// Operations whose lock holders get a 400 when they store a state or unlock.
    stuck: Vec<&'static str>,
    /// Operations for whose lock holders the server is unavailable when they store a state or
    /// unlock.
    away: Vec<&'static str>,
    /// Operations that tried to store a state.
    stored: Vec<String>,
}

/// A running server; dropping it ends it.
pub struct HttpBackend {
    server: Server,
    kept: Arc<Mutex<BackendState>>,
}

impl HttpBackend {
    /// Starts it without a state.
    pub async fn start() -> Self {
        let kept: Arc<Mutex<BackendState>> = Arc::default();
        let shared = kept.clone();
        let router = Router::new().fallback(move |method: Method, uri: Uri, body: Bytes| {
            let shared = shared.clone();
            async move {
                let mut kept = shared.lock().unwrap();
                if kept.is_away(&method, &uri, &body) {
                    drop(kept);
                    // Closes the connection without a response.
                    std::panic::resume_unwind(Box::new("away"));
                }
                kept.answer(&method, body)
            }
        });
        Self { server: Server::start(router).await.unwrap(), kept }
    }

    /// The backend's settings.
    pub fn config(&self) -> Value {
        let address = self.server.endpoint().to_string();
        json!({
            "address": address,
            "lock_address": address,
            "unlock_address": address,
            "retry_max": 0,
        })
    }

    /// The same as a block in a module.
    pub fn block(&self) -> String {
        let settings = self.config();
        let lines: Vec<String> = settings
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| format!("    {name} = {value}\n"))
            .collect();
        let settings = lines.concat();
        format!("terraform {{\n  backend \"http\" {{\n{settings}  }}\n}}\n")
    }

    /// From here on, refuses states of these operations.
    pub fn refuse(&self, operations: &[&'static str]) {
        self.kept.lock().unwrap().refused = operations.to_vec();
    }

    /// From here on, holders of these operations can neither store a state nor unlock.
    pub fn keep_locked(&self, operations: &[&'static str]) {
        self.kept.lock().unwrap().stuck = operations.to_vec();
    }

    /// From here on, is unavailable to holders of these operations as soon as they store a state.
    pub fn be_away_for(&self, operations: &[&'static str]) {
        self.kept.lock().unwrap().away = operations.to_vec();
    }

    /// How often a lock was refused because it was held.
    pub fn refusals(&self) -> usize {
        self.kept.lock().unwrap().refusals
    }

    /// The stored state.
    pub fn state(&self) -> Option<Value> {
        let kept = self.kept.lock().unwrap();
        kept.state.as_ref().map(|state| serde_json::from_slice(state).unwrap())
    }

    /// The operations that tried to store a state.
    pub fn stored(&self) -> Vec<String> {
        self.kept.lock().unwrap().stored.clone()
    }

    /// The holder of the lock.
    pub fn lock(&self) -> Option<Value> {
        self.kept.lock().unwrap().lock.clone()
    }

    /// Sets or removes the holder of the lock.
    pub fn set_lock(&self, lock: Option<Value>) {
        self.kept.lock().unwrap().lock = lock;
    }

    /// Waits until a lock request was refused.
    pub async fn refused_a_lock(&self) {
        eventually("a lock that is refused", || self.kept.lock().unwrap().refusals > 0).await;
    }
}

impl BackendState {
    /// Whether this request is from the lock's holder and gets no response.
    fn is_away(&self, method: &Method, uri: &Uri, body: &Bytes) -> bool {
        let Some(lock) = &self.lock else { return false };
        let by_holder = match method.as_str() {
            "POST" => uri.query().is_some_and(|query| query.contains("ID=")),
            "UNLOCK" => !body.is_empty(),
            _ => false,
        };
        by_holder && self.away.iter().any(|operation| lock["Operation"] == *operation)
    }

    fn answer(&mut self, method: &Method, body: Bytes) -> Response {
        match method.as_str() {
            "GET" => match &self.state {
                Some(state) => state.clone().into_response(),
                None => StatusCode::NOT_FOUND.into_response(),
            },
            "POST" => {
                let operation = self.lock.as_ref().and_then(|lock| lock["Operation"].as_str());
                let operation = operation.unwrap_or_default().to_owned();
                let refused = self.refused.contains(&operation.as_str());
                self.stored.push(operation);
                if self.stuck.contains(&self.stored.last().map_or("", String::as_str)) {
                    return StatusCode::BAD_REQUEST.into_response();
                }
                if refused {
                    return StatusCode::INTERNAL_SERVER_ERROR.into_response();
                }
                self.state = Some(body);
                StatusCode::OK.into_response()
            }
            "LOCK" => {
                if let Some(lock) = &self.lock {
                    self.refusals += 1;
                    return (StatusCode::LOCKED, lock.to_string()).into_response();
                }
                self.lock = Some(serde_json::from_slice(&body).unwrap());
                StatusCode::OK.into_response()
            }
            "UNLOCK" => {
                // `force-unlock` sends no body.
                let other = serde_json::from_slice::<Value>(&body).is_ok_and(|given| {
                    self.lock.as_ref().is_some_and(|lock| lock["ID"] != given["ID"])
                });
                if other {
                    return StatusCode::CONFLICT.into_response();
                }
                let lock = self.lock.as_ref();
                let kept = |operation: &&str| lock.is_some_and(|it| it["Operation"] == **operation);
                if !body.is_empty() && self.stuck.iter().any(kept) {
                    return StatusCode::BAD_REQUEST.into_response();
                }
                self.lock = None;
                StatusCode::OK.into_response()
            }
            _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        }
    }
}
