//! The walk over the chain: which stage says what comes next, and what is still read behind it.

use std::ops::Range;

use super::pass::Pass;
use super::verdict::{Outcome, Rest, Standing};
use crate::config::{Stage, StageKind};
use crate::phase::Phase;
use crate::state::StageProgress;

impl Pass<'_> {
    /// Returns the next step of the chain. The first required stage that is not complete decides it. Stages behind it
    /// that have begun are read too: a gate that opens again does not hide how they end.
    pub(super) fn run(&mut self) -> Outcome {
        let mut held: Option<Held> = None;
        for index in 0..self.input.follower.stages.len() {
            if let Some(held) = &mut held {
                self.behind(index, held);
                continue;
            }
            let standing = self.standing(index);
            let outcome = if self.input.follower.stages[index].is_required {
                self.required(index, standing)
            } else {
                self.optional(index, standing)
            };
            let Some(outcome) = outcome else { continue };
            self.note_closeout(index);
            match outcome {
                Outcome::Rest(rest) => {
                    let progress = self.record.stages[index].progress;
                    let has_failed = matches!(
                        progress,
                        StageProgress::Failed | StageProgress::TimedOut | StageProgress::Refused
                    );
                    held = Some(Held { rest, has_failed });
                    self.is_held = true;
                }
                acts => return acts,
            }
        }
        if let Some(held) = held {
            return Outcome::Rest(held.rest);
        }
        self.note_closeout(self.input.follower.stages.len());
        Outcome::Complete
    }

    /// An optional stage is started once and never waited for. A submission that had no effect is repeated.
    fn optional(&mut self, index: usize, standing: Standing) -> Option<Outcome> {
        let stage = &self.record.stages[index];
        let was_seen = !matches!(stage.progress, StageProgress::Waiting | StageProgress::Submitted);
        match standing {
            Standing::Due if !was_seen && !self.is_held => {
                return Some(Outcome::Submit { index });
            }
            Standing::Failed(why)
            | Standing::TimedOut(why)
            | Standing::Refused(why)
            | Standing::Denied(why)
            | Standing::Missing(why) => {
                self.notes
                    .push(format!("the optional stage `{}` is not complete: {why}", stage.name));
            }
            Standing::Complete
            | Standing::Due
            | Standing::Settling
            | Standing::Running(_)
            | Standing::Unreadable(_) => {}
        }
        None
    }

    /// Reads a stage behind the one that holds the chain, if it has begun. Nothing is started, but a failure is told.
    fn behind(&mut self, index: usize, held: &mut Held) {
        if !self.has_begun(index) {
            return;
        }
        let standing = self.standing(index);
        let stage = &self.input.follower.stages[index];
        let name = &stage.name;
        if !stage.is_required {
            self.optional(index, standing);
            return;
        }
        let (phase, why) = match standing {
            Standing::Failed(why) | Standing::TimedOut(why) => {
                (Phase::Failed, format!("stage `{name}` failed: {why}"))
            }
            Standing::Refused(why) => {
                (Phase::Blocked, format!("stage `{name}` cannot start: {why}"))
            }
            Standing::Complete
            | Standing::Due
            | Standing::Settling
            | Standing::Running(_)
            | Standing::Missing(_)
            | Standing::Unreadable(_)
            | Standing::Denied(_) => return,
        };
        // A record has one failure: the first one of the chain.
        if std::mem::replace(&mut held.has_failed, true) {
            self.notes.push(why);
            return;
        }
        if !self.record.is_closed_out {
            self.record.timings.finished_at = Some(self.failure(index).at);
        }
        let rest = &mut held.rest;
        rest.phase = phase;
        rest.why = format!("{why}; no new attempt begins, because {}", rest.why);
    }

    /// Whether the stage has begun for the commit. An object of the follower has the commit in its name.
    fn has_begun(&self, index: usize) -> bool {
        let stage = &self.record.stages[index];
        stage.progress != StageProgress::Waiting
            || stage.started_at.is_some()
            || (self.input.follower.stages[index].creates() && self.is_found(index))
    }

    /// Records when the closeout begins and ends, if the chain waits for the stage `open`.
    fn note_closeout(&mut self, open: usize) {
        let stages = self.closeout();
        if self.record.is_closed_out || stages.is_empty() {
            return;
        }
        let (now, timings) = (self.input.now, &mut self.record.timings);
        if open >= stages.start {
            timings.closeout_started_at.get_or_insert(now);
        }
        if open >= stages.end {
            timings.closeout_finished_at.get_or_insert(now);
        } else {
            timings.closeout_finished_at = None;
        }
    }

    /// The stages of the closeout: the last ones in a row that wait for Argo CD and for workloads.
    pub(super) fn closeout(&self) -> Range<usize> {
        let stages = &self.input.follower.stages;
        let is_gate = |stage: &Stage| matches!(stage.kind, StageKind::Argo | StageKind::Runtime);
        let end = stages.iter().rposition(is_gate).map_or(0, |last| last + 1);
        let before = stages[..end].iter().rposition(|stage| stage.is_required && !is_gate(stage));
        before.map_or(0, |last| last + 1)..end
    }
}

/// The chain waits for a stage.
struct Held {
    rest: Rest,
    /// Whether a failure of this stage, or of one behind it, is what the phase says.
    has_failed: bool,
}
