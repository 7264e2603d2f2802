//! One story: what happens, what the controller does about it, and how it ends.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use butler_follower::config::Registry;
use butler_follower::state::Record;
use butler_follower::{
    Commit, Decision, Head, Input, Moment, Observations, Phase, Request, Sighting, decide,
    objects_to_read,
};
use fastrand::Rng;

use crate::cluster::Cluster;
use crate::faults::{Faults, happens};
use crate::invariants::{Facts, check};

const CHAIN: &str = r#"
controller: {namespace: ci, watch: 20s, retry: {first: 30s, longest: 10m}}
followers:
  - id: web
    source: {repository: shop, branch: main}
    adapter:
      kubernetes:
        stages:
          - {name: image, preset: job, timeout: 5m, create: {apiVersion: batch/v1, kind: Job}}
          - {name: pipeline, preset: pipeline-run, timeout: 5m, create: {apiVersion: tekton.dev/v1, kind: PipelineRun}}
          - {name: notes, preset: job, required: false, create: {apiVersion: batch/v1, kind: Job}}
          - {name: flush, preset: git-mirror-flush, timeout: 5m, observe: {api-version: example.com/v1, kind: Mirror, name: web}}
          - {name: sync, preset: argo, timeout: 5m, observe: {api-version: argoproj.io/v1alpha1, kind: Application, name: web}}
          - name: ready
            preset: deployment
            timeout: 5m
            observe: {api-version: apps/v1, kind: Deployment, name: web}
            source-commit: ["$.metadata.annotations['example.com/commit']"]
"#;

/// The looks with faults.
const LOOKS: usize = 100;

/// The most looks after the faults have ended, and the most time that they may take.
const LAST_LOOKS: usize = 2000;
const LAST_HOURS: u64 = 6;

/// What happened in a story.
pub(crate) struct Told {
    pub(crate) phases: BTreeSet<Phase>,
    pub(crate) attempts: u64,
}

struct Story {
    random: Rng,
    /// The faults that happen now.
    faults: Faults,
    /// The faults that the story began with.
    first_faults: Faults,
    registry: Registry,
    record: Record,
    /// The records that were stored, the newest last.
    stored: VecDeque<Record>,
    head: Head,
    commits: Vec<Commit>,
    cluster: Cluster,
    last_reading: Option<Observations>,
    starts: BTreeMap<Commit, Vec<Moment>>,
    looks: usize,
    was_confirmed: bool,
    now: Moment,
    log: VecDeque<String>,
    told: Told,
}

/// Tells the story with this number. The error has the last steps.
pub(crate) fn tell(number: u64) -> Result<Told, String> {
    let mut random = Rng::with_seed(number);
    let registry = Registry::parse(CHAIN).map_err(|errors| format!("{errors:?}"))?;
    let faults = Faults::some(&mut random);
    let mut story = Story {
        first_faults: faults.clone(),
        faults,
        random,
        record: Record::new("web"),
        registry,
        stored: VecDeque::new(),
        head: Head::Missing,
        commits: Vec::new(),
        cluster: Cluster::default(),
        last_reading: None,
        starts: BTreeMap::new(),
        looks: 0,
        was_confirmed: false,
        now: Moment::from_millis(1_000_000_000),
        log: VecDeque::new(),
        told: Told { phases: BTreeSet::new(), attempts: 0 },
    };
    let result = story.begin().and_then(|()| story.end());
    result.map_err(|broken| {
        let steps: Vec<_> = story.log.iter().map(String::as_str).collect();
        format!("{}\n{broken}\n{:?}", steps.join("\n"), story.first_faults)
    })?;
    Ok(story.told)
}

impl Story {
    fn begin(&mut self) -> Result<(), String> {
        self.push();
        for _ in 0..LOOKS {
            self.disturb();
            let decision = self.look()?;
            self.pass_time(&decision);
        }
        Ok(())
    }

    /// Without faults, the newest commit is delivered.
    fn end(&mut self) -> Result<(), String> {
        self.faults = Faults::default();
        self.registry.followers[0].is_paused = false;
        self.cluster.settle(self.now);
        self.last_reading = None;
        self.push();
        let until = self.now + Duration::from_hours(LAST_HOURS);
        for _ in 0..LAST_LOOKS {
            let decision = self.look()?;
            // An old object that still runs can deploy its commit over the newest one.
            let has_ended = self.cluster.created.values().all(|created| created.has_ended);
            if decision.phase == Phase::Noop && has_ended {
                return self.rest();
            }
            if self.now > until {
                return Err("broken: the commit is delivered in time".to_owned());
            }
            // What was deployed after the delivery is left to a person.
            if decision.phase == Phase::Failed && decision.record.is_closed_out {
                self.was_confirmed = true;
                self.decide_with(Request::Confirmed)?;
            }
            self.now = decision.next_look;
        }
        Err("broken: the commit is delivered after a limited number of looks".to_owned())
    }

    /// A delivered commit stays delivered, and causes nothing.
    fn rest(&mut self) -> Result<(), String> {
        let Head::Found(head) = self.head.clone() else { return Err("broken: no head".to_owned()) };
        if !self.cluster.gates_are_ready(&head, self.now) {
            return Err("broken: the gates are ready in the cluster".to_owned());
        }
        let before = self.record.timings.clone();
        for _ in 0..3 {
            self.now = self.now + Duration::from_secs(30);
            let decision = self.look()?;
            let timings = &decision.record.timings;
            let is_kept = timings.started_at == before.started_at
                && timings.finished_at == before.finished_at;
            if decision.phase != Phase::Noop || decision.action.is_some() || !is_kept {
                return Err(format!("broken: a delivered commit rests: {decision:?}"));
            }
        }
        let attempts = self.record.attempts();
        self.told.attempts += u64::from(attempts);
        Ok(())
    }

    fn push(&mut self) {
        let digits = format!("{:08x}", self.commits.len() + 1).repeat(5);
        let commit = Commit::parse(&digits).expect("the digits are hexadecimal");
        self.commits.push(commit.clone());
        self.head = Head::Found(commit);
    }

    fn disturb(&mut self) {
        let faults = self.faults.clone();
        if happens(&mut self.random, faults.push) {
            if self.random.u8(0..4) == 0 {
                let earlier = self.random.usize(0..self.commits.len());
                self.head = Head::Found(self.commits[earlier].clone());
            } else {
                self.push();
            }
        }
        if happens(&mut self.random, faults.removal) {
            self.cluster.remove_ended();
        }
        if happens(&mut self.random, faults.pause) {
            let follower = &mut self.registry.followers[0];
            follower.is_paused = !follower.is_paused;
        }
        if happens(&mut self.random, faults.gate) {
            let gates = [None, Some("Mirror"), Some("Application"), Some("Deployment")];
            self.cluster.missing_gate = gates[self.random.usize(0..gates.len())];
            self.cluster.is_degraded = self.random.bool();
        }
        if happens(&mut self.random, faults.lost_record) {
            self.note("the record is lost");
            self.record = Record::new("web");
        }
        if happens(&mut self.random, faults.old_record) && !self.stored.is_empty() {
            self.note("the record is an old one");
            let index = self.random.usize(0..self.stored.len());
            self.record = self.stored[index].clone();
        }
    }

    fn pass_time(&mut self, decision: &Decision) {
        if happens(&mut self.random, self.faults.clock) {
            let millis = self.now.as_millis() - self.random.u64(0..3_600_000);
            self.now = Moment::from_millis(millis);
            return;
        }
        self.now = match self.random.u8(0..10) {
            0 => self.now,
            1 => self.now + Duration::from_secs(self.random.u64(0..1200)),
            2 => self.now + Duration::from_millis(self.random.u64(0..5000)),
            _ => decision.next_look,
        };
    }

    fn read(&mut self) -> Observations {
        if let Some(last) = &self.last_reading
            && happens(&mut self.random, self.faults.stale)
        {
            return last.clone();
        }
        let head = if happens(&mut self.random, self.faults.head) {
            let missing = self.random.bool();
            if missing { Head::Missing } else { Head::Unknown { why: "timeout".to_owned() } }
        } else {
            self.head.clone()
        };
        let mut observations = Observations {
            head,
            objects: BTreeMap::new(),
            task_runs: BTreeMap::new(),
            read_took: Some(Duration::from_millis(self.random.u64(0..2000))),
        };
        let follower = &self.registry.followers[0];
        for (_, reference) in objects_to_read(follower, &self.record, &observations.head) {
            let mut sighting = self.cluster.read(&reference, self.now);
            if happens(&mut self.random, self.faults.unreadable) {
                sighting = if self.random.bool() {
                    Sighting::Unknown { why: "timeout".to_owned() }
                } else {
                    Sighting::Denied { why: "forbidden".to_owned() }
                };
            }
            if !happens(&mut self.random, self.faults.omitted) {
                observations.objects.insert(reference, sighting);
            }
        }
        self.last_reading = Some(observations.clone());
        observations
    }

    fn look(&mut self) -> Result<Decision, String> {
        let requests = [Request::DryRun, Request::Unconfirmed, Request::Confirmed];
        let request = if happens(&mut self.random, self.faults.request) {
            requests[self.random.usize(0..requests.len())]
        } else {
            Request::None
        };
        self.was_confirmed |= request == Request::Confirmed;
        self.decide_with(request)
    }

    fn decide_with(&mut self, request: Request) -> Result<Decision, String> {
        self.looks += 1;
        self.cluster.advance(self.now, &mut self.random);
        let observations = self.read();
        let input = Input {
            controller: &self.registry.controller,
            follower: &self.registry.followers[0],
            record: &self.record,
            observations: &observations,
            request,
            now: self.now,
        };
        let decision = decide(&input);
        let is_same = self.random.u8(0..8) > 0 || decide(&input) == decision;
        let facts = Facts {
            cluster: &self.cluster,
            faults: &self.first_faults,
            starts: &self.starts,
            looks: self.looks,
            was_confirmed: self.was_confirmed,
        };
        let checked = check(&input, &decision, &facts);
        self.note(&format!("{request:?}: {:?} {}", decision.phase, decision.record.message));
        checked?;
        if !is_same {
            return Err("broken: equal input has an equal decision".to_owned());
        }
        self.told.phases.insert(decision.phase);
        self.execute(&decision);
        Ok(decision)
    }

    /// Stores the record, then submits. The controller can end before each of both.
    fn execute(&mut self, decision: &Decision) {
        if happens(&mut self.random, self.faults.crash) {
            self.note("the controller ends before it stores the record");
            return;
        }
        self.record = decision.record.clone();
        self.stored.push_back(self.record.clone());
        if self.stored.len() > 10 {
            self.stored.pop_front();
        }
        let Some(action) = &decision.action else { return };
        self.starts.entry(action.commit.clone()).or_default().push(self.now);
        if happens(&mut self.random, self.faults.crash) {
            self.note("the controller ends before it submits");
            return;
        }
        let controllers = if happens(&mut self.random, self.faults.twin) { 2 } else { 1 };
        for _ in 0..controllers {
            self.cluster.submit(action, self.now, &self.faults, &mut self.random);
        }
    }

    /// Adds a step to the log. A step that repeats is there once.
    fn note(&mut self, step: &str) {
        if self.log.back().is_some_and(|last| last.ends_with(&format!(" {step}"))) {
            return;
        }
        self.log.push_back(format!("{} {step}", self.now));
        if self.log.len() > 25 {
            self.log.pop_front();
        }
    }
}
