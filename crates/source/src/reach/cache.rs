//! What was read of directories, by their ids, so that it is the same for all layers and commits.

use std::collections::HashMap;

use super::named::Findings;

/// Values by the id of a directory. It keeps those that were used since the last [`Cache::begin`].
#[derive(Debug)]
pub struct Cache<T> {
    used: HashMap<String, T>,
    earlier: HashMap<String, T>,
}

impl<T> Default for Cache<T> {
    fn default() -> Self {
        Self { used: HashMap::new(), earlier: HashMap::new() }
    }
}

impl<T> Cache<T> {
    /// Begins a reading of a repository. What the one before did not use is forgotten.
    pub fn begin(&mut self) {
        self.earlier = std::mem::take(&mut self.used);
    }

    /// The value of a directory.
    pub fn get(&mut self, id: &str) -> Option<&T> {
        if let Some((id, value)) = self.earlier.remove_entry(id) {
            self.used.insert(id, value);
        }
        self.used.get(id)
    }

    /// Adds the value of a directory.
    pub fn insert(&mut self, id: String, value: T) {
        self.used.insert(id, value);
    }
}

/// The references in directories that were read, by the ids of the directories. They are the same for all layers and
/// commits.
#[derive(Debug, Default)]
pub struct ReferenceCache {
    /// `None` for directories whose files are links.
    pub(super) findings: Cache<Option<Findings>>,
    pub(super) links: Cache<Vec<String>>,
    /// Commits whose links all stay in the repository.
    pub(super) checked: Cache<()>,
}

impl ReferenceCache {
    /// Begins a reading of a repository. What the one before did not use is forgotten.
    pub fn begin(&mut self) {
        self.findings.begin();
        self.links.begin();
        self.checked.begin();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_kept_while_each_reading_uses_them() {
        let mut cache = Cache::default();
        cache.insert("a".to_owned(), 1);
        cache.insert("b".to_owned(), 2);
        cache.begin();
        assert_eq!(cache.get("a"), Some(&1));
        cache.begin();
        assert_eq!(cache.get("a"), Some(&1));
        assert_eq!(cache.get("b"), None);
    }
}
