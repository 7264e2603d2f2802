use super::*;
use crate::commit::Commit;
use crate::config::{Registry, StageKind};
use crate::object::ObjectReference;
use crate::phase::Phase;
use crate::state::{InFlight, Record, StageProgress, StageRecord, TaskRecord};
use butler_base::moment::Moment;

fn at(second: u64) -> Moment {
    Moment::from_millis(second * 1000)
}

fn registry() -> Registry {
    let text = "followers:\n- {id: web, source: {repository: shop, branch: main}, config-refs: [a.yaml], adapter: {jenkins: {job: web, url: 'https://jenkins.example.com', token-env: TOKEN}}}";
    Registry::parse(text).unwrap()
}

fn stage(name: &str, kind: StageKind, from: Option<u64>, until: Option<u64>) -> StageRecord {
    StageRecord {
        progress: StageProgress::Complete,
        started_at: from.map(at),
        finished_at: until.map(at),
        ..StageRecord::new(name, kind, 1)
    }
}

/// A run from second 100 whose two Jobs overlap, and after which 40 seconds pass.
fn record() -> Record {
    let mut record = Record::new("web");
    record.timings.started_at = Some(at(100));
    record.timings.closeout_started_at = Some(at(150));
    record.timings.status_read_millis = Some(250);
    record.stages = vec![
        stage("build", StageKind::Job, Some(100), Some(160)),
        stage("test", StageKind::Job, Some(110), Some(160)),
    ];
    record
}

fn timings(record: &Record, now: u64) -> Timings {
    Timings::new(Some(record), registry().followers[0].budget, at(now))
}

#[test]
fn total_is_end_minus_start_and_never_a_sum_of_stages() {
    let mut record = record();
    assert_eq!(timings(&record, 200).total_seconds, Some(100.0));
    assert_eq!(timings(&record, 230).total_seconds, Some(130.0));
    assert_eq!(timings(&record, 230).is_over_budget, Some(true));
    record.timings.finished_at = Some(at(200));
    assert_eq!(timings(&record, 9000).total_seconds, Some(100.0));
    assert_eq!(timings(&record, 9000).is_over_budget, Some(false));
}

#[test]
fn missing_history_is_a_dash_and_stays_missing() {
    let mut record = record();
    record.timings = crate::state::RunTimings::default();
    record.stages[0].started_at = None;
    let timings = timings(&record, 500);
    assert_eq!(timings.total_seconds, None);
    assert_eq!(timings.started_at, None);
    let table = timings.table();
    let row = |name: &str| {
        let line = table.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row("total"), ["total", "-", "-", "-"]);
    assert_eq!(row("status-read"), ["status-read", "-", "-", "-"]);
    assert_eq!(row("job"), ["job", "build", "-", "complete"]);
    assert_eq!(row("closeout"), ["closeout", "-", "-", "-"]);
    assert!(timings.summary().starts_with("- of 120.0s"));
}

#[test]
fn stage_timings_have_a_row_for_each_kind() {
    let table = timings(&record(), 200).table();
    assert!(table.starts_with("STAGE TIMINGS\nROW"), "{table}");
    let names: Vec<_> = table.lines().skip(2).map(|line| line.split(' ').next().unwrap()).collect();
    let expected = [
        "total",
        "status-read",
        "git-mirror",
        "job",
        "job",
        "pipeline-run",
        "task-run",
        "argo",
        "runtime",
        "closeout",
    ];
    assert_eq!(names, expected);
}

fn task(name: &str, from: Option<u64>, until: Option<u64>, progress: StageProgress) -> TaskRecord {
    TaskRecord {
        name: name.to_owned(),
        object: format!("web-1-{name}"),
        progress,
        started_at: from.map(at),
        finished_at: until.map(at),
        message: String::new(),
    }
}

#[test]
fn task_runs_of_a_pipeline_run_have_rows_with_their_own_times() {
    let mut record = record();
    let mut pipeline = stage("deploy", StageKind::PipelineRun, Some(160), None);
    pipeline.tasks = vec![
        task("clone", Some(162), Some(165), StageProgress::Complete),
        task("test", Some(165), None, StageProgress::Running),
        task("push", None, None, StageProgress::Waiting),
    ];
    record.stages.push(pipeline);
    let timings = timings(&record, 200);
    let tasks = timings.rows.iter().filter(|row| row.row == "task-run");
    let tasks: Vec<_> = tasks.map(|row| (row.stage.as_deref().unwrap(), row.seconds)).collect();
    let expected =
        [("deploy/clone", Some(3.0)), ("deploy/test", Some(35.0)), ("deploy/push", None)];
    assert_eq!(tasks, expected);
    assert!(timings.table().contains("task-run      deploy/clone  3.0s    complete"));
    let status = FollowerStatus::new(&registry().followers[0], Some(&record), at(200));
    let json = serde_json::to_value(&status).unwrap();
    assert_eq!(json["stages"][2]["tasks"][0]["object"], "web-1-clone");
    assert_eq!(json["stages"][2]["tasks"][1]["startedAt"], "1970-01-01T00:02:45Z");
}

#[test]
fn text_of_the_status_shows_evidence_of_reuse() {
    let mut record = record();
    let status =
        |record: &Record| FollowerStatus::new(&registry().followers[0], Some(record), at(200));
    assert_eq!(evidence_table(&status(&record)), None);
    let reused = "$.status.results[?(@.name=='reusedServices')].value";
    let values = [(reused.to_owned(), "[\"api\",\"web\"]".to_owned())];
    record.stages[1].evidence = values.into();
    let table = evidence_table(&status(&record)).unwrap();
    assert!(table.starts_with("REUSE\nSTAGE  EVIDENCE"), "{table}");
    let row = table.lines().nth(2).unwrap();
    let cells: Vec<_> = row.split("  ").map(str::trim).filter(|it| !it.is_empty()).collect();
    assert_eq!(cells, ["test", reused, "[\"api\",\"web\"]"]);
}

#[test]
fn table_of_timings_is_bounded() {
    let mut record = record();
    record.stages = vec![stage(&"x".repeat(9000), StageKind::Argo, None, None); 5000];
    let mut long = stage("deploy", StageKind::PipelineRun, None, None);
    long.tasks = vec![task(&"y".repeat(900), None, None, StageProgress::Waiting); 500];
    record.stages.push(long);
    assert!(timings(&record, 0).table().len() < 32 * 1024);
}

#[test]
fn json_has_the_same_timings() {
    let json = serde_json::to_value(timings(&record(), 200)).unwrap();
    assert_eq!(json["totalSeconds"], 100.0);
    assert_eq!(json["startedAt"], "1970-01-01T00:01:40Z");
    assert_eq!(json["finishedAt"], serde_json::Value::Null);
    assert_eq!(json["rows"][3]["row"], "job");
    assert_eq!(json["rows"][3]["stage"], "build");
    assert_eq!(json["rows"][3]["seconds"], 60.0);
    assert_eq!(json["rows"][5]["seconds"], serde_json::Value::Null);
}

#[test]
fn status_shows_each_commit_the_object_in_flight_and_the_next_commands() {
    let registry = registry();
    let commits = ["a", "b", "c", "d"].map(|digit| Commit::parse(&digit.repeat(40)).unwrap());
    let mut record = record();
    let [observed, target, triggered, succeeded] = commits.map(Some);
    record = Record { observed, target, triggered, succeeded, phase: Phase::Failed, ..record };
    let object = ObjectReference {
        api_version: "batch/v1".to_owned(),
        kind: "Job".to_owned(),
        namespace: Some("ci".to_owned()),
        name: "web-build-1".to_owned(),
    };
    record.in_flight = Some(InFlight { stage: "build".to_owned(), object, since: at(100) });
    let status = FollowerStatus::new(&registry.followers[0], Some(&record), at(200));
    let table = status_table(std::slice::from_ref(&status));
    for text in [
        "web",
        "Failed",
        "jenkins",
        "main",
        "aaaaaaaaaaaa",
        "bbbbbbbbbbbb",
        "cccccccccccc",
        "dddddddddddd",
        "Job ci/web-build-1",
        "default",
        "100.0s of 120.0s",
        "butler-runner follower logs --follower web",
        "butler-runner follower run-once --follower web --confirm --wait",
    ] {
        assert!(table.contains(text), "{text}: {table}");
    }
    let json = serde_json::to_value(&status).unwrap();
    assert_eq!(json["phase"], "Failed");
    assert_eq!(json["observed"], "a".repeat(40));
    assert_eq!(json["inFlight"]["object"]["name"], "web-build-1");
    assert_eq!(json["budgetSource"], "default");
    assert_eq!(json["configRefs"][0], "a.yaml");
}

#[test]
fn status_before_the_first_decision_is_unknown() {
    let status = FollowerStatus::new(&registry().followers[0], None, at(0));
    assert_eq!(status.phase, Phase::Observed);
    let table = status_table(&[status]);
    let row: Vec<_> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row[..5], ["web", "Observed", "jenkins", "main", "-"]);
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    let mut registry = registry();
    registry.followers[0].source.branch = "a\u{1b}[2J\nb".to_owned();
    let status = FollowerStatus::new(&registry.followers[0], None, at(0));
    assert!(status_table(&[status]).chars().all(|letter| letter == '\n' || !letter.is_control()));
}

#[test]
fn each_phase_names_next_commands() {
    let registry = registry();
    for phase in Phase::ALL {
        let record = Record { phase, ..record() };
        let status = FollowerStatus::new(&registry.followers[0], Some(&record), at(0));
        assert!(!status.next.is_empty(), "{phase:?}");
    }
}
