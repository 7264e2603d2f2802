//! How far one stage is, by its record and by what was read of its object.

use std::time::Duration;

use serde_json::Value;

use super::pass::Pass;
use super::tasks::summaries;
use super::types::Sighting;
use super::verdict::Standing;
use crate::condition::{Owner, Reading};
use crate::object::ObjectReference;
use crate::state::{InFlight, StageProgress};

/// How long a submitted object may be invisible. Caches of the cluster lag behind.
const SUBMISSION_GRACE: Duration = Duration::from_secs(30);

impl<'a> Pass<'a> {
    /// How far the stage is. Updates its record.
    pub(super) fn standing(&mut self, index: usize) -> Standing {
        let sighting = self.input.observations.objects.get(self.object(index));
        let standing = if self.input.follower.stages[index].creates() {
            self.standing_of_created(index, sighting)
        } else {
            self.standing_of_observed(index, sighting)
        };
        let stage = &mut self.record.stages[index];
        match &standing {
            // Why it was refused is in the record only, once the server that submitted it has ended.
            Standing::Denied(_) | Standing::Unreadable(_)
                if stage.progress == StageProgress::Refused => {}
            Standing::Running(why)
            | Standing::Failed(why)
            | Standing::TimedOut(why)
            | Standing::Refused(why)
            | Standing::Missing(why)
            | Standing::Denied(why)
            | Standing::Unreadable(why) => stage.message.clone_from(why),
            Standing::Complete | Standing::Due | Standing::Settling => {}
        }
        standing
    }

    fn standing_of_created(&mut self, index: usize, sighting: Option<&Sighting>) -> Standing {
        let object = self.object(index).clone();
        let progress = self.record.stages[index].progress;
        // A completed stage stays complete: clusters remove Jobs some time after their end.
        if progress == StageProgress::Complete {
            return Standing::Complete;
        }
        match sighting {
            Some(Sighting::Found(value)) => {
                self.adopt(index);
                self.read(index, value)
            }
            Some(Sighting::Refused { why }) => {
                let why = format!("{object} was refused: {why}");
                if progress != StageProgress::Refused {
                    self.record.stages[index].progress = StageProgress::Refused;
                    self.record.in_flight = None;
                    self.count_failure(index);
                }
                Standing::Refused(why)
            }
            Some(Sighting::Absent) => self.standing_of_absent(index),
            Some(Sighting::Unknown { .. } | Sighting::Denied { .. }) | None => match progress {
                StageProgress::Failed => Standing::Failed(self.known(index, "failed")),
                StageProgress::TimedOut => {
                    Standing::TimedOut(self.known(index, "did not end in time"))
                }
                StageProgress::Waiting
                | StageProgress::Refused
                | StageProgress::Submitted
                | StageProgress::Running
                | StageProgress::Complete => unreadable(&object, sighting),
            },
        }
    }

    /// The message of the time when the object could be read, otherwise one with `ended`.
    fn known(&self, index: usize, ended: &str) -> String {
        let message = &self.record.stages[index].message;
        if message.is_empty() { format!("{} {ended}", self.object(index)) } else { message.clone() }
    }

    /// How far a stage is whose object does not exist.
    fn standing_of_absent(&self, index: usize) -> Standing {
        let object = self.object(index).clone();
        let stage = &self.record.stages[index];
        match stage.progress {
            StageProgress::Complete => Standing::Complete,
            // An attempt that failed is not repeated under its name after its object was removed.
            StageProgress::Failed => Standing::Failed(self.known(index, "failed")),
            StageProgress::TimedOut => {
                Standing::Failed(format!("{object} did not end in time, and was removed"))
            }
            StageProgress::Refused => Standing::Refused(self.known(index, "was refused")),
            StageProgress::Submitted
                if stage
                    .submitted_at
                    .is_some_and(|at| self.input.now.since(at) < SUBMISSION_GRACE) =>
            {
                Standing::Settling
            }
            StageProgress::Waiting | StageProgress::Submitted | StageProgress::Running => {
                Standing::Due
            }
        }
    }

    fn standing_of_observed(&mut self, index: usize, sighting: Option<&Sighting>) -> Standing {
        let object = self.object(index).clone();
        match sighting {
            Some(Sighting::Found(value)) => {
                let stage = &mut self.record.stages[index];
                stage.object = Some(object.name);
                stage.started_at.get_or_insert(self.input.now);
                self.read(index, value)
            }
            Some(Sighting::Absent) => {
                self.reopen(index, StageProgress::Waiting);
                Standing::Missing(format!(
                    "{object} does not exist; create it, or correct `observe` of the stage"
                ))
            }
            // Another controller creates this object, so nothing of the follower can be refused.
            Some(Sighting::Unknown { .. } | Sighting::Denied { .. } | Sighting::Refused { .. })
            | None => unreadable(&object, sighting),
        }
    }

    /// Records that the object of a stage exists.
    fn adopt(&mut self, index: usize) {
        let object = self.object(index).clone();
        let now = self.input.now;
        let stage = &mut self.record.stages[index];
        if stage.progress == StageProgress::Waiting {
            stage.is_reused = true;
            // The run began at an unknown time. The wait from now on is not its total.
            self.record.timings.is_start_unknown = self.record.timings.started_at.is_none();
        }
        stage.object = Some(object.name.clone());
        let since = *stage.started_at.get_or_insert(now);
        self.record.triggered = Some(self.commit.clone());
        self.record.in_flight = Some(InFlight { stage: stage.name.clone(), object, since });
    }

    /// Reads an object that exists.
    fn read(&mut self, index: usize, value: &Value) -> Standing {
        let spec = &self.input.follower.stages[index];
        let object = self.object(index).clone();
        let owner = if spec.creates() { Owner::Follower } else { Owner::OtherController };
        let tasks = self.read_tasks(index);
        let waits_for = match spec.closeout.read(value, &self.commit, owner) {
            Reading::Complete => {
                let evidence = spec.closeout.evidence(value, tasks);
                self.end(index, StageProgress::Complete);
                let stage = &mut self.record.stages[index];
                stage.evidence = evidence;
                stage.open_since = None;
                stage.message.clear();
                return Standing::Complete;
            }
            Reading::Failed { said } => {
                self.end(index, StageProgress::Failed);
                return Standing::Failed(format!("{object} {said}"));
            }
            Reading::Unfinished { said } | Reading::OtherCommit { said } => {
                format!("{object} {said}")
            }
        };
        let now = self.input.now;
        let stage = &mut self.record.stages[index];
        let since = if self.record.is_closed_out {
            *stage.open_since.get_or_insert(now)
        } else {
            // An object that was lost and submitted again has its whole time again.
            stage.submitted_at.unwrap_or_else(|| *stage.started_at.get_or_insert(now))
        };
        // A gate behind another one can wait for it; an object that runs does not.
        let counts = spec.creates() || !self.is_held;
        if counts && now.since(since) >= spec.timeout {
            self.end(index, StageProgress::TimedOut);
            let timeout = humantime::format_duration(spec.timeout);
            return Standing::TimedOut(format!("{waits_for}; it did not end within {timeout}"));
        }
        self.reopen(index, StageProgress::Running);
        Standing::Running(waits_for)
    }

    /// Takes the summaries of the `TaskRun`s of a stage, and returns them in full.
    fn read_tasks(&mut self, index: usize) -> &'a [Value] {
        let tasks = self.input.observations.task_runs.get(self.object(index));
        match tasks {
            Some(Ok(tasks)) => {
                self.record.stages[index].tasks = summaries(tasks);
                tasks
            }
            Some(Err(why)) => {
                let object = self.object(index);
                self.notes.push(format!("the TaskRuns of {object} cannot be read: {why}"));
                &[]
            }
            None => &[],
        }
    }

    /// Records the end of a stage. The first time that it was seen counts.
    fn end(&mut self, index: usize, progress: StageProgress) {
        let stage = &mut self.record.stages[index];
        if stage.progress != progress && !self.record.is_closed_out {
            stage.finished_at = Some(self.input.now);
        }
        stage.finished_at.get_or_insert(self.input.now);
        stage.progress = progress;
        if progress != StageProgress::TimedOut {
            self.leave(index);
        }
    }

    /// Records that a stage is not complete. The timings of a delivered commit do not change.
    fn reopen(&mut self, index: usize, progress: StageProgress) {
        let stage = &mut self.record.stages[index];
        stage.progress = progress;
        if !self.record.is_closed_out {
            stage.finished_at = None;
        }
    }

    /// Records that the stage has no object in flight.
    fn leave(&mut self, index: usize) {
        let name = &self.record.stages[index].name;
        self.record.in_flight.take_if(|in_flight| in_flight.stage == *name);
    }
}

fn unreadable(object: &ObjectReference, sighting: Option<&Sighting>) -> Standing {
    match sighting {
        Some(Sighting::Denied { why }) => {
            Standing::Denied(format!("{object} cannot be read: {why}"))
        }
        Some(Sighting::Unknown { why }) => {
            Standing::Unreadable(format!("{object} cannot be read: {why}"))
        }
        Some(Sighting::Refused { .. } | Sighting::Found(_) | Sighting::Absent) | None => {
            Standing::Unreadable(format!("{object} has not been read"))
        }
    }
}
