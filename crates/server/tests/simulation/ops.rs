//! What can happen in a scenario.

use butler_server::model::Strategy;

use crate::faulty_store::Crash;
use crate::inputs::Input;
use crate::interruptions::{Interruption, Left};
use crate::unlock::Meanwhile;

/// Which attempts of a layer fail.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fails {
    /// Some.
    Sometimes,
    /// All applies.
    Applies,
    /// All.
    Always,
}

/// A plan of a layer that a person means.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ChosenPlan {
    Newest,
    /// The one before the newest.
    Previous,
    First,
    /// One that the layer does not have.
    Another,
}

impl ChosenPlan {
    fn random(random: &mut fastrand::Rng) -> Self {
        match random.u8(..8) {
            0 => Self::Previous,
            1 => Self::First,
            2 => Self::Another,
            _ => Self::Newest,
        }
    }
}

/// What a layer of a scenario is like.
#[derive(Clone, Debug)]
pub(crate) struct LayerKind {
    pub(crate) strategy: Strategy,
    /// Whether the layer is checked for drift, and whether drift is repaired then.
    pub(crate) drift_repair: Option<bool>,
    pub(crate) destroy_limit: Option<u64>,
    /// In seconds.
    pub(crate) plan_lifetime: u64,
    pub(crate) fails: Fails,
    /// Whether it has the state of the layer before it, which no configuration should allow.
    pub(crate) shares_state: bool,
    /// Whether its state is in the data directory, below its name.
    pub(crate) is_local: bool,
    /// Whether it is in the repository whose attempts are limited.
    pub(crate) is_limited: bool,
    /// The layers before this one that it comes after.
    pub(crate) after: Vec<usize>,
}

/// One thing that happens. Numbers are taken modulo what exists, so that each operation has a
/// meaning also after others were removed.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Time passes, and processes go on.
    Advance { seconds: u64 },
    /// The clock of the store is moved by this much.
    ClockJump { seconds: i64 },
    /// A commit that gives a layer this digest. A digest that was there before is a revert or a
    /// force push.
    Commit { layer: usize, digest: u8 },
    /// Another repository gets the address: a commit that gives a layer this digest, and that has no ancestor in common
    /// with the ones before.
    ReplaceHistory { layer: usize, digest: u8 },
    /// A commit that deletes a layer's path, or the branch.
    Delete { layer: usize, branch: bool },
    /// A repository is read: by the poll, or because of a webhook, however often that is delivered.
    Poll,
    /// A repository is read by a server that is slow to record what it found.
    SlowPoll,
    /// The slow server records it.
    RecordSlowPoll,
    /// A server decides about all layers until nothing is left to do. Servers keep nothing, so it
    /// does not matter which one.
    Pass,
    /// A server decides about one layer, and is then slow.
    Decide { server: usize, layer: usize },
    /// The slow server executes what it decided.
    PerformDecided { server: usize },
    /// The server that acts next ends at this write, before or after it was made.
    CrashAtWrite { writes: u32, after: bool },
    /// A process is killed.
    KillAttempt { attempt: usize, left: Left },
    /// An apply of a layer, or one that runs, is interrupted after a part of its changes. The server can end at its next
    /// write, and a commit can revert what the apply has changed.
    InterruptApply { layer: usize, how: Interruption, crash: Option<Crash>, reverts: bool },
    /// The machine does not answer, and an administrator unlocks a layer whose attempt has not ended: at once, or after
    /// its fate was unknown for so long that the layer is blocked.
    Unlock { layer: usize, waits: bool, meanwhile: Meanwhile },
    /// A report of an attempt arrives again.
    RepeatReport { attempt: usize },
    /// For this time, processes and the server cannot reach each other.
    Partition { seconds: u64 },
    /// A server decides about a layer. Before it executes that, another one works, perhaps after
    /// a commit to all layers.
    Race { layer: usize, commit: bool },
    /// A repository is read, and a server decides about each layer before any of them executes what
    /// it decided.
    DecideTogether,
    /// The store does not answer, or it does again.
    StoreDown { down: bool },
    /// The git host does not answer, or it does again.
    GitDown { down: bool },
    /// People approve a plan of a layer.
    Approve { layer: usize, plan: ChosenPlan },
    /// A person approves a plan of a layer, and a commit comes first. It can have been read before.
    ApproveAtCommit { layer: usize, digest: u8, is_read: bool },
    /// A person approves a plan of a layer behind a window.
    ApproveBehindWindow { layer: usize, seconds: u64 },
    /// A person approves a plan of a layer after it has expired, and before any server has noticed that.
    ApproveLate { layer: usize },
    /// A person discards a plan of a layer, perhaps after it was approved.
    Discard { layer: usize, plan: ChosenPlan, is_approved: bool },
    /// A person cancels the newest run of a layer that runs or waits.
    Cancel { layer: usize },
    /// A person cancels an apply that has begun.
    CancelApply,
    /// A person asks for a plan of a layer.
    AskForPlan { layer: usize },
    /// A person asks for a plan that destroys a layer.
    AskForDestroy { layer: usize },
    /// A person asks for another try of what has failed.
    Retry { layer: usize },
    /// A person changes something that plans of a layer are made from.
    ChangeInput { layer: usize, input: Input },
    /// Until this time is over, a window forbids applies of a layer.
    CloseWindow { layer: usize, seconds: u64 },
    /// A person allows automatic applies again, which failures have stopped.
    ResetBreaker,
    /// The disk is full, or it is not any more.
    DiskFull { full: bool },
    /// A person pauses or resumes a layer.
    Pause { layer: usize, paused: bool },
    /// A layer leaves the configuration, or comes back.
    Configure { layer: usize, present: bool },
    /// A layer gets another name in the configuration, or its earlier one. The server can end at a write after that.
    Rename { layer: usize, back: bool, crash: Option<Crash> },
    /// A new configuration of the limited repository allows this many attempts.
    Limit { concurrency: u32 },
    /// Something changes the infrastructure, or what it has changed is undone.
    Drift { layer: usize, kind: Option<u8> },
    /// Another program applies something, or removes resources from the state.
    ApplyOutside { layer: usize, removes: bool },
    /// A commit says what another program has changed.
    CommitDrift { layer: usize },
    /// A person accepts what another program has changed.
    Accept { layer: usize },
    /// Old runs of a layer are removed.
    Prune { layer: usize },
}

impl Op {
    /// How many kinds there are.
    pub(crate) const KINDS: usize = 44;

    /// The kind, for the totals.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Advance { .. } => "advance",
            Self::ClockJump { .. } => "clock jump",
            Self::Commit { .. } => "commit",
            Self::ReplaceHistory { .. } => "replace history",
            Self::Delete { .. } => "delete",
            Self::Poll => "poll",
            Self::SlowPoll => "slow poll",
            Self::RecordSlowPoll => "record slow poll",
            Self::Pass => "pass",
            Self::Decide { .. } => "decide",
            Self::PerformDecided { .. } => "perform decided",
            Self::CrashAtWrite { .. } => "crash at write",
            Self::KillAttempt { .. } => "kill attempt",
            Self::InterruptApply { .. } => "interrupt apply",
            Self::Unlock { .. } => "unlock",
            Self::RepeatReport { .. } => "repeat report",
            Self::Partition { .. } => "partition",
            Self::Race { .. } => "race",
            Self::DecideTogether => "decide together",
            Self::StoreDown { .. } => "store down",
            Self::GitDown { .. } => "git down",
            Self::Approve { .. } => "approve",
            Self::ApproveAtCommit { .. } => "approve at commit",
            Self::ApproveBehindWindow { .. } => "approve behind window",
            Self::ApproveLate { .. } => "approve late",
            Self::Discard { .. } => "discard",
            Self::CancelApply => "cancel apply",
            Self::AskForDestroy { .. } => "ask for destroy",
            Self::Retry { .. } => "retry",
            Self::ChangeInput { .. } => "change input",
            Self::Cancel { .. } => "cancel",
            Self::AskForPlan { .. } => "ask for plan",
            Self::CloseWindow { .. } => "close window",
            Self::ResetBreaker => "reset breaker",
            Self::DiskFull { .. } => "disk full",
            Self::Pause { .. } => "pause",
            Self::Configure { .. } => "configure",
            Self::Rename { .. } => "rename",
            Self::Limit { .. } => "limit",
            Self::Drift { .. } => "drift",
            Self::ApplyOutside { .. } => "apply outside",
            Self::CommitDrift { .. } => "commit drift",
            Self::Accept { .. } => "accept drift",
            Self::Prune { .. } => "prune",
        }
    }

    fn random(random: &mut fastrand::Rng, layers: usize) -> Self {
        let layer = random.usize(..layers);
        let server = random.usize(..2);
        let attempt = random.usize(..8);
        // Most of the time, time passes and servers decide.
        match random.u32(..145) {
            0..25 => Self::Pass,
            25..39 => Self::Advance { seconds: random.choice([1, 10, 30, 90, 700]).unwrap_or(1) },
            39..51 => Self::Poll,
            51..60 => Self::Commit { layer, digest: random.u8(..4) },
            60..66 => Self::Race { layer, commit: random.bool() },
            66 => Self::Decide { server, layer },
            67..69 => Self::PerformDecided { server },
            69..73 => Self::CrashAtWrite { writes: random.u32(..4), after: random.bool() },
            73..76 => Self::Approve { layer, plan: ChosenPlan::random(random) },
            76..81 => Self::KillAttempt { attempt, left: Left::random(random) },
            81..83 => Self::RepeatReport { attempt },
            83..85 => {
                Self::Partition { seconds: *random.choice(&[30, 70, 100, 300, 800]).unwrap_or(&30) }
            }
            85..87 => Self::StoreDown { down: random.u8(..4) == 0 },
            87..89 => Self::GitDown { down: random.u8(..4) == 0 },
            89 => Self::SlowPoll,
            90 => Self::RecordSlowPoll,
            91 => Self::Delete { layer, branch: random.bool() },
            92 => Self::Prune { layer },
            93..95 => Self::Pause { layer, paused: random.u8(..4) == 0 },
            95 => Self::Configure { layer, present: random.u8(..4) > 0 },
            96..98 => Self::Drift { layer, kind: (random.u8(..4) > 0).then(|| random.u8(..6)) },
            98..100 => Self::Cancel { layer },
            100..102 => Self::AskForPlan { layer },
            102..104 => {
                let seconds = *random.choice(&[60, 600, 3600]).unwrap_or(&60);
                Self::CloseWindow { layer, seconds }
            }
            104..106 => Self::ResetBreaker,
            106..108 => Self::DiskFull { full: random.u8(..4) == 0 },
            108..112 => Self::DecideTogether,
            112..114 => Self::Limit { concurrency: random.u32(1..3) },
            114..116 => {
                Self::ApproveAtCommit { layer, digest: random.u8(..4), is_read: random.bool() }
            }
            116 => {
                let seconds = *random.choice(&[60, 600, 3600]).unwrap_or(&60);
                Self::ApproveBehindWindow { layer, seconds }
            }
            117 => Self::ApproveLate { layer },
            118..120 => {
                let plan = ChosenPlan::random(random);
                Self::Discard { layer, plan, is_approved: random.bool() }
            }
            120..122 => Self::CancelApply,
            122..124 => Self::AskForDestroy { layer },
            124..126 => Self::Retry { layer },
            126..130 => {
                let inputs =
                    [Input::Tool, Input::Variable, Input::Secret, Input::Key, Input::LostKeys];
                let input = random.choice(inputs).unwrap_or(Input::Tool);
                Self::ChangeInput { layer, input }
            }
            130..133 => {
                let crash = Crash { writes: random.u32(..2), after: random.bool() };
                let crash = random.bool().then_some(crash);
                let how = Interruption::random(random);
                Self::InterruptApply { layer, how, crash, reverts: random.bool() }
            }
            133..135 => {
                let moments = [Meanwhile::Nothing, Meanwhile::BeforeIsGone, Meanwhile::BeforeEnd];
                let meanwhile = random.choice(moments).unwrap_or(Meanwhile::Nothing);
                Self::Unlock { layer, waits: random.bool(), meanwhile }
            }
            135..138 => {
                let crash = Crash { writes: random.u32(..5), after: random.bool() };
                let crash = random.bool().then_some(crash);
                Self::Rename { layer, back: random.u8(..3) == 0, crash }
            }
            138..140 => Self::ApplyOutside { layer, removes: random.bool() },
            140 => Self::CommitDrift { layer },
            141 => Self::Accept { layer },
            142 => Self::ReplaceHistory { layer, digest: random.u8(..4) },
            _ => Self::ClockJump { seconds: if random.bool() { 3600 } else { -3600 } },
        }
    }
}

/// Layers and what happens.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// For everything that is not an operation: how long attempts take, and how they end.
    pub(crate) seed: u64,
    /// How many checks for drift, and attempts of the first pass, may start in a minute.
    pub(crate) starts_per_minute: u32,
    /// The most attempts at the same time. One of them can be a check for drift.
    pub(crate) concurrency: u32,
    pub(crate) layers: Vec<LayerKind>,
    pub(crate) ops: Vec<Op>,
}

impl Scenario {
    pub(crate) fn from_seed(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut layers: Vec<LayerKind> = (0..random.usize(1..5))
            .map(|index| LayerKind {
                strategy: *random
                    .choice(&[Strategy::Auto, Strategy::Approve, Strategy::PlanOnly])
                    .unwrap_or(&Strategy::Auto),
                drift_repair: random.bool().then(|| random.bool()),
                destroy_limit: (random.u8(..4) == 0).then_some(0),
                plan_lifetime: *random.choice(&[900, 6 * 3600]).unwrap_or(&900),
                fails: match random.u8(..20) {
                    0..2 => Fails::Always,
                    2..5 => Fails::Applies,
                    _ => Fails::Sometimes,
                },
                shares_state: random.u8(..4) == 0,
                is_local: random.bool(),
                is_limited: random.bool(),
                after: (0..index).filter(|_| random.u8(..3) == 0).collect(),
            })
            .collect();
        // An outage, which opens the breaker: it fails the applies of all layers, and no person approves them.
        if random.u8(..4) == 0 {
            for layer in &mut layers {
                (layer.strategy, layer.fails) = (Strategy::Auto, Fails::Applies);
                (layer.destroy_limit, layer.shares_state) = (None, false);
                layer.after.clear();
            }
        }
        let starts_per_minute = *random.choice(&[1, 3, 60]).unwrap_or(&1);
        let concurrency = random.u32(2..4);
        let count = random.usize(20..160);
        let ops = (0..count).map(|_| Op::random(&mut random, layers.len())).collect();
        Self { seed, starts_per_minute, concurrency, layers, ops }
    }
}
