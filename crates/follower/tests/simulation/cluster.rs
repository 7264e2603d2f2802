//! A cluster in memory: objects that end, and gates that follow the last pipeline.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use butler_follower::object::ObjectReference;
use butler_follower::{Action, Commit, Moment, Sighting};
use fastrand::Rng;
use serde_json::{Value, json};

use crate::faults::{Faults, happens};

/// An object that a stage created.
pub(crate) struct Created {
    pub(crate) stage: String,
    pub(crate) commit: Commit,
    visible_at: Moment,
    /// `None` if it does not end.
    ends_at: Option<Moment>,
    fails: bool,
    pub(crate) has_ended: bool,
}

/// The commit that is deployed, and when its gates follow.
struct Deployment {
    commit: Commit,
    flushed_at: Moment,
    synced_at: Moment,
    ready_at: Moment,
}

#[derive(Default)]
pub(crate) struct Cluster {
    pub(crate) created: BTreeMap<ObjectReference, Created>,
    /// The names that each stage, commit and attempt ever had.
    pub(crate) names: BTreeMap<(String, Commit, u32), BTreeSet<String>>,
    /// The stages that an object completed, by commit.
    pub(crate) completed: BTreeSet<(String, Commit)>,
    refused: BTreeSet<ObjectReference>,
    deployment: Option<Deployment>,
    /// The kind of the gate whose object does not exist.
    pub(crate) missing_gate: Option<&'static str>,
    pub(crate) is_degraded: bool,
}

fn later(random: &mut Rng, now: Moment, most: u64) -> Moment {
    now + Duration::from_secs(random.u64(1..=most))
}

impl Cluster {
    /// Submits an object. A name that exists is refused, which the caller takes for success.
    pub(crate) fn submit(
        &mut self,
        action: &Action,
        now: Moment,
        faults: &Faults,
        random: &mut Rng,
    ) {
        let purpose = (action.stage.clone(), action.commit.clone(), action.attempt);
        self.names.entry(purpose).or_default().insert(action.object.name.clone());
        if self.created.contains_key(&action.object) {
            return;
        }
        if happens(random, faults.refusal) {
            self.refused.insert(action.object.clone());
            return;
        }
        let ends = !happens(random, faults.stuck);
        let lags = happens(random, faults.lag);
        let created = Created {
            stage: action.stage.clone(),
            commit: action.commit.clone(),
            visible_at: if lags { later(random, now, 90) } else { now },
            ends_at: ends.then(|| later(random, now, 300)),
            fails: happens(random, faults.failure),
            has_ended: false,
        };
        self.created.insert(action.object.clone(), created);
    }

    /// Ends what ends until `now`. A complete pipeline deploys its commit.
    pub(crate) fn advance(&mut self, now: Moment, random: &mut Rng) {
        for created in self.created.values_mut() {
            if created.has_ended || created.ends_at.is_none_or(|at| at > now) {
                continue;
            }
            created.has_ended = true;
            if created.fails {
                continue;
            }
            self.completed.insert((created.stage.clone(), created.commit.clone()));
            if created.stage == "pipeline" {
                self.deployment = Some(Deployment {
                    commit: created.commit.clone(),
                    flushed_at: later(random, now, 60),
                    synced_at: later(random, now, 60),
                    ready_at: later(random, now, 120),
                });
            }
        }
    }

    /// Without faults, each object is visible and ends soon, and each gate exists.
    pub(crate) fn settle(&mut self, now: Moment) {
        let soon = now + Duration::from_mins(5);
        self.missing_gate = None;
        self.is_degraded = false;
        for created in self.created.values_mut() {
            created.visible_at = created.visible_at.min(now);
            created.ends_at = Some(created.ends_at.unwrap_or(now).min(soon));
        }
    }

    /// Removes an ended object, as a cluster does some time after the end.
    pub(crate) fn remove_ended(&mut self) {
        let ended = self.created.iter().find(|(_, created)| created.has_ended);
        if let Some(reference) = ended.map(|(reference, _)| reference.clone()) {
            self.created.remove(&reference);
        }
    }

    /// What a true reading of an object says. A refusal is reported once.
    pub(crate) fn read(&mut self, reference: &ObjectReference, now: Moment) -> Sighting {
        if self.refused.remove(reference) {
            return Sighting::Refused { why: "forbidden".to_owned() };
        }
        match reference.kind.as_str() {
            "Job" | "PipelineRun" => match self.created.get(reference) {
                Some(created) if created.visible_at <= now => Sighting::Found(value(created)),
                Some(_) | None => Sighting::Absent,
            },
            kind if self.missing_gate == Some(kind) => Sighting::Absent,
            kind => Sighting::Found(self.gate(kind, now)),
        }
    }

    fn gate(&self, kind: &str, now: Moment) -> Value {
        let deployment = self.deployment.as_ref();
        let passed = |at: fn(&Deployment) -> Moment| deployment.is_some_and(|it| at(it) <= now);
        match kind {
            "Mirror" => {
                let is_flushed = passed(|it| it.flushed_at);
                json!({"status": {"pendingFlush": !is_flushed, "githubInSync": is_flushed}})
            }
            "Application" => {
                let sync = if passed(|it| it.synced_at) { "Synced" } else { "OutOfSync" };
                let health = if self.is_degraded { "Degraded" } else { "Healthy" };
                json!({"status": {"sync": {"status": sync}, "health": {"status": health}}})
            }
            _ => {
                // The specification changes at once, and the controller observes it later.
                let commit = deployment.map_or("none", |it| it.commit.as_str());
                let observed = if passed(|it| it.ready_at) { 2 } else { 1 };
                json!({
                    "metadata": {"generation": 2, "annotations": {"example.com/commit": commit}},
                    "spec": {"replicas": 1},
                    "status": {"observedGeneration": observed, "replicas": 1, "updatedReplicas": 1,
                               "availableReplicas": 1},
                })
            }
        }
    }

    /// Whether the gates are ready for `commit` at this moment.
    pub(crate) fn gates_are_ready(&self, commit: &Commit, now: Moment) -> bool {
        let Some(it) = &self.deployment else { return false };
        let all = [it.flushed_at, it.synced_at, it.ready_at];
        self.missing_gate.is_none()
            && !self.is_degraded
            && it.commit == *commit
            && all.into_iter().all(|at| at <= now)
    }
}

fn value(created: &Created) -> Value {
    let condition = match (created.stage.as_str(), created.has_ended, created.fails) {
        (_, false, _) => return json!({"status": {}}),
        ("image", true, true) => json!({"type": "Failed", "status": "True"}),
        ("image", true, false) => json!({"type": "Complete", "status": "True"}),
        (_, true, fails) => {
            json!({"type": "Succeeded", "status": if fails { "False" } else { "True" }})
        }
    };
    json!({"status": {"conditions": [condition]}})
}
