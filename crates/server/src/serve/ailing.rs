//! Parts that do not work now, although the server does: said on the page, by `layer list` and by `/readyz`.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A part of the server that can fail for itself.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Part {
    /// The cluster of attempts that are Jobs.
    Jobs,
    /// Custom resources.
    Resources,
    /// The store.
    Store,
}

impl Part {
    /// The name, as in `/readyz`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Jobs => "jobs",
            Self::Resources => "resources",
            Self::Store => "store",
        }
    }
}

/// The parts that do not work now, and why.
#[derive(Debug, Default)]
pub struct Ailing(Mutex<BTreeMap<Part, Vec<String>>>);

impl Ailing {
    /// Notes what is wrong with a part, in sentences; nothing if it works.
    pub fn set(&self, part: Part, sentences: Vec<String>) {
        if sentences.is_empty() {
            self.lock().remove(&part);
        } else {
            self.lock().insert(part, sentences);
        }
    }

    /// Notes that only this part does not work.
    pub(super) fn replace(&self, part: Part, sentences: Vec<String>) {
        *self.lock() = BTreeMap::from([(part, sentences)]);
    }

    /// The first part that does not work.
    #[must_use]
    pub fn first(&self) -> Option<Part> {
        self.lock().keys().next().copied()
    }

    /// The problems, in sentences.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        self.lock().values().flatten().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Part, Vec<String>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
