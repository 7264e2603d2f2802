//! The depth of a fetch.

/// The part of a history that is fetched.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum Depth {
    /// This many commits: 1 for a commit alone.
    Commits(u32),
    All,
}

impl Depth {
    /// A commit without its history.
    pub(super) const ONE: Self = Self::Commits(1);

    /// The number of generations of parents.
    pub(super) const fn generations(self) -> u32 {
        match self {
            Self::Commits(count) => count.saturating_sub(1),
            Self::All => u32::MAX,
        }
    }
}
