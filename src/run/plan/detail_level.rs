//! How much of a plan is sent to a registry with a size limit.

/// The parts of a plan that are sent, from everything to a note.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::run) enum DetailLevel {
    Everything,
    WithoutState,
    Changes,
    ChangesAndCutText,
    ChangesAlone,
    CutText,
    Note,
}

impl DetailLevel {
    /// All levels, from the largest body to the smallest.
    pub(super) const ALL: [Self; 7] = [
        Self::Everything,
        Self::WithoutState,
        Self::Changes,
        Self::ChangesAndCutText,
        Self::ChangesAlone,
        Self::CutText,
        Self::Note,
    ];

    /// The omitted parts, for users.
    pub(in crate::run) const fn note(self) -> Option<&'static str> {
        match self {
            Self::Everything => None,
            Self::WithoutState => Some(
                "the plan is too large for the registry: it is reported without `prior_state` and `configuration`",
            ),
            Self::Changes => Some(
                "the plan is too large for the registry: of its JSON only resource and output changes are reported",
            ),
            Self::ChangesAndCutText => Some(
                "the plan is too large for the registry: of its JSON only resource and output changes are reported, and its text is cut",
            ),
            Self::ChangesAlone => Some(
                "the plan is too large for the registry: only its resource and output changes are reported, without its text",
            ),
            Self::CutText => Some(
                "the plan is too large for the registry: its JSON is not reported, and its text is cut if it is too long",
            ),
            Self::Note => Some(
                "the plan is too large for the registry: neither its JSON nor its text is reported",
            ),
        }
    }

    /// Whether a member of the plan's JSON is sent.
    pub(super) fn has(self, member: &str) -> bool {
        match self {
            Self::Everything => true,
            Self::WithoutState => !matches!(member, "prior_state" | "configuration"),
            Self::Changes | Self::ChangesAndCutText | Self::ChangesAlone => matches!(
                member,
                "format_version"
                    | "terraform_version"
                    | "resource_changes"
                    | "output_changes"
                    | "action_invocations"
                    | "deferred_action_invocations"
                    | "checks"
            ),
            Self::CutText | Self::Note => false,
        }
    }

    /// The next smaller level.
    pub(in crate::run) fn smaller(self) -> Option<Self> {
        let index = Self::ALL.iter().position(|level| *level == self)?;
        Self::ALL.get(index + 1).copied()
    }
}

/// The size limit of a body, in bytes.
#[derive(Clone, Copy, Debug)]
pub(in crate::run) struct BodyLimit {
    /// The limit of a body whose text is not cut.
    pub(super) whole: u64,
    /// The limit of a body whose text is cut.
    pub(super) cut: u64,
}

impl BodyLimit {
    /// The limit of the registry.
    pub(in crate::run) const fn new(limit: u64) -> Self {
        Self { whole: limit, cut: limit }
    }

    /// The limit after a body of `length` was refused as too large. The refusal does not contain the limit, so
    /// a cut body has half of that length.
    pub(in crate::run) const fn after_refusal(length: u64) -> Self {
        Self { whole: length.saturating_sub(1), cut: length / 2 }
    }
}
