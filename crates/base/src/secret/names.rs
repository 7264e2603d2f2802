//! Names of members that are secrets: masked, and apart from each other.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use super::redactor::{MASK, Redactor};

/// What became of the names in a document: the same name is masked the same way wherever it stands,
/// so that what belongs together still does, and no two names become one.
#[derive(Default)]
pub struct Names {
    hasher: RandomState,
    /// By the hash of a name what stands in its place: the name itself is not kept.
    given: HashMap<u64, String>,
    taken: HashSet<String>,
    /// How many names were masked to the same text.
    counts: HashMap<String, usize>,
}

impl Names {
    /// `name` without secrets; a number follows where another one became the same.
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
