//! The copy of a record for a `ConfigMap`: JSON of limited size, for people. Nothing reads it back.

use std::collections::BTreeMap;

use serde_json::Value;

use super::record::{MOST_EVENTS, MOST_TASKS, Record, StageRecord, TaskRecord};
use crate::object::ObjectReference;
use crate::text::shorten;
use butler_base::moment::Moment;

/// The most bytes of a copy.
pub const COPY_LIMIT: usize = 64 * 1024;

/// The name of the config map with the copy of the record of a follower.
#[must_use]
pub fn copy_name(follower: &str) -> String {
    format!("butler-follower-{follower}")
}

/// The letters of a message, at first and if the copy is too large.
const MESSAGE: [usize; 2] = [1000, 100];

/// The letters of the value of one piece of evidence.
const EVIDENCE: usize = 200;

/// The most stages of a copy, the newest ones.
const STAGES: usize = 64;

/// The most pieces of evidence of one stage.
const PIECES: usize = 16;

/// The letters of a name. Names of Kubernetes have at most 253.
const NAME: usize = 253;

/// The members of a record that are points in time.
const TIMES: [&str; 9] = [
    "at",
    "closeoutFinishedAt",
    "closeoutStartedAt",
    "finishedAt",
    "observedAt",
    "openSince",
    "since",
    "startedAt",
    "submittedAt",
];

/// The copy of `record`: JSON of several lines and of at most [`COPY_LIMIT`] bytes, with times as text (RFC 3339) and
/// without what is not known. Texts are shortened. If that is not enough, the copy loses its events first, then the
/// details of the oldest stages, then these stages.
#[must_use]
pub fn bounded_copy(record: &Record) -> String {
    let fitting = |copy: &Record| Some(printed(copy)).filter(|text| text.len() <= COPY_LIMIT);
    let mut copy = shortened(record, MESSAGE[0]);
    if let Some(text) = fitting(&copy) {
        return text;
    }
    copy.events.clear();
    let without_details = |count: &usize| {
        let mut copy = copy.clone();
        for stage in &mut copy.stages[..*count] {
            (stage.evidence, stage.tasks) = (BTreeMap::new(), Vec::new());
            stage.message.clear();
        }
        copy
    };
    let counts: Vec<usize> = (0..=copy.stages.len()).collect();
    let too_large = counts.partition_point(|count| fitting(&without_details(count)).is_none());
    if let Some(count) = counts.get(too_large) {
        return printed(&without_details(count));
    }
    copy = without_details(&copy.stages.len());
    copy = Record { stages: copy.stages, events: Vec::new(), ..shortened(record, MESSAGE[1]) };
    loop {
        // Without stages, only a few texts of limited length are left.
        if let Some(text) =
            fitting(&copy).or_else(|| copy.stages.is_empty().then(|| printed(&copy)))
        {
            return text;
        }
        let oldest = copy.stages.len().div_ceil(4);
        copy.stages.drain(..oldest);
    }
}

/// The text for people.
fn printed(record: &Record) -> String {
    let mut value =
        serde_json::to_value(record).expect("records have text keys and no failing serializers");
    make_readable(&mut value);
    format!("{value:#}")
}

/// Writes times as text, and leaves out what is not known.
fn make_readable(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                match member.as_u64().filter(|_| TIMES.contains(&name.as_str())) {
                    Some(millis) => *member = Moment::from_millis(millis).to_string().into(),
                    None => make_readable(member),
                }
            }
            members.retain(|_, member| match member {
                Value::Null => false,
                Value::String(text) => !text.is_empty(),
                Value::Array(values) => !values.is_empty(),
                Value::Object(members) => !members.is_empty(),
                Value::Bool(_) | Value::Number(_) => true,
            });
        }
        Value::Array(values) => values.iter_mut().for_each(make_readable),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn shortened(record: &Record, message: usize) -> Record {
    let newest = record.stages.len().saturating_sub(STAGES);
    let stages = record.stages[newest..].iter().map(|stage| shortened_stage(stage, message));
    // Not cloned with its stages, whose number and texts have no limit.
    let mut copy = Record {
        follower: record.follower.clone(),
        phase: record.phase,
        observed: record.observed.clone(),
        observed_at: record.observed_at,
        target: record.target.clone(),
        triggered: record.triggered.clone(),
        succeeded: record.succeeded.clone(),
        is_closed_out: record.is_closed_out,
        in_flight: record.in_flight.clone(),
        stages: stages.collect(),
        failure: record.failure.clone(),
        timings: record.timings.clone(),
        message: record.message.clone(),
        events: record.events[record.events.len().saturating_sub(MOST_EVENTS)..].to_vec(),
    };
    for event in &mut copy.events {
        event.message = shorten(&event.message, message);
    }
    copy.follower = shorten(&copy.follower, NAME);
    copy.message = shorten(&copy.message, message);
    if let Some(in_flight) = &mut copy.in_flight {
        in_flight.stage = shorten(&in_flight.stage, NAME);
        let ObjectReference { api_version, kind, namespace, name } = &mut in_flight.object;
        let texts = [Some(api_version), Some(kind), namespace.as_mut(), Some(name)];
        texts.into_iter().flatten().for_each(|text| *text = shorten(text, NAME));
    }
    if let Some(failure) = &mut copy.failure {
        failure.stage = shorten(&failure.stage, NAME);
    }
    copy
}

fn shortened_stage(stage: &StageRecord, message: usize) -> StageRecord {
    let evidence = stage.evidence.iter().take(PIECES);
    StageRecord {
        object: stage.object.as_deref().map(|name| shorten(name, NAME)),
        submitted_at: stage.submitted_at,
        started_at: stage.started_at,
        finished_at: stage.finished_at,
        open_since: stage.open_since,
        progress: stage.progress,
        is_confirmed: stage.is_confirmed,
        is_reused: stage.is_reused,
        message: shorten(&stage.message, message),
        tasks: stage
            .tasks
            .iter()
            .take(MOST_TASKS)
            .map(|task| shortened_task(task, message))
            .collect(),
        evidence: evidence
            .map(|(path, value)| (shorten(path, EVIDENCE), shorten(value, EVIDENCE)))
            .collect(),
        ..StageRecord::new(&shorten(&stage.name, NAME), stage.kind, stage.attempt)
    }
}

fn shortened_task(task: &TaskRecord, message: usize) -> TaskRecord {
    TaskRecord {
        name: shorten(&task.name, NAME),
        object: shorten(&task.object, NAME),
        message: shorten(&task.message, message),
        progress: task.progress,
        started_at: task.started_at,
        finished_at: task.finished_at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::Commit;
    use crate::config::StageKind;
    use crate::phase::Phase;
    use crate::state::{Event, Failure, InFlight, RunTimings, StageProgress};

    /// A record in which each text is `text`.
    fn record(stages: usize, text: &str) -> Record {
        let commit = Commit::parse(&"f".repeat(64)).unwrap();
        let stage = StageRecord {
            object: Some(text.to_owned()),
            message: text.to_owned(),
            evidence: (0..9).map(|index| (format!("{index}{text}"), text.to_owned())).collect(),
            tasks: vec![
                TaskRecord {
                    name: text.to_owned(),
                    object: text.to_owned(),
                    progress: StageProgress::Failed,
                    started_at: Some(Moment::from_millis(1)),
                    finished_at: None,
                    message: text.to_owned(),
                };
                3
            ],
            ..StageRecord::new(text, StageKind::Job, u32::MAX)
        };
        let object = ObjectReference {
            api_version: text.to_owned(),
            kind: text.to_owned(),
            namespace: Some(text.to_owned()),
            name: text.to_owned(),
        };
        let at = Moment::from_millis(u64::MAX);
        Record {
            observed: Some(commit.clone()),
            target: Some(commit),
            in_flight: Some(InFlight { stage: text.to_owned(), object, since: at }),
            failure: Some(Failure { stage: text.to_owned(), attempt: 1, count: 1, at }),
            stages: (0..stages)
                .map(|index| StageRecord {
                    attempt: u32::try_from(index).unwrap(),
                    ..stage.clone()
                })
                .collect(),
            message: text.to_owned(),
            events: (0..50)
                .map(|second| Event {
                    at: Moment::from_millis(second),
                    phase: Phase::Failed,
                    target: None,
                    message: text.to_owned(),
                })
                .take(if text.is_empty() { 0 } else { MOST_EVENTS })
                .collect(),
            ..Record::new(text)
        }
    }

    #[test]
    fn copy_is_valid_json_within_the_limit_for_every_record() {
        // A control character has six letters in JSON, and `𝄞` has four bytes.
        for unit in ["x", "\u{1}", "𝄞", "\"\\", "é\n"] {
            for length in [0, 1, 253, 2000] {
                for stages in [0, 1, 40, 80] {
                    let text = bounded_copy(&record(stages, &unit.repeat(length)));
                    assert!(text.len() <= COPY_LIMIT, "{}", text.len());
                    let copy: Value = serde_json::from_str(&text).unwrap();
                    assert!(copy["target"].is_string() && copy["inFlight"].is_object());
                }
            }
        }
    }

    #[test]
    fn small_record_is_copied_completely() {
        for stages in [0, 1, 3] {
            let record = record(stages, &"short ".repeat(40));
            let copy: Value = serde_json::from_str(&bounded_copy(&record)).unwrap();
            assert_eq!(copy["message"], record.message);
            assert_eq!(copy["stages"].as_array().map_or(0, Vec::len), stages);
            assert_eq!(copy["events"].as_array().unwrap().len(), record.events.len());
        }
    }

    #[test]
    fn copy_has_a_line_for_each_member_and_times_that_people_read() {
        let moment = Moment::from_millis(1_700_000_000_123);
        let at = Some(moment);
        let mut record = record(1, "short");
        record.observed_at = at;
        record.timings = RunTimings {
            started_at: at,
            closeout_started_at: at,
            closeout_finished_at: at,
            finished_at: at,
            ..RunTimings::default()
        };
        for stage in &mut record.stages {
            (stage.submitted_at, stage.started_at) = (at, at);
            (stage.finished_at, stage.open_since) = (at, at);
            (stage.tasks[0].started_at, stage.tasks[0].finished_at) = (at, at);
        }
        record.failure.as_mut().unwrap().at = moment;
        record.in_flight.as_mut().unwrap().since = moment;
        for event in &mut record.events {
            event.at = moment;
        }
        let text = bounded_copy(&record);
        assert!(!text.contains("1700000000"), "{text}");
        assert_eq!(text.matches("2023-11-14T22:13:20Z").count(), 13 + MOST_EVENTS, "{text}");
        assert!(text.lines().count() > 40 && text.lines().all(|line| line.len() < 120), "{text}");
        assert!(!text.contains("null") && !text.contains("\"\""), "{text}");
    }

    #[test]
    fn details_of_the_oldest_stages_are_dropped_first() {
        let copy: Value =
            serde_json::from_str(&bounded_copy(&record(30, &"x".repeat(200)))).unwrap();
        assert_eq!(copy["stages"].as_array().unwrap().len(), 30);
        assert!(copy["stages"][0]["evidence"].is_null());
        assert!(copy["stages"][29]["evidence"].is_object());
        let copy: Value =
            serde_json::from_str(&bounded_copy(&record(9000, &"x".repeat(200)))).unwrap();
        let stages = copy["stages"].as_array().unwrap();
        assert_eq!(stages.last().unwrap()["attempt"], 8999);
        assert!(stages[0]["attempt"].as_u64().unwrap() > 0);
    }

    #[test]
    fn record_without_timings_stays_without_them() {
        let old = r#"{"follower": "web", "phase": "ClosingOut", "removed": 1,
            "stages": [{"name": "build", "kind": "job", "attempt": 1, "progress": "running"}]}"#;
        let record: Record = serde_json::from_str(old).unwrap();
        let now = Moment::from_millis(1000);
        assert_eq!(record.timings.total(now), None);
        assert_eq!(record.timings.closeout(now), None);
        assert_eq!(record.stages[0].duration(now), None);
    }
}
