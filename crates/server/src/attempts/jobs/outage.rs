//! Outages of the cluster of Jobs, each told once, and once when it is over.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::serve::{Ailing, Part};

/// The questions about single Jobs, beside the watches.
pub(super) const QUESTIONS: &str = "questions";

/// The current failures, by their subject: the objects that are watched, or [`QUESTIONS`].
#[derive(Debug)]
pub(super) struct JobsOutage {
    failing: Mutex<BTreeMap<String, String>>,
    ailing: Arc<Ailing>,
}

impl JobsOutage {
    pub(super) fn new(ailing: Arc<Ailing>) -> Self {
        Self { failing: Mutex::default(), ailing }
    }

    /// Notes that something does not work.
    pub(super) fn begins(&self, what: &str, sentence: &str) {
        let is_new = self.change(|failing| {
            let is_new = failing.is_empty();
            failing.insert(what.to_owned(), sentence.to_owned());
            is_new
        });
        if is_new {
            tracing::warn!("{sentence}");
        }
    }

    /// Notes that something works.
    pub(super) fn ends(&self, what: &str) {
        let is_over = self.change(|failing| failing.remove(what).is_some() && failing.is_empty());
        if is_over {
            tracing::info!("the cluster tells of Jobs again");
        }
    }

    /// Whether something does not work.
    pub(super) fn has(&self, what: &str) -> bool {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner).contains_key(what)
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, String>) -> bool) -> bool {
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = change(&mut failing);
        // One sentence says it for all.
        self.ailing.set(Part::Jobs, failing.values().take(1).cloned().collect());
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outage_is_one_problem_until_all_of_it_works_again() {
        let ailing = Arc::<Ailing>::default();
        let outage = JobsOutage::new(Arc::clone(&ailing));
        outage.begins("jobs", "cannot watch jobs");
        outage.begins("pods", "cannot watch pods");
        outage.begins(QUESTIONS, "cannot ask");
        assert_eq!((ailing.sentences().len(), ailing.first()), (1, Some(Part::Jobs)));
        for (what, is_over) in [("jobs", false), ("pods", false), (QUESTIONS, true)] {
            outage.ends(what);
            assert_eq!(ailing.first().is_none(), is_over, "{what}");
        }
    }
}
