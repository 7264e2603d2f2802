//! The table of all settings, which is the source of `--help`, docs/settings.md and error messages.

mod output;
mod registry;
mod run;
mod server;
mod tool;
mod without_registry;

use super::Setting;

pub use output::{CI, LOG, LOG_FORMAT, REPORT, SUMMARY};
pub use registry::{
    BODY_LIMIT, ENDPOINT, REGISTRY_TIMEOUT, REQUEST_TIMEOUT, RUN_ID, TOKEN, TOKEN_FILE,
};
pub use run::{
    AFTER_PLAN, ALLOW_EPHEMERAL_STATE, CANCEL_INTERVAL, FORCE_UNLOCK_OWN, GRACE_PERIOD, ISOLATION,
    ISOLATION_READ, ISOLATION_USERS, ISOLATION_WRITE, LOCK_TIMEOUT, LOG_INTERVAL, PLAN_JSON,
    PLAN_STATUS, PROVIDER_CACHE, RECOVERY_DIR, SECRETS_DIR, SENSITIVE_VALUES, SETTINGS_FILE,
    TMPFS_DIR, WORK_DIR,
};
pub use server::{
    ACCESS_FILE, ALLOW_HTTP, ALLOWED_GIT_HOST, ALLOWED_HOST, CONCURRENCY, DATA, DRY_RUN, KEY_FILE,
    LAYER_PATH, LISTEN, METRICS_OPEN, MIRROR_MEMORY, ONCE, PUBLIC_URL, REFERENCE, REPO, SERVER,
    SERVER_CONFIG, SERVER_ISOLATION, SERVER_TOKEN_FILE, STARTS_PER_MINUTE, STOP_ATTEMPTS,
    STOP_TIMEOUT, TLS_CERT, TLS_KEY, TRUSTED_PROXY,
};
pub use tool::{
    CA_BUNDLE, CACHE_DIR, DEFAULT_TOOL_VERSION, DRAIN_PERIOD, MIRROR, SIGNING_KEY, TOOL_TIMEOUT,
};
pub use without_registry::{
    CONFIG, LOCAL, MODULE_DIR, OPERATION, REPORT_DIR, TF_VERSION, VAR_FILE,
};

/// All settings, in the order of `--help` and of docs/settings.md.
pub const SETTINGS: &[&Setting] = &[
    &ENDPOINT,
    &RUN_ID,
    &TOKEN,
    &TOKEN_FILE,
    &REQUEST_TIMEOUT,
    &REGISTRY_TIMEOUT,
    &BODY_LIMIT,
    &LOCAL,
    &MODULE_DIR,
    &OPERATION,
    &TF_VERSION,
    &VAR_FILE,
    &CONFIG,
    &REPORT_DIR,
    &CI,
    &SUMMARY,
    &REPORT,
    &WORK_DIR,
    &TMPFS_DIR,
    &RECOVERY_DIR,
    &SECRETS_DIR,
    &LOG_INTERVAL,
    &CANCEL_INTERVAL,
    &GRACE_PERIOD,
    &LOCK_TIMEOUT,
    &FORCE_UNLOCK_OWN,
    &ALLOW_EPHEMERAL_STATE,
    &PLAN_STATUS,
    &PLAN_JSON,
    &AFTER_PLAN,
    &SENSITIVE_VALUES,
    &SETTINGS_FILE,
    &PROVIDER_CACHE,
    &ISOLATION,
    &ISOLATION_USERS,
    &ISOLATION_READ,
    &ISOLATION_WRITE,
    &CACHE_DIR,
    &MIRROR,
    &SIGNING_KEY,
    &CA_BUNDLE,
    &DEFAULT_TOOL_VERSION,
    &TOOL_TIMEOUT,
    &DRAIN_PERIOD,
    &LOG_FORMAT,
    &LOG,
];

/// The settings of the server and of the commands that ask one, in the order of `--help` and of
/// docs/settings.md. Runs have other settings of the same name.
pub const SERVER_SETTINGS: &[&Setting] = &[
    &SERVER_CONFIG,
    &REPO,
    &LAYER_PATH,
    &REFERENCE,
    &DATA,
    &LISTEN,
    &PUBLIC_URL,
    &ALLOWED_HOST,
    &TLS_CERT,
    &TLS_KEY,
    &TRUSTED_PROXY,
    &ALLOW_HTTP,
    &ALLOWED_GIT_HOST,
    &ACCESS_FILE,
    &METRICS_OPEN,
    &KEY_FILE,
    &CONCURRENCY,
    &STARTS_PER_MINUTE,
    &SERVER_ISOLATION,
    &MIRROR_MEMORY,
    &STOP_ATTEMPTS,
    &STOP_TIMEOUT,
    &ONCE,
    &DRY_RUN,
    &SERVER,
    &SERVER_TOKEN_FILE,
];
