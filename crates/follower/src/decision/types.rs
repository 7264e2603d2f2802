//! What a decision is made from, and what it is.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::commit::Commit;
use crate::config::{Controller, Follower};
use crate::object::ObjectReference;
use crate::phase::Phase;
use crate::state::Record;
use butler_base::moment::Moment;

/// What a decision is made from.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The settings of the controller.
    pub controller: &'a Controller,
    /// What the registry file says.
    pub follower: &'a Follower,
    /// What is stored. For a follower without a record: [`Record::new`].
    pub record: &'a Record,
    /// What was read.
    pub observations: &'a Observations,
    /// What a person asked for. A request counts for one decision: a caller that decides again sends
    /// [`Request::None`].
    pub request: Request,
    /// The time.
    pub now: Moment,
}

/// What was read from the repository and from the cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Observations {
    /// The head of the branch.
    pub head: Head,
    /// The objects that [`objects_to_read`](super::objects_to_read) named. Other objects are ignored,
    /// such as those of an earlier commit.
    pub objects: BTreeMap<ObjectReference, Sighting>,
    /// The `TaskRun`s of those that are `PipelineRun`s, or why they could not be read. They decide nothing: they are
    /// what people see of a `PipelineRun`.
    pub task_runs: BTreeMap<ObjectReference, Result<Vec<Value>, String>>,
    /// How long reading took.
    pub read_took: Option<Duration>,
}

/// The head of a branch.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Head {
    /// It is this commit.
    Found(Commit),
    /// The repository does not have the branch.
    Missing,
    /// It could not be read.
    Unknown {
        /// Why.
        why: String,
    },
}

/// What is known of an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Sighting {
    /// It exists.
    Found(Value),
    /// It does not exist.
    Absent,
    /// The cluster or the CI system refused the last submission, and a repetition cannot help.
    Refused {
        /// Why.
        why: String,
    },
    /// A retry alone does not help: the cluster or the CI system refuses to let it be read, or does not
    /// have its kind.
    Denied {
        /// Why.
        why: String,
    },
    /// It could not be read.
    Unknown {
        /// Why.
        why: String,
    },
}

/// What a person asked for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Request {
    /// Nothing: the automatic loop decides.
    #[default]
    None,
    /// Show what is due. Nothing is triggered; the record is refreshed.
    DryRun,
    /// Run once, without a confirmation. Nothing is triggered.
    Unconfirmed,
    /// Run once, confirmed: a failed stage is retried without a wait.
    Confirmed,
}

/// What happens next.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The phase.
    pub phase: Phase,
    /// What to do. The caller stores the record first, so that a crash in between loses no attempt.
    pub action: Option<Action>,
    /// The record to store.
    pub record: Record,
    /// When to decide again, if nothing happens before.
    pub next_look: Moment,
    /// Why, as sentences.
    pub reasons: Vec<String>,
}

/// The submission of one object. The caller does not wait for its end. If the object already exists,
/// the submission has succeeded.
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// The stage's name.
    pub stage: String,
    /// The source commit.
    pub commit: Commit,
    /// The stage's attempt.
    pub attempt: u32,
    /// Whether a person asked for this attempt.
    pub is_confirmed: bool,
    /// The object. Its name is the idempotency key.
    pub object: ObjectReference,
    /// What to submit.
    pub submission: Submission,
}

/// What is submitted.
#[derive(Clone, Debug, PartialEq)]
pub enum Submission {
    /// An object of the cluster.
    Object(Value),
    /// The description of a run of a layer or of a CI system.
    Run(Value),
}
