//! The values of Secrets.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kube::api::Api;
use secrecy::SecretString;

use crate::native::NativeObjects;

impl NativeObjects {
    /// The values of a Secret that are texts, by their keys.
    ///
    /// # Errors
    /// If it cannot be read.
    pub async fn secret(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<BTreeMap<String, SecretString>, String> {
        let (client, namespace) = self.place(Some(namespace));
        let api: Api<Secret> = Api::namespaced(client, namespace);
        let secret = self.answer(api.get(name)).await?;
        let text = |(key, value): (String, k8s_openapi::ByteString)| {
            Some((key, SecretString::from(String::from_utf8(value.0).ok()?)))
        };
        Ok(secret.data.unwrap_or_default().into_iter().filter_map(text).collect())
    }
}
