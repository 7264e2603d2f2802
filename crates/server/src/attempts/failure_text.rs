//! The stored reason of a failed attempt.

use butler_base::error::visible;

/// How much of the reason of a failure is stored, in characters.
pub(super) const MOST_OF_A_FAILURE: usize = 500;

/// The stored part of the reason of a failure: its first line, without characters that control a terminal.
pub(super) fn stored_failure(reported: &str) -> Option<String> {
    let line = reported.lines().next().unwrap_or_default().trim();
    let mut shown: String = visible(line).take(MOST_OF_A_FAILURE).collect();
    if shown.chars().count() == MOST_OF_A_FAILURE {
        shown.push('…');
    }
    (!shown.is_empty()).then_some(shown)
}
