//! How many resources a run changes, and how many tests passed.

use std::fmt::{Display, Formatter, Result};

use serde::Serialize;

/// The number of resources by action. A replacement counts as an addition and a destruction.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
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
    /// `1 added, 0 changed, 2 destroyed`: the counts after an apply.
    #[must_use]
    pub fn done(&self) -> String {
        let usual = [(self.add, "added"), (self.change, "changed"), (self.destroy, "destroyed")];
        let imported = (self.import > 0).then_some((self.import, "imported"));
        let rare = [(self.replace, "replaced"), (self.moved, "moved"), (self.forget, "forgotten")];
        let rare = rare.into_iter().filter(|(count, _)| *count > 0);
        let all = imported.into_iter().chain(usual).chain(rare);
        all.map(|(count, word)| format!("{count} {word}")).collect::<Vec<_>>().join(", ")
    }
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
        Ok(())
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
        };
        assert_eq!(
            counts.done(),
            "1 imported, 3 added, 1 changed, 3 destroyed, 2 replaced, 1 moved, 1 forgotten"
        );
        assert_eq!(ChangeCounts::default().done(), "0 added, 0 changed, 0 destroyed");
    }
}
