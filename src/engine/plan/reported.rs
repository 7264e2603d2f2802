//! Reads the tool's lines about single resources during an apply: resources that it was still working on when
//! it ended, resources that it has completed, and resources that its errors name. Also reads whether the tool has stored
//! its state.
//!
//! The state decides which changes were made: see [`super::applied`]. A module that prints such lines can only
//! make its own changes appear incomplete.

use std::collections::{BTreeMap, BTreeSet};

use butler_base::resource_lines::{CompleteAction, ResourceLine, resource_line};

/// The number of resources that are recorded of each kind. By default the tool works on ten at the same time.
const MAX_RESOURCES: usize = 1000;

/// The number of completed resources that are recorded: a module can have many, and their addresses are short.
const MAX_COMPLETED: usize = 50_000;

/// The beginning of the line at a second signal, after which the tool does not store its state.
const EXITING: &str = "Two interrupts received.";

/// The beginnings of the errors about a state that could not be stored.
const UNSAVED: [&[u8]; 2] = [b"Failed to save state", b"Failed to persist state to backend"];

/// The beginnings of the errors about a state that could not be written to `errored.tfstate` either. The tool then
/// prints the state.
const PRINTED: [&[u8]; 2] =
    [b"Failed to create local state file", b"Also failed to create local state file"];

/// The resources in the output of an apply.
#[derive(Clone, Debug, Default)]
pub struct ReportedResources {
    /// Addresses of resources that it was working on.
    working: BTreeSet<String>,
    /// Addresses of resources that an error names.
    failed: BTreeSet<String>,
    /// The actions that it has completed, by address.
    completed: BTreeMap<String, BTreeSet<CompleteAction>>,
    /// Addresses of `action` blocks that it was executing.
    executing: BTreeSet<String>,
    /// Addresses of `action` blocks that have failed.
    failed_actions: BTreeSet<String>,
    /// The number of `action` blocks that it has executed.
    executed: u32,
    /// Whether the current lines belong to an error that has not named a resource yet.
    in_error: bool,
    /// Whether the tool may have ended without storing its state: it has said so, or something has killed it.
    is_unsaved: bool,
    /// Whether the tool has printed its state because it could not write it to any file.
    has_printed_state: bool,
}

impl ReportedResources {
    /// Whether work on the resource began and was not completed.
    pub(in crate::engine) fn is_unfinished(&self, address: &str) -> bool {
        self.working.contains(address)
    }

    /// Whether an error names the resource.
    pub(in crate::engine) fn has_failed(&self, address: &str) -> bool {
        self.failed.contains(address)
    }

    /// Whether an action on the resource was completed.
    pub(in crate::engine) fn has_completed(&self, address: &str, action: CompleteAction) -> bool {
        self.completed.get(address).is_some_and(|actions| actions.contains(&action))
    }

    /// Whether a deposed object of the resource was destroyed.
    pub(in crate::engine) fn has_destroyed_deposed(&self, address: &str) -> bool {
        let deposed = format!("{address} (deposed object ");
        let found = self.completed.range(deposed.clone()..).next();
        found.is_some_and(|(address, _)| address.starts_with(&deposed))
    }

    /// Whether completed changes may not be in the state of the backend.
    #[must_use]
    pub const fn is_unsaved(&self) -> bool {
        self.is_unsaved
    }

    /// Whether the tool has printed its state because it could not write it to any file.
    #[must_use]
    pub const fn has_printed_state(&self) -> bool {
        self.has_printed_state
    }

    /// Records that something has killed the tool, which stores the state of most backends only now and then.
    pub(in crate::engine) const fn set_killed(&mut self) {
        self.is_unsaved = true;
    }

    /// The number of `action` blocks whose execution is complete.
    pub(in crate::engine) const fn executed(&self) -> u32 {
        self.executed
    }

    /// The sentence about `action` blocks that have failed or were interrupted; none without such blocks.
    #[must_use]
    pub fn failed_actions(&self) -> Option<String> {
        let sentence = |addresses: &BTreeSet<String>, what: &str| {
            let named: Vec<_> = addresses.iter().map(|address| format!("`{address}`")).collect();
            (!named.is_empty()).then(|| format!("{what}: {}", named.join(", ")))
        };
        let failed = sentence(&self.failed_actions, "failed action");
        failed.or_else(|| sentence(&self.executing, "interrupted action"))
    }

    /// Reads a line about an `action` block, if it is one.
    fn read_action(&mut self, line: &str) {
        let parts = ["Action started: ", "Action complete: ", "Action failed: "];
        let Some((kind, rest)) =
            parts.iter().find_map(|kind| Some((*kind, line.strip_prefix(kind)?)))
        else {
            return;
        };
        let address = rest.split_once(" (triggered by ").map_or(rest, |(address, _)| address);
        match kind {
            "Action started: " if self.executing.len() < MAX_RESOURCES => {
                self.executing.insert(address.to_owned());
            }
            "Action complete: " => {
                self.executing.remove(address);
                self.executed += 1;
            }
            "Action failed: " if self.failed_actions.len() < MAX_RESOURCES => {
                self.executing.remove(address);
                self.failed_actions.insert(address.to_owned());
            }
            _ => {}
        }
    }

    /// Reads a line of standard output.
    pub(in crate::engine) fn read_progress(&mut self, line: &[u8]) {
        let Ok(line) = std::str::from_utf8(line) else { return };
        self.read_action(line);
        match resource_line(line) {
            Some(ResourceLine::Working { address, .. })
                if self.working.len() < MAX_RESOURCES && !self.working.contains(address) =>
            {
                self.working.insert(address.to_owned());
            }
            Some(ResourceLine::Complete { address, action }) => {
                self.working.remove(address);
                if let Some(actions) = self.completed.get_mut(address) {
                    actions.insert(action);
                } else if self.completed.len() < MAX_COMPLETED && action != CompleteAction::Other {
                    self.completed.insert(address.to_owned(), BTreeSet::from([action]));
                }
            }
            Some(_) => {}
            None => self.is_unsaved |= line.trim_start().starts_with(EXITING),
        }
    }

    /// Reads a line of standard error.
    pub(crate) fn read_error(&mut self, line: &[u8]) {
        let line = line.trim_ascii();
        let headline = line.strip_prefix(b"Error: ");
        // Terraform 0.13 and 0.14 print some of them without a prefix.
        let begins =
            |texts: &[&[u8]]| texts.iter().any(|text| headline.unwrap_or(line).starts_with(text));
        self.is_unsaved |= begins(&UNSAVED);
        self.has_printed_state |= begins(&PRINTED);
        if headline.is_some() {
            self.in_error = true;
        } else if self.in_error
            && let Some(address) = line.strip_prefix(b"with ")
            && let Ok(address) = std::str::from_utf8(address)
        {
            self.in_error = false;
            let address = address.strip_suffix([',', ':']).unwrap_or(address);
            if self.failed.len() < MAX_RESOURCES {
                self.failed.insert(address.to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_resources_and_resources_in_errors_are_recorded() {
        let mut reported = ReportedResources::default();
        for line in
            ["a.a: Creating...", "a.b: Modifying... [id=1]", "a.a: Creation complete after 0s"]
        {
            reported.read_progress(line.as_bytes());
        }
        for line in
            ["Warning: x", "  with a.w,", "Error: y", "", "  with a.e[\"k, l\"],", "  with a.z,"]
        {
            reported.read_error(line.as_bytes());
        }
        let of = |address: &str| (reported.is_unfinished(address), reported.has_failed(address));
        assert_eq!([of("a.a"), of("a.b")], [(false, false), (true, false)]);
        assert_eq!(
            ["a.w", "a.e[\"k, l\"]", "a.z"].map(of).map(|(_, failed)| failed),
            [false, true, false]
        );
    }

    #[test]
    fn completed_actions_are_recorded_by_address() {
        use CompleteAction::{Create, Destroy, Modify, Other};

        let mut reported = ReportedResources::default();
        for line in [
            "a.a: Destruction complete after 0s",
            "a.a: Creation complete after 0s [id=1]",
            "a.b (deposed object 0a1b): Destruction complete after 0s",
            "data.a.c: Read complete after 0s",
        ] {
            reported.read_progress(line.as_bytes());
        }
        for (address, action, expected) in [
            ("a.a", Create, true),
            ("a.a", Destroy, true),
            ("a.a", Modify, false),
            ("a.b", Destroy, false),
            ("data.a.c", Other, false),
        ] {
            assert_eq!(reported.has_completed(address, action), expected, "{address} {action:?}");
        }
        let deposed = |address: &str| reported.has_destroyed_deposed(address);
        assert_eq!(["a.a", "a.b", "a"].map(deposed), [false, true, false]);
        assert!(!reported.is_unsaved());
    }

    #[test]
    fn state_that_was_not_stored_is_recognised_in_the_words_of_each_version() {
        let read = |line: &str| {
            let mut reported = ReportedResources::default();
            reported.read_error(line.as_bytes());
            (reported.is_unsaved(), reported.has_printed_state())
        };
        for (line, expected) in [
            ("Error: Failed to save state", (true, false)),
            ("Failed to save state: 503", (true, false)),
            ("Error: Failed to persist state to backend.", (true, false)),
            ("Error: Failed to create local state file", (false, true)),
            ("Also failed to create local state file for recovery: full", (false, true)),
            ("Error: Failed to load state", (false, false)),
            ("Warning: Failed to save state", (false, false)),
        ] {
            assert_eq!(read(line), expected, "{line}");
        }
        let mut reported = ReportedResources::default();
        reported.read_progress(b"Two interrupts received. Exiting immediately.");
        assert!(reported.is_unsaved());
    }

    #[test]
    fn failed_and_interrupted_actions_are_named() {
        let mut reported = ReportedResources::default();
        for line in [
            "Action started: action.x.done (triggered by a.b)",
            "Action complete: action.x.done (triggered by a.b)",
            "Action started: module.m.action.x.y[\"k\"] (triggered by CLI)",
        ] {
            reported.read_progress(line.as_bytes());
        }
        assert_eq!(reported.executed(), 1);
        let named = "interrupted action: `module.m.action.x.y[\"k\"]`";
        assert_eq!(reported.failed_actions().as_deref(), Some(named));
        let line = "Action failed: module.m.action.x.y[\"k\"] (triggered by CLI) - exit status 1";
        reported.read_progress(line.as_bytes());
        let named = "failed action: `module.m.action.x.y[\"k\"]`";
        assert_eq!(reported.failed_actions().as_deref(), Some(named));
        assert_eq!(ReportedResources::default().failed_actions(), None);
    }

    #[test]
    fn memory_is_limited_for_any_number_of_lines() {
        let mut reported = ReportedResources::default();
        for number in 0..=MAX_RESOURCES {
            reported.read_progress(format!("a.b[{number}]: Creating...").as_bytes());
            reported.read_error(b"Error: x");
            reported.read_error(format!("with a.b[{number}],").as_bytes());
        }
        assert_eq!((reported.working.len(), reported.failed.len()), (MAX_RESOURCES, MAX_RESOURCES));
        for number in 0..=MAX_COMPLETED {
            reported.read_progress(format!("a.b[{number}]: Creation complete after 0s").as_bytes());
        }
        assert_eq!(reported.completed.len(), MAX_COMPLETED);
    }
}
