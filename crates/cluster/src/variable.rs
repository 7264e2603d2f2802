//! Environment variables of a container.

use k8s_openapi::api::core::v1::EnvVar;

/// A variable with this value.
pub(crate) fn variable(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(value.to_owned()), value_from: None }
}
