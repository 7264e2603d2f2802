//! What the standing of a required stage means for the chain.

use std::time::Duration;

use super::pass::Pass;
use super::verdict::{Outcome, Rest, Standing};
use crate::phase::Phase;
use crate::state::StageProgress;
use butler_base::moment::Moment;

impl Pass<'_> {
    /// What a required stage means for the chain. `None`: it is complete.
    pub(super) fn required(&mut self, index: usize, standing: Standing) -> Option<Outcome> {
        let name = self.record.stages[index].name.clone();
        let watch = self.input.controller.watch;
        let poll = self.input.controller.poll;
        Some(match standing {
            Standing::Complete => return None,
            Standing::Due => Outcome::Submit { index },
            Standing::Settling => {
                let why = format!("the object of stage `{name}` is submitted and not visible yet");
                self.rest(Phase::Triggering, why, watch)
            }
            Standing::Running(why) => {
                let phase = self.waiting_phase(index);
                self.rest(phase, format!("stage `{name}` is not complete: {why}"), watch)
            }
            Standing::Missing(why) => {
                self.rest(Phase::Blocked, format!("stage `{name}` needs an object: {why}"), poll)
            }
            Standing::Unreadable(why) => {
                // Without a reading, a delivered commit is neither delivered nor not.
                let phase = if self.record.is_closed_out {
                    Phase::Observed
                } else {
                    self.waiting_phase(index)
                };
                self.rest(phase, format!("stage `{name}` is unknown: {why}"), watch)
            }
            Standing::Denied(why) => {
                self.rest(Phase::Blocked, format!("stage `{name}` is unknown: {why}"), poll)
            }
            Standing::Refused(why) => self.refused(index, &why),
            Standing::Failed(why) => self.failed(index, &why, StillRuns::No),
            Standing::TimedOut(why) => self.failed(index, &why, StillRuns::Yes),
        })
    }

    /// The phase while a stage is not complete.
    fn waiting_phase(&self, index: usize) -> Phase {
        let is_created = self.input.follower.stages[index].creates();
        match self.record.stages[index].progress {
            StageProgress::Refused => Phase::Blocked,
            StageProgress::Waiting if is_created => Phase::PendingTrigger,
            StageProgress::Waiting
            | StageProgress::Submitted
            | StageProgress::Running
            | StageProgress::TimedOut
            | StageProgress::Failed
            | StageProgress::Complete => {
                // Before the first object, nothing closes out.
                let closes_out = self.is_triggered() || self.last_created().is_none();
                if closes_out { Phase::ClosingOut } else { Phase::PendingTrigger }
            }
        }
    }

    fn rest(&self, phase: Phase, why: String, after: Duration) -> Outcome {
        Outcome::Rest(Rest { phase, why, look: self.input.now + after })
    }

    /// An object that the cluster refused is submitted again under its name after a wait.
    fn refused(&mut self, index: usize, why: &str) -> Outcome {
        let failure = self.failure(index);
        let retry_at = self.retry_at(&failure);
        if self.is_confirmed() || self.input.now >= retry_at {
            return Outcome::Submit { index };
        }
        let why =
            format!("stage `{}` cannot start: {why}; the next try is at {retry_at}", failure.stage);
        self.rest_until(Phase::Blocked, why, retry_at)
    }

    fn failed(&mut self, index: usize, why: &str, still_runs: StillRuns) -> Outcome {
        let name = self.record.stages[index].name.clone();
        let first = self.stage_to_retry(index);
        let retry = first.filter(|_| self.is_confirmed());
        let is_gate = !self.input.follower.stages[index].creates();
        if self.record.is_closed_out && is_gate {
            // The commit was delivered. What broke since then may have any cause.
            if let Some(index) = retry {
                return Outcome::Retry { index, why: format!("a person confirmed a run: {why}") };
            }
            let why = format!(
                "stage `{name}` failed after the commit was delivered: {why}; `{}` delivers it again",
                run_once(&self.input.follower.id)
            );
            return self.rest(Phase::Failed, why, self.input.controller.poll);
        }
        let failure = self.failure(index);
        let retry_at = self.retry_at(&failure);
        if !self.record.is_closed_out {
            self.record.timings.finished_at = Some(failure.at);
        }
        let why = format!("stage `{name}` failed: {why}");
        let Some(first) = first else {
            let why = format!("{why}; the follower continues when the object is ready");
            return self.rest(Phase::Failed, why, self.input.controller.poll);
        };
        // The scheduler of the layer tries again by itself. Another attempt would only look once more.
        if self.input.follower.stages[index].is_layer() && !self.is_confirmed() {
            let why = format!(
                "{why}; the follower continues when the layer is up to date, and `{}` plans it again",
                run_once(&self.input.follower.id)
            );
            return self.rest(Phase::Failed, why, self.input.controller.poll);
        }
        // Two objects of one stage at the same time could overwrite each other's results.
        if first == index && still_runs == StillRuns::Yes && !self.is_confirmed() {
            let why = format!(
                "{why}; its object still runs, and a new attempt needs `{}`",
                run_once(&self.input.follower.id)
            );
            return self.rest(Phase::Failed, why, self.input.controller.poll);
        }
        if self.is_confirmed() || self.input.now >= retry_at {
            return Outcome::Retry { index: first, why };
        }
        self.rest_until(
            Phase::Failed,
            format!("{why}; the next attempt is at {retry_at}"),
            retry_at,
        )
    }

    /// The stage that can repair a failed one. A created stage repairs itself. A gate observes what an
    /// earlier stage delivered: its first retry begins at the nearest one, each further retry one
    /// earlier. Optional stages deliver nothing that a gate needs.
    fn stage_to_retry(&self, index: usize) -> Option<usize> {
        let stages = &self.input.follower.stages;
        if stages[index].creates() {
            return Some(index);
        }
        let earlier = (0..index).rev();
        let earlier: Vec<_> = earlier
            .filter(|index| stages[*index].creates() && stages[*index].is_required)
            .collect();
        let retries = self.record.stages[index].attempt.saturating_sub(1);
        let retries = usize::try_from(retries).unwrap_or(usize::MAX);
        earlier.get(retries).or(earlier.last()).copied()
    }

    /// Rests until `moment`, but looks meanwhile: the object can recover.
    fn rest_until(&self, phase: Phase, why: String, moment: Moment) -> Outcome {
        let look = moment.min(self.input.now + self.input.controller.poll);
        Outcome::Rest(Rest { phase, why, look })
    }
}

/// The command with which a person starts a new attempt.
fn run_once(id: &str) -> String {
    format!("butler-runner follower run-once --follower {id} --confirm")
}

/// Whether the object of a failed stage can still change something.
#[derive(Clone, Copy, Eq, PartialEq)]
enum StillRuns {
    Yes,
    No,
}
