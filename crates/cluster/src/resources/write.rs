//! Writes the status of a custom resource.

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::object::CustomObject;
use super::status::ResourceStatus;
use super::watched::api;
use crate::native::NativeObjects;

impl NativeObjects {
    /// Writes the status of a resource. If the resource has changed or is gone, nothing is written: the watch reports
    /// what it is now.
    ///
    /// # Errors
    /// If the cluster refuses the status, or does not answer.
    pub async fn write_status(
        &self,
        object: &CustomObject,
        status: &ResourceStatus,
    ) -> Result<(), String> {
        let patch = Patch::Merge(body(object, status));
        let api = api(self, object.key.kind, &object.key.namespace);
        let parameters = PatchParams::default();
        let writing = async {
            match api.patch_status(&object.key.name, &parameters, &patch).await {
                Ok(_) => Ok(()),
                Err(kube::Error::Api(answer)) if matches!(answer.code, 404 | 409) => Ok(()),
                Err(error) => Err(error),
            }
        };
        self.answer(writing).await
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
