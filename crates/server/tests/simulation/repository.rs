//! Commits, and how they are read.

use butler_server::model::{Commit, Digest, LayerName, Revision, Sighting};
use butler_server::store::Store;

use crate::world::{World, now};

impl World {
    pub(crate) fn commit(&mut self, layer: usize, digest: u8) {
        self.commit_digest(layer, Digest::new(format!("d{digest}")));
    }

    pub(crate) fn commit_digest(&mut self, layer: usize, digest: Digest) {
        self.commits += 1;
        let commit = Commit::new(format!("c{}", self.commits));
        self.head[layer] = Sighting::Found(Revision { commit, digest });
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
            let is_read = now(self.store.observe("infra", readings, &self.head())).is_ok();
            self.restart();
            // Invariant 6: the same reading once more.
            let writes = self.store.inner.writes();
            let readings = now(self.store.inner.readings("infra")).unwrap();
            if is_read {
                let _ = now(self.store.inner.observe("infra", readings, &self.head()));
            }
            if self.store.inner.writes() != writes {
                self.violation = Some("a poll that finds nothing new writes".to_owned());
            }
        }
    }
}
