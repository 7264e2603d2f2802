//! Objects that are missing, refused or not readable, and the way out of each phase.

use butler_follower::state::StageProgress;
use butler_follower::{Head, Phase, Request};
use serde_json::json;

use crate::support::{Bench, commit, job, pipeline, ready};

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
        decision.reasons[0].contains("Application ci/web does not exist"),
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

/// Another server can have submitted it, or this one has started again.
#[test]
fn reason_of_a_refusal_is_in_the_record() {
    let mut bench = Bench::new();
    let image = bench.look().action.unwrap().object;
    bench.objects.remove(&image);
    bench.refused.push(image.clone());
    bench.look();
    bench.refused.clear();
    for is_unreadable in [false, true, false] {
        bench.unreadable = if is_unreadable { vec![image.clone()] } else { Vec::new() };
        let decision = bench.look();
        assert_eq!(decision.phase, Phase::Blocked);
        let said = &bench.record.stages[0].message;
        assert!(said.contains("was refused: forbidden"), "{said}");
    }
    assert!(bench.record.message.contains("was refused: forbidden"), "{}", bench.record.message);
}

/// The cluster refuses it, or does not have the kind.
#[test]
fn object_that_may_not_be_read_blocks_with_its_reason() {
    for stage in ["image", "sync"] {
        let mut bench = Bench::new();
        bench.denied.push(bench.reference(stage));
        if stage == "sync" {
            bench.deliver();
        }
        let decision = bench.look();
        assert_eq!((decision.phase, decision.action), (Phase::Blocked, None), "{stage}");
        let reason = &decision.reasons[0];
        assert!(reason.contains("no permission") && reason.contains(stage), "{reason}");
        assert!(bench.record.stage(stage).unwrap().message.contains("no permission"));
        bench.denied.clear();
        assert_ne!(bench.look().phase, Phase::Blocked);
    }
}

#[test]
fn task_runs_of_a_pipeline_run_are_summarised_and_decide_nothing() {
    let mut bench = Bench::new();
    bench.look();
    bench.object("image")["status"] = job("Complete");
    bench.look();
    let failed = json!({
        "metadata": {"name": "web-1-build", "labels": {"tekton.dev/pipelineTask": "build"}},
        "status": {
            "startTime": "1970-01-01T00:16:50Z",
            "conditions": [{"type": "Succeeded", "status": "False", "message": "exit code 1"}],
            "results": [{"name": "reused", "value": "api"}],
        },
    });
    let pipeline_run = bench.reference("pipeline");
    bench.task_runs.insert(pipeline_run.clone(), Ok(vec![failed]));
    assert_eq!(bench.look().phase, Phase::ClosingOut);
    let [build] = &bench.record.stage("pipeline").unwrap().tasks[..] else { panic!() };
    assert_eq!((&*build.name, &*build.object), ("build", "web-1-build"));
    assert_eq!((build.progress, &*build.message), (StageProgress::Failed, "exit code 1"));
    assert_eq!(build.started_at.unwrap().as_millis(), 1_010_000);
    // What could not be read again stays known, and the reason is told.
    bench.task_runs.insert(pipeline_run, Err("no permission to list".to_owned()));
    bench.object("pipeline")["status"] = pipeline("True");
    bench.look();
    let stage = bench.record.stage("pipeline").unwrap();
    assert_eq!((stage.progress, stage.tasks.len()), (StageProgress::Complete, 1));
    let said = "the TaskRuns of PipelineRun ci/web-pipeline-";
    assert!(bench.record.message.contains(said), "{}", bench.record.message);
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
