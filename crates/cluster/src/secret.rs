//! Sends the Secret with a run's token to the cluster, with as few copies of the token as possible.
//!
//! The token is not part of the object in memory: it is written once, into the body of the request. The response
//! is requested without the object. Freed heap memory is zeroed by the allocator. Not covered are OpenSSL's
//! buffers, and copies in the kernel and in the cluster.

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

use crate::JobName;
use crate::client::Cluster;
use crate::error::{ClusterError, Request};
use crate::manifest::TOKEN_KEY;

/// Requests the metadata of the created object instead of the object.
const METADATA: HeaderValue = HeaderValue::from_static(
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
);

#[derive(Serialize)]
struct WithToken<'run> {
    #[serde(flatten)]
    secret: &'run Secret,
    #[serde(rename = "stringData")]
    data: BTreeMap<&'static str, &'run str>,
}

impl Cluster {
    /// Creates the Secret with the token. The name is unique: an existing Secret is from an earlier attempt of
    /// this call whose response was lost.
    pub(crate) async fn create_secret(
        &self,
        secret: &Secret,
        token: &SecretString,
        name: &JobName,
        parameters: &PostParams,
    ) -> Result<(), ClusterError> {
        let request = Request { verb: "create", resource: "secrets" };
        let body = Bytes::from_owner(request_body(secret, token));
        let created = self.send(request, name, || self.post_secret(body.clone(), parameters)).await;
        match created {
            Err(ClusterError::Exists { .. }) => Ok(()),
            created => created,
        }
    }

    async fn post_secret(&self, body: Bytes, parameters: &PostParams) -> kube::Result<()> {
        let path = Secret::url_path(&(), Some(&self.namespace));
        let request = kube::core::Request::new(path).create(parameters, Vec::new());
        let (mut parts, _) = request.map_err(kube::Error::BuildRequest)?.into_parts();
        parts.headers.insert(ACCEPT, METADATA);
        let request = http::Request::from_parts(parts, Body::from(body));
        let (parts, response) = self.client.send(request).await?.into_parts();
        let body = response.collect_bytes().await?;
        if parts.status.is_success() {
            return Ok(());
        }
        let code = parts.status.as_u16();
        let status: Result<Status, _> = serde_json::from_slice(&body);
        let plain = |_| Status::failure(&String::from_utf8_lossy(&body), "").with_code(code);
        Err(kube::Error::Api(status.unwrap_or_else(plain).boxed()))
    }
}

fn request_body(secret: &Secret, token: &SecretString) -> Vec<u8> {
    let object = WithToken { secret, data: BTreeMap::from([(TOKEN_KEY, token.expose_secret())]) };
    serde_json::to_vec(&object).expect("all keys are strings")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;

    #[test]
    fn token_is_part_of_the_request_body() {
        let secret = Secret {
            metadata: ObjectMeta { name: Some("x".repeat(253)), ..ObjectMeta::default() },
            immutable: Some(true),
            ..Secret::default()
        };
        let token = "\"brce_".to_owned() + &"\\".repeat(4000);
        let body = request_body(&secret, &token.clone().into());
        let read: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(read["stringData"]["token"], token);
        assert_eq!(
            (read["kind"].as_str(), read["immutable"].as_bool()),
            (Some("Secret"), Some(true))
        );
    }
}
