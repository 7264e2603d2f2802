//! Finds the secrets that a run only refers to.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// How a sensitive value that could be a reference is taken (`--sensitive-values`).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum SensitiveValues {
    /// As a reference when it looks like one.
    #[default]
    Auto,
    /// Always as the secret itself.
    Literal,
}

/// Where secrets are looked for.
#[derive(Clone, Default)]
pub struct SecretSources {
    /// The runner's own environment.
    pub environment: BTreeMap<OsString, OsString>,
    /// Mounted secrets: `<dir>/<namespace>/<name>/<key>` and `<dir>/<name>/<key>`.
    pub directory: Option<PathBuf>,
    /// How values that could be references are taken.
    pub values: SensitiveValues,
}
