//! Triggers, the order of stages, reuse, and closeout.

use butler_follower::object::{COMMIT_ANNOTATION, Purpose};
use butler_follower::state::Record;
use butler_follower::{Head, Phase, Request, Submission};
use serde_json::json;

use crate::support::{Bench, CHAIN, commit, job, pipeline, ready};

#[test]
fn confirmed_run_triggers_and_closes_out() {
    let mut bench = Bench::new();
    let first = bench.ask(Request::Confirmed);
    assert_eq!(first.phase, Phase::Triggering);
    assert_eq!(first.action.unwrap().stage, "image");
    bench.object("image")["status"] = job("Complete");
    assert_eq!(bench.look().action.unwrap().stage, "pipeline");
    bench.object("pipeline")["status"] = pipeline("True");
    *bench.object("ready") = ready(&commit('a'));
    assert_eq!(bench.look().phase, Phase::Succeeded);
    assert_eq!(bench.look().phase, Phase::Noop);
    assert_eq!(bench.record.succeeded, Some(commit('a')));
}

#[test]
fn unconfirmed_run_triggers_nothing() {
    let mut bench = Bench::new();
    let decision = bench.ask(Request::Unconfirmed);
    assert_eq!(decision.phase, Phase::PendingTrigger);
    assert_eq!(decision.action, None);
    assert_eq!(bench.record.triggered, None);
    assert!(decision.reasons[0].contains("`--confirm`"), "{:?}", decision.reasons);
}

#[test]
fn dry_run_refreshes_the_record_and_triggers_nothing() {
    let mut bench = Bench::new();
    let decision = bench.ask(Request::DryRun);
    assert_eq!((decision.phase, decision.action), (Phase::PendingTrigger, None));
    assert_eq!(bench.record.observed, Some(commit('a')));
    assert_eq!((&bench.record.triggered, bench.record.timings.started_at), (&None, None));
    // The loop is free to trigger later.
    assert_eq!(bench.look().phase, Phase::Triggering);
    bench.object("image")["status"] = job("Failed");
    bench.wait(5);
    bench.look();
    bench.wait(60);
    let decision = bench.ask(Request::DryRun);
    assert_eq!((decision.phase, decision.action), (Phase::PendingTrigger, None));
    assert_eq!(bench.record.attempts(), 1);
}

#[test]
fn decision_depends_only_on_its_input() {
    let [mut first, mut second] = [Bench::new(), Bench::new()];
    for _ in 0..3 {
        assert_eq!(first.look(), second.look());
    }
}

#[test]
fn submission_is_an_object_or_a_run_and_never_a_command() {
    let mut bench = Bench::new();
    let action = bench.look().action.unwrap();
    let Submission::Object(object) = action.submission else { panic!("not an object") };
    assert_eq!(object["kind"], "Job");
    assert_eq!(object["spec"]["args"][0], commit('a').as_str());
    assert_eq!(object["metadata"]["annotations"][COMMIT_ANNOTATION], commit('a').as_str());
    let purpose = Purpose { follower: "web", stage: "image", commit: &commit('a'), attempt: 1 };
    assert_eq!(action.object.name, purpose.object_name());
}

#[test]
fn runs_of_layers_and_ci_systems_follow_the_same_rules() {
    for adapter in [
        "{terraform: {layer: network}}",
        "{github-actions: {repository: shop/web, workflow: deploy.yml, token-env: TOKEN}}",
        "{gitlab-ci: {project: shop/web, token-file: /run/secrets/token, api-token-env: TOKEN}}",
        "{jenkins: {job: shop/web, url: 'https://jenkins.example.com', token-env: TOKEN}}",
    ] {
        let text = format!(
            "followers: [{{id: web, source: {{repository: shop, branch: main}}, adapter: {adapter}}}]"
        );
        let mut bench = Bench::with(&text);
        let Some(action) = bench.look().action else { panic!("{adapter}") };
        let Submission::Run(run) = action.submission else { panic!("{adapter}") };
        assert_eq!(run["spec"]["commit"], commit('a').as_str());
        assert_eq!(run["metadata"]["name"], action.object.name.as_str());
        bench.object("run")["status"] = json!({"phase": "running"});
        assert_eq!(bench.look().phase, Phase::ClosingOut);
        bench.object("run")["status"] = json!({"phase": "succeeded"});
        assert_eq!(bench.look().phase, Phase::Succeeded);
        assert_eq!(bench.look().phase, Phase::Noop);
    }
}

#[test]
fn stages_run_in_the_order_of_the_chain() {
    let mut bench = Bench::new();
    assert_eq!(bench.deliver().phase, Phase::Succeeded);
    let stages: Vec<_> = bench.submitted.iter().map(|action| action.stage.as_str()).collect();
    assert_eq!(stages, ["image", "pipeline"]);
}

#[test]
fn submission_does_not_wait() {
    let mut bench = Bench::new();
    let decision = bench.look();
    assert!(decision.action.is_some());
    assert_eq!(decision.next_look, bench.now + bench.registry.controller.watch);
    let decision = bench.look();
    assert_eq!((decision.phase, decision.action), (Phase::ClosingOut, None));
}

#[test]
fn later_loop_reuses_completed_stages_after_the_record_is_lost() {
    let mut bench = Bench::new();
    bench.look();
    bench.object("image")["status"] = job("Complete");
    bench.look();
    bench.record = Record::new("web");
    let decision = bench.look();
    assert_eq!((decision.phase, decision.action), (Phase::ClosingOut, None));
    assert!(bench.record.stages[0].is_reused && bench.record.stages[1].is_reused);
    bench.object("pipeline")["status"] = pipeline("True");
    *bench.object("ready") = ready(&commit('a'));
    assert_eq!(bench.look().phase, Phase::Succeeded);
    assert_eq!(bench.submitted.len(), 2);
}

#[test]
fn stale_record_converges_without_a_cleanup() {
    let mut bench = Bench::new();
    bench.look();
    let old = bench.record.clone();
    bench.object("image")["status"] = job("Complete");
    bench.deliver_rest();
    bench.record = old;
    assert_eq!(bench.look().phase, Phase::Succeeded);
    assert_eq!(bench.look().phase, Phase::Noop);
    assert_eq!(bench.submitted.len(), 2);
}

impl Bench {
    /// Delivers the stages after the image.
    fn deliver_rest(&mut self) {
        self.look();
        self.object("pipeline")["status"] = pipeline("True");
        *self.object("ready") = ready(&commit('a'));
        self.look();
    }
}

#[test]
fn completed_stage_stays_complete_after_its_object_is_removed() {
    let mut bench = Bench::new();
    bench.deliver();
    let [image, pipeline] = ["image", "pipeline"].map(|stage| bench.reference(stage));
    bench.objects.remove(&image);
    bench.objects.remove(&pipeline);
    let decision = bench.look();
    assert_eq!((decision.phase, decision.action), (Phase::Noop, None));
    bench.unreadable.push(image);
    let decision = bench.look();
    assert_eq!((decision.phase, decision.action), (Phase::Noop, None));
}

#[test]
fn observed_object_must_show_the_source_commit() {
    let mut bench = Bench::new();
    bench.deliver();
    *bench.object("ready") = ready(&commit('b'));
    let decision = bench.look();
    assert_eq!(decision.phase, Phase::ClosingOut);
    assert!(decision.reasons[0].contains("does not show commit aaaaaaaaaaaa"));
    assert_eq!(decision.action, None);
}

#[test]
fn object_of_an_earlier_commit_changes_nothing() {
    let mut bench = Bench::new();
    bench.look();
    bench.object("image")["status"] = job("Failed");
    bench.head = Head::Found(commit('b'));
    assert_eq!(bench.look().phase, Phase::Superseded);
    let action = bench.look().action.unwrap();
    assert_eq!(action.commit, commit('b'));
    assert_eq!(bench.look().phase, Phase::ClosingOut);
}

#[test]
fn newer_commit_supersedes_an_undelivered_one() {
    let mut bench = Bench::new();
    bench.look();
    bench.head = Head::Found(commit('b'));
    let decision = bench.look();
    assert_eq!((decision.phase, decision.action), (Phase::Superseded, None));
    assert_eq!(decision.next_look, bench.now);
    assert_eq!(bench.record.target, Some(commit('b')));
    assert_eq!(bench.deliver().phase, Phase::Succeeded);
    // A delivered commit is followed by the next one, and not superseded.
    bench.head = Head::Found(commit('c'));
    assert_eq!(bench.look().phase, Phase::Triggering);
}

#[test]
fn return_to_an_earlier_commit_delivers_it_again() {
    let mut bench = Bench::new();
    bench.deliver();
    bench.head = Head::Found(commit('b'));
    assert_eq!(bench.deliver().phase, Phase::Succeeded);
    bench.head = Head::Found(commit('a'));
    // The objects of the first delivery are complete, but the Deployment shows the other commit.
    assert_eq!(bench.look().phase, Phase::ClosingOut);
    bench.wait(700);
    assert_eq!(bench.look().phase, Phase::Failed);
    bench.wait(60);
    assert_eq!(bench.look().phase, Phase::PendingTrigger);
    let action = bench.look().action.unwrap();
    assert_eq!((action.stage.as_str(), action.attempt), ("pipeline", 2));
    bench.object("pipeline")["status"] = pipeline("True");
    *bench.object("ready") = ready(&commit('a'));
    assert_eq!(bench.look().phase, Phase::Succeeded);
}

#[test]
fn follower_closes_out_while_gates_are_open() {
    let mut bench = Bench::new();
    bench.look();
    bench.object("image")["status"] = job("Complete");
    bench.look();
    bench.object("pipeline")["status"] = pipeline("True");
    *bench.object("ready") = ready(&commit('a'));
    bench.object("sync")["status"]["sync"]["status"] = json!("OutOfSync");
    let decision = bench.look();
    assert_eq!((decision.phase, decision.action), (Phase::ClosingOut, None));
    bench.object("sync")["status"]["sync"]["status"] = json!("Synced");
    assert_eq!(bench.look().phase, Phase::Succeeded);
}

#[test]
fn flush_of_the_mirror_holds_the_delivery() {
    let mut bench = Bench::new();
    bench.object("flush")["status"]["pendingFlush"] = json!(true);
    let decision = bench.deliver();
    assert_eq!(decision.phase, Phase::ClosingOut);
    assert!(decision.reasons[0].contains("`flush`"), "{:?}", decision.reasons);
}

#[test]
fn chain_without_a_flush_is_delivered_in_the_same_way() {
    let start = CHAIN.find("          - name: flush").unwrap();
    let end = CHAIN.find("          - name: sync").unwrap();
    let mut bench = Bench::with(&format!("{}{}", &CHAIN[..start], &CHAIN[end..]));
    assert_eq!(bench.deliver().phase, Phase::Succeeded);
}

#[test]
fn noop_needs_each_required_gate_also_if_the_commit_matches() {
    let mut bench = Bench::new();
    bench.deliver();
    assert_eq!(bench.look().phase, Phase::Noop);
    bench.object("flush")["status"]["pendingFlush"] = json!(true);
    assert_eq!(bench.look().phase, Phase::ClosingOut);
    bench.object("flush")["status"]["pendingFlush"] = json!(false);
    assert_eq!(bench.look().phase, Phase::Noop);
    let gate = bench.reference("ready");
    bench.unreadable.push(gate.clone());
    assert_eq!(bench.look().phase, Phase::Observed);
    bench.unreadable.clear();
    bench.objects.remove(&gate);
    assert_eq!(bench.look().phase, Phase::Blocked);
}

#[test]
fn optional_stage_is_started_and_never_waited_for() {
    let text = CHAIN.replacen("preset: job", "preset: job\n            required: false", 1);
    let mut bench = Bench::with(&text);
    assert_eq!(bench.look().action.unwrap().stage, "image");
    assert_eq!(bench.look().action.unwrap().stage, "pipeline");
    bench.object("pipeline")["status"] = pipeline("True");
    bench.object("image")["status"] = job("Failed");
    *bench.object("ready") = ready(&commit('a'));
    let decision = bench.look();
    assert_eq!(decision.phase, Phase::Succeeded);
    assert!(decision.reasons[1].contains("optional stage `image`"), "{:?}", decision.reasons);
    assert_eq!(bench.look().phase, Phase::Noop);
}

#[test]
fn optional_stage_whose_submission_was_lost_is_submitted_again_under_its_name() {
    let text = CHAIN.replacen("preset: job", "preset: job\n            required: false", 1);
    let mut bench = Bench::with(&text);
    let image = bench.look().action.unwrap();
    // The server ended before it sent the request.
    bench.objects.remove(&image.object);
    assert_eq!(bench.look().action.unwrap().stage, "pipeline");
    bench.object("pipeline")["status"] = pipeline("True");
    *bench.object("ready") = ready(&commit('a'));
    assert_eq!(bench.look().phase, Phase::Succeeded);
    bench.wait(60);
    assert_eq!(bench.look().action.unwrap().object, image.object);
    assert_eq!(bench.look().phase, Phase::Noop);
    // It is not started again after it was seen.
    bench.objects.remove(&image.object);
    bench.wait(60);
    assert_eq!(bench.look().phase, Phase::Noop);
}

#[test]
fn paused_follower_is_skipped() {
    let mut bench = Bench::new();
    bench.registry.followers[0].is_paused = true;
    for request in [Request::None, Request::Confirmed] {
        let decision = bench.ask(request);
        assert_eq!((decision.phase, decision.action), (Phase::Skipped, None));
    }
    bench.registry.followers[0].is_paused = false;
    assert_eq!(bench.look().phase, Phase::Triggering);
}

#[test]
fn text_that_a_command_printed_decides_nothing() {
    let mut bench = Bench::new();
    bench.look();
    for text in ["Succeeded", "error: exit status 1", "condition met: Complete=True"] {
        bench.object("image")["status"] = json!({"log": text, "message": text});
        assert_eq!(bench.look().phase, Phase::ClosingOut);
    }
}
