//! Sends the Secret with a run's token to the cluster, and leaves as few copies of it as can be.
//!
//! The object itself is kept without the token, which is put in as the request is written, once, into
//! memory that is wiped when the last piece of the library has let go of it. The answer is asked for
//! without the object. What cannot be wiped from here: the buffers of HTTP and TLS, the answer of a
//! server that sends the object anyway, and copies in the kernel and in the cluster.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::HeaderValue;
use http::header::ACCEPT;
use k8s_openapi::api::core::v1::Secret;
use kube::Resource;
use kube::api::PostParams;
use kube::client::Body;
use kube::core::Status;
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use zeroize::Zeroizing;

use super::JobName;
use super::client::Cluster;
use super::error::{ClusterError, Request};
use super::manifest::TOKEN_KEY;

/// Asks for what is said about an object, and not for the object.
const METADATA: HeaderValue = HeaderValue::from_static(
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
);

/// More than a Secret takes without its token.
const ROOM: usize = 16 * 1024;

#[derive(Serialize)]
struct WithToken<'run> {
    #[serde(flatten)]
    secret: &'run Secret,
    #[serde(rename = "stringData")]
    data: BTreeMap<&'static str, &'run str>,
}

impl Cluster {
    /// Creates the Secret with the token. Its name is one that nothing else has: where the cluster
    /// has one already, the answer to an earlier request of this call was lost.
    pub(super) async fn create_secret(
        &self,
        secret: &Secret,
        token: &SecretString,
        name: &JobName,
        parameters: &PostParams,
    ) -> Result<(), ClusterError> {
        let request = Request { verb: "create", resource: "secrets" };
        let body = Bytes::from_owner(written(secret, token));
        let created = self.ask(request, name, || self.send(body.clone(), parameters)).await;
        match created {
            Err(ClusterError::Exists { .. }) => Ok(()),
            created => created,
        }
    }

    async fn send(&self, body: Bytes, parameters: &PostParams) -> kube::Result<()> {
        let path = Secret::url_path(&(), Some(&self.namespace));
        let request = kube::core::Request::new(path).create(parameters, Vec::new());
        let (mut parts, _) = request.map_err(kube::Error::BuildRequest)?.into_parts();
        parts.headers.insert(ACCEPT, METADATA);
        let request = http::Request::from_parts(parts, Body::from(body));
        let (parts, answer) = self.client.send(request).await?.into_parts();
        let answer = answer.collect_bytes().await?;
        if parts.status.is_success() {
            return Ok(());
        }
        let code = parts.status.as_u16();
        let status: Result<Status, _> = serde_json::from_slice(&answer);
        let plain = |_| Status::failure(&String::from_utf8_lossy(&answer), "").with_code(code);
        Err(kube::Error::Api(status.unwrap_or_else(plain).boxed()))
    }
}

/// The request's body, written in one piece: memory that grows is copied and not wiped.
fn written(secret: &Secret, token: &SecretString) -> Zeroizing<Vec<u8>> {
    let token = token.expose_secret();
    let mut body = Zeroizing::new(Vec::with_capacity(ROOM + 2 * token.len()));
    let object = WithToken { secret, data: BTreeMap::from([(TOKEN_KEY, token)]) };
    serde_json::to_writer(&mut *body, &object).expect("names are strings, and memory takes it");
    body
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;

    #[test]
    fn token_is_written_once_and_into_memory_that_does_not_move() {
        let secret = Secret {
            metadata: ObjectMeta { name: Some("x".repeat(253)), ..ObjectMeta::default() },
            immutable: Some(true),
            ..Secret::default()
        };
        let token = "\"brce_".to_owned() + &"\\".repeat(4000);
        let body = written(&secret, &token.clone().into());
        assert_eq!(body.capacity(), ROOM + 2 * token.len(), "it has not grown");
        let read: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(read["stringData"]["token"], token);
        assert_eq!(
            (read["kind"].as_str(), read["immutable"].as_bool()),
            (Some("Secret"), Some(true))
        );
    }
}
