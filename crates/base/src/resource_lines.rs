//! Parses the lines that Terraform and `OpenTofu` print about a resource, such as
//! `aws_instance.web: Creating...`.
//!
//! A module can print lines that look the same. So such a line may show progress, and mark a change
//! as incomplete; it never proves that a change was completed.

use memchr::memmem;

/// An event of a resource.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ResourceLine<'line> {
    /// An action begins or continues.
    Working {
        /// Its address.
        address: &'line str,
        /// The action, such as `creating`.
        verb: &'static str,
    },
    /// An action is complete.
    Complete {
        /// Its address.
        address: &'line str,
        /// The action.
        action: CompleteAction,
    },
    /// The state is compared with the real resource. No line marks the end of this.
    Refreshing,
}

/// An action that is complete.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum CompleteAction {
    /// The resource was created.
    Create,
    /// The resource was changed in place.
    Modify,
    /// The resource was destroyed.
    Destroy,
    /// The resource was imported.
    Import,
    /// Another action, such as the read of a data source.
    Other,
}

impl CompleteAction {
    /// Whether the plan counts the action as a change.
    #[must_use]
    pub const fn is_change(self) -> bool {
        matches!(self, Self::Create | Self::Modify | Self::Destroy)
    }
}

/// Follows the address when an action begins.
const BEGINNINGS: [(&str, &str); 8] = [
    ("Creating...", "creating"),
    ("Modifying...", "modifying"),
    ("Destroying...", "destroying"),
    ("Reading...", "reading"),
    ("Importing...", "importing"),
    ("Opening...", "opening"),
    ("Renewing...", "renewing"),
    ("Closing...", "closing"),
];

/// Follows the address while an action continues.
const STILL: &str = "Still ";

/// Follows the address when an action is complete.
const ENDS: [(&str, CompleteAction); 9] = [
    ("Creation complete", CompleteAction::Create),
    ("Modifications complete", CompleteAction::Modify),
    ("Destruction complete", CompleteAction::Destroy),
    ("Read complete", CompleteAction::Other),
    ("Import complete", CompleteAction::Import),
    ("Opening complete", CompleteAction::Other),
    ("Renewal complete", CompleteAction::Other),
    ("Closing complete", CompleteAction::Other),
    ("Provisioning complete", CompleteAction::Other),
];

/// Follows the address when the state is refreshed.
const REFRESHING: &str = "Refreshing state...";

/// Parses a line; none if it is not about a resource.
#[must_use]
pub fn resource_line(line: &str) -> Option<ResourceLine<'_>> {
    const SEPARATOR: &[u8] = b": ";
    if line.starts_with(' ') {
        return None;
    }
    // The address itself can contain the separator: `x["a: b"]`.
    memmem::find_iter(line.as_bytes(), SEPARATOR).filter(|end| *end > 0).find_map(|end| {
        let (address, rest) = (&line[..end], &line[end + SEPARATOR.len()..]);
        if let Some(rest) = rest.strip_prefix(STILL) {
            let mut verbs = BEGINNINGS.iter().map(|(_, verb)| *verb);
            let verb = verbs.find(|verb| rest.starts_with(verb)).unwrap_or("busy");
            return Some(ResourceLine::Working { address, verb });
        }
        if rest.starts_with(REFRESHING) {
            return Some(ResourceLine::Refreshing);
        }
        let begins = BEGINNINGS.iter().find(|(sign, _)| rest.starts_with(sign));
        let ends = || ENDS.iter().find(|(sign, _)| rest.starts_with(sign));
        begins.map(|(_, verb)| ResourceLine::Working { address, verb }).or_else(|| {
            ends().map(|(_, action)| ResourceLine::Complete { address, action: *action })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_about_a_resource_contains_its_whole_address() {
        let working = |address, verb| Some(ResourceLine::Working { address, verb });
        let complete = |address, action| Some(ResourceLine::Complete { address, action });
        for (line, expected) in [
            ("a.b[\"x: y\"]: Destroying... [id=1]", working("a.b[\"x: y\"]", "destroying")),
            ("a.b: Still modifying... [10s elapsed]", working("a.b", "modifying")),
            ("a.b: Still provisioning...", working("a.b", "busy")),
            (
                "a.b (deposed object 0a1b): Destruction complete after 0s",
                complete("a.b (deposed object 0a1b)", CompleteAction::Destroy),
            ),
            (
                "data.a.b: Read complete after 0s [id=1]",
                complete("data.a.b", CompleteAction::Other),
            ),
            ("a.b: Creation complete after 0s [id=1]", complete("a.b", CompleteAction::Create)),
            ("a.b: Modifications complete after 0s", complete("a.b", CompleteAction::Modify)),
            ("a.b: Import complete [id=1]", complete("a.b", CompleteAction::Import)),
            ("a.b: Refreshing state... [id=1]", Some(ResourceLine::Refreshing)),
            ("  a.b: Creating...", None),
            (": Creating...", None),
            ("Creating...", None),
            ("a.b: c", None),
        ] {
            assert_eq!(resource_line(line), expected, "{line}");
        }
    }
}
