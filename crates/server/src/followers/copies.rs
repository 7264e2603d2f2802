//! Copies of records, as config maps: what people who look into the cluster see of a follower.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use butler_follower::object::FOLLOWER_LABEL;
use butler_follower::state::{Record, bounded_copy, copy_name};
use serde_json::{Value, json};

/// The key of the record in a config map.
const KEY: &str = "state.json";

/// What was copied last, by follower, so that a record that says the same is not written again.
#[derive(Debug, Default)]
pub struct Copies {
    written: Mutex<HashMap<String, String>>,
    /// Why the last copy was not written.
    failures: Mutex<HashMap<String, String>>,
}

impl Copies {
    /// The config map of a record in a namespace; `None` if its last copy says the same.
    #[must_use]
    pub fn next(&self, namespace: &str, record: &Record) -> Option<Value> {
        // It differs with each look.
        let mut steady = record.clone();
        steady.timings.status_read_millis = None;
        let text = bounded_copy(&steady);
        let known = lock(&self.written);
        (known.get(&record.follower) != Some(&text)).then(|| {
            json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": copy_name(&record.follower),
                    "namespace": namespace,
                    "labels": {(FOLLOWER_LABEL): record.follower},
                },
                "data": {(KEY): text},
            })
        })
    }

    /// Remembers that this config map was written.
    pub fn written(&self, follower: &str, object: &Value) {
        let text = object["data"][KEY].as_str().unwrap_or_default().to_owned();
        lock(&self.written).insert(follower.to_owned(), text);
        lock(&self.failures).remove(follower);
    }

    /// Remembers why a config map could not be written. Returns whether that is new.
    pub fn failed(&self, follower: &str, why: &str) -> bool {
        let last = lock(&self.failures).insert(follower.to_owned(), why.to_owned());
        last.as_deref() != Some(why)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use butler_follower::Phase;

    use super::*;

    #[test]
    fn record_is_copied_again_only_if_it_says_something_else() {
        let copies = Copies::default();
        let mut record = Record::new("web");
        let first = copies.next("ci", &record).unwrap();
        assert_eq!(first["metadata"]["name"], "butler-follower-web");
        let decoded: Value = serde_json::from_str(first["data"][KEY].as_str().unwrap()).unwrap();
        assert_eq!(decoded["follower"], "web");
        assert!(copies.failed("web", "forbidden") && !copies.failed("web", "forbidden"));
        assert!(copies.next("ci", &record).is_some(), "it was not written yet");
        copies.written("web", &first);
        record.timings.status_read_millis = Some(7);
        assert_eq!(copies.next("ci", &record), None);
        record.phase = Phase::Failed;
        assert!(copies.next("ci", &record).is_some());
        assert!(copies.next("ci", &Record::new("shop")).is_some());
    }
}
