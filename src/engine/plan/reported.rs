//! Reads the tool's lines about single resources during an apply: resources that it was still working on when
//! it ended, and resources that its errors name.
//!
//! The state decides which changes were made: see [`super::applied`]. A module that prints such lines can only
//! make its own changes appear incomplete.

use std::collections::BTreeSet;

use butler_base::resource_lines::{ResourceLine, resource_line};

/// The number of resources that are recorded of each kind. By default the tool works on ten at the same time.
const MAX_RESOURCES: usize = 1000;

/// The resources in the output of an apply.
#[derive(Clone, Debug, Default)]
pub struct ReportedResources {
    /// Addresses of resources that it was working on.
    working: BTreeSet<String>,
    /// Addresses of resources that an error names.
    failed: BTreeSet<String>,
    /// Whether the current lines belong to an error that has not named a resource yet.
    in_error: bool,
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

    /// Reads a line of standard output.
    pub(in crate::engine) fn read_progress(&mut self, line: &[u8]) {
        let Ok(line) = std::str::from_utf8(line) else { return };
        match resource_line(line) {
            Some(ResourceLine::Working { address, .. })
                if self.working.len() < MAX_RESOURCES && !self.working.contains(address) =>
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
    fn memory_is_limited_for_any_number_of_lines() {
        let mut reported = ReportedResources::default();
        for number in 0..=MAX_RESOURCES {
            reported.read_progress(format!("a.b[{number}]: Creating...").as_bytes());
            reported.read_error(b"Error: x");
            reported.read_error(format!("with a.b[{number}],").as_bytes());
        }
        assert_eq!((reported.working.len(), reported.failed.len()), (MAX_RESOURCES, MAX_RESOURCES));
    }
}
