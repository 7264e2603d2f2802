//! The objects of the cluster by their path, and the history of changes.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// One change, in the form of a watch event.
pub(super) struct Change {
    pub(super) version: u64,
    pub(super) what: &'static str,
    pub(super) path: String,
    pub(super) object: Value,
}

/// Objects, their history, and the logs of pods.
pub(super) struct Store {
    objects: BTreeMap<String, Value>,
    pub(super) history: Vec<Change>,
    pub(super) version: u64,
    /// The oldest version whose later changes are all in the history.
    pub(super) oldest: u64,
    /// By pod name: lines with their times, and whether more will follow.
    pub(super) logs: BTreeMap<String, Log>,
    /// The processes of containers, by pod name.
    pub(super) processes: BTreeMap<String, u32>,
    /// Whether objects without an owner are removed.
    pub(super) collects: bool,
    /// Whether ended pods remain.
    pub(super) keeps_pods: bool,
}

impl Default for Store {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            history: Vec::new(),
            version: 0,
            oldest: 0,
            logs: BTreeMap::new(),
            processes: BTreeMap::new(),
            collects: true,
            keeps_pods: false,
        }
    }
}

#[derive(Default)]
pub(super) struct Log {
    pub(super) lines: Vec<(k8s_openapi::jiff::Timestamp, String)>,
    pub(super) is_complete: bool,
}

impl Store {
    pub(super) fn get(&self, path: &str) -> Option<&Value> {
        self.objects.get(path)
    }

    /// The objects of a collection, by its path or the last part of it.
    pub(super) fn of(&self, collection: &str) -> impl Iterator<Item = &Value> {
        let objects = self.objects.iter();
        objects.filter(move |(path, _)| is_in(path, collection)).map(|(_, object)| object)
    }

    /// Stores a new object, or a new version of one.
    pub(super) fn put(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let what = if self.objects.contains_key(path) { "MODIFIED" } else { "ADDED" };
        self.objects.insert(path.to_owned(), object.clone());
        self.note(what, path, object.clone());
        object
    }

    /// Changes an existing object.
    pub(super) fn change(&mut self, path: &str, change: impl FnOnce(&mut Value)) {
        if let Some(mut object) = self.objects.get(path).cloned() {
            change(&mut object);
            self.put(path, object);
        }
    }

    /// Removes an object and the objects that it owns.
    pub(super) fn remove(&mut self, path: &str) {
        let Some(mut object) = self.objects.remove(path) else { return };
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let uid = object["metadata"]["uid"].clone();
        self.note("DELETED", path, object);
        if !self.collects {
            return;
        }
        let is_owned = |object: &Value| {
            let owners = object["metadata"]["ownerReferences"].as_array();
            owners.is_some_and(|owners| owners.iter().any(|owner| owner["uid"] == uid))
        };
        let owned = self.objects.iter().filter(|(_, object)| is_owned(object));
        for path in owned.map(|(path, _)| path.clone()).collect::<Vec<_>>() {
            self.remove(&path);
        }
    }

    fn note(&mut self, what: &'static str, path: &str, object: Value) {
        let path = path.to_owned();
        self.history.push(Change { version: self.version, what, path, object });
    }
}

/// Whether an object's path is in the collection.
pub(super) fn is_in(path: &str, collection: &str) -> bool {
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    parent == collection || parent.rsplit('/').next() == Some(collection)
}
