//! The total, the closeout, and what stays unknown.

use butler_follower::state::{Record, RunTimings};
use butler_follower::status::Timings;

use crate::support::{Bench, CHAIN, commit, job, pipeline, ready};

fn timings(bench: &Bench) -> Timings {
    Timings::new(Some(&bench.record), bench.follower().budget, bench.now)
}

fn row(bench: &Bench, name: &str) -> Option<f64> {
    timings(bench).rows.into_iter().find(|row| row.row == name).expect("the row exists").seconds
}

#[test]
fn total_runs_from_the_first_submission_to_the_closeout() {
    let mut bench = Bench::new();
    assert_eq!(timings(&bench).total_seconds, None);
    bench.look();
    bench.wait(7);
    assert_eq!(timings(&bench).total_seconds, Some(7.0));
    bench.object("image")["status"] = job("Complete");
    bench.look();
    bench.wait(20);
    bench.object("pipeline")["status"] = pipeline("True");
    bench.look();
    bench.wait(40);
    *bench.object("ready") = ready(&commit('a'));
    bench.look();
    bench.wait(1000);
    bench.look();
    assert_eq!(timings(&bench).total_seconds, Some(67.0));
    assert_eq!(row(&bench, "job"), Some(7.0));
    assert_eq!(row(&bench, "pipeline-run"), Some(20.0));
    assert_eq!(row(&bench, "runtime"), Some(40.0));
    assert_eq!(row(&bench, "closeout"), Some(40.0));
    assert_eq!(row(&bench, "status-read"), Some(0.02));
}

#[test]
fn reused_object_is_a_stage_observation_and_not_the_total() {
    let mut bench = Bench::new();
    bench.look();
    bench.wait(300);
    bench.record = Record::new("web");
    bench.look();
    bench.wait(8);
    assert_eq!(timings(&bench).total_seconds, None);
    assert_eq!(row(&bench, "job"), Some(8.0));
    // A later submission of the same run is not its start.
    bench.object("image")["status"] = job("Complete");
    assert!(bench.look().action.is_some());
    bench.wait(10);
    assert_eq!(timings(&bench).total_seconds, None);
    bench.object("pipeline")["status"] = pipeline("True");
    *bench.object("ready") = ready(&commit('a'));
    bench.look();
    assert_eq!(timings(&bench).total_seconds, None);
    assert!(timings(&bench).table().contains("job           image     8.0s   complete, reused"));
}

/// A Job that runs, or a gate of another kind, is not part of the closeout.
#[test]
fn closeout_is_the_wait_for_argo_and_the_runtime_only() {
    let smoke =
        "          - {name: smoke, preset: job, create: {apiVersion: batch/v1, kind: Job}}\n";
    let flush = CHAIN.find("          - name: flush").unwrap();
    let sync = CHAIN.find("          - name: sync").unwrap();
    let after = format!("{CHAIN}{smoke}");
    let between = format!("{}{smoke}{}", &CHAIN[..sync], &CHAIN[sync..]);
    let none = CHAIN[..flush].to_owned();
    for (chain, expected) in [(after, Some(40.0)), (between, Some(40.0)), (none, None)] {
        let mut bench = Bench::with(&chain);
        let has_gates = expected.is_some();
        let mut is_waiting = 0;
        for _ in 0..100 {
            let decision = bench.look();
            if decision.phase == butler_follower::Phase::Succeeded {
                break;
            }
            if let Some(action) = decision.action {
                bench.wait(20);
                let status =
                    if action.stage == "pipeline" { pipeline("True") } else { job("Complete") };
                bench.object(&action.stage)["status"] = status;
            } else if has_gates {
                bench.wait(10);
                is_waiting += 1;
                if is_waiting == 4 {
                    *bench.object("ready") = ready(&commit('a'));
                }
            }
        }
        bench.wait(1000);
        bench.look();
        assert_eq!(row(&bench, "closeout"), expected, "{chain}");
    }
}

#[test]
fn failed_pipeline_has_no_closeout_and_a_retry_begins_it_anew() {
    let mut bench = Bench::new();
    bench.look();
    bench.object("image")["status"] = job("Complete");
    bench.look();
    bench.wait(30);
    bench.object("pipeline")["status"] = pipeline("False");
    bench.look();
    assert_eq!(row(&bench, "closeout"), None);
    bench.wait(60);
    bench.look();
    bench.look();
    bench.wait(30);
    bench.object("pipeline")["status"] = pipeline("True");
    bench.look();
    bench.wait(15);
    *bench.object("ready") = ready(&commit('a'));
    bench.look();
    assert_eq!(row(&bench, "closeout"), Some(15.0));
}

#[test]
fn resumed_closeout_has_a_closeout_time_only() {
    let mut bench = Bench::new();
    bench.deliver();
    *bench.object("ready") = ready(&commit('0'));
    bench.record = Record::new("web");
    bench.look();
    bench.wait(25);
    *bench.object("ready") = ready(&commit('a'));
    bench.look();
    assert_eq!(timings(&bench).total_seconds, None);
    assert_eq!(row(&bench, "closeout"), Some(25.0));
}

#[test]
fn resumed_closeout_keeps_a_stored_start() {
    let mut bench = Bench::new();
    bench.look();
    let stored = bench.record.clone();
    bench.wait(100);
    bench.object("image")["status"] = job("Complete");
    bench.look();
    bench.object("pipeline")["status"] = pipeline("True");
    *bench.object("ready") = ready(&commit('a'));
    bench.record = stored;
    bench.wait(20);
    bench.look();
    assert_eq!(timings(&bench).total_seconds, Some(120.0));
}

#[test]
fn record_without_a_start_gets_none_later() {
    let mut bench = Bench::new();
    bench.look();
    bench.look();
    bench.record.timings = RunTimings::default();
    bench.object("image")["status"] = job("Complete");
    assert!(bench.look().action.is_some());
    bench.wait(10);
    assert_eq!(timings(&bench).total_seconds, None);
}

#[test]
fn retries_belong_to_the_same_source_change() {
    let mut bench = Bench::new();
    bench.look();
    bench.wait(10);
    bench.object("image")["status"] = job("Failed");
    bench.look();
    assert_eq!(timings(&bench).total_seconds, Some(10.0));
    bench.wait(50);
    assert_eq!(timings(&bench).total_seconds, Some(10.0));
    bench.look();
    bench.look();
    bench.wait(5);
    assert_eq!(timings(&bench).total_seconds, Some(65.0));
}

#[test]
fn next_commit_has_timings_of_its_own() {
    let mut bench = Bench::new();
    bench.deliver();
    bench.wait(1000);
    bench.head = butler_follower::Head::Found(commit('b'));
    bench.look();
    bench.wait(3);
    assert_eq!(timings(&bench).total_seconds, Some(3.0));
}
