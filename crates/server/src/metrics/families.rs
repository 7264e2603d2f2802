//! The names of all metrics. docs/operating.md has the same table.

/// One metric, with all its series.
#[derive(Debug)]
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// How its values are to be read.
    pub kind: Kind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it is, in one sentence.
    pub help: &'static str,
}

/// How the values of a metric are to be read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Only grows, from zero at each start of the server.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts of observations up to each bound, in seconds.
    Histogram,
}

impl Kind {
    /// The name in the text format.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// All metrics, in the order of the answer.
pub const FAMILIES: [&Family; 22] = [
    &BUILD_INFO,
    &DECIDES,
    &ATTEMPTS_NOT_COPIED,
    &LAYERS,
    &LAYERS_DRIFTED,
    &OLDEST_DRIFT,
    &LAYERS_GATED,
    &PROBLEMS,
    &RUNS_WAITING,
    &RUNS_WAITING_GATED,
    &OLDEST_WAITING_RUN,
    &BREAKER_OPEN,
    &ATTEMPTS_RUNNING,
    &ATTEMPTS_ENDED,
    &ATTEMPT_DURATION,
    &RUN_WAIT,
    &POLLS,
    &POLL_DURATION,
    &LAST_SUCCESSFUL_POLL,
    &WEBHOOK_DELIVERIES,
    &TRANSACTION_DURATION,
    &NOTIFICATIONS,
];

/// The version of the server.
pub const BUILD_INFO: Family = Family {
    name: "butler_build_info",
    kind: Kind::Gauge,
    labels: &["version"],
    help: "Always 1; the label is the version of the server.",
};

/// Whether the server decides.
pub const DECIDES: Family = Family {
    name: "butler_decides",
    kind: Kind::Gauge,
    labels: &[],
    help: "1 if this server decides about the layers, 0 if it leaves that to another server with the same store.",
};

/// Attempts that wait for the object store.
pub const ATTEMPTS_NOT_COPIED: Family = Family {
    name: "butler_attempts_not_copied",
    kind: Kind::Gauge,
    labels: &[],
    help: "The attempts of this server whose files could not be copied to the object store, or whose copy takes longer than 10 seconds.",
};

/// Layers by phase.
pub const LAYERS: Family = Family {
    name: "butler_layers",
    kind: Kind::Gauge,
    labels: &["phase"],
    help: "The layers in each phase.",
};

/// Layers with drift.
pub const LAYERS_DRIFTED: Family = Family {
    name: "butler_layers_drifted",
    kind: Kind::Gauge,
    labels: &[],
    help: "The layers whose last check found drift.",
};

/// The age of the oldest drift.
pub const OLDEST_DRIFT: Family = Family {
    name: "butler_drift_oldest_seconds",
    kind: Kind::Gauge,
    labels: &[],
    help: "The time since drift of a layer was found that was not resolved: the longest of all layers; 0 if no layer has drift.",
};

/// Layers by closed gate.
pub const LAYERS_GATED: Family = Family {
    name: "butler_layers_gated",
    kind: Kind::Gauge,
    labels: &["gate"],
    help: "The layers with a reason of each gate. A layer can have several.",
};

/// Problems of the configuration.
pub const PROBLEMS: Family = Family {
    name: "butler_problems",
    kind: Kind::Gauge,
    labels: &[],
    help: "The problems that `layer list` prints: with the configuration, repositories and layers.",
};

/// Runs that wait.
pub const RUNS_WAITING: Family = Family {
    name: "butler_runs_waiting",
    kind: Kind::Gauge,
    labels: &[],
    help: "The runs that wait for their first or next attempt, without those of paused layers.",
};

/// Runs that wait, by closed gate.
pub const RUNS_WAITING_GATED: Family = Family {
    name: "butler_runs_waiting_gated",
    kind: Kind::Gauge,
    labels: &["gate"],
    help: "The runs that wait and whose layer has a reason of each gate. A layer can have several.",
};

/// The age of the oldest run that waits.
pub const OLDEST_WAITING_RUN: Family = Family {
    name: "butler_runs_waiting_oldest_seconds",
    kind: Kind::Gauge,
    labels: &[],
    help: "The time since the oldest run that waits was created; 0 if no run waits.",
};

/// The breaker.
pub const BREAKER_OPEN: Family = Family {
    name: "butler_breaker_open",
    kind: Kind::Gauge,
    labels: &[],
    help: "1 if the breaker has stopped automatic applies, 0 otherwise.",
};

/// Attempts that run.
pub const ATTEMPTS_RUNNING: Family = Family {
    name: "butler_attempts_running",
    kind: Kind::Gauge,
    labels: &[],
    help: "The attempts that have not ended.",
};

/// Attempts that have ended.
pub const ATTEMPTS_ENDED: Family = Family {
    name: "butler_attempts_ended_total",
    kind: Kind::Counter,
    labels: &["action", "outcome"],
    help: "The attempts that have ended.",
};

/// How long attempts took.
pub const ATTEMPT_DURATION: Family = Family {
    name: "butler_attempt_duration_seconds",
    kind: Kind::Histogram,
    labels: &["action", "outcome"],
    help: "The time from the start to the end of attempts.",
};

/// How long runs waited.
pub const RUN_WAIT: Family = Family {
    name: "butler_run_wait_seconds",
    kind: Kind::Histogram,
    labels: &["action"],
    help: "The time from the creation of runs to the start of their first attempt.",
};

/// Polls.
pub const POLLS: Family = Family {
    name: "butler_polls_total",
    kind: Kind::Counter,
    labels: &["repository", "result"],
    help: "The polls of each repository that have ended.",
};

/// How long polls took.
pub const POLL_DURATION: Family = Family {
    name: "butler_poll_duration_seconds",
    kind: Kind::Histogram,
    labels: &["result"],
    help: "The duration of the polls of all repositories.",
};

/// The last successful poll.
pub const LAST_SUCCESSFUL_POLL: Family = Family {
    name: "butler_repository_last_successful_poll_timestamp_seconds",
    kind: Kind::Gauge,
    labels: &["repository"],
    help: "When the last successful poll of each repository ended; absent before the first one.",
};

/// Deliveries of webhooks.
pub const WEBHOOK_DELIVERIES: Family = Family {
    name: "butler_webhook_deliveries_total",
    kind: Kind::Counter,
    labels: &["repository", "result"],
    help: "The deliveries of webhooks of each repository that has one: accepted, ignored because they are not about commits, or refused because of their signature.",
};

/// How long transactions of the store took.
pub const TRANSACTION_DURATION: Family = Family {
    name: "butler_store_transaction_duration_seconds",
    kind: Kind::Histogram,
    labels: &["kind"],
    help: "The duration of transactions of the store that read only, and of those that write.",
};

/// Notifications.
pub const NOTIFICATIONS: Family = Family {
    name: "butler_notifications_total",
    kind: Kind::Counter,
    labels: &["receiver", "result"],
    help: "The tries to deliver a notification to each receiver: delivered, failed and tried again, or dropped.",
};
