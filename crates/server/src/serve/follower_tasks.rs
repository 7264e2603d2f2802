//! Looks at each follower when it is due.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use butler_base::error::chain;
use butler_follower::config::{Follower, Registry};
use butler_follower::{Decision, Head, Phase, Request};
use tokio::sync::{Semaphore, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

use super::desired::Desired;
use super::follower_requests::{Ask, FollowerRequests};
use super::leadership::Leadership;
use crate::followers::{FollowerLooks, Surroundings};
use crate::store::{Followers, StoreResult};

/// How many followers are looked at at the same time.
const LOOKS: usize = 16;

/// The time until the next look after one that did not decide: the store did not answer, or another server was faster.
const AGAIN: Duration = Duration::from_secs(5);

/// How often a person's request is tried.
const TRIES: u32 = 4;

/// The most that a look is put off. The clocks of the store and of this machine run differently.
const LONGEST: Duration = Duration::from_hours(1);

/// Looks at followers. Servers that do not decide look only if a person asks.
#[derive(Debug)]
pub(super) struct FollowerTasks<S, W> {
    pub(super) store: Arc<S>,
    pub(super) surroundings: Arc<W>,
    pub(super) desired: Arc<Desired>,
    pub(super) leadership: watch::Receiver<Leadership>,
    pub(super) requests: Arc<FollowerRequests>,
}

impl<S: Followers + 'static, W: Surroundings + 'static> FollowerTasks<S, W> {
    /// Looks at each follower of the registry, and of each later one. Never ends.
    pub(super) async fn run(self) {
        let mut registries = self.desired.followed.registries();
        let (tasks, looks) = (Arc::new(self), Arc::new(Semaphore::new(LOOKS)));
        let (mut running, mut set) = (BTreeMap::<String, AbortHandle>::new(), JoinSet::new());
        loop {
            let registry = registries.borrow_and_update().clone();
            for Follower { id, .. } in &registry.followers {
                if running.get(id).is_none_or(AbortHandle::is_finished) {
                    let (tasks, id, looks) = (Arc::clone(&tasks), id.clone(), Arc::clone(&looks));
                    let task = set.spawn({
                        let id = id.clone();
                        async move { tasks.follow(&id, &looks).await }
                    });
                    running.insert(id, task);
                }
            }
            tokio::select! {
                changed = registries.changed() => if changed.is_err() {
                    return std::future::pending().await;
                },
                // One that was removed, and may be in a later registry again.
                Some(_) = set.join_next() => {}
            }
        }
    }

    /// Looks at one follower until it is removed from the registry.
    async fn follow(&self, id: &str, limit: &Semaphore) {
        let mut registries = self.desired.followed.registries();
        let mut heads = self.desired.followed.heads();
        let mut leadership = self.leadership.clone();
        let mut asked = self.requests.of(id);
        let surroundings = Arc::clone(&self.surroundings);
        let mut looks = FollowerLooks::new(Arc::clone(&self.store), surroundings);
        let (mut due, mut last_head, mut last_phase) = (Instant::now(), None, None);
        loop {
            let registry = registries.borrow_and_update().clone();
            let Some(follower) = registry.followers.iter().find(|it| it.id == id) else { return };
            let decides = leadership.borrow_and_update().decides();
            let head = self.head(follower);
            heads.borrow_and_update();
            // A new commit does not wait for the next look.
            if last_head.as_ref().is_some_and(|last| *last != head) {
                due = Instant::now();
            }
            last_head = Some(head);
            let ask = tokio::select! {
                () = sleep_until(due), if decides => None,
                Some(ask) = asked.recv() => Some(ask),
                Ok(()) = heads.changed() => continue,
                Ok(()) = leadership.changed() => continue,
                Ok(()) = registries.changed() => {
                    due = Instant::now();
                    continue;
                }
            };
            // Never closed.
            let _permit = limit.acquire().await;
            let looking = Look { store: &*self.store, registry: &registry, follower };
            let (decision, next) = match &ask {
                Some(ask) => looking.asked(&mut looks, ask.request).await,
                None => looking.once(&mut looks, Request::None).await,
            };
            let next = Instant::now() + next;
            // A look that triggers nothing does not put off the next one that does.
            let is_only_shown = ask.as_ref().is_some_and(|ask| ask.request != Request::Confirmed);
            due = if is_only_shown { due.min(next) } else { next };
            match &decision {
                Ok(Some(decision)) => log(id, decision, &mut last_phase),
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(follower = id, "cannot look at a follower: {}", chain(error));
                }
            }
            if let Some(Ask { answer, .. }) = ask {
                // The person may have gone.
                let _ = answer.send(decision);
            }
        }
    }

    fn head(&self, follower: &Follower) -> Head {
        self.desired.followed.head(&self.desired.config(), &follower.source).head
    }
}

/// What is looked at.
struct Look<'a, S> {
    store: &'a S,
    registry: &'a Registry,
    follower: &'a Follower,
}

/// The decision of a look, and the time until the next one.
type Looked = (StoreResult<Option<Decision>>, Duration);

impl<S: Followers> Look<'_, S> {
    async fn once<W: Surroundings>(
        &self,
        looks: &mut FollowerLooks<S, W>,
        request: Request,
    ) -> Looked {
        let controller = &self.registry.controller;
        let look = async {
            let now = self.store.clock().await?;
            Ok((now, looks.look(controller, self.follower, request, now).await?))
        };
        match look.await {
            Ok((now, Some(decision))) => {
                let next = decision.next_look.since(now).min(LONGEST);
                (Ok(Some(decision)), next)
            }
            Ok((_, None)) => (Ok(None), AGAIN),
            Err(error) => (Err(error), AGAIN),
        }
    }

    /// Looks for a person. Repeats the look if another server was faster, or if the confirmed stage is not submitted yet.
    async fn asked<W: Surroundings>(
        &self,
        looks: &mut FollowerLooks<S, W>,
        request: Request,
    ) -> Looked {
        let mut last = self.once(looks, request).await;
        for _ in 1..TRIES {
            match &last {
                (Ok(None), _) => last = self.once(looks, request).await,
                (Ok(Some(decision)), Duration::ZERO)
                    if request == Request::Confirmed && decision.action.is_none() =>
                {
                    last = self.once(looks, Request::None).await;
                }
                _ => break,
            }
        }
        last
    }
}

/// Logs each change of the phase.
fn log(follower: &str, decision: &Decision, last: &mut Option<Phase>) {
    if last.replace(decision.phase) == Some(decision.phase) {
        return;
    }
    let (phase, why) = (decision.phase.as_str(), decision.reasons.join("; "));
    let commit = decision.record.target.as_ref().map(|commit| commit.short().to_owned());
    tracing::info!(follower, phase, commit, "{why}");
}

#[cfg(test)]
#[path = "follower_tasks_tests.rs"]
mod tests;
