//! Decides what happens next to one follower.
//!
//! [`decide`] is pure and total. It returns at most one action, and the caller stores the record
//! before it executes the action. So after a crash, the same object is submitted under the same
//! name, or is found and reused.

use super::pass::Pass;
use super::types::{Action, Decision, Head, Input};
use super::verdict::{Outcome, Rest};
use crate::commit::Commit;
use crate::config::Follower;
use crate::object::{ObjectReference, Purpose};
use crate::phase::Phase;
use crate::state::{Record, RunTimings};
use crate::text::shorten;
use butler_base::moment::Moment;

/// The letters of the message of a record.
const MESSAGE: usize = 1000;

/// Decides what happens next to a follower.
#[must_use]
pub fn decide(input: &Input<'_>) -> Decision {
    let mut record = input.record.clone();
    record.follower.clone_from(&input.follower.id);
    if let Some(took) = input.observations.read_took {
        let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        record.timings.status_read_millis = Some(millis);
    }
    let mut decision = match follow_head(input, &mut record) {
        Ok(commit) => run_pass(input, record, commit),
        Err((phase, why, next_look)) => {
            Decision { phase, action: None, record, next_look, reasons: vec![why] }
        }
    };
    if input.follower.is_paused {
        decision.phase = Phase::Skipped;
        let why = "the follower is paused; set `paused: false` in the registry file".to_owned();
        decision.reasons.insert(0, why);
    }
    decision.record.phase = decision.phase;
    decision.record.message = shorten(&decision.reasons.join("; "), MESSAGE);
    decision.record.note(input.now);
    decision
}

/// The objects to read before the next decision: the stage's name and its object, in the order of the
/// chain.
#[must_use]
pub fn objects_to_read<'a>(
    follower: &'a Follower,
    record: &Record,
    head: &Head,
) -> Vec<(&'a str, ObjectReference)> {
    let commit = match head {
        Head::Found(commit) => Some(commit),
        Head::Missing | Head::Unknown { .. } => record.target.as_ref(),
    };
    let Some(commit) = commit else { return Vec::new() };
    let is_current = record.target.as_ref() == Some(commit);
    let objects = follower.stages.iter().map(|stage| {
        let known =
            record.stage(&stage.name).filter(|known| is_current && known.kind == stage.kind);
        let attempt = known.map_or(1, |known| known.attempt);
        let purpose = Purpose { follower: &follower.id, stage: &stage.name, commit, attempt };
        (stage.name.as_str(), stage.object(&purpose))
    });
    objects.collect()
}

/// The commit to deliver, or why there is none.
fn follow_head(input: &Input<'_>, record: &mut Record) -> Result<Commit, (Phase, String, Moment)> {
    let poll = input.now + input.controller.poll;
    let source = &input.follower.source;
    match (&input.observations.head, record.target.clone()) {
        (Head::Found(head), target) => {
            record.observed = Some(head.clone());
            if target.as_ref() == Some(head) {
                return Ok(head.clone());
            }
            let was_delivered = record.is_closed_out;
            retarget(record, head);
            match target {
                Some(old) if !was_delivered => {
                    let why = format!(
                        "commit {} of `{}` supersedes {}, which was not delivered",
                        head.short(),
                        source.branch,
                        old.short()
                    );
                    Err((Phase::Superseded, why, input.now))
                }
                Some(_) | None => Ok(head.clone()),
            }
        }
        (Head::Missing, _) => {
            let why = format!(
                "the repository `{}` does not have the branch `{}`; push it, or change `source.branch`",
                source.repository, source.branch
            );
            Err((Phase::Blocked, why, poll))
        }
        (Head::Unknown { .. }, Some(target)) => Ok(target),
        (Head::Unknown { why }, None) => {
            let why = format!("the branch `{}` cannot be read: {why}", source.branch);
            Err((Phase::Observed, why, poll))
        }
    }
}

/// Begins with another commit. Nothing of the earlier one is kept except what was delivered.
fn retarget(record: &mut Record, head: &Commit) {
    let status_read_millis = record.timings.status_read_millis;
    record.target = Some(head.clone());
    record.is_closed_out = false;
    record.in_flight = None;
    record.stages = Vec::new();
    record.failure = None;
    record.timings = RunTimings { status_read_millis, ..RunTimings::default() };
}

fn run_pass(input: &Input<'_>, record: Record, commit: Commit) -> Decision {
    let mut pass = Pass::new(input, record, commit);
    let outcome = pass.run();
    let mut action: Option<Action> = None;
    let watch = input.now + input.controller.watch;
    let poll = input.now + input.controller.poll;
    let (phase, why, next_look) = match outcome {
        Outcome::Rest(Rest { phase, why, look }) => (phase, why, look),
        Outcome::Submit { index } => {
            let name = &input.follower.stages[index].name;
            if let Some(hold) = pass.hold() {
                (Phase::PendingTrigger, format!("stage `{name}` is due, but {hold}"), poll)
            } else {
                let submitted = pass.submit(index);
                let why = format!("{} is submitted for stage `{name}`", submitted.object);
                action = Some(submitted);
                (Phase::Triggering, why, watch)
            }
        }
        Outcome::Retry { index, why } => {
            let name = &input.follower.stages[index].name;
            if let Some(hold) = pass.hold() {
                (Phase::PendingTrigger, format!("{why}; a new attempt is due, but {hold}"), poll)
            } else {
                pass.begin_attempt(index);
                let attempt = pass.record.stages[index].attempt;
                // The new object is read before it is submitted: it may exist.
                let why = format!("{why}; attempt {attempt} of stage `{name}` begins");
                (Phase::PendingTrigger, why, input.now)
            }
        }
        Outcome::Complete => {
            let phase = pass.close_out();
            let text = if phase == Phase::Succeeded {
                "is delivered"
            } else {
                "was delivered, and each required stage is complete"
            };
            (phase, format!("commit {} {text}", pass.commit.short()), poll)
        }
    };
    let mut reasons = vec![why];
    reasons.append(&mut pass.notes);
    if let Head::Unknown { why } = &input.observations.head {
        reasons
            .push(format!("the branch `{}` cannot be read: {why}", input.follower.source.branch));
    }
    Decision { phase, action, record: pass.record, next_look, reasons }
}
