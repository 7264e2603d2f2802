//! The operations of a run.

/// An operation on a module.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Operation {
    /// Show what would change.
    Plan,
    /// Plan and apply exactly that plan.
    Apply,
    /// Plan the destruction of everything and apply exactly that plan.
    Destroy,
    /// Bring the state up to date with reality, without changing reality.
    Refresh,
    /// Show what changed in reality, without changing anything.
    DriftCheck,
    /// Check the configuration without touching state.
    Validate,
    /// Run the module's own tests.
    Test,
}

/// The operation that a run asks for is not one that the runner knows.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub enum UnknownOperation {
    /// No operation at all.
    #[error("the run names no operation")]
    Missing,
    /// The operation is unknown.
    #[error("the run asks for the unknown operation `{0}`")]
    Unknown(String),
}

impl Operation {
    /// All operations, by the names under which the registry knows them.
    pub const NAMES: [(&'static str, Self); 7] = [
        ("plan", Self::Plan),
        ("apply", Self::Apply),
        ("destroy", Self::Destroy),
        ("refresh", Self::Refresh),
        ("drift-check", Self::DriftCheck),
        ("validate", Self::Validate),
        ("test", Self::Test),
    ];

    /// The name under which the registry knows this operation.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Apply => "apply",
            Self::Destroy => "destroy",
            Self::Refresh => "refresh",
            Self::DriftCheck => "drift-check",
            Self::Validate => "validate",
            Self::Test => "test",
        }
    }
}

impl std::fmt::Display for Operation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}

impl std::str::FromStr for Operation {
    type Err = UnknownOperation;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        if name.is_empty() {
            return Err(UnknownOperation::Missing);
        }
        Self::NAMES
            .into_iter()
            .find_map(|(known, operation)| (known == name).then_some(operation))
            .ok_or_else(|| UnknownOperation::Unknown(name.to_owned()))
    }
}
