//! How many resources a run changes, and how many tests passed.

use std::fmt::{Display, Formatter, Result};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The number of resources by action. A replacement counts as an addition and a destruction. A missing number is 0:
/// stores and servers of earlier versions have fewer.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct ChangeCounts {
    /// Created, replacements included.
    pub add: u32,
    /// Changed in place.
    pub change: u32,
    /// Destroyed, replacements included.
    pub destroy: u32,
    /// Destroyed and created: counted in both.
    pub replace: u32,
    /// Imported.
    pub import: u32,
    /// Renamed, with or without another change.
    #[serde(rename = "move")]
    pub moved: u32,
    /// Removed from the state without being destroyed.
    pub forget: u32,
    /// Executed `action` blocks of the module. Their changes are not known.
    pub actions: u32,
    /// Changed outputs of the root module. Texts name them only if nothing else changes.
    pub outputs: u32,
}

/// The number of tests by result.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct TestCounts {
    /// Passed.
    pub passed: u32,
    /// Failed, or ended with an error.
    pub failed: u32,
    /// Did not run.
    pub skipped: u32,
}

impl ChangeCounts {
    /// Whether a resource changes or an action is executed.
    #[must_use]
    pub fn changes_resources(&self) -> bool {
        Self { outputs: 0, ..*self } != Self::default()
    }

    /// All changes except those of outputs. A replacement counts twice.
    #[must_use]
    pub fn total(&self) -> u64 {
        let all = [self.add, self.change, self.destroy, self.import, self.moved, self.forget];
        all.into_iter().chain([self.actions]).map(u64::from).sum()
    }

    /// The resources that Terraform does not manage any more under their address: destroyed, replaced or forgotten.
    #[must_use]
    pub fn removed(&self) -> u64 {
        u64::from(self.destroy) + u64::from(self.forget)
    }

    /// `+1 ~0 -2`, with the rarer actions if there are any, for a narrow column. `minus` is the sign of the last number.
    #[must_use]
    pub fn short(&self, minus: char) -> String {
        let rare = [(self.import, "import"), (self.moved, "move"), (self.forget, "forget")];
        let rare = rare.into_iter().chain([
            (self.actions, noun(self.actions, "action", "actions")),
            (self.outputs_alone(), noun(self.outputs, "output", "outputs")),
        ]);
        let rare = rare.filter(|(count, _)| *count > 0);
        let all = format!("+{} ~{} {minus}{}", self.add, self.change, self.destroy);
        rare.fold(all, |all, (count, word)| format!("{all}, {count} {word}"))
    }

    /// The actions that occur, `1 to import, 3 to add`, or `1 imported, 3 added` if they `are_done`. Empty without any.
    #[must_use]
    pub fn occurring(&self, are_done: bool) -> String {
        let words = [
            (self.import, "to import", "imported"),
            (self.add, "to add", "added"),
            (self.change, "to change", "changed"),
            (self.destroy, "to destroy", "destroyed"),
            (self.moved, "to move", "moved"),
            (self.forget, "to forget", "forgotten"),
        ];
        let said = words.into_iter().filter(|(count, ..)| *count > 0);
        let said = said
            .map(|(count, to_do, done)| format!("{count} {}", if are_done { done } else { to_do }));
        said.chain(self.others(are_done)).collect::<Vec<_>>().join(", ")
    }

    /// The counts of actions and outputs: `1 action to execute`, or `1 action executed` if they `are_done`.
    fn others(&self, are_done: bool) -> impl Iterator<Item = String> {
        let Self { actions, .. } = *self;
        let outputs = self.outputs_alone();
        let [execute, change] =
            if are_done { ["executed", "changed"] } else { ["to execute", "to change"] };
        let all = [
            (actions, noun(actions, "action", "actions"), execute),
            (outputs, noun(outputs, "output", "outputs"), change),
        ];
        let all = all.into_iter().filter(|(count, ..)| *count > 0);
        all.map(|(count, noun, word)| format!("{count} {noun} {word}"))
    }

    /// The number of outputs, if nothing else changes.
    fn outputs_alone(&self) -> u32 {
        if self.changes_resources() { 0 } else { self.outputs }
    }

    /// `1 added, 0 changed, 2 destroyed`: the counts after an apply.
    #[must_use]
    pub fn done(&self) -> String {
        let usual = [(self.add, "added"), (self.change, "changed"), (self.destroy, "destroyed")];
        let imported = (self.import > 0).then_some((self.import, "imported"));
        let rare = [(self.replace, "replaced"), (self.moved, "moved"), (self.forget, "forgotten")];
        let rare = rare.into_iter().filter(|(count, _)| *count > 0);
        let all = imported.into_iter().chain(usual).chain(rare);
        let all = all.map(|(count, word)| format!("{count} {word}"));
        all.chain(self.others(true)).collect::<Vec<_>>().join(", ")
    }
}

/// `one` or `several`, as `count` requires.
const fn noun(count: u32, one: &'static str, several: &'static str) -> &'static str {
    if count == 1 { one } else { several }
}

/// `1 to add, 0 to change, 2 to destroy`, with the rarer actions if there are any.
impl Display for ChangeCounts {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> Result {
        if self.import > 0 {
            write!(formatter, "{} to import, ", self.import)?;
        }
        write!(
            formatter,
            "{} to add, {} to change, {} to destroy",
            self.add, self.change, self.destroy
        )?;
        for (count, name) in
            [(self.replace, "replaced"), (self.moved, "moved"), (self.forget, "forgotten")]
        {
            if count > 0 {
                write!(formatter, ", {count} {name}")?;
            }
        }
        self.others(false).try_for_each(|other| write!(formatter, ", {other}"))
    }
}

/// `1 passed, 0 failed, 2 skipped`.
impl Display for TestCounts {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> Result {
        let Self { passed, failed, skipped } = self;
        write!(formatter, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_after_an_apply_omit_rare_actions_that_did_not_occur() {
        let counts = ChangeCounts {
            add: 3,
            change: 1,
            destroy: 3,
            replace: 2,
            import: 1,
            moved: 1,
            forget: 1,
            actions: 2,
            outputs: 9,
        };
        assert_eq!(
            counts.done(),
            "1 imported, 3 added, 1 changed, 3 destroyed, 2 replaced, 1 moved, 1 forgotten, 2 actions executed"
        );
        assert_eq!(ChangeCounts::default().done(), "0 added, 0 changed, 0 destroyed");
    }

    #[test]
    fn each_action_is_in_each_form_and_in_the_total() {
        let none = ChangeCounts::default();
        assert_eq!((none.total(), none.occurring(false)), (0, String::new()));
        assert_eq!(none.short('-'), "+0 ~0 -0");
        let table: [(ChangeCounts, &str, &str, &str, u64); 7] = [
            (ChangeCounts { add: 1, ..none }, "+1 ~0 -0", "1 to add", "1 added", 0),
            (ChangeCounts { change: 1, ..none }, "+0 ~1 -0", "1 to change", "1 changed", 0),
            (ChangeCounts { destroy: 1, ..none }, "+0 ~0 -1", "1 to destroy", "1 destroyed", 1),
            (
                ChangeCounts { import: 1, ..none },
                "+0 ~0 -0, 1 import",
                "1 to import",
                "1 imported",
                0,
            ),
            (ChangeCounts { moved: 1, ..none }, "+0 ~0 -0, 1 move", "1 to move", "1 moved", 0),
            (
                ChangeCounts { forget: 1, ..none },
                "+0 ~0 -0, 1 forget",
                "1 to forget",
                "1 forgotten",
                1,
            ),
            (
                ChangeCounts { actions: 1, ..none },
                "+0 ~0 -0, 1 action",
                "1 action to execute",
                "1 action executed",
                0,
            ),
        ];
        for (counts, short, to_do, done, removed) in table {
            assert_eq!(counts.short('-'), short);
            assert_eq!((&*counts.occurring(false), &*counts.occurring(true)), (to_do, done));
            assert_eq!((counts.total(), counts.removed()), (1, removed), "{short}");
            assert_ne!(counts.to_string(), none.to_string());
        }
    }

    #[test]
    fn outputs_are_named_if_nothing_else_changes() {
        let outputs = ChangeCounts { outputs: 2, ..ChangeCounts::default() };
        assert_eq!(outputs.short('-'), "+0 ~0 -0, 2 outputs");
        assert_eq!(outputs.occurring(false), "2 outputs to change");
        assert_eq!(outputs.done(), "0 added, 0 changed, 0 destroyed, 2 outputs changed");
        assert_eq!(outputs.to_string(), "0 to add, 0 to change, 0 to destroy, 2 outputs to change");
        let both = ChangeCounts { moved: 1, ..outputs };
        assert_eq!((both.short('-').as_str(), both.total()), ("+0 ~0 -0, 1 move", 1));
        assert!(both.changes_resources() && !outputs.changes_resources());
    }

    #[test]
    fn counts_of_an_earlier_version_have_no_rare_actions() {
        let old: ChangeCounts =
            serde_json::from_str(r#"{"add": 1, "change": 2, "destroy": 3}"#).unwrap();
        assert_eq!(old, ChangeCounts { add: 1, change: 2, destroy: 3, ..ChangeCounts::default() });
        let text = serde_json::to_string(&ChangeCounts { moved: 4, ..old }).unwrap();
        assert_eq!(serde_json::from_str::<ChangeCounts>(&text).unwrap().moved, 4);
    }
}
