//! One pass over the chain of a follower.

use super::types::{Action, Head, Input, Request, Sighting, Submission};
use crate::commit::Commit;
use crate::config::StageWork;
use crate::object::{ObjectReference, Purpose};
use crate::phase::Phase;
use crate::state::{Failure, InFlight, Record, RunTimings, StageProgress, StageRecord};
use butler_base::moment::Moment;

/// One pass: the stages are read in order, up to the first required one that is not complete.
pub(super) struct Pass<'a> {
    pub(super) input: &'a Input<'a>,
    /// The record to store.
    pub(super) record: Record,
    /// The commit that is delivered.
    pub(super) commit: Commit,
    /// The object of each stage for the commit and the stored attempt.
    objects: Vec<ObjectReference>,
    /// Sentences about stages that do not hold the chain.
    pub(super) notes: Vec<String>,
    /// Whether an earlier stage holds the chain.
    pub(super) is_held: bool,
}

impl<'a> Pass<'a> {
    /// A pass for the record's target. Stages that the registry file has changed begin without a
    /// record.
    pub(super) fn new(input: &'a Input<'a>, mut record: Record, commit: Commit) -> Self {
        let stored = std::mem::take(&mut record.stages);
        let stages = input.follower.stages.iter().map(|stage| {
            let known = stored.iter().find(|known| known.name == stage.name);
            let known = known.filter(|known| known.kind == stage.kind).cloned();
            known.unwrap_or_else(|| StageRecord::new(&stage.name, stage.kind, 1))
        });
        record.stages = stages.collect();
        if !record.is_closed_out {
            // A failure sets it again; otherwise the run has not ended.
            record.timings.finished_at = None;
        }
        let objects =
            input.follower.stages.iter().zip(&record.stages).map(|(stage, known)| {
                stage.object(&purpose_of(&input.follower.id, known, &commit))
            });
        let objects = objects.collect();
        Self { input, record, commit, objects, notes: Vec::new(), is_held: false }
    }

    /// The object of a stage for the commit and the stored attempt.
    pub(super) fn object(&self, index: usize) -> &ObjectReference {
        &self.objects[index]
    }

    /// Whether the object of a stage was read, and exists.
    pub(super) fn is_found(&self, index: usize) -> bool {
        let sighting = self.input.observations.objects.get(self.object(index));
        matches!(sighting, Some(Sighting::Found(_)))
    }

    fn purpose(&self, index: usize) -> Purpose<'_> {
        purpose_of(&self.input.follower.id, &self.record.stages[index], &self.commit)
    }

    /// The last stage of the chain that creates an object.
    pub(super) fn last_created(&self) -> Option<usize> {
        self.input.follower.stages.iter().rposition(crate::config::Stage::creates)
    }

    /// Whether an object for the commit exists or was submitted.
    pub(super) fn is_triggered(&self) -> bool {
        self.record.triggered.as_ref() == Some(&self.commit)
    }

    /// Whether a person confirmed a run.
    pub(super) fn is_confirmed(&self) -> bool {
        self.input.request == Request::Confirmed
    }

    /// Why nothing may be submitted now.
    pub(super) fn hold(&self) -> Option<String> {
        if self.input.follower.is_paused {
            return Some("the follower is paused".to_owned());
        }
        match self.input.request {
            Request::DryRun => Some("a dry run triggers nothing".to_owned()),
            Request::Unconfirmed => {
                Some("the run is not confirmed; repeat the command with `--confirm`".to_owned())
            }
            Request::None | Request::Confirmed => match &self.input.observations.head {
                // The commit may not be the newest one any more.
                Head::Unknown { why } if !self.is_triggered() => {
                    Some(format!("the branch cannot be read: {why}"))
                }
                Head::Unknown { .. } | Head::Found(_) | Head::Missing => None,
            },
        }
    }

    /// Counts a further failure of a stage.
    pub(super) fn count_failure(&mut self, index: usize) -> Failure {
        let stage = &self.record.stages[index];
        let count = self.record.failure.as_ref().map_or(0, |failure| failure.count);
        let failure = Failure {
            stage: stage.name.clone(),
            attempt: stage.attempt,
            count: count.saturating_add(1),
            at: self.input.now,
        };
        self.record.failure = Some(failure.clone());
        failure
    }

    /// The failure of a stage's attempt, which is counted once.
    pub(super) fn failure(&mut self, index: usize) -> Failure {
        let stage = &self.record.stages[index];
        let known = self
            .record
            .failure
            .clone()
            .filter(|failure| failure.stage == stage.name && failure.attempt == stage.attempt);
        known.unwrap_or_else(|| self.count_failure(index))
    }

    /// When the wait after a failure ends.
    pub(super) fn retry_at(&self, failure: &Failure) -> Moment {
        failure.at + self.input.controller.backoff(failure.count)
    }

    /// Records the submission of a stage's object, and returns it.
    pub(super) fn submit(&mut self, index: usize) -> Action {
        let now = self.input.now;
        let object = self.object(index).clone();
        let submission = match &self.input.follower.stages[index].work {
            StageWork::Create(template) => {
                Submission::Object(template.render(&self.purpose(index)))
            }
            StageWork::Run(run) => Submission::Run(run.describe(&object.name, &self.commit)),
            // Only stages that create something become due.
            StageWork::Observe(object) => Submission::Object(serde_json::json!({
                "apiVersion": object.api_version, "kind": object.kind,
            })),
        };
        let is_first = self
            .input
            .follower
            .stages
            .iter()
            .zip(&self.record.stages)
            .all(|(spec, stage)| !spec.creates() || stage.progress == StageProgress::Waiting);
        let timings = &mut self.record.timings;
        if timings.started_at.is_none() && !timings.is_start_unknown {
            // Anything before this submission began at a time that is not stored.
            timings.started_at = is_first.then_some(now);
            timings.is_start_unknown = !is_first;
        }
        let stage = &mut self.record.stages[index];
        stage.progress = StageProgress::Submitted;
        stage.submitted_at = Some(now);
        stage.started_at.get_or_insert(now);
        stage.finished_at = None;
        stage.object = Some(object.name.clone());
        stage.message.clear();
        let (name, attempt) = (stage.name.clone(), stage.attempt);
        let is_confirmed = stage.is_confirmed;
        let (stage, since) = (name.clone(), now);
        self.record.in_flight = Some(InFlight { stage, object: object.clone(), since });
        self.record.triggered = Some(self.commit.clone());
        Action {
            stage: name,
            commit: self.commit.clone(),
            attempt,
            is_confirmed,
            object,
            submission,
        }
    }

    /// Gives the stage a new attempt, whose object has another name. Later stages begin again, except
    /// optional ones: these may still run, and are started once for each commit.
    pub(super) fn begin_attempt(&mut self, first: usize) {
        let is_confirmed = self.is_confirmed();
        let stages = self.record.stages.iter_mut().zip(&self.input.follower.stages);
        for (index, (stage, spec)) in stages.enumerate().skip(first) {
            if index > first && spec.creates() && !spec.is_required {
                continue;
            }
            let was_started = index == first || stage.progress != StageProgress::Waiting;
            let attempt = stage.attempt.saturating_add(u32::from(was_started));
            *stage = StageRecord::new(&stage.name, stage.kind, attempt);
            stage.is_confirmed = is_confirmed && index == first;
        }
        self.record.in_flight = None;
        let is_before_closeout = first < self.closeout().end;
        let timings = &mut self.record.timings;
        timings.finished_at = None;
        if is_before_closeout {
            (timings.closeout_started_at, timings.closeout_finished_at) = (None, None);
        }
        if self.record.is_closed_out {
            // A delivered commit is delivered again: this is a run of its own.
            let status_read_millis = timings.status_read_millis;
            *timings = RunTimings { status_read_millis, ..RunTimings::default() };
            self.record.is_closed_out = false;
            self.record.failure = None;
        }
    }

    /// Records that each required stage is complete, and returns the phase.
    pub(super) fn close_out(&mut self) -> Phase {
        self.record.in_flight = None;
        self.record.failure = None;
        if !self.record.is_closed_out {
            self.record.is_closed_out = true;
            self.record.succeeded = Some(self.commit.clone());
            self.record.timings.finished_at = Some(self.input.now);
            return Phase::Succeeded;
        }
        match self.input.observations.head {
            Head::Found(_) => Phase::Noop,
            Head::Missing | Head::Unknown { .. } => Phase::Observed,
        }
    }
}

fn purpose_of<'a>(follower: &'a str, stage: &'a StageRecord, commit: &'a Commit) -> Purpose<'a> {
    Purpose { follower, stage: &stage.name, commit, attempt: stage.attempt }
}
