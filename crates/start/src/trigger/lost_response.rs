//! Start requests whose response was lost or is not from the API: the run may exist, so the provider
//! searches for it and does not repeat the request.

use std::time::Duration;

use tokio::time::Instant;

use super::TriggerError;
use super::server::Server;

/// The duration of the search: servers and their gateways abort requests after a minute.
const SEARCH_TIME: Duration = Duration::from_mins(1);

/// The pause between two searches.
const PAUSE: Duration = Duration::from_secs(1);

impl Server {
    /// Searches for the run until it is found or the time is over. `why` is the reason why it is unclear
    /// whether it exists, `place` is where the user can look.
    ///
    /// # Errors
    /// Always [`TriggerError::OutcomeUnclear`]: no message may claim that no run was started.
    pub(super) async fn find_lost_run<T>(
        &self,
        why: String,
        place: &str,
        mut look: impl AsyncFnMut() -> Result<Option<T>, TriggerError>,
    ) -> Result<T, TriggerError> {
        tracing::warn!("the response to the start request was lost ({why}); searching for the run");
        let end = Instant::now() + SEARCH_TIME.min(self.left());
        loop {
            match look().await {
                Ok(Some(found)) => return Ok(found),
                Ok(None) if Instant::now() + PAUSE < end => tokio::time::sleep(PAUSE).await,
                Ok(None) => return Err(self.outcome_unclear(why, place)),
                Err(error) => {
                    return Err(self.outcome_unclear(
                        format!("{why}; {}", butler_base::error::chain(&error)),
                        place,
                    ));
                }
            }
        }
    }

    /// The error for an unclear outcome, because of `why`.
    pub(super) fn outcome_unclear(&self, why: String, place: &str) -> TriggerError {
        let advice = format!("look at {place} before you start it again");
        TriggerError::OutcomeUnclear { server: self.name(), why, advice }
    }
}

/// Whether `title` contains `id` as a separate word: `run-1` is not in `run-12`.
pub(super) fn contains_id(title: &str, id: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || "-_".contains(character);
    title.match_indices(id).any(|(at, _)| {
        let before = title[..at].chars().next_back();
        let after = title[at + id.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_found_as_a_word_and_not_in_another_id() {
        for title in ["7f-1", "Butler run 7f-1", "plan (7f-1)", "7f-12 and 7f-1"] {
            assert!(contains_id(title, "7f-1"), "{title}");
        }
        for title in ["", "7f-12", "a7f-1", "0-7f-1", "7f-1-2", "7f_1"] {
            assert!(!contains_id(title, "7f-1"), "{title}");
        }
    }
}
