//! What the server measures: the names of all metrics, the counters of attempts, and the text format of
//! Prometheus.
//!
//! Gauges are derived from the facts at each request. Counters begin at zero when the server starts, and
//! are never stored. Labels never contain secrets: they are names of repositories and receivers, and words of the API.

mod attempts;
mod durations;
mod families;
mod histogram;
mod notifications;
mod text;

pub use attempts::{AttemptMetrics, count_attempts};
pub use durations::{PollDurations, TransactionDurations};
pub use families::{
    ATTEMPT_DURATION, ATTEMPTS_ENDED, ATTEMPTS_NOT_COPIED, ATTEMPTS_RUNNING, BREAKER_OPEN,
    BUILD_INFO, DECIDES, FAMILIES, Family, Kind, LAST_SUCCESSFUL_POLL, LAYERS, LAYERS_DRIFTED,
    LAYERS_GATED, NOTIFICATIONS, OLDEST_DRIFT, OLDEST_WAITING_RUN, POLL_DURATION, POLLS, PROBLEMS,
    RUN_WAIT, RUNS_WAITING, RUNS_WAITING_GATED, TRANSACTION_DURATION, WEBHOOK_DELIVERIES,
};
pub use notifications::{DeliveryResult, NotificationMetrics};
pub use text::{CONTENT_TYPE, Exposition};
