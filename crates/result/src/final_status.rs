//! The final status of a run.

use serde::Serialize;

/// The final status of a run, as it is sent to the registry.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FinalStatus {
    /// All phases succeeded.
    Succeeded,
    /// The plan has changes that a user can be asked to confirm.
    Planned,
    /// A phase failed, or the final status was not delivered.
    Failed,
    /// A signal or the registry stopped the run.
    Cancelled,
}

impl FinalStatus {
    /// The name in documents and in the registry's API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Planned => "planned",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl std::fmt::Display for FinalStatus {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_of_a_final_status_is_its_name() {
        use FinalStatus::{Cancelled, Failed, Planned, Succeeded};

        for status in [Succeeded, Planned, Failed, Cancelled] {
            assert_eq!(serde_json::to_value(status).unwrap(), status.name());
        }
    }
}
