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
pub const FAMILIES: [&Family; 13] = [
    &BUILD_INFO,
    &LAYERS,
    &LAYERS_DRIFTED,
    &LAYERS_GATED,
    &PROBLEMS,
    &RUNS_WAITING,
    &OLDEST_WAITING_RUN,
    &ATTEMPTS_RUNNING,
    &ATTEMPTS_ENDED,
    &ATTEMPT_DURATION,
    &POLLS,
    &LAST_SUCCESSFUL_POLL,
    &WEBHOOK_DELIVERIES,
];

/// The version of the server.
pub const BUILD_INFO: Family = Family {
    name: "butler_build_info",
    kind: Kind::Gauge,
    labels: &["version"],
    help: "Always 1; the label is the version of the server.",
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

/// The age of the oldest run that waits.
pub const OLDEST_WAITING_RUN: Family = Family {
    name: "butler_runs_waiting_oldest_seconds",
    kind: Kind::Gauge,
    labels: &[],
    help: "The time since the oldest run that waits was created; 0 if no run waits.",
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
    labels: &["action"],
    help: "The time from the start to the end of attempts, however they ended.",
};

/// Polls.
pub const POLLS: Family = Family {
    name: "butler_polls_total",
    kind: Kind::Counter,
    labels: &["repository", "result"],
    help: "The polls of each repository that have ended.",
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
