//! The interpretation of a run's sensitive values.

/// Whether sensitive values can be references.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum SensitiveValues {
    /// As a reference if it has the form of one.
    #[default]
    Auto,
    /// Always as the secret itself.
    Literal,
}

impl SensitiveValues {
    /// The one with this name, in a run's `sensitiveValues` and for `--sensitive-values`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "auto" => Some(Self::Auto),
            "literal" => Some(Self::Literal),
            _ => None,
        }
    }
}
