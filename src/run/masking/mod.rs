//! Which values are secrets: the redactor learns them here before anything is shown.

pub(super) mod ambient;
pub(super) mod backend_secrets;
pub(super) mod collected;
pub(super) mod secret_names;
pub(super) mod secrets;
