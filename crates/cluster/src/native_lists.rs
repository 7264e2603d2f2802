//! Lists of objects of any kind, and their deletion.

use butler_base::error::chain;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Preconditions, TypeMeta};
use serde_json::Value;

use crate::native::{NativeObject, NativeObjects, Problem, in_time, is_absence};

/// The most objects of a list.
const MOST: u32 = 100;

impl NativeObjects {
    /// The objects of this kind in the namespace that have a label (`NAME=VALUE`): at most 100, in the order of their
    /// names.
    ///
    /// # Errors
    /// If the cluster refuses it, or does not answer.
    pub async fn labelled(
        &self,
        kind: NativeObject<'_>,
        label: &str,
    ) -> Result<Vec<Value>, String> {
        let parameters = ListParams::default().labels(label).limit(MOST);
        self.list(async { self.api(kind).await }, kind, &parameters).await
    }

    /// The objects of this kind and this name in all namespaces.
    ///
    /// # Errors
    /// If the cluster refuses it, or does not answer.
    pub async fn everywhere(&self, kind: NativeObject<'_>) -> Result<Vec<Value>, String> {
        let parameters = ListParams::default().fields(&format!("metadata.name={}", kind.name));
        let all = async {
            let (resource, _) = self.kind(kind).await?;
            Ok(Api::all_with(self.place(None).0, &resource))
        };
        self.list(all, kind, &parameters).await
    }

    async fn list(
        &self,
        api: impl Future<Output = Result<Api<DynamicObject>, Problem>>,
        kind: NativeObject<'_>,
        parameters: &ListParams,
    ) -> Result<Vec<Value>, String> {
        let listing = async {
            let listed = api.await?.list(parameters).await;
            let listed = listed.map_err(|error| self.problem(kind, &error))?;
            let values = listed.items.into_iter().map(|mut object| {
                object.metadata.managed_fields = None;
                // Lists of built-in kinds leave it out.
                object.types =
                    Some(TypeMeta { api_version: kind.api_version.into(), kind: kind.kind.into() });
                serde_json::to_value(object)
            });
            values.collect::<Result<_, _>>().map_err(|error| Problem::Temporary(chain(&error)))
        };
        in_time(listing).await.map_err(Problem::into_why)
    }

    /// Deletes this object, and no other of its name. One that does not exist is deleted.
    ///
    /// # Errors
    /// If the cluster refuses it, or does not answer.
    pub async fn delete(&self, object: &Value) -> Result<(), String> {
        let deleting = async {
            let meant = NativeObject::of(object);
            let uid = object.pointer("/metadata/uid").and_then(Value::as_str).map(str::to_owned);
            let preconditions = Preconditions { uid, ..Preconditions::default() };
            let parameters = DeleteParams::default().preconditions(preconditions);
            match self.api(meant).await?.delete(meant.name, &parameters).await {
                Err(kube::Error::Api(status)) if is_absence(&status, meant.name) => Ok(()),
                other => other.map(drop).map_err(|error| self.problem(meant, &error)),
            }
        };
        in_time(deleting).await.map_err(Problem::into_why)
    }
}
