//! When each phase of a run began, and how long it took.
//!
//! Phases overlap and leave gaps, so the total is measured from the start to the end and is not a
//! sum. An unknown value is `-`.

use std::time::{Duration, SystemTime};

use serde::{Serialize, Serializer};

use butler_base::event::Phase;

/// The times of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Timings {
    /// When the run started.
    #[serde(rename = "started_at", serialize_with = "date")]
    pub started: SystemTime,
    /// The wall-clock time from the start to the end, in seconds.
    #[serde(rename = "total_seconds", serialize_with = "seconds")]
    pub total: Duration,
    /// The phases in the order in which they began.
    pub phases: Vec<PhaseTiming>,
}

/// The times of one phase.
#[derive(Clone, Debug, Serialize)]
pub struct PhaseTiming {
    /// The phase.
    pub phase: Phase,
    /// The time from the start of the run to the begin of the phase.
    #[serde(rename = "start_seconds", serialize_with = "seconds")]
    pub start: Duration,
    /// The duration; absent if the phase has not ended.
    #[serde(rename = "duration_seconds", serialize_with = "optional_seconds")]
    pub duration: Option<Duration>,
}

/// The table at the end of each run: phase, start, duration, share of the total.
#[must_use]
pub fn table(timings: &Timings) -> String {
    let total = timings.total.as_secs_f64();
    let mut lines =
        vec![format!("{:<10} {:>9} {:>9} {:>6}", "phase", "start", "duration", "share")];
    for PhaseTiming { phase, start, duration } in &timings.phases {
        let seconds = |time: Duration| format!("{:.2}s", time.as_secs_f64());
        let took = duration.map_or_else(|| "-".to_owned(), seconds);
        let share = duration.filter(|_| total > 0.0).map_or_else(
            || "-".to_owned(),
            |took| format!("{:.0}%", took.as_secs_f64() / total * 100.0),
        );
        lines.push(format!(
            "{:<10} {:>9} {took:>9} {share:>6}",
            phase.to_string(),
            seconds(*start)
        ));
    }
    lines.push(format!("{:<10} {:>9} {:>9}", "total", "", format!("{total:.2}s")));
    lines.join("\n")
}

fn date<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&humantime::format_rfc3339_millis(*time))
}

fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((time.as_secs_f64() * 1000.0).round() / 1000.0)
}

#[expect(clippy::ref_option, reason = "serde passes it so")]
fn optional_seconds<S: Serializer>(
    time: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => seconds(time, serializer),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn total_is_not_the_sum_and_unknown_durations_are_a_dash() {
        let phase = |phase, start, duration: Option<u64>| PhaseTiming {
            phase,
            start: Duration::from_millis(start),
            duration: duration.map(Duration::from_millis),
        };
        let timings = Timings {
            started: SystemTime::UNIX_EPOCH,
            total: Duration::from_secs(4),
            phases: vec![
                phase(Phase::Source, 10, Some(2000)),
                phase(Phase::Tool, 10, Some(3000)),
                phase(Phase::Report, 3500, None),
            ],
        };
        expect_test::expect![[r"
            phase          start  duration  share
            source         0.01s     2.00s    50%
            tool           0.01s     3.00s    75%
            report         3.50s         -      -
            total                    4.00s"]]
        .assert_eq(&table(&timings));
        let json = serde_json::to_value(&timings).unwrap();
        assert_eq!(json["started_at"], "1970-01-01T00:00:00.000Z");
        assert_eq!(json["total_seconds"], 4.0);
        assert_eq!(json["phases"][2]["duration_seconds"], serde_json::Value::Null);
    }
}
