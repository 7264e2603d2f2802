//! Redacts names of members, so that different names stay different.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use super::redactor::{MASK, Redactor};

/// The masked names of a document: a name always gets the same mask, so that references remain
/// intact, and different names never get the same mask.
#[derive(Default)]
pub struct Names {
    hasher: RandomState,
    /// The masked name by the hash of the name, which is not stored itself.
    given: HashMap<u64, String>,
    taken: HashSet<String>,
    /// How many names have the same masked text.
    counts: HashMap<String, usize>,
}

impl Names {
    /// `name` without secrets, followed by a number if another name has the same masked text.
    pub fn masked<'name>(&mut self, redactor: &Redactor, name: &'name str) -> Cow<'name, str> {
        let shown = redactor.redact(name.as_bytes());
        if !shown.contains(MASK) {
            return shown;
        }
        let hash = self.hasher.hash_one(name);
        if let Some(known) = self.given.get(&hash) {
            return Cow::Owned(known.clone());
        }
        let count = self.counts.entry(shown.clone().into_owned()).or_insert(1);
        let mut masked = shown.clone().into_owned();
        while !self.taken.insert(masked.clone()) {
            *count += 1;
            masked = format!("{shown} {count}");
        }
        self.given.insert(hash, masked.clone());
        Cow::Owned(masked)
    }
}
