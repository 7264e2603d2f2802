//! The operations of a run, their names, and the facts that differ between them.

use serde::{Serialize, Serializer};

macro_rules! operations {
    ($($(#[$documentation:meta])* $operation:ident => $name:literal,)*) => {
        /// An operation on a module.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub enum Operation {
            $($(#[$documentation])* $operation,)*
        }

        impl Operation {
            /// All operations.
            pub const ALL: [Self; [$(Self::$operation),*].len()] = [$(Self::$operation),*];

            /// The name in the registry's documents, in reports, and in messages.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$operation => $name,)*
                }
            }
        }
    };
}

operations! {
    /// Shows the changes that an apply would make.
    Plan => "plan",
    /// Plans and applies exactly that plan.
    Apply => "apply",
    /// Plans the destruction of all resources and applies exactly that plan.
    Destroy => "destroy",
    /// Updates the state from the infrastructure, without changing the infrastructure.
    Refresh => "refresh",
    /// Shows drift, without changing anything.
    DriftCheck => "drift-check",
    /// Checks the configuration, without reading the state.
    Validate => "validate",
    /// Runs the module's tests.
    Test => "test",
}

/// A configuration without a known operation.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
pub enum UnknownOperation {
    /// The configuration has no operation.
    #[error("the run has no operation")]
    Missing,
    /// The operation is unknown.
    #[error("unknown operation `{0}`")]
    Unknown(String),
}

impl Operation {
    /// Whether the operation changes infrastructure, so that a lost state leaves resources that no
    /// later run finds.
    #[must_use]
    pub const fn changes_infrastructure(self) -> bool {
        match self {
            Self::Apply | Self::Destroy => true,
            Self::Plan | Self::Refresh | Self::DriftCheck | Self::Validate | Self::Test => false,
        }
    }

    /// Whether the operation applies its plan and so writes the state: its counts are completed
    /// actions, not planned ones.
    #[must_use]
    pub const fn applies_its_plan(self) -> bool {
        match self {
            Self::Apply | Self::Destroy | Self::Refresh => true,
            Self::Plan | Self::DriftCheck | Self::Validate | Self::Test => false,
        }
    }

    /// Whether the operation makes or applies a plan.
    #[must_use]
    pub const fn plans(self) -> bool {
        match self {
            Self::Plan | Self::Apply | Self::Destroy | Self::Refresh | Self::DriftCheck => true,
            Self::Validate | Self::Test => false,
        }
    }

    /// Whether the purpose of the operation is to find drift.
    #[must_use]
    pub const fn looks_for_drift(self) -> bool {
        match self {
            Self::Refresh | Self::DriftCheck => true,
            Self::Plan | Self::Apply | Self::Destroy | Self::Validate | Self::Test => false,
        }
    }

    /// Whether the operation needs the backend, and so credentials for it and a workspace.
    #[must_use]
    pub const fn uses_backend(self) -> bool {
        match self {
            Self::Validate => false,
            Self::Plan
            | Self::Apply
            | Self::Destroy
            | Self::Refresh
            | Self::DriftCheck
            | Self::Test => true,
        }
    }
}

impl std::fmt::Display for Operation {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}

impl Serialize for Operation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl std::str::FromStr for Operation {
    type Err = UnknownOperation;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        if name.is_empty() {
            return Err(UnknownOperation::Missing);
        }
        Self::ALL
            .into_iter()
            .find(|operation| operation.name() == name)
            .ok_or_else(|| UnknownOperation::Unknown(name.to_owned()))
    }
}
