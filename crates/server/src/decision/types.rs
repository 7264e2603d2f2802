//! What a decision is made from, and what it is.

use std::time::Duration;

use crate::model::{
    Action, Closed, Ending, Facts, Layer, LayerName, Moment, NewRun, Observation, Phase, Reason,
    RunId, StopReason, Surroundings,
};

/// What a decision is made from.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The layer's name.
    pub name: &'a LayerName,
    /// What the configuration says. `None` if the layer is no longer in it.
    pub layer: Option<&'a Layer>,
    /// The last reading of the repository. `None` before the first one.
    pub observation: Option<&'a Observation>,
    /// What happened to the layer.
    pub facts: &'a Facts,
    /// What a start depends on outside of the layer.
    pub surroundings: &'a Surroundings,
    /// The time.
    pub now: Moment,
}

/// What happens next.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Decision {
    /// The state of the layer's newest unfinished work.
    pub phase: Phase,
    /// What to do now.
    pub step: Option<Step>,
    /// When to decide again, if nothing happens before. `None`: only an event can change anything.
    pub next_look: Option<Moment>,
    /// Why nothing is started: the closed gates of all runs that wait, those of the first run first.
    pub reasons: Vec<Reason>,
    /// The slot that the first run that waits for one needs.
    pub needs_slot: Option<NeededSlot>,
}

/// A slot that a run waits for. At least one of the limits is reached.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NeededSlot {
    /// The run's action. Checks for drift have fewer slots.
    pub action: Action,
    /// Whether as many attempts run as the server allows.
    pub is_server_full: bool,
    /// Whether as many attempts run as the layer's repository allows.
    pub is_repository_full: bool,
}

/// One change of the stored facts, or one request to an attempt.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Step {
    /// Insert the run if it does not exist.
    Create(NewRun),
    /// Move the history of the earlier name to the layer.
    TakeOver {
        /// The earlier name.
        from: LayerName,
    },
    /// Move the files of earlier names to the layer, then record that.
    MoveFiles {
        /// The earlier names.
        from: Vec<LayerName>,
    },
    /// Record the next attempt with its lease, then start its process.
    Start {
        /// The run.
        run: RunId,
        /// The number of the new attempt.
        attempt: u32,
        /// How long it may take.
        timeout: Duration,
    },
    /// Give the run no further attempts.
    Close {
        /// The run.
        run: RunId,
        /// Why.
        why: Closed,
    },
    /// Record the request to stop, then deliver it.
    Stop {
        /// The run.
        run: RunId,
        /// The number of its attempt.
        attempt: u32,
        /// Why.
        why: StopReason,
    },
    /// Find out whether the attempt's process exists, and record the answer. If it has ended and
    /// left a result, record that instead.
    Probe {
        /// The run.
        run: RunId,
        /// The number of its attempt.
        attempt: u32,
        /// How often it has reported anything. The answer counts only if that is still so.
        reports: u32,
    },
    /// Record that the attempt must stop. The server that started it will tell it.
    RequestStop {
        /// The run.
        run: RunId,
        /// The number of its attempt.
        attempt: u32,
        /// Why.
        why: StopReason,
    },
    /// Record that neither the attempt nor the server that started it was heard of.
    Miss {
        /// The run.
        run: RunId,
        /// The number of its attempt.
        attempt: u32,
        /// How often it has reported anything. The record counts only if that is still so.
        reports: u32,
    },
    /// Record the end of an attempt that cannot report any more, and free its lease.
    EndAttempt {
        /// The run.
        run: RunId,
        /// The number of its attempt.
        attempt: u32,
        /// How it ended.
        ending: Ending,
    },
}

impl Decision {
    /// Nothing happens until an event.
    pub(super) fn rest(phase: Phase) -> Self {
        Self { phase, step: None, next_look: None, reasons: Vec::new(), needs_slot: None }
    }

    /// This step happens.
    pub(super) fn step(phase: Phase, step: Step) -> Self {
        Self { step: Some(step), ..Self::rest(phase) }
    }

    /// Only a person or a change can help.
    pub(crate) fn blocked(reason: Reason) -> Self {
        Self::rest(Phase::Blocked).because(reason)
    }

    /// Only a person can help with the attempt that runs, which is looked for meanwhile.
    pub(super) fn block(mut self, reason: Reason) -> Self {
        self.phase = Phase::Blocked;
        self.because(reason)
    }

    pub(super) fn because(mut self, reason: Reason) -> Self {
        self.reasons.push(reason);
        self
    }

    /// Another run waits too. The phase is that of the first one.
    pub(super) fn and(mut self, other: Self) -> Self {
        for reason in other.reasons {
            if !self.reasons.contains(&reason) {
                self.reasons.push(reason);
            }
        }
        self.needs_slot = self.needs_slot.or(other.needs_slot);
        match other.next_look {
            Some(moment) => self.look_at(moment),
            None => self,
        }
    }

    /// Decides again at `moment`, or earlier.
    pub(super) fn look_at(mut self, moment: Moment) -> Self {
        self.next_look = Some(self.next_look.map_or(moment, |next| next.min(moment)));
        self
    }
}
