//! The values of Secrets.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kube::api::Api;
use secrecy::SecretString;

use crate::native::NativeObjects;

/// A Secret cannot be read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SecretUnread {
    /// Why, for people.
    pub why: String,
    /// Whether it may be readable later without a change: the cluster does not answer.
    pub is_temporary: bool,
}

impl SecretUnread {
    /// The cluster cannot be used now.
    #[must_use]
    pub const fn away(why: String) -> Self {
        Self { why, is_temporary: true }
    }
}

impl NativeObjects {
    /// The values of a Secret that are texts, by their keys.
    ///
    /// # Errors
    /// If it cannot be read.
    pub async fn secret(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<BTreeMap<String, SecretString>, SecretUnread> {
        let (client, namespace) = self.place(Some(namespace));
        let api: Api<Secret> = Api::namespaced(client, namespace);
        let secret = self.readable(api.get(name)).await.map_err(|error| match error.code {
            Some(404) => SecretUnread { why: "it does not exist".to_owned(), is_temporary: false },
            code => SecretUnread {
                why: error.why,
                is_temporary: code.is_none_or(|code| code == 429 || code >= 500),
            },
        })?;
        let text = |(key, value): (String, k8s_openapi::ByteString)| {
            Some((key, SecretString::from(String::from_utf8(value.0).ok()?)))
        };
        Ok(secret.data.unwrap_or_default().into_iter().filter_map(text).collect())
    }
}
