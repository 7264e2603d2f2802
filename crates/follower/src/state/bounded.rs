//! The copy of a record for a `ConfigMap`: JSON of limited size.

use std::collections::BTreeMap;

use super::record::{MOST_EVENTS, Record, StageRecord};
use crate::object::ObjectReference;
use crate::text::shorten;

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

/// The copy of `record`: valid JSON of at most [`COPY_LIMIT`] bytes, which deserializes as a record.
/// Texts are shortened. If that is not enough, the copy loses its events first, then the details of the oldest
/// stages, then these stages.
#[must_use]
pub fn bounded_copy(record: &Record) -> String {
    let mut copy = shortened(record, MESSAGE[0]);
    let text = serialized(&copy);
    if text.len() <= COPY_LIMIT {
        return text;
    }
    copy.events.clear();
    let mut size = serialized(&copy).len();
    for stage in &mut copy.stages {
        if size <= COPY_LIMIT {
            break;
        }
        size -= serialized(stage).len();
        stage.evidence = BTreeMap::new();
        stage.message = String::new();
        size += serialized(stage).len();
    }
    if size <= COPY_LIMIT {
        return serialized(&copy);
    }
    copy = Record { stages: copy.stages, events: Vec::new(), ..shortened(record, MESSAGE[1]) };
    while !copy.stages.is_empty() {
        let text = serialized(&copy);
        if text.len() <= COPY_LIMIT {
            return text;
        }
        let oldest = copy.stages.len().div_ceil(4);
        copy.stages.drain(..oldest);
    }
    // Without stages, only a few texts of limited length are left.
    serialized(&copy)
}

fn serialized(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("records have text keys and no failing serializers")
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
        evidence: evidence
            .map(|(path, value)| (shorten(path, EVIDENCE), shorten(value, EVIDENCE)))
            .collect(),
        ..StageRecord::new(&shorten(&stage.name, NAME), stage.kind, stage.attempt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::Commit;
    use crate::config::StageKind;
    use crate::phase::Phase;
    use crate::state::{Event, Failure, InFlight};
    use butler_base::moment::Moment;

    /// A record in which each text is `text`.
    fn record(stages: usize, text: &str) -> Record {
        let commit = Commit::parse(&"f".repeat(64)).unwrap();
        let stage = StageRecord {
            object: Some(text.to_owned()),
            message: text.to_owned(),
            evidence: (0..9).map(|index| (format!("{index}{text}"), text.to_owned())).collect(),
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
                    let copy: Record = serde_json::from_str(&text).unwrap();
                    assert!(copy.target.is_some() && copy.in_flight.is_some());
                }
            }
        }
    }

    #[test]
    fn small_record_is_copied_completely() {
        for stages in [0, 1, 3] {
            let record = record(stages, &"short ".repeat(40));
            let copy: Record = serde_json::from_str(&bounded_copy(&record)).unwrap();
            assert_eq!(copy.message, record.message);
            assert_eq!(copy.stages.len(), stages);
        }
        let record = record(3, "short");
        let copy: Record = serde_json::from_str(&bounded_copy(&record)).unwrap();
        assert_eq!(copy, record);
    }

    #[test]
    fn details_of_the_oldest_stages_are_dropped_first() {
        let copy: Record =
            serde_json::from_str(&bounded_copy(&record(30, &"x".repeat(200)))).unwrap();
        assert_eq!(copy.stages.len(), 30);
        assert!(copy.stages[0].evidence.is_empty() && !copy.stages[29].evidence.is_empty());
        let copy: Record =
            serde_json::from_str(&bounded_copy(&record(9000, &"x".repeat(200)))).unwrap();
        assert_eq!(copy.stages.last().unwrap().attempt, 8999);
        assert!(copy.stages[0].attempt > 0);
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
