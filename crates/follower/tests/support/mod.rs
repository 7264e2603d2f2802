//! A follower with a chain, its record, and a cluster in memory. The caller's part is short: read the
//! objects, decide, store the record, submit.

use std::collections::BTreeMap;
use std::time::Duration;

use butler_follower::config::{Follower, Registry};
use butler_follower::object::ObjectReference;
use butler_follower::state::Record;
use butler_follower::{
    Action, Commit, Decision, Head, Input, Moment, Observations, Request, Sighting, Submission,
    decide, objects_to_read,
};
use serde_json::{Value, json};

/// A chain with the stages of a usual delivery.
pub(crate) const CHAIN: &str = r#"
controller: {namespace: ci, poll: 30s, watch: 5s, retry: {first: 30s, longest: 10m}}
followers:
  - id: web
    source: {repository: "https://git.example.com/shop/web.git", branch: main}
    adapter:
      kubernetes:
        stages:
          - name: image
            preset: job
            create: {apiVersion: batch/v1, kind: Job, spec: {args: ["${commit}"]}}
            reuse: ["$.status.reusedImage"]
            timeout: 10m
          - name: pipeline
            preset: pipeline-run
            create: {apiVersion: tekton.dev/v1, kind: PipelineRun}
            timeout: 10m
          - name: flush
            preset: git-mirror-flush
            observe: {api-version: example.com/v1, kind: Mirror, name: web}
            timeout: 10m
          - name: sync
            preset: argo
            observe: {api-version: argoproj.io/v1alpha1, kind: Application, name: web}
            timeout: 10m
          - name: ready
            preset: deployment
            observe: {api-version: apps/v1, kind: Deployment, namespace: web, name: web}
            source-commit: ["$.metadata.annotations['example.com/commit']"]
            timeout: 10m
"#;

/// The commit whose digits are all `digit`.
pub(crate) fn commit(digit: char) -> Commit {
    Commit::parse(&digit.to_string().repeat(40)).expect("the digit is hexadecimal")
}

/// The status of a Job that has ended.
pub(crate) fn job(condition: &str) -> Value {
    json!({"conditions": [{"type": condition, "status": "True"}]})
}

/// The status of a `PipelineRun`.
pub(crate) fn pipeline(succeeded: &str) -> Value {
    json!({"conditions": [{"type": "Succeeded", "status": succeeded}]})
}

/// A Deployment that is ready with `commit`.
pub(crate) fn ready(commit: &Commit) -> Value {
    json!({
        "metadata": {"generation": 1, "annotations": {"example.com/commit": commit.as_str()}},
        "spec": {"replicas": 1},
        "status": {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1},
    })
}

/// A follower and its surroundings.
pub(crate) struct Bench {
    pub(crate) registry: Registry,
    pub(crate) record: Record,
    pub(crate) head: Head,
    pub(crate) objects: BTreeMap<ObjectReference, Value>,
    pub(crate) unreadable: Vec<ObjectReference>,
    pub(crate) denied: Vec<ObjectReference>,
    pub(crate) refused: Vec<ObjectReference>,
    pub(crate) task_runs: BTreeMap<ObjectReference, Result<Vec<Value>, String>>,
    pub(crate) submitted: Vec<Action>,
    pub(crate) now: Moment,
}

impl Bench {
    /// The usual chain, whose observed objects are ready for no commit.
    pub(crate) fn new() -> Self {
        Self::with(CHAIN)
    }

    pub(crate) fn with(text: &str) -> Self {
        let registry = Registry::parse(text).unwrap_or_else(|errors| panic!("{errors:#?}"));
        let mut bench = Self {
            record: Record::new(&registry.followers[0].id),
            registry,
            head: Head::Found(commit('a')),
            objects: BTreeMap::new(),
            unreadable: Vec::new(),
            denied: Vec::new(),
            refused: Vec::new(),
            task_runs: BTreeMap::new(),
            submitted: Vec::new(),
            now: Moment::from_millis(1_000_000),
        };
        for (stage, reference) in bench.references() {
            let object = match stage.as_str() {
                "flush" => json!({"status": {"pendingFlush": false, "githubInSync": true}}),
                "sync" => json!({"status": {"sync": {"status": "Synced", "revision": "1"},
                                            "health": {"status": "Healthy"}}}),
                "ready" => ready(&commit('0')),
                _ => continue,
            };
            bench.objects.insert(reference, object);
        }
        bench
    }

    pub(crate) fn follower(&self) -> &Follower {
        &self.registry.followers[0]
    }

    fn references(&self) -> Vec<(String, ObjectReference)> {
        let objects = objects_to_read(self.follower(), &self.record, &self.head);
        objects.into_iter().map(|(stage, object)| (stage.to_owned(), object)).collect()
    }

    /// The object of a stage for the current commit and attempt.
    pub(crate) fn reference(&self, stage: &str) -> ObjectReference {
        self.references().into_iter().find(|(name, _)| name == stage).expect("the stage exists").1
    }

    /// The object of a stage, which must exist.
    pub(crate) fn object(&mut self, stage: &str) -> &mut Value {
        let reference = self.reference(stage);
        self.objects.get_mut(&reference).unwrap_or_else(|| panic!("{reference} does not exist"))
    }

    /// What is read now.
    pub(crate) fn observations(&self) -> Observations {
        let sighting = |reference: &ObjectReference| {
            if self.unreadable.contains(reference) {
                return Sighting::Unknown { why: "connection refused".to_owned() };
            }
            if self.denied.contains(reference) {
                return Sighting::Denied { why: "no permission".to_owned() };
            }
            if self.refused.contains(reference) {
                return Sighting::Refused { why: "forbidden".to_owned() };
            }
            self.objects
                .get(reference)
                .map_or(Sighting::Absent, |object| Sighting::Found(object.clone()))
        };
        let objects = self.references().into_iter();
        Observations {
            head: self.head.clone(),
            objects: objects.map(|(_, object)| (object.clone(), sighting(&object))).collect(),
            task_runs: self.task_runs.clone(),
            read_took: Some(Duration::from_millis(20)),
        }
    }

    /// Decides, stores the record, and submits.
    pub(crate) fn ask(&mut self, request: Request) -> Decision {
        let observations = self.observations();
        let decision = decide(&Input {
            controller: &self.registry.controller,
            follower: &self.registry.followers[0],
            record: &self.record,
            observations: &observations,
            request,
            now: self.now,
        });
        self.record = decision.record.clone();
        if let Some(action) = &decision.action {
            let (Submission::Object(object) | Submission::Run(object)) = &action.submission;
            self.objects.entry(action.object.clone()).or_insert_with(|| object.clone());
            self.submitted.push(action.clone());
        }
        decision
    }

    pub(crate) fn look(&mut self) -> Decision {
        self.ask(Request::None)
    }

    pub(crate) fn wait(&mut self, seconds: u64) {
        self.now = self.now + Duration::from_secs(seconds);
    }

    /// Delivers the head: each stage becomes complete after ten seconds.
    pub(crate) fn deliver(&mut self) -> Decision {
        for status in [job("Complete"), pipeline("True")] {
            let submitted = self.look().action.expect("a stage is submitted");
            self.wait(10);
            self.object(&submitted.stage)["status"] = status;
        }
        let Head::Found(head) = self.head.clone() else { panic!("the head is known") };
        *self.object("ready") = ready(&head);
        self.look()
    }
}
