//! Redacts member names, and keeps different names different.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use super::redactor::{MASK, Redactor};

/// The masked names of a document. A name always gets the same masked name, so that references
/// remain intact. Different names get different masked names.
#[derive(Default)]
pub struct Names {
    hasher: RandomState,
    /// The masked name by the hash of the name. The name is not stored because it contains a secret.
    given: HashMap<u64, String>,
    taken: HashSet<String>,
    /// The number of names by masked text.
    counts: HashMap<String, usize>,
}

impl Names {
    /// Redacts `name`, and appends a number if another name has the same masked text.
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
