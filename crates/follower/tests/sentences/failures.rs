//! Failures and retries.

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
