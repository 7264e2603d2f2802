//! The budget, the stored state, and the status.

use butler_follower::Phase;
use butler_follower::status::{FollowerStatus, status_table};
use serde_json::json;

use crate::support::{Bench, CHAIN, job};

#[test]
fn budget_is_120_seconds_and_stops_nothing() {
    let mut bench = Bench::new();
    assert_eq!(bench.follower().budget.limit.as_secs(), 120);
    bench.look();
    bench.wait(500);
    assert_eq!(bench.look().phase, Phase::ClosingOut);
    let status = FollowerStatus::new(bench.follower(), Some(&bench.record), bench.now);
    assert_eq!(status.timings.is_over_budget, Some(true));
    assert!(status_table(&[status]).contains("500.0s of 120.0s, over budget"));
    bench.object("image")["status"] = job("Complete");
    assert_eq!(bench.look().phase, Phase::Triggering);
}

#[test]
fn status_needs_only_the_stored_record() {
    let mut bench = Bench::new();
    bench.look();
    bench.objects.clear();
    let stored = serde_json::to_string(&bench.record).unwrap();
    let stored = serde_json::from_str(&stored).unwrap();
    let status = FollowerStatus::new(bench.follower(), Some(&stored), bench.now);
    assert_eq!(status.phase, Phase::Triggering);
    assert!(status.in_flight.is_some());
}

#[test]
fn status_shows_references_to_the_owning_configurations() {
    let text =
        CHAIN.replacen("    adapter:", "    config-refs: [deploy/web.yaml]\n    adapter:", 1);
    let bench = Bench::with(&text);
    let status = FollowerStatus::new(bench.follower(), None, bench.now);
    assert_eq!(status.config_refs, ["deploy/web.yaml"]);
}

#[test]
fn reuse_evidence_is_stored_compactly() {
    let mut bench = Bench::new();
    bench.look();
    bench.object("image")["status"] = job("Complete");
    bench.object("image")["status"]["reusedImage"] = json!({"name": "x".repeat(10_000)});
    bench.look();
    let evidence = &bench.record.stages[0].evidence["$.status.reusedImage"];
    assert!(evidence.starts_with(r#"{"name":"xxx"#) && evidence.len() < 300, "{evidence}");
}

#[test]
fn record_has_no_payloads() {
    let mut bench = Bench::new();
    bench.look();
    bench.object("image")["log"] = json!("secret log ".repeat(1000));
    bench.object("image")["status"] = job("Failed");
    bench.look();
    let text = serde_json::to_string(&bench.record).unwrap();
    assert!(!text.contains("secret log") && text.len() < 4096, "{text}");
}
