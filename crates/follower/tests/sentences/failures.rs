//! Failures, retries, missing dependencies, and readings that fail.

use butler_follower::{Head, Phase, Request};
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
fn object_that_is_not_visible_yet_is_not_submitted_again() {
    let mut bench = Bench::new();
    let image = bench.look().action.unwrap().object;
    bench.objects.remove(&image);
    bench.wait(5);
    let decision = bench.look();
    assert_eq!((decision.phase, decision.action), (Phase::Triggering, None));
    // After a while it counts as lost. The name is the same, so the cluster refuses a second one.
    bench.wait(60);
    assert_eq!(bench.look().action.unwrap().object, image);
}

#[test]
fn object_that_is_submitted_again_has_its_whole_time_again() {
    let mut bench = Bench::new();
    let image = bench.look().action.unwrap().object;
    bench.objects.remove(&image);
    bench.wait(590);
    assert_eq!(bench.look().action.unwrap().object, image);
    bench.wait(590);
    assert_eq!(bench.look().phase, Phase::ClosingOut);
    bench.wait(10);
    assert_eq!(bench.look().phase, Phase::Failed);
}

#[test]
fn missing_object_of_another_controller_blocks() {
    let mut bench = Bench::new();
    let gate = bench.reference("sync");
    let object = bench.objects.remove(&gate).unwrap();
    let decision = bench.deliver();
    assert_eq!((decision.phase, decision.action), (Phase::Blocked, None));
    assert!(
        decision.reasons[0].contains("Application web does not exist"),
        "{:?}",
        decision.reasons
    );
    bench.objects.insert(gate, object);
    assert_eq!(bench.look().phase, Phase::Succeeded);
}

#[test]
fn missing_branch_blocks() {
    let mut bench = Bench::new();
    bench.head = Head::Missing;
    let decision = bench.look();
    assert_eq!((decision.phase, decision.action), (Phase::Blocked, None));
    bench.head = Head::Found(commit('a'));
    assert_eq!(bench.look().phase, Phase::Triggering);
}

#[test]
fn refused_object_blocks_and_is_submitted_again_after_a_wait() {
    let mut bench = Bench::new();
    let image = bench.look().action.unwrap().object;
    bench.objects.remove(&image);
    bench.refused.push(image.clone());
    let decision = bench.look();
    assert_eq!((decision.phase, decision.action), (Phase::Blocked, None));
    assert!(decision.reasons[0].contains("forbidden"), "{:?}", decision.reasons);
    bench.refused.clear();
    bench.wait(10);
    assert_eq!(bench.look().phase, Phase::Blocked);
    bench.wait(30);
    let action = bench.look().action.unwrap();
    assert_eq!((action.object, action.attempt), (image, 1));
}

#[test]
fn nothing_is_submitted_unless_its_absence_was_read() {
    let mut bench = Bench::new();
    let image = bench.reference("image");
    bench.unreadable.push(image);
    let decision = bench.look();
    assert_eq!((decision.phase, decision.action), (Phase::PendingTrigger, None));
    assert!(decision.reasons[0].contains("connection refused"), "{:?}", decision.reasons);
    bench.unreadable.clear();
    assert_eq!(bench.look().phase, Phase::Triggering);
}

#[test]
fn unreadable_branch_triggers_nothing_new_and_closes_out_what_runs() {
    let unknown = Head::Unknown { why: "connection refused".to_owned() };
    let mut bench = Bench::new();
    bench.head = unknown.clone();
    let decision = bench.look();
    assert_eq!((decision.phase, decision.action), (Phase::Observed, None));
    bench.head = Head::Found(commit('a'));
    bench.ask(Request::DryRun);
    bench.head = unknown.clone();
    let decision = bench.look();
    assert_eq!((decision.phase, decision.action), (Phase::PendingTrigger, None));
    bench.head = Head::Found(commit('a'));
    bench.look();
    bench.object("image")["status"] = job("Complete");
    bench.look();
    bench.object("pipeline")["status"] = pipeline("True");
    *bench.object("ready") = ready(&commit('a'));
    bench.head = unknown;
    assert_eq!(bench.look().phase, Phase::Succeeded);
    assert_eq!(bench.look().phase, Phase::Observed);
}

/// Each phase with a situation that causes it, and a change after which the follower moves on.
#[test]
fn each_phase_is_reached_and_has_a_way_out() {
    type Change = fn(&mut Bench);
    let find = |prepare: Change, phase: Phase, change: Change| {
        let mut bench = Bench::new();
        prepare(&mut bench);
        let decision = bench.look();
        assert_eq!(decision.phase, phase, "{:?}", decision.reasons);
        assert!(!decision.reasons.is_empty());
        change(&mut bench);
        let next = bench.look().phase;
        assert_ne!(next, phase);
        phase
    };
    let newer: Change = |bench| bench.head = Head::Found(commit('b'));
    let nothing: Change = |_| {};
    let reached = [
        find(|bench| bench.head = Head::Unknown { why: String::new() }, Phase::Observed, newer),
        find(
            |bench| {
                bench.deliver();
            },
            Phase::Noop,
            newer,
        ),
        find(
            |bench| {
                bench.look();
                bench.object("image")["status"] = job("Failed");
                bench.look();
                bench.wait(60);
            },
            Phase::PendingTrigger,
            nothing,
        ),
        find(nothing, Phase::Triggering, nothing),
        find(
            |bench| {
                bench.look();
            },
            Phase::ClosingOut,
            newer,
        ),
        find(
            |bench| {
                bench.deliver();
                bench.record.is_closed_out = false;
            },
            Phase::Succeeded,
            nothing,
        ),
        find(
            |bench| {
                bench.look();
                bench.object("image")["status"] = job("Failed");
            },
            Phase::Failed,
            |bench| bench.wait(60),
        ),
        find(
            |bench| {
                bench.look();
                bench.head = Head::Found(commit('b'));
            },
            Phase::Superseded,
            nothing,
        ),
        find(|bench| bench.head = Head::Missing, Phase::Blocked, newer),
        find(
            |bench| bench.registry.followers[0].is_paused = true,
            Phase::Skipped,
            |bench| bench.registry.followers[0].is_paused = false,
        ),
    ];
    assert_eq!(reached, Phase::ALL);
}
