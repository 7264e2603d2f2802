//! What the tool printed about single resources during an apply: which ones it was still working on when
//! it ended, and which ones its errors name.
//!
//! The state has the last word on what was done: see [`super::applied`]. A module that prints such lines
//! can at most have its own changes marked as not completed.

use std::collections::BTreeSet;

use butler_base::resource_lines::{ResourceLine, resource_line};

/// How many resources are remembered of each kind: the tool works on ten at once by default, and
/// nobody reads more errors.
const MOST: usize = 1000;

/// What an apply printed about its resources.
#[derive(Clone, Debug, Default)]
pub struct Reported {
    /// Those that it was working on, by address.
    working: BTreeSet<String>,
    /// Those that an error names, by address.
    failed: BTreeSet<String>,
    /// Whether the lines are those of an error that has named no resource yet.
    in_error: bool,
}

impl Reported {
    /// Whether work on the resource began and was not completed.
    pub(in crate::engine) fn is_unfinished(&self, address: &str) -> bool {
        self.working.contains(address)
    }

    /// Whether an error names the resource.
    pub(in crate::engine) fn has_failed(&self, address: &str) -> bool {
        self.failed.contains(address)
    }

    /// Reads a line of standard output.
    pub(in crate::engine) fn read_progress(&mut self, line: &[u8]) {
        let Ok(line) = std::str::from_utf8(line) else { return };
        match resource_line(line) {
            Some(ResourceLine::Working { address, .. })
                if self.working.len() < MOST && !self.working.contains(address) =>
            {
                self.working.insert(address.to_owned());
            }
            Some(ResourceLine::Complete { address, .. }) => {
                self.working.remove(address);
            }
            _ => {}
        }
    }

    /// Reads a line of standard error.
    pub(in crate::engine) fn read_error(&mut self, line: &[u8]) {
        let line = line.trim_ascii();
        if line.starts_with(b"Error: ") {
            self.in_error = true;
        } else if self.in_error
            && let Some(address) = line.strip_prefix(b"with ")
            && let Ok(address) = std::str::from_utf8(address)
        {
            self.in_error = false;
            let address = address.strip_suffix([',', ':']).unwrap_or(address);
            if self.failed.len() < MOST {
                self.failed.insert(address.to_owned());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_begun_and_not_completed_and_what_errors_name_is_remembered() {
        let mut reported = Reported::default();
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
    fn a_flood_of_lines_takes_a_bounded_amount_of_memory() {
        let mut reported = Reported::default();
        for number in 0..=MOST {
            reported.read_progress(format!("a.b[{number}]: Creating...").as_bytes());
            reported.read_error(b"Error: x");
            reported.read_error(format!("with a.b[{number}],").as_bytes());
        }
        assert_eq!((reported.working.len(), reported.failed.len()), (MOST, MOST));
    }
}
