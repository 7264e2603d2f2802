//! Why the cluster ended a run, or did not start it.

use serde::{Deserialize, Serialize};

/// Why the cluster ended the Job of a run, or did not start it. The names are stored.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobFailure {
    /// The container used more memory than its limit.
    OutOfMemory,
    /// The node needed what the pod used.
    Evicted,
    /// The Job was active for longer than its deadline.
    Deadline,
    /// The node, or what the cluster knew about it, is gone.
    NodeLost,
    /// The image could not be pulled.
    Image,
    /// A Secret, a volume or another object that the pod needs is missing.
    Setup,
    /// A quota or an admission rule did not allow the pod.
    Quota,
    /// No node had room for the pod.
    NoRoom,
    /// The API server refused the objects of the run.
    Refused,
    /// The API server did not answer.
    Unreachable,
    /// The API server did not accept the login of the server, or it may not create Jobs.
    Access,
    /// The server did not create all objects of the run: it was stopped in between, or asked to stop the run.
    Incomplete,
    /// The runner ended without a report.
    Ended,
}

impl JobFailure {
    /// Whether the same thing can succeed later without a change.
    #[must_use]
    pub const fn is_retried(self) -> bool {
        match self {
            Self::Evicted
            | Self::NodeLost
            | Self::Image
            | Self::Quota
            | Self::NoRoom
            | Self::Unreachable
            | Self::Access
            | Self::Incomplete
            | Self::Ended => true,
            // The same memory and time are not enough the next time either.
            Self::OutOfMemory | Self::Deadline | Self::Setup | Self::Refused => false,
        }
    }

    /// Whether the runner may have begun.
    #[must_use]
    pub const fn may_have_begun(self) -> bool {
        match self {
            Self::OutOfMemory | Self::Evicted | Self::Deadline | Self::NodeLost | Self::Ended => {
                true
            }
            Self::Image
            | Self::Setup
            | Self::Quota
            | Self::NoRoom
            | Self::Refused
            | Self::Unreachable
            | Self::Access
            | Self::Incomplete => false,
        }
    }

    /// What failed, for a sentence: "failed because {}".
    #[must_use]
    pub const fn describe(self) -> &'static str {
        match self {
            Self::OutOfMemory => "its container was out of memory (OOMKilled)",
            Self::Evicted => "its pod was evicted from the node",
            Self::Deadline => "its Job was active for longer than its deadline",
            Self::NodeLost => "the node of its pod was lost",
            Self::Image => "its image could not be pulled",
            Self::Setup => "an object that its pod needs is missing in the namespace",
            Self::Quota => "a quota or an admission rule did not allow its pod",
            Self::NoRoom => "no node had room for its pod",
            Self::Refused => "the API server refused its Job",
            Self::Unreachable => "the API server of the cluster did not answer",
            Self::Access => "the cluster does not allow the server to create Jobs",
            Self::Incomplete => "the objects of its Job were not all created",
            Self::Ended => "its pod ended without a report",
        }
    }
}
