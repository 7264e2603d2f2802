//! What the store knows about a layer and its surroundings.

use std::fmt;

use super::{Action, Ending, LayerName, Moment, Revision, Run, RunId, StateLock, StateVersion};

/// What happened to a layer.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Facts {
    /// The revision that was last applied, or whose normal plan was empty. None while an apply
    /// runs, and after one that has not succeeded: the infrastructure is a mixture then.
    pub applied: Option<Revision>,
    /// When it was.
    pub applied_at: Option<Moment>,
    /// The layer's runs that decisions read, the oldest first: everything that runs or waits, the
    /// newest run with each action and each kind of cause, the newest plan, and the runs whose
    /// failed attempts are counted.
    pub runs: Vec<Run>,
    /// What the last check for drift since the last apply found.
    pub drift: Option<DriftFinding>,
    /// The difference that the last apply has repaired, if no check since then has found none.
    pub repaired_drift: Option<String>,
    /// The version of the state that the last apply of this server has left, or that a plan has found to be what the
    /// code says. A check for drift that finds another one looks for what another program has applied.
    pub state: Option<StateVersion>,
    /// The lease on the layer's state. Its holder can be another layer.
    pub lease: Option<Lease>,
    /// The lock of the state that was reported last. None if an attempt has succeeded since: it has had the
    /// lock itself.
    pub reported_lock: Option<ReportedLock>,
    /// Who paused the layer.
    pub paused_by: Option<String>,
    /// The earlier names of the layer whose files were not moved yet, although its history was. Nothing
    /// starts before that: the state of the layer can be among them.
    pub files_of: Vec<LayerName>,
    /// The newest apply of an upstream layer that changed something and ended after the newest
    /// plan of this layer had begun, if no plan was created because of it. The store knows the order;
    /// clocks do not.
    pub upstream_apply: Option<RunId>,
}

/// A lock of the state that an attempt reported.
#[derive(Clone, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct ReportedLock {
    /// Its run.
    pub run: RunId,
    /// Whether this run destroys, or plans to.
    pub destroys: bool,
    /// The lock.
    pub lock: StateLock,
}

/// A layer that left the configuration, and whose history is to be taken over under another name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Former {
    /// Its run and the number of the attempt that has not ended. It must end first.
    pub running: Option<(RunId, u32)>,
}

/// Drift that a check found.
#[derive(Clone, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct DriftFinding {
    /// The check.
    pub run: RunId,
    /// The hash of the difference. `None` if there is no drift.
    pub difference: Option<String>,
    /// What differs. Stores of the first version do not have it.
    #[serde(default)]
    pub kind: DriftKind,
    /// When drift was found first, if no check since then has found none. `None` if there is no drift. It
    /// stays the same if the difference changes. Stores of earlier versions do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Moment>,
    /// The entries of `drift.ignore` that name nothing of the layer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmatched: Vec<String>,
    /// The findings that are not drift. Stores of earlier versions do not have them.
    #[serde(default)]
    pub seen: Seen,
}

/// The findings of a check for drift besides the difference.
#[derive(Clone, Debug, Default, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
#[serde(default)]
pub struct Seen {
    /// The addresses of checks, resources and outputs with a condition that does not hold.
    pub failing_checks: Vec<String>,
    /// The names of outputs that have moved since the last apply.
    pub outputs: Vec<String>,
    /// The hash of their changes.
    pub outputs_difference: Option<String>,
    /// The number of resources that the code changes, if the check has compared the code.
    pub wanted: Option<u64>,
    /// Whether all resources that differ are gone from the infrastructure.
    pub only_gone: bool,
}

/// What a check for drift found to differ.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    Eq,
    PartialEq,
    serde::Deserialize,
    serde::Serialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum DriftKind {
    /// Nothing.
    #[default]
    None,
    /// Resources. Only this and the next two are drift.
    Changes,
    /// Resources that another program has applied, or removed from the state: state and code differ.
    ChangedOutside,
    /// The code changes resources. This is drift, too. Only a check that always compares the code finds it.
    CodeDiffers,
    /// The addresses of resources.
    MovedOnly,
    /// Outputs.
    OutputsOnly,
    /// What the layer ignores, what the code says already, or nothing that the plan shows.
    WithoutEffect,
}

/// The right to read and write one state. The attempt has it until it has ended: time alone never
/// frees a lease.
#[derive(
    Clone, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize, schemars::JsonSchema,
)]
pub struct Lease {
    /// The layer of the attempt.
    pub layer: LayerName,
    /// Its run.
    pub run: RunId,
    /// Its number, which is the fence: a report with another one is refused.
    pub fence: u32,
}

/// What a start depends on outside of the layer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Surroundings {
    /// The layers that come first, and whether each is applied at the same commit.
    pub upstreams: Vec<Upstream>,
    /// How many more attempts can run.
    pub free_slots: u32,
    /// How many more checks for drift can run.
    pub free_drift_slots: u32,
    /// What is left of the limit of the layer's repository, if it has one.
    pub repository: Option<RepositorySlots>,
    /// How many more attempts may start this minute. Limited are checks for drift, and in the first pass after the
    /// server has started the attempts of layers that have had one.
    pub starts_left: u32,
    /// Whether this is that pass.
    pub is_first_pass: bool,
    /// When the next start is possible if none is left.
    pub starts_again: Moment,
    /// The actions that a window forbids now, each with the end of the window.
    pub closed_windows: Vec<(Action, Moment)>,
    /// Whether automatic applies are stopped.
    pub breaker: Breaker,
    /// The layer whose history this one takes over first, if it has one.
    pub former: Option<Former>,
    /// The namespace that may define the layer, if the layer is not configured and the custom resources of the namespace
    /// are not known yet.
    pub unlisted: Option<String>,
    /// Why nothing is started on this machine, for example because its disk is nearly full.
    pub no_starts: Option<String>,
    /// Whether this server can look for the attempt that runs, and stop it. Otherwise the server that started it
    /// does so.
    pub reaches_attempt: bool,
    /// What the attempt of a run waits for before it begins, in the words of the cluster.
    pub start_waits_for: Option<String>,
}

impl Default for Surroundings {
    /// Nothing prevents a start.
    fn default() -> Self {
        Self {
            upstreams: Vec::new(),
            free_slots: 1,
            free_drift_slots: 1,
            repository: None,
            starts_left: 1,
            is_first_pass: false,
            starts_again: Moment::default(),
            closed_windows: Vec::new(),
            breaker: Breaker::Closed,
            former: None,
            unlisted: None,
            no_starts: None,
            reaches_attempt: true,
            start_waits_for: None,
        }
    }
}

/// What is left of a repository's limit of attempts at the same time.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RepositorySlots {
    /// The repository's name.
    pub name: String,
    /// Its limit.
    pub concurrency: u32,
    /// How many more attempts of its layers can run.
    pub free: u32,
    /// How many more of their checks for drift can run.
    pub free_drift: u32,
}

/// A layer that comes first.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Upstream {
    /// Its name.
    pub name: LayerName,
    /// Whether its digest at the same commit is applied, or was empty when it was planned.
    pub satisfied: bool,
    /// Whether it has changed something since the newest plan of the layer began. That plan must not be applied.
    pub has_changed: bool,
    /// Why its digest is not applied, as far as its own runs say.
    pub waits: Option<UpstreamWait>,
}

/// Why a layer that comes first is not applied.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum UpstreamWait {
    /// This person has paused it.
    Paused(String),
    /// An attempt with this action runs since then.
    Running(Action, Moment),
    /// A run with this action waits for its start since then.
    Queued(Action, Moment),
    /// Its plan waits for an approval since then.
    Approval(Moment),
    /// Its plan of this time was discarded by this person.
    Discarded(Moment, String),
    /// A run with this action failed then.
    Failed(Action, Moment),
}

impl fmt::Display for UpstreamWait {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paused(by) => write!(formatter, "paused by {by}"),
            Self::Running(action, since) => {
                write!(formatter, "its {} runs since {since}", action.as_str())
            }
            Self::Queued(action, since) => {
                write!(formatter, "its {} waits since {since}", action.as_str())
            }
            Self::Approval(since) => {
                write!(formatter, "its plan waits for an approval since {since}")
            }
            Self::Discarded(of, by) => write!(formatter, "its plan of {of} was discarded by {by}"),
            Self::Failed(action, at) => write!(formatter, "its {} failed at {at}", action.as_str()),
        }
    }
}

/// Stops automatic applies after those of several layers have failed in a row, until a person resets it.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Breaker {
    /// Applies go on.
    Closed,
    /// Automatic applies are stopped.
    Open,
}

/// An open breaker.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OpenBreaker {
    /// Since when. `None` if the layer whose apply has opened it has no facts any more.
    pub since: Option<Moment>,
    /// The failures that have opened it, one of each layer, the oldest first. Those of removed runs are missing.
    pub failures: Vec<BreakerFailure>,
}

/// An automatic apply that has failed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BreakerFailure {
    /// The layer.
    pub layer: LayerName,
    /// The apply.
    pub run: RunId,
    /// The number of the attempt that has failed.
    pub attempt: u32,
    /// How it ended.
    pub ending: Ending,
    /// When it ended.
    pub ended: Moment,
}

impl Breaker {
    /// How many layers must have an automatic apply that fails, in a row, so that it opens.
    pub const FAILURES: u64 = 3;

    /// The breaker after automatic applies of this many layers have failed in a row.
    #[must_use]
    pub const fn after(layers: u64) -> Self {
        if layers < Self::FAILURES { Self::Closed } else { Self::Open }
    }
}
