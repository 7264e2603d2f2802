//! Commits, and how they are read.

use butler_server::model::{Commit, Digest, LayerName, Revision, Sighting, Unrelated};
use butler_server::store::Store;

use crate::world::{World, now};

impl World {
    pub(crate) fn commit(&mut self, layer: usize, digest: u8) {
        self.commit_digest(layer, Digest::new(format!("d{digest}")));
    }

    pub(crate) fn commit_digest(&mut self, layer: usize, digest: Digest) {
        let commit = self.next_commit(layer);
        self.head[layer] = Sighting::Found(Revision { commit, digest });
    }

    /// A commit after the last one of this layer.
    pub(crate) fn next_commit(&mut self, layer: usize) -> Commit {
        self.commits += 1;
        let commit = Commit::new(format!("c{}", self.commits));
        self.histories.insert(commit.clone(), (layer, self.history[layer]));
        commit
    }

    /// The commits that have no ancestor in common with one of those that are read.
    pub(crate) fn unrelated(&self, head: &[(LayerName, Sighting)]) -> Vec<Unrelated> {
        let mut unrelated = Vec::new();
        for commit in head.iter().filter_map(|(_, sighting)| sighting.commit()) {
            let (layer, history) = self.histories[commit];
            for (before, (other, earlier)) in &self.histories {
                if *other == layer && *earlier != history {
                    unrelated.push((before.clone(), commit.clone()));
                }
            }
        }
        unrelated
    }

    /// What the repository contains for each layer.
    pub(crate) fn head(&self) -> Vec<(LayerName, Sighting)> {
        let names = self.layers.iter().map(|layer| layer.layer.name.clone());
        names.zip(self.head.iter().cloned()).collect()
    }

    pub(crate) fn poll(&mut self) {
        if !self.git_is_down
            && let Ok(readings) = now(self.store.readings("infra"))
        {
            let head = self.head();
            let unrelated = self.unrelated(&head);
            let is_read = now(self.store.observe("infra", readings, &head, &unrelated)).is_ok();
            self.restart();
            // Invariant 6: the same reading once more.
            let writes = self.store.inner.writes();
            let readings = now(self.store.inner.readings("infra")).unwrap();
            if is_read {
                let _ = now(self.store.inner.observe("infra", readings, &head, &unrelated));
            }
            if self.store.inner.writes() != writes {
                self.violation = Some("a poll that finds nothing new writes".to_owned());
            }
        }
    }
}
