//! What an object says about its stage.

use std::collections::BTreeMap;

use serde_json::Value;

use super::check::Condition;
use super::path::JsonPath;
use crate::commit::Commit;
use crate::text::shorten;

/// The longest text of one piece of evidence, in letters.
const LONGEST_EVIDENCE: usize = 200;

/// The paths and conditions with which a stage reads its object.
#[derive(Clone, Debug, PartialEq)]
pub struct Closeout {
    /// Holds if the stage is complete.
    pub succeeded: Condition,
    /// Holds if the stage failed.
    pub failed: Option<Condition>,
    /// The paths at which the source commit must be.
    pub source_commit: Vec<JsonPath>,
    /// The paths whose values are shown as evidence that earlier results were reused.
    pub reuse: Vec<JsonPath>,
}

/// What an object says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Reading {
    /// The stage is complete.
    Complete,
    /// The stage failed.
    Failed,
    /// The object is not ready; the path that is waited for.
    Unfinished {
        /// The first path whose check does not hold.
        path: String,
    },
    /// The object does not show the source commit.
    OtherCommit {
        /// The path at which another value is.
        path: String,
    },
}

impl Closeout {
    /// Reads `object`. An object of another commit is neither complete nor failed.
    #[must_use]
    pub fn read(&self, object: &Value, commit: &Commit) -> Reading {
        let shows_commit = |path: &&JsonPath| {
            let values = path.select(object);
            !values.is_empty() && values.into_iter().all(|value| value == commit.as_str())
        };
        if let Some(path) = self.source_commit.iter().find(|path| !shows_commit(path)) {
            return Reading::OtherCommit { path: path.to_string() };
        }
        // An object for which both hold is inconsistent; the safe reading counts.
        if self.failed.as_ref().is_some_and(|failed| failed.holds(object)) {
            return Reading::Failed;
        }
        match self.succeeded.first_open(object) {
            None => Reading::Complete,
            Some(check) => Reading::Unfinished { path: check.path.to_string() },
        }
    }

    /// The compact evidence of reuse: a path and its values as JSON of limited length.
    #[must_use]
    pub fn evidence(&self, object: &Value) -> BTreeMap<String, String> {
        let found = self.reuse.iter().filter_map(|path| {
            let text = match path.select(object)[..] {
                [] => return None,
                [Value::String(text)] => shorten(text, LONGEST_EVIDENCE),
                [value] => shorten(&value.to_string(), LONGEST_EVIDENCE),
                ref values => shorten(&serde_json::json!(values).to_string(), LONGEST_EVIDENCE),
            };
            Some((path.to_string(), text))
        });
        found.collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::condition::{Check, Test};

    fn phase_is(value: &str) -> Option<Condition> {
        let path = JsonPath::parse("$.phase").unwrap();
        let test = Test::Equals(json!(value));
        Condition::new(vec![Check { path, test, default: None }])
    }

    fn closeout() -> Closeout {
        Closeout {
            succeeded: phase_is("Done").unwrap(),
            failed: phase_is("Broken"),
            source_commit: vec![JsonPath::parse("$.commit").unwrap()],
            reuse: ["$.reused[*]", "$.image", "$.missing"]
                .map(|path| JsonPath::parse(path).unwrap())
                .into(),
        }
    }

    #[test]
    fn object_of_another_commit_is_neither_complete_nor_failed() {
        let commit = Commit::parse(&"a".repeat(40)).unwrap();
        let read = |phase: &str, commit_of_object: Option<&str>| {
            closeout().read(&json!({"phase": phase, "commit": commit_of_object}), &commit)
        };
        let own = Some(commit.as_str());
        assert_eq!(read("Done", own), Reading::Complete);
        assert_eq!(read("Broken", own), Reading::Failed);
        assert_eq!(read("Busy", own), Reading::Unfinished { path: "$.phase".to_owned() });
        let other = Reading::OtherCommit { path: "$.commit".to_owned() };
        for phase in ["Done", "Broken"] {
            // An abbreviation could be another commit.
            for commit in [None, Some("bbb"), own.map(|commit| &commit[..12])] {
                assert_eq!(read(phase, commit), other);
            }
        }
    }

    #[test]
    fn evidence_of_reuse_is_compact() {
        let object = json!({"reused": ["api", "web"], "image": "x".repeat(5000)});
        let evidence = closeout().evidence(&object);
        assert_eq!(evidence["$.reused[*]"], r#"["api","web"]"#);
        assert_eq!(evidence["$.image"].chars().count(), LONGEST_EVIDENCE);
        assert_eq!(evidence.len(), 2);
    }
}
