//! The parts of a log: what is done before Terraform, `init`, plan and apply.
//!
//! Lines do not say to which part they belong. A part begins with a line that Terraform and OpenTofu print there.

/// A part of a log, in the order in which parts follow.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogPart {
    /// What the runner does before.
    Prepare,
    /// `init`.
    Init,
    /// `plan`.
    Plan,
    /// `apply`.
    Apply,
}

impl LogPart {
    /// The part that begins with a line, if one does. A part does not begin again: a line of a later part counts
    /// only if the part was not reached before.
    #[must_use]
    pub fn beginning_with(line: &str) -> Option<Self> {
        let is_init = ["Initializing the backend", "Initializing modules", "Initializing provider"];
        if is_init.iter().any(|beginning| line.starts_with(beginning)) {
            return Some(Self::Init);
        }
        let is_plan = [
            ": Refreshing state...",
            ": Reading...",
            " used the selected providers to generate the following execution",
            "No changes. Your infrastructure matches the configuration.",
        ];
        if is_plan.iter().any(|part| line.contains(part)) {
            return Some(Self::Plan);
        }
        let is_apply = [": Creating...", ": Modifying...", ": Destroying...", ": Importing..."];
        is_apply.iter().any(|part| line.contains(part)).then_some(Self::Apply)
    }

    /// The heading.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Prepare => "Prepare",
            Self::Init => "Init",
            Self::Plan => "Plan",
            Self::Apply => "Apply",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_begin_with_lines_of_terraform() {
        for (line, part) in [
            ("Using terraform 1.11.4 (/usr/local/bin/terraform)", None),
            ("Initializing the backend...", Some(LogPart::Init)),
            ("Initializing provider plugins...", Some(LogPart::Init)),
            ("terraform_data.a: Refreshing state... [id=1]", Some(LogPart::Plan)),
            (
                "OpenTofu used the selected providers to generate the following execution",
                Some(LogPart::Plan),
            ),
            ("module.x.terraform_data.a: Creating...", Some(LogPart::Apply)),
            ("terraform_data.a: Creation complete after 0s [id=1]", None),
        ] {
            assert_eq!(LogPart::beginning_with(line), part, "{line}");
        }
        assert!(LogPart::Prepare < LogPart::Init && LogPart::Plan < LogPart::Apply);
    }
}
