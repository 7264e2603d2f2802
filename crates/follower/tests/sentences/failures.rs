//! Failures and retries.

use butler_follower::state::StageProgress;
use butler_follower::{Phase, Request};
use serde_json::json;

use crate::support::{Bench, CHAIN, commit, job, pipeline, ready};

#[test]
fn failed_commit_is_tried_again_under_a_new_name() {
    let mut bench = Bench::new();
    let mut names = Vec::new();
    let mut waits = Vec::new();
    for attempt in 1..=4 {
        let action = bench.look().action.unwrap();
        assert_eq!((action.stage.as_str(), action.attempt), ("image", attempt));
        names.push(action.object.name);
        bench.object("image")["status"] = job("Failed");
        let failed_at = bench.now;
        for _ in 0..20 {
            let decision = bench.look();
            if decision.phase == Phase::PendingTrigger {
                break;
            }
            assert_eq!((decision.phase, decision.action), (Phase::Failed, None));
            assert!(decision.next_look > bench.now);
            bench.now = decision.next_look;
        }
        waits.push(bench.now.since(failed_at).as_secs());
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 4);
    assert_eq!(waits, [30, 60, 120, 240]);
    bench.look();
    bench.object("image")["status"] = job("Complete");
    assert_eq!(bench.look().action.unwrap().stage, "pipeline");
}

#[test]
fn retry_reuses_completed_stages() {
    let mut bench = Bench::new();
    bench.look();
    bench.object("image")["status"] = job("Complete");
    bench.look();
    bench.object("pipeline")["status"] = pipeline("False");
    assert_eq!(bench.look().phase, Phase::Failed);
    bench.wait(60);
    bench.look();
    let action = bench.look().action.unwrap();
    assert_eq!((action.stage.as_str(), action.attempt), ("pipeline", 2));
    let images = bench.submitted.iter().filter(|action| action.stage == "image").count();
    assert_eq!(images, 1);
}

#[test]
fn confirmed_run_retries_without_a_wait() {
    let mut bench = Bench::new();
    bench.look();
    bench.object("image")["status"] = job("Failed");
    assert_eq!(bench.look().phase, Phase::Failed);
    assert_eq!(bench.ask(Request::Confirmed).phase, Phase::PendingTrigger);
    assert_eq!(bench.look().action.unwrap().attempt, 2);
}

#[test]
fn recovered_gate_moves_a_failed_follower_on() {
    let mut bench = Bench::new();
    bench.object("sync")["status"]["health"]["status"] = json!("Degraded");
    assert_eq!(bench.deliver().phase, Phase::Failed);
    bench.object("sync")["status"]["health"]["status"] = json!("Progressing");
    assert_eq!(bench.look().phase, Phase::ClosingOut);
    bench.object("sync")["status"]["health"]["status"] = json!("Healthy");
    let decision = bench.look();
    assert_eq!(decision.phase, Phase::Succeeded);
    assert_eq!(bench.record.failure, None);
    assert_eq!(bench.submitted.len(), 2);
}

#[test]
fn failed_gate_lets_the_nearest_stage_deliver_again_and_then_earlier_ones() {
    let mut bench = Bench::new();
    bench.object("sync")["status"]["health"]["status"] = json!("Degraded");
    bench.deliver();
    bench.wait(60);
    assert_eq!(bench.look().phase, Phase::PendingTrigger);
    let action = bench.look().action.unwrap();
    assert_eq!((action.stage.as_str(), action.attempt), ("pipeline", 2));
    bench.object("pipeline")["status"] = pipeline("True");
    assert_eq!(bench.look().phase, Phase::Failed);
    bench.wait(120);
    assert_eq!(bench.look().phase, Phase::PendingTrigger);
    let action = bench.look().action.unwrap();
    assert_eq!((action.stage.as_str(), action.attempt), ("image", 2));
    bench.object("image")["status"] = job("Complete");
    let action = bench.look().action.unwrap();
    assert_eq!((action.stage.as_str(), action.attempt), ("pipeline", 3));
}

#[test]
fn failed_gate_does_not_start_optional_stages_again() {
    let optional = "          - {name: notes, preset: job, required: false, create: {apiVersion: \
                    batch/v1, kind: Job}}\n          - name: flush";
    let mut bench = Bench::with(&CHAIN.replacen("          - name: flush", optional, 1));
    bench.object("sync")["status"]["health"]["status"] = json!("Degraded");
    bench.deliver();
    assert_eq!(bench.look().phase, Phase::Failed);
    bench.wait(60);
    bench.look();
    assert_eq!(bench.look().action.unwrap().stage, "pipeline");
}

#[test]
fn gate_that_breaks_after_the_delivery_triggers_nothing() {
    let mut bench = Bench::new();
    bench.deliver();
    bench.object("sync")["status"]["health"]["status"] = json!("Degraded");
    for _ in 0..20 {
        let decision = bench.look();
        assert_eq!((decision.phase, decision.action), (Phase::Failed, None));
        bench.wait(600);
    }
    // A person can deliver the commit again.
    assert_eq!(bench.ask(Request::Confirmed).phase, Phase::PendingTrigger);
    assert_eq!(bench.look().action.unwrap().stage, "pipeline");
}

#[test]
fn stage_that_the_registry_adds_after_the_delivery_is_required_too() {
    let mut bench = Bench::new();
    bench.deliver();
    let finished_at = bench.record.timings.finished_at;
    let added = "          - {name: scan, preset: job, create: {apiVersion: batch/v1, kind: Job}}\n          \
                 - name: flush";
    let text = CHAIN.replacen("          - name: flush", added, 1);
    bench.registry = Bench::with(&text).registry;
    assert_eq!(bench.look().action.unwrap().stage, "scan");
    bench.object("scan")["status"] = job("Failed");
    assert_eq!(bench.look().phase, Phase::Failed);
    assert_eq!(bench.record.timings.finished_at, finished_at);
    bench.wait(30);
    assert_eq!(bench.look().phase, Phase::PendingTrigger);
    assert_eq!(bench.look().action.unwrap().attempt, 2);
    bench.object("scan")["status"] = job("Complete");
    assert_eq!(bench.look().phase, Phase::Succeeded);
}

/// Another deployment, such as a rollback that a person made, is not overwritten.
#[test]
fn gate_that_shows_another_commit_after_the_delivery_waits_for_a_person() {
    let mut bench = Bench::new();
    bench.deliver();
    *bench.object("ready") = ready(&commit('0'));
    assert_eq!(bench.look().phase, Phase::ClosingOut);
    bench.wait(600);
    let decision = bench.look();
    assert_eq!((decision.phase, decision.action), (Phase::Failed, None));
    assert!(decision.reasons[0].contains("run-once"), "{:?}", decision.reasons);
    *bench.object("ready") = ready(&commit('a'));
    assert_eq!(bench.look().phase, Phase::Noop);
}

#[test]
fn object_that_does_not_end_in_time_fails_and_is_not_doubled() {
    let mut bench = Bench::new();
    bench.look();
    bench.wait(5);
    assert_eq!(bench.look().phase, Phase::ClosingOut);
    for _ in 0..5 {
        bench.wait(600);
        let decision = bench.look();
        assert_eq!((decision.phase, decision.action), (Phase::Failed, None));
        assert!(decision.reasons[0].contains("run-once"), "{:?}", decision.reasons);
    }
    // It is late, but it ends: the chain continues.
    bench.object("image")["status"] = job("Complete");
    assert_eq!(bench.look().action.unwrap().stage, "pipeline");
}

#[test]
fn late_object_that_fails_or_is_removed_is_tried_again() {
    for is_removed in [true, false] {
        let mut bench = Bench::new();
        bench.look();
        bench.wait(601);
        assert_eq!(bench.look().phase, Phase::Failed);
        let image = bench.reference("image");
        if is_removed {
            bench.objects.remove(&image);
        } else {
            bench.object("image")["status"] = job("Failed");
        }
        bench.wait(60);
        assert_eq!(bench.look().phase, Phase::PendingTrigger);
        assert_eq!(bench.look().action.unwrap().attempt, 2);
    }
}

#[test]
fn layer_that_failed_is_planned_again_only_if_a_person_confirms_it() {
    let mut bench = Bench::with(
        "followers: [{id: network, source: {repository: infra, branch: main}, adapter: {terraform: {layer: network}}}]",
    );
    let first = bench.look().action.unwrap();
    assert!(!first.is_confirmed);
    bench.object("run")["status"] = json!({"phase": "failed", "message": "the plan was cancelled"});
    for _ in 0..20 {
        let decision = bench.look();
        assert_eq!((decision.phase, decision.action), (Phase::Failed, None));
        assert!(decision.reasons[0].contains("the plan was cancelled"), "{:?}", decision.reasons);
        bench.wait(600);
    }
    assert_eq!(bench.ask(Request::Confirmed).phase, Phase::PendingTrigger);
    let second = bench.look().action.unwrap();
    assert!(second.is_confirmed && second.attempt == 2, "{second:?}");
    // The layer recovers by itself, too.
    bench.object("run")["status"] = json!({"phase": "succeeded"});
    assert_eq!(bench.look().phase, Phase::Succeeded);
}

/// A gate holds what comes after it, and does not hide how that ends.
#[test]
fn gate_that_opens_again_does_not_hide_that_a_later_stage_failed() {
    let flush = |bench: &mut Bench, is_pending: bool| {
        bench.object("flush")["status"] =
            json!({"pendingFlush": is_pending, "githubInSync": !is_pending});
    };
    let mut bench = Bench::with(&gate_before_pipeline());
    bench.look();
    bench.object("image")["status"] = job("Complete");
    assert_eq!(bench.look().action.unwrap().stage, "pipeline");
    flush(&mut bench, true);
    bench.wait(5);
    let decision = bench.look();
    assert_eq!((decision.phase, decision.action), (Phase::ClosingOut, None));
    bench.object("pipeline")["status"] = pipeline("False");
    for _ in 0..5 {
        bench.wait(60);
        let decision = bench.look();
        // A new attempt waits for the gate, also if a person asks for one.
        assert_eq!((decision.phase, decision.action), (Phase::Failed, None));
        let reason = &decision.reasons[0];
        for words in ["stage `pipeline` failed", "stage `flush` is not complete"] {
            assert!(reason.contains(words), "{words}: {reason}");
        }
        let stage = bench.record.stage("pipeline").unwrap();
        assert_eq!((stage.progress, stage.attempt), (StageProgress::Failed, 1));
        assert_eq!(bench.record.failure.as_ref().unwrap().count, 1);
        assert_eq!(bench.ask(Request::Confirmed).phase, Phase::Failed);
    }
    flush(&mut bench, false);
    assert_eq!(bench.look().phase, Phase::PendingTrigger);
    let action = bench.look().action.unwrap();
    assert_eq!((action.stage.as_str(), action.attempt), ("pipeline", 2));
}

#[test]
fn gate_that_opens_again_hides_no_stage_that_has_begun() {
    type Change = fn(&mut Bench);
    let complete: Change = |bench| bench.object("pipeline")["status"] = pipeline("True");
    let degraded: Change = |bench| {
        bench.object("pipeline")["status"] = pipeline("True");
        bench.look_with_gate(false);
        bench.object("sync")["status"]["health"]["status"] = json!("Degraded");
    };
    let refused: Change = |bench| {
        let object = bench.reference("pipeline");
        bench.objects.remove(&object);
        bench.refused.push(object);
    };
    let late: Change = |bench| bench.wait(700);
    let lost: Change = |bench| {
        bench.object("pipeline")["status"] = pipeline("False");
        bench.record = butler_follower::state::Record::new("web");
    };
    let removed: Change = |bench| {
        let object = bench.reference("pipeline");
        bench.objects.remove(&object);
        bench.wait(60);
    };
    for (change, phase, stage, progress) in [
        (complete, Phase::ClosingOut, "pipeline", StageProgress::Complete),
        (degraded, Phase::Failed, "sync", StageProgress::Failed),
        (refused, Phase::Blocked, "pipeline", StageProgress::Refused),
        (late, Phase::Failed, "pipeline", StageProgress::TimedOut),
        (lost, Phase::Failed, "pipeline", StageProgress::Failed),
        (removed, Phase::ClosingOut, "pipeline", StageProgress::Running),
    ] {
        let mut bench = Bench::with(&gate_before_pipeline());
        bench.look();
        bench.object("image")["status"] = job("Complete");
        bench.look();
        bench.look();
        change(&mut bench);
        let submitted = bench.submitted.len();
        bench.look_with_gate(true);
        assert_eq!((bench.record.phase, bench.submitted.len()), (phase, submitted), "{stage}");
        assert_eq!(bench.record.stage(stage).unwrap().progress, progress, "{stage} {progress:?}");
        assert!(bench.record.message.contains("stage `flush` is not complete"), "{progress:?}");
    }
}

/// Gates can wait for each other, so the time of one behind an open one does not run.
#[test]
fn gate_behind_an_open_one_does_not_time_out_and_both_failures_are_told() {
    let mut bench = Bench::with(&gate_before_pipeline());
    bench.deliver();
    bench.object("sync")["status"]["sync"]["status"] = json!("OutOfSync");
    bench.look_with_gate(true);
    bench.wait(300);
    bench.look_with_gate(false);
    assert_eq!(bench.record.phase, Phase::ClosingOut);
    bench.look_with_gate(true);
    bench.wait(400);
    bench.look_with_gate(true);
    assert_eq!(bench.record.phase, Phase::ClosingOut, "{}", bench.record.message);
    bench.object("sync")["status"]["health"]["status"] = json!("Degraded");
    bench.wait(4000);
    bench.look_with_gate(true);
    assert_eq!(bench.record.phase, Phase::Failed);
    for words in ["stage `flush` failed", "stage `sync` failed: Application ci/web is Degraded"] {
        assert!(bench.record.message.contains(words), "{words}: {}", bench.record.message);
    }
}

impl Bench {
    /// Looks while the gate of the mirror is open or closed.
    fn look_with_gate(&mut self, is_open: bool) {
        self.object("flush")["status"] = json!({"pendingFlush": is_open, "githubInSync": !is_open});
        self.look();
    }
}

/// The usual chain, whose gate of the mirror is before the pipeline and has an hour.
fn gate_before_pipeline() -> String {
    let at = |text: &str, stage: &str| {
        text.find(&format!("          - name: {stage}")).expect("the chain has this stage")
    };
    let (start, rest) = CHAIN.split_at(at(CHAIN, "pipeline"));
    let (pipeline, rest) = rest.split_at(at(rest, "flush"));
    let (flush, rest) = rest.split_at(at(rest, "sync"));
    format!("{start}{}{pipeline}{rest}", flush.replace("10m", "1h"))
}
