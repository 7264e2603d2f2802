//! What is recorded about an attempt that has not ended.

use crate::model::{Attempt, Liveness, Moment, StopReason};

/// Whether a change was made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[must_use]
pub enum Outcome {
    /// The change was made.
    Made,
    /// Nothing was changed: what is stored differs from what the caller believed.
    Refused,
}

/// Something about an attempt that has not ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Note {
    /// Its process was started, or it reported something.
    Heartbeat,
    /// It is about to change infrastructure.
    Begins,
    /// It was asked to stop.
    StopRequested(StopReason),
    /// The request to stop has reached its process.
    StopDelivered,
    /// Whether its process exists. Refused if the attempt has reported anything since the question.
    Probed {
        /// The answer.
        liveness: Liveness,
        /// [`Attempt::reports`] when the question was decided on.
        reports: u32,
    },
}

impl Note {
    /// Changes the attempt, which has not ended.
    pub(super) fn apply(self, attempt: &mut Attempt, now: Moment) -> Outcome {
        match self {
            Self::Heartbeat | Self::Begins => {
                // Its end is about to be recorded. A process that shows up now is too late.
                let is_gone = matches!(attempt.probed, Some((Liveness::Gone, _)));
                let begins = self == Self::Begins;
                if is_gone || (begins && attempt.stop.is_some()) {
                    return Outcome::Refused;
                }
                attempt.launched = true;
                attempt.began |= begins;
                attempt.heartbeat = now;
                attempt.reports = attempt.reports.wrapping_add(1);
                attempt.unknown_since = None;
            }
            Self::StopRequested(why) => {
                attempt.stop.get_or_insert((why, now));
            }
            Self::StopDelivered => attempt.stop_delivered = true,
            Self::Probed { reports, .. } if reports != attempt.reports => return Outcome::Refused,
            Self::Probed { liveness, .. } => {
                attempt.probed = Some((liveness, now));
                attempt.unknown_since = match liveness {
                    Liveness::Unknown => attempt.unknown_since.or(Some(now)),
                    Liveness::Alive | Liveness::Gone => None,
                };
            }
        }
        Outcome::Made
    }
}
