//! Looks at one follower.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use butler_cluster::Creation;
use butler_follower::config::{Adapter, Controller, Follower};
use butler_follower::object::ObjectReference;
use butler_follower::state::{Record, StageProgress};
use butler_follower::{
    Decision, Head, Input, Observations, Request, Sighting, decide, objects_to_read,
};
use futures_util::future::join_all;

use super::surroundings::{BranchHead, Surroundings, Wanted};
use crate::model::{Moment, StoredFollower};
use crate::store::{Followers, Outcome, StoreResult};

/// Looks at one follower. Several servers can look at the same one: the store lets one of them act.
#[derive(Debug)]
pub struct FollowerLooks<S, W> {
    store: Arc<S>,
    surroundings: Arc<W>,
    /// The objects that were refused. The record says it too, but without the reason.
    refused: HashMap<ObjectReference, Refusal>,
}

/// The answer to one submission.
#[derive(Debug)]
struct Refusal {
    why: String,
    /// When the submission was recorded. Another server can have submitted the object since then.
    submitted_at: Moment,
}

impl<S: Followers, W: Surroundings> FollowerLooks<S, W> {
    /// Looks at a follower whose record is in `store`.
    #[must_use]
    pub fn new(store: Arc<S>, surroundings: Arc<W>) -> Self {
        Self { store, surroundings, refused: HashMap::new() }
    }

    /// Reads, decides, stores the record, and submits what is due. Returns the decision, with the time of the next
    /// look; `None` if another server has decided in the meantime.
    ///
    /// # Errors
    /// If the store does not answer. Nothing is submitted then.
    pub async fn look(
        &mut self,
        controller: &Controller,
        follower: &Follower,
        request: Request,
        now: Moment,
    ) -> StoreResult<Option<Decision>> {
        let stored = self.store.follower(&follower.id).await?;
        let StoredFollower { version, record } = stored
            .unwrap_or_else(|| StoredFollower { version: 0, record: Record::new(&follower.id) });
        let (observations, observed_at) = self.observe(follower, &record, now).await;
        let input = Input {
            controller,
            follower,
            record: &record,
            observations: &observations,
            request,
            now,
        };
        let mut decision = decide(&input);
        decision.record.observed_at = observed_at;
        // Before the action: after a crash, the same object is submitted under the same name.
        let written = self.store.write_follower(version, decision.record.clone()).await?;
        if written == Outcome::Refused {
            return Ok(None);
        }
        // The state of one that a custom resource defines is the status of the resource.
        if follower.adapter == Adapter::Kubernetes && !follower.is_resource() {
            self.surroundings.copy(&controller.namespace, &decision.record).await;
        }
        if let Some(action) = decision.action.clone() {
            match self.surroundings.submit(follower, &action).await {
                Creation::Exists => {}
                Creation::Refused { why } => {
                    tracing::warn!(follower = follower.id, object = %action.object, "an object was refused: {why}");
                    self.refused.insert(action.object, Refusal { why, submitted_at: now });
                    // Nothing was submitted. The next look says why.
                    decision.action = None;
                    decision.next_look = now;
                }
                Creation::Unknown { why } => {
                    tracing::warn!(follower = follower.id, object = %action.object, "it is not known whether an object was created: {why}");
                }
            }
        }
        Ok(Some(decision))
    }

    /// Reads the head of the branch, then all objects at the same time. Returns also when the newest known head was read.
    async fn observe(
        &mut self,
        follower: &Follower,
        record: &Record,
        now: Moment,
    ) -> (Observations, Option<Moment>) {
        let begun = Instant::now();
        let BranchHead { head, read_at } = self.surroundings.head(&follower.source).await;
        // A clock that was wrong must not keep the follower from later commits.
        let known_at = record.observed_at.filter(|at| *at <= now);
        let head = newer(head, read_at, known_at, record);
        let observed_at = match head {
            Head::Found(_) | Head::Missing => known_at.max(read_at),
            Head::Unknown { .. } => known_at,
        };
        let wanted = objects_to_read(follower, record, &head);
        let commit = match &head {
            Head::Found(commit) => Some(commit),
            Head::Missing | Head::Unknown { .. } => record.target.as_ref(),
        };
        let surroundings = &self.surroundings;
        let read = wanted.iter().zip(&follower.stages).filter_map(|((stage, object), work)| {
            let commit = commit?;
            let known = record.stage(stage).filter(|_| record.target.as_ref() == Some(commit));
            // What it has created stays complete for the commit.
            let is_over = known.is_some_and(|known| known.progress == StageProgress::Complete);
            if is_over && work.creates() {
                return None;
            }
            let wanted = Wanted { follower, stage, commit, object, known };
            Some(async move {
                let sighting = surroundings.read(wanted).await;
                // After the object: those of one that has ended are not read again.
                let has_tasks = object.is_pipeline_run() && matches!(sighting, Sighting::Found(_));
                let tasks =
                    if has_tasks { Some(surroundings.task_runs(object).await) } else { None };
                (object.clone(), sighting, tasks)
            })
        });
        let (mut objects, mut task_runs) = (BTreeMap::new(), BTreeMap::new());
        for (object, sighting, tasks) in join_all(read).await {
            task_runs.extend(tasks.map(|tasks| (object.clone(), tasks)));
            objects.insert(object, sighting);
        }
        // Refusals of earlier commits, attempts and submissions are over, and those of objects that exist.
        self.refused.retain(|object, refusal| {
            let stage = wanted.iter().find(|(_, wanted)| wanted == object);
            let stage = stage.and_then(|(stage, _)| record.stage(stage));
            let is_last = stage.is_some_and(|it| it.submitted_at == Some(refusal.submitted_at));
            is_last && (object.is_run() || !matches!(objects.get(object), Some(Sighting::Found(_))))
        });
        for (object, Refusal { why, .. }) in &self.refused {
            // Without a reading, neither is known. A run is read from its layer, which exists also without it.
            if object.is_run() || objects.get(object) == Some(&Sighting::Absent) {
                objects.insert(object.clone(), Sighting::Refused { why: why.clone() });
            }
        }
        let read_took = Some(begun.elapsed());
        (Observations { head, objects, task_runs, read_took }, observed_at)
    }
}

/// The head, unless another server has read the branch later, and has found another one.
fn newer(head: Head, read_at: Option<Moment>, known_at: Option<Moment>, record: &Record) -> Head {
    let is_known = matches!(&head, Head::Found(commit) if record.observed.as_ref() == Some(commit));
    let is_older = read_at.is_some() && known_at > read_at;
    if is_older && !is_known {
        return Head::Unknown { why: "another server has read it later".to_owned() };
    }
    head
}
