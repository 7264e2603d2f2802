//! `POST /webhooks/REPOSITORY`.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use butler_base::blocking::blocking;
use futures_util::StreamExt as _;
use serde_json::{Value, json};

use super::deliveries::Deliveries;
use super::provider::{Proof, ProofError, is_about_commits, is_unsigned_test};
use crate::api::ApiError;
use crate::attempts::Secrets;
use crate::serve::Desired;

/// The largest body, in bytes: that of GitHub, which sends the most.
const MOST_BODY: usize = 25 << 20;

/// How long a sender may take for the body.
const BODY: Duration = Duration::from_secs(30);

/// What is needed to receive deliveries.
#[derive(Debug)]
pub struct Receiver {
    /// The repositories.
    pub desired: Arc<Desired>,
    /// Reads the secret of a repository at each delivery.
    pub secrets: Secrets,
    /// Where deliveries are recorded.
    pub deliveries: Arc<Deliveries>,
}

/// The route of webhooks. It needs no token: each delivery is signed.
pub fn router<S: Clone + Send + Sync + 'static>(receiver: Arc<Receiver>) -> Router<S> {
    // The body is read piece by piece, so its limit needs no memory.
    let handler = post(deliver).layer(DefaultBodyLimit::disable()).with_state(receiver);
    Router::new().route("/webhooks/{repository}", handler)
}

async fn deliver(
    State(receiver): State<Arc<Receiver>>,
    Path(name): Path<String>,
    request: Request,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let config = receiver.desired.config();
    let repository = config.repositories.get(&name);
    // One answer for both: it does not tell which repositories exist.
    let webhook = repository.and_then(|repository| repository.entry.webhook.as_ref());
    let Some((webhook, source)) = webhook.and_then(|webhook| Some((webhook, webhook.source()?)))
    else {
        return Err(ApiError::not_found(format!("there is no webhook for `{name}`")));
    };
    let provider = webhook.provider;
    let is_about_commits = is_about_commits(provider, request.headers());
    let Some(proof) = Proof::of(provider, request.headers()) else {
        if is_unsigned_test(provider, request.headers()) {
            // It proves nothing, so it is not recorded either.
            return Ok((StatusCode::ACCEPTED, Json(json!({"repository": name, "read": false}))));
        }
        return Err(refuse(&receiver.deliveries, &name));
    };
    let secrets = receiver.secrets.clone();
    let used_by = format!("the webhook of the repository `{name}`");
    let read = blocking(move |_| secrets.read(&source, &used_by)).await;
    let secret = read.map_err(|error| ApiError::internal(&error))?;
    let mut verification = match proof.verification(&secret) {
        Ok(verification) => verification,
        Err(ProofError::WrongSecret) => return Err(refuse(&receiver.deliveries, &name)),
        Err(error @ ProofError::EmptySecret) => return Err(ApiError::internal(&error)),
    };
    let body = async {
        let (mut body, mut length) = (request.into_body().into_data_stream(), 0);
        while let Some(part) = body.next().await {
            let part = part.map_err(|error| {
                ApiError::bad_request(format!("the body of the delivery was not complete: {error}"))
            })?;
            length += part.len();
            if length > MOST_BODY {
                return Err(ApiError::too_large(MOST_BODY));
            }
            verification.update(&part);
        }
        Ok(())
    };
    let read = tokio::time::timeout(BODY, body).await;
    read.map_err(|_| ApiError::bad_request("the body of the delivery did not arrive in time"))??;
    if !verification.verify() {
        return Err(refuse(&receiver.deliveries, &name));
    }
    receiver.deliveries.accept(&name, is_about_commits);
    Ok((StatusCode::ACCEPTED, Json(json!({"repository": name, "read": is_about_commits}))))
}

fn refuse(deliveries: &Deliveries, repository: &str) -> ApiError {
    if deliveries.refuse(repository) {
        tracing::warn!(repository, "a delivery of a webhook has no valid signature");
    }
    ApiError::unsigned(repository)
}
