//! What an object says about its stage.

use std::collections::BTreeMap;

use serde_json::Value;

use super::check::Condition;
use super::path::JsonPath;
use super::words;
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

/// Who created an object.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Owner {
    /// The follower. The object's name is derived from the commit, so its failure always counts.
    Follower,
    /// Another controller. The object can still be about an earlier commit.
    OtherController,
}

/// What an object says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Reading {
    /// The stage is complete.
    Complete,
    /// The stage failed.
    Failed {
        /// How, after the name of the object: `failed: Tasks Completed: 1 (Failed: 1)`.
        said: String,
    },
    /// The object is not ready.
    Unfinished {
        /// Its state, after its name: `is OutOfSync`.
        said: String,
    },
    /// The object does not show the source commit.
    OtherCommit {
        /// The commit that it shows, after its name.
        said: String,
    },
}

impl Closeout {
    /// Reads `object`. An object without the source commit is never complete. If it belongs to another
    /// controller, it has not failed either.
    #[must_use]
    pub fn read(&self, object: &Value, commit: &Commit, owner: Owner) -> Reading {
        let shows_commit = |path: &&JsonPath| {
            let values = path.select(object);
            !values.is_empty() && values.into_iter().all(|value| value == commit.as_str())
        };
        let other = self.source_commit.iter().find(|path| !shows_commit(path));
        let is_about_commit = other.is_none() || owner == Owner::Follower;
        // An object for which both conditions hold is inconsistent; the safe reading counts.
        let failed = self.failed.as_ref().filter(|failed| failed.holds(object));
        if let Some(failed) = failed.filter(|_| is_about_commit) {
            return Reading::Failed { said: words::failed(failed, object) };
        }
        if let Some(path) = other {
            return Reading::OtherCommit { said: words::other_commit(path, object, commit) };
        }
        match self.succeeded.first_open(object) {
            None => Reading::Complete,
            Some(check) => Reading::Unfinished { said: words::open(check, object) },
        }
    }

    /// The compact evidence of reuse: a path and its values as JSON of limited length. What the object does not have
    /// is looked for in its parts, such as the `TaskRun`s of a `PipelineRun`; the first one that has it counts.
    #[must_use]
    pub fn evidence(&self, object: &Value, parts: &[Value]) -> BTreeMap<String, String> {
        let found = self.reuse.iter().filter_map(|path| {
            let all = std::iter::once(object).chain(parts);
            let values = all.map(|it| path.select(it)).find(|values| !values.is_empty())?;
            let text = match values[..] {
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
            let mut object = json!({"phase": phase});
            if let Some(commit) = commit_of_object {
                object["commit"] = json!(commit);
            }
            closeout().read(&object, &commit, Owner::OtherController)
        };
        let own = Some(commit.as_str());
        assert_eq!(read("Done", own), Reading::Complete);
        assert_eq!(read("Broken", own), Reading::Failed { said: "is Broken".to_owned() });
        assert_eq!(read("Busy", own), Reading::Unfinished { said: "is Busy".to_owned() });
        for phase in ["Done", "Broken"] {
            // An abbreviation could be another commit.
            for other in [None, Some("bbb"), own.map(|commit| &commit[..12])] {
                let shown = other.map_or_else(
                    || "it has no `commit`".to_owned(),
                    |it| format!("`commit` is {it}"),
                );
                let said = format!("does not show commit aaaaaaaaaaaa: {shown}");
                assert_eq!(read(phase, other), Reading::OtherCommit { said });
            }
        }
    }

    #[test]
    fn own_object_can_fail_before_it_shows_the_commit() {
        let commit = Commit::parse(&"a".repeat(40)).unwrap();
        let read =
            |phase: &str| closeout().read(&json!({"phase": phase}), &commit, Owner::Follower);
        assert!(matches!(read("Broken"), Reading::Failed { .. }));
        assert!(matches!(read("Done"), Reading::OtherCommit { .. }));
    }

    #[test]
    fn evidence_of_reuse_is_compact() {
        let object = json!({"reused": ["api", "web"], "image": "x".repeat(5000)});
        let evidence = closeout().evidence(&object, &[]);
        assert_eq!(evidence["$.reused[*]"], r#"["api","web"]"#);
        assert_eq!(evidence["$.image"].chars().count(), LONGEST_EVIDENCE);
        assert_eq!(evidence.len(), 2);
    }

    #[test]
    fn evidence_that_the_object_does_not_have_is_that_of_its_first_part_with_it() {
        let parts = [
            json!({"image": ""}),
            json!({"reused": ["api"], "image": "a"}),
            json!({"reused": ["web"]}),
        ];
        let evidence = closeout().evidence(&json!({"image": "b"}), &parts);
        assert_eq!(evidence["$.reused[*]"], "api");
        assert_eq!(evidence["$.image"], "b");
    }
}
