//! Moments as text.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Serialize, Serializer};

use crate::model::Moment;

/// A moment as RFC 3339 text.
#[derive(Clone, Copy, Debug, Eq, PartialEq, schemars::JsonSchema)]
#[schemars(inline)]
pub struct Timestamp(#[schemars(with = "String", extend("format" = "date-time"))] pub Moment);

impl Timestamp {
    /// The moment of a clock of this machine.
    #[must_use]
    pub fn of(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(Moment::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX)))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let time = UNIX_EPOCH + Duration::from_millis(self.0.as_millis());
        serializer.collect_str(&humantime::format_rfc3339_millis(time))
    }
}
