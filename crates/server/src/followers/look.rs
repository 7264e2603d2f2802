//! One look at a follower.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use butler_cluster::Creation;
use butler_follower::config::{Controller, Follower};
use butler_follower::object::ObjectReference;
use butler_follower::state::Record;
use butler_follower::{Decision, Input, Observations, Request, Sighting, decide, objects_to_read};
use futures_util::future::join_all;

use super::surroundings::Surroundings;
use crate::model::{Moment, StoredFollower};
use crate::store::{Followers, Outcome, StoreResult};

/// Looks at followers. Several servers can look at the same one: the store lets one of them act.
#[derive(Debug)]
pub struct FollowerLooks<S, W> {
    store: Arc<S>,
    surroundings: W,
    /// By follower: the objects that were refused, and why. A record says it too, but without the reason.
    refused: HashMap<String, HashMap<ObjectReference, String>>,
}

impl<S: Followers, W: Surroundings> FollowerLooks<S, W> {
    /// Looks at followers whose records are in `store`.
    #[must_use]
    pub fn new(store: Arc<S>, surroundings: W) -> Self {
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
        let observations = self.observe(follower, &record).await;
        let input = Input {
            controller,
            follower,
            record: &record,
            observations: &observations,
            request,
            now,
        };
        let mut decision = decide(&input);
        // Before the action: after a crash, the same object is submitted under the same name.
        let written = self.store.write_follower(version, decision.record.clone()).await?;
        if written == Outcome::Refused {
            return Ok(None);
        }
        if let Some(action) = &decision.action {
            let refused = self.refused.entry(follower.id.clone()).or_default();
            // The last answer counts.
            refused.remove(&action.object);
            match self.surroundings.submit(action).await {
                Creation::Exists => {}
                Creation::Refused { why } => {
                    tracing::warn!(follower = follower.id, object = %action.object, "an object was refused: {why}");
                    refused.insert(action.object.clone(), why);
                    decision.next_look = now;
                }
                Creation::Unknown { why } => {
                    tracing::warn!(follower = follower.id, object = %action.object, "it is not known whether an object was created: {why}");
                }
            }
        }
        Ok(Some(decision))
    }

    /// Reads the head of the branch, then all objects at the same time.
    async fn observe(&mut self, follower: &Follower, record: &Record) -> Observations {
        let begun = Instant::now();
        let head = self.surroundings.head(&follower.source).await;
        let wanted = objects_to_read(follower, record, &head).into_iter().map(|(_, object)| object);
        let surroundings = &self.surroundings;
        let read = wanted.map(|object| async move {
            let seen = surroundings.read(&object).await;
            (object, seen)
        });
        let mut objects: BTreeMap<_, _> = join_all(read).await.into_iter().collect();
        if let Some(refused) = self.refused.get_mut(&follower.id) {
            // Those of earlier commits and attempts, and those that exist now, are over.
            refused.retain(|object, _| matches!(objects.get(object), Some(Sighting::Absent)));
            for (object, why) in refused {
                objects.insert(object.clone(), Sighting::Refused { why: why.clone() });
            }
        }
        Observations { head, objects, read_took: Some(begun.elapsed()) }
    }
}
