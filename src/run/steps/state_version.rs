//! The version of the state, for a registry that asks for it (`stateReport`).

use std::time::Duration;

use super::grace::within;
use crate::engine::{Engine, Planned, planned_version};
use crate::report::RunLog;
use butler_base::error::chain;
use butler_protocol::backend::{StateReport, StateVersion};

/// How long the state may be read after an apply.
const READING: Duration = Duration::from_mins(1);

/// The version of the state that a plan was made from, if it is asked for and known.
pub(super) fn planned_on(report: &StateReport, plan: &Planned) -> Option<StateVersion> {
    match report {
        StateReport::Omit => None,
        StateReport::Send { .. } => planned_version(&plan.files.file),
    }
}

/// The sentence about a state that another program has written since the version that the registry knows.
pub(super) fn foreign(report: &StateReport, found: Option<&StateVersion>) -> Option<String> {
    let (StateReport::Send { known: Some(known), .. }, Some(found)) = (report, found) else {
        return None;
    };
    if known == found {
        return None;
    }
    let what = if known.lineage == found.lineage {
        format!("its serial is {} instead of {}", found.serial, known.serial)
    } else {
        format!(
            "it is another state: its lineage is {} instead of {}",
            found.lineage, known.lineage
        )
    };
    Some(format!(
        "The state was changed outside of this server ({what}); the code is compared with it."
    ))
}

/// The version of the state that an apply has left, if it is asked for and can be read in time.
pub(super) async fn left_by_apply(
    engine: &Engine<'_, RunLog>,
    report: &StateReport,
) -> Option<StateVersion> {
    if *report == StateReport::Omit {
        return None;
    }
    match within(engine, READING, engine.pull_state_version()).await? {
        Ok(version) => version,
        Err(error) => {
            tracing::warn!(error = %chain(&error), "cannot read the version of the state");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use butler_protocol::backend::DriftComparison;

    #[test]
    fn only_another_version_than_the_known_one_is_foreign() {
        let version = |lineage: &str, serial| StateVersion { lineage: lineage.to_owned(), serial };
        let foreign = |known: Option<StateVersion>, found: Option<StateVersion>| {
            let compare = DriftComparison::State;
            foreign(&StateReport::Send { known, compare }, found.as_ref())
        };
        let known = || Some(version("a", 4));
        assert_eq!(foreign(known(), known()), None);
        assert_eq!(foreign(None, known()), None);
        assert_eq!(foreign(known(), None), None);
        assert_eq!(super::foreign(&StateReport::Omit, known().as_ref()), None);
        for (found, said) in [
            (version("a", 5), "serial is 5 instead of 4"),
            // As after a rollback.
            (version("a", 3), "serial is 3 instead of 4"),
            (version("b", 4), "lineage is b instead of a"),
        ] {
            assert!(foreign(known(), Some(found)).unwrap().contains(said), "{said}");
        }
    }
}
