//! Finds the secrets of a run and registers them with the redactor, before any output.

pub(super) mod ambient;
pub(super) mod backend_secrets;
pub(super) mod collected;
pub(super) mod secret_names;
pub(super) mod secrets;
