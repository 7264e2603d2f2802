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
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Image,
        Self::Setup,
        Self::Quota,
        Self::NoRoom,
        Self::OutOfMemory,
        Self::Evicted,
        Self::NodeLost,
        Self::Deadline,
        Self::Refused,
        Self::Access,
        Self::Unreachable,
        Self::Incomplete,
        Self::Ended,
    ];

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

    /// The remedy, in the imperative, if the same start can never succeed.
    #[must_use]
    pub const fn advice(self) -> Option<&'static str> {
        match self {
            Self::OutOfMemory => Some("increase `memory` of the layer's `job`"),
            Self::Deadline => Some("increase `timeout` of the layer"),
            Self::Setup => Some("create what is missing in the namespace of the Jobs"),
            _ => None,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documented_table_has_each_failure_in_its_words_and_whether_it_is_tried_again() {
        let page = include_str!("../../../docs/server-kubernetes.md");
        let rows: Vec<Vec<&str>> = page
            .lines()
            .skip_while(|line| !line.starts_with("| what happened | page and API say |"))
            .skip(2)
            .take_while(|line| line.starts_with('|'))
            .map(|line| line.split('|').map(str::trim).collect())
            .collect();
        let described = rows.iter().map(|row| row[2].trim_matches('`'));
        assert!(described.eq(JobFailure::ALL.map(JobFailure::describe)), "{rows:#?}");
        for (row, failure) in rows.iter().zip(JobFailure::ALL) {
            assert_eq!(row[3].starts_with("yes"), failure.is_retried(), "{row:?}");
            // What is repeated must be able to succeed without a person.
            assert!(failure.advice().is_none() || !failure.is_retried(), "{row:?}");
        }
    }
}
