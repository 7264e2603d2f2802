//! Browsers that are signed in.

use std::time::Duration;

use butler_registry::TokenHash;

use super::Moment;

/// How long a session lasts that is not used.
const IDLE: Duration = Duration::from_hours(12);

/// How long any session lasts.
const LONGEST: Duration = Duration::from_hours(7 * 24);

/// A browser that is signed in.
#[derive(Clone, Copy, Debug, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct Session {
    /// The hash of the token with which it signed in. It tells the user.
    pub user: TokenHash,
    /// When it signed in.
    pub created: Moment,
    /// When it was used last, to the minute.
    pub used: Moment,
}

impl Session {
    /// Whether the session has ended at this time.
    #[must_use]
    pub fn is_over(&self, now: Moment) -> bool {
        now >= self.used + IDLE || now >= self.created + LONGEST
    }
}
