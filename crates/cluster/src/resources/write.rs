//! Writes the status of a custom resource.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::object::{CustomObject, api};
use super::status::ResourceStatus;
use crate::native::NativeObjects;

/// How the write of a status ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum StatusWrite {
    /// The resource has the status.
    Written,
    /// The resource has changed or is gone: the watch reports what it is now.
    Stale,
    /// The cluster refuses the status, or does not answer.
    Failed {
        /// Why.
        why: String,
    },
}

impl NativeObjects {
    /// Writes the status of a resource, if the resource is still as it was reported.
    pub async fn write_status(
        &self,
        object: &CustomObject,
        status: &ResourceStatus,
    ) -> StatusWrite {
        let patch = Patch::Merge(body(object, status));
        let api = api(self, object.key.kind, &object.key.namespace);
        let parameters = PatchParams::default();
        let writing = async {
            match api.patch_status(&object.key.name, &parameters, &patch).await {
                Ok(_) => Ok(StatusWrite::Written),
                Err(kube::Error::Api(answer)) if matches!(answer.code, 404 | 409) => {
                    Ok(StatusWrite::Stale)
                }
                Err(error) => Err(error),
            }
        };
        self.answer(writing).await.unwrap_or_else(|why| StatusWrite::Failed { why })
    }
}

/// The merge patch. Fields that the status does not have are removed.
fn body(object: &CustomObject, status: &ResourceStatus) -> Value {
    let mut written = json!(status);
    for field in ["phase", "commit", "layers"] {
        if let Some(fields) = written.as_object_mut() {
            fields.entry(field).or_insert(Value::Null);
        }
    }
    json!({
        "metadata": {"resourceVersion": object.resource_version},
        "status": written,
    })
}
