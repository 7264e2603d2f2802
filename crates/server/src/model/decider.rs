//! Which of several servers decides.

use serde::{Deserialize, Serialize};

use super::Moment;

/// The right to decide what happens, of one server at a time. Others show what happens, and take over when it is
/// no longer renewed.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct DeciderLease {
    /// The name of the server.
    pub holder: String,
    /// Is greater for each holder than for the one before it: what an earlier one starts late is refused.
    pub fence: u64,
    /// When it ends if it is not renewed.
    pub until: Moment,
}
