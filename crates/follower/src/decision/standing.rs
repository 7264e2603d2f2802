//! How far one stage is, by its record and by what was read of its object.

use std::time::Duration;

use serde_json::Value;

use super::pass::Pass;
use super::types::Sighting;
use super::verdict::Standing;
use crate::condition::{Owner, Reading};
use crate::object::ObjectReference;
use crate::state::{InFlight, StageProgress};
use crate::text::shorten;

/// The letters of the message of a run.
const MESSAGE: usize = 300;

/// How long a submitted object may be invisible. Caches of the cluster lag behind.
const SUBMISSION_GRACE: Duration = Duration::from_secs(30);

impl Pass<'_> {
    /// How far the stage is. Updates its record.
    pub(super) fn standing(&mut self, index: usize) -> Standing {
        let sighting = self.input.observations.objects.get(self.object(index));
        let standing = if self.input.follower.stages[index].creates() {
            self.standing_of_created(index, sighting)
        } else {
            self.standing_of_observed(index, sighting)
        };
        if let Standing::Running(why)
        | Standing::Failed(why)
        | Standing::TimedOut(why)
        | Standing::Refused(why)
        | Standing::Missing(why)
        | Standing::Unreadable(why) = &standing
        {
            self.record.stages[index].message.clone_from(why);
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
            Some(Sighting::Unknown { .. }) | None => match progress {
                StageProgress::Failed => Standing::Failed(format!("{object} failed")),
                StageProgress::TimedOut => {
                    Standing::TimedOut(format!("{object} did not end in time"))
                }
                StageProgress::Waiting
                | StageProgress::Refused
                | StageProgress::Submitted
                | StageProgress::Running
                | StageProgress::Complete => Standing::Unreadable(unreadable(&object, sighting)),
            },
        }
    }

    /// How far a stage is whose object does not exist.
    fn standing_of_absent(&self, index: usize) -> Standing {
        let object = self.object(index).clone();
        let stage = &self.record.stages[index];
        match stage.progress {
            StageProgress::Complete => Standing::Complete,
            // An attempt that failed is not repeated under its name after its object was removed.
            StageProgress::Failed => Standing::Failed(format!("{object} failed")),
            StageProgress::TimedOut => {
                Standing::Failed(format!("{object} did not end in time, and was removed"))
            }
            StageProgress::Refused => Standing::Refused(format!("{object} was refused")),
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
            Some(Sighting::Unknown { .. } | Sighting::Refused { .. }) | None => {
                Standing::Unreadable(unreadable(&object, sighting))
            }
        }
    }

    /// Records that the object of a stage exists.
    fn adopt(&mut self, index: usize) {
        let object = self.object(index).clone();
        let now = self.input.now;
        let is_last = Some(index) == self.last_created();
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
        if is_last {
            self.record.timings.closeout_started_at.get_or_insert(now);
        }
    }

    /// Reads an object that exists.
    fn read(&mut self, index: usize, value: &Value) -> Standing {
        let spec = &self.input.follower.stages[index];
        let object = self.object(index).clone();
        let owner = if spec.creates() { Owner::Follower } else { Owner::OtherController };
        let reading = spec.closeout.read(value, &self.commit, owner);
        let waits_for = match reading {
            Reading::Complete => {
                let evidence = spec.closeout.evidence(value);
                self.end(index, StageProgress::Complete);
                let stage = &mut self.record.stages[index];
                stage.evidence = evidence;
                stage.open_since = None;
                stage.message.clear();
                return Standing::Complete;
            }
            Reading::Failed => {
                self.end(index, StageProgress::Failed);
                let why = said(&object, value).map_or_else(String::new, |said| format!(": {said}"));
                return Standing::Failed(format!("{object} failed{why}"));
            }
            Reading::Unfinished { path } => match said(&object, value) {
                Some(said) => format!("{object} is not ready: {said}"),
                None => format!("{object} is not ready: see {path}"),
            },
            Reading::OtherCommit { path } => {
                format!("{object} does not show commit {} at {path}", self.commit.short())
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
        if now.since(since) >= spec.timeout {
            self.end(index, StageProgress::TimedOut);
            let timeout = humantime::format_duration(spec.timeout);
            return Standing::TimedOut(format!("{waits_for}; it did not end within {timeout}"));
        }
        self.reopen(index, StageProgress::Running);
        Standing::Running(waits_for)
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

/// What a run says about itself. Messages of objects of the cluster are read by people, at the object.
fn said(object: &ObjectReference, value: &Value) -> Option<String> {
    let message = value.pointer("/status/message").filter(|_| object.is_run())?.as_str()?;
    (!message.is_empty()).then(|| shorten(message, MESSAGE))
}

fn unreadable(object: &ObjectReference, sighting: Option<&Sighting>) -> String {
    match sighting {
        Some(Sighting::Unknown { why }) => format!("{object} cannot be read: {why}"),
        Some(Sighting::Refused { .. } | Sighting::Found(_) | Sighting::Absent) | None => {
            format!("{object} has not been read")
        }
    }
}
