//! Removes the files of plans that can no longer be applied. The scheduler removes each of them when it looks at
//! the layer; this pass removes what it has missed.

use std::collections::BTreeMap;

use butler_base::blocking::blocking;

use crate::attempts::{AttemptDirectory, PlanFiles};
use crate::controller::{needed_plan_files, newest_runs};
use crate::data::{DataDirectory, names};
use crate::layers::Catalog;
use crate::model::{LayerName, RunId};
use crate::store::{AttemptId, Store, StoreResult};

/// Removes the plan files in the directories of attempts that are not needed. What cannot be read is kept.
pub(super) async fn remove_plan_files<S: Store>(
    store: &S,
    data: &DataDirectory,
    catalog: &Catalog,
) -> StoreResult<()> {
    for (layer, attempts) in attempts_with_plans(store, data).await? {
        let source = catalog.layers.get(&layer);
        // Perhaps a member of a layer set whose repository was not read yet.
        if catalog.may_be_missing(&layer) {
            continue;
        }
        let snapshot = store.snapshot(&layer, "", &[]).await?;
        let runs = newest_runs(store, &layer).await?;
        let configured = source.map(|source| &source.configured.layer);
        let needed = needed_plan_files(&layer, configured, &snapshot, &runs);
        for (attempt, has_ended) in attempts {
            let is_needed = needed.contains(&(attempt.run.clone(), attempt.number));
            let directory = AttemptDirectory::of(&data.attempts(), &attempt);
            let removed = match (is_needed, has_ended) {
                (false, _) => PlanFiles::remove(&directory),
                (true, true) => PlanFiles::remove_incomplete(&directory),
                (true, false) => Ok(()),
            };
            if let Err(error) = removed {
                tracing::warn!(run = %attempt.run, %error, "cannot remove a plan file");
            }
        }
    }
    Ok(())
}

/// The attempts in whose directories there is a plan or a part of one, and whether each has ended, by layer.
async fn attempts_with_plans<S: Store>(
    store: &S,
    data: &DataDirectory,
) -> StoreResult<BTreeMap<LayerName, Vec<(AttemptId, bool)>>> {
    let directory = data.attempts();
    let found = blocking(move |_| {
        let has_plan =
            |name: &String| PlanFiles::exists(&AttemptDirectory::at(&directory.join(name)));
        names(&directory).map(|names| names.into_iter().filter(has_plan).collect::<Vec<_>>())
    });
    let found = match found.await {
        Ok(found) => found,
        Err(error) => {
            tracing::warn!(%error, "cannot read which attempts have saved a plan");
            Vec::new()
        }
    };
    let mut attempts = BTreeMap::<LayerName, Vec<(AttemptId, bool)>>::new();
    for name in found {
        let Some((run, number)) = name.rsplit_once('-') else { continue };
        let (run, Ok(number)) = (RunId::new(run), number.parse::<u32>()) else { continue };
        let Some((layer, known)) = store.run(&run).await? else { continue };
        let is_running = known.running().is_some_and(|attempt| attempt.number == number);
        let attempt = AttemptId { layer: layer.clone(), run, number };
        attempts.entry(layer).or_default().push((attempt, !is_running));
    }
    Ok(attempts)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::model::{Commit, Digest, Moment, Revision, SavedPlan, Sighting};
    use crate::store::{MemoryStore, Outcome};
    use crate::test_attempts::{end, start};

    #[tokio::test]
    async fn files_of_plans_that_cannot_be_applied_are_removed_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let data = DataDirectory::create(root.path()).unwrap();
        let now = Arc::new(AtomicU64::new(0));
        let told = now.clone();
        let clock = move || Moment::from_millis(told.load(Ordering::Relaxed));
        let store = MemoryStore::new(Arc::new(clock));
        let revision = Revision { commit: Commit::new("c"), digest: Digest::new("d") };
        let seen =
            ["a", "b"].map(|name| (name.parse().unwrap(), Sighting::Found(revision.clone())));
        assert_eq!(store.observe("infra", 0, &seen, &[]).await.unwrap(), Outcome::Made);
        let older = start(&store, &data, "a", "1").await;
        end(&store, &older).await;
        let newest = start(&store, &data, "a", "2").await;
        end(&store, &newest).await;
        let running = start(&store, &data, "b", "1").await;
        let files = |attempt: &AttemptId| {
            let directory = AttemptDirectory::of(&data.attempts(), attempt);
            let names = ["saved-plan", "saved-plan.new", "output.log"].into_iter();
            names.filter(|name| directory.path().join(name).exists()).collect::<Vec<_>>()
        };
        let all = ["saved-plan", "saved-plan.new", "output.log"];
        // The layers may be members of a layer set that was not read yet.
        let incomplete = Catalog { is_incomplete: true, ..Catalog::default() };
        remove_plan_files(&store, &data, &incomplete).await.unwrap();
        assert_eq!(files(&older), all);
        // The layers are not in the configuration.
        remove_plan_files(&store, &data, &Catalog::default()).await.unwrap();
        assert_eq!(files(&older), ["output.log"]);
        assert_eq!(files(&newest), ["saved-plan", "output.log"]);
        assert_eq!(files(&running), all);
        let week = u64::try_from(SavedPlan::LIFETIME.as_millis()).unwrap();
        now.store(week - 1, Ordering::Relaxed);
        remove_plan_files(&store, &data, &Catalog::default()).await.unwrap();
        assert_eq!(files(&newest), ["saved-plan", "output.log"]);
        now.store(week, Ordering::Relaxed);
        remove_plan_files(&store, &data, &Catalog::default()).await.unwrap();
        assert_eq!(files(&newest), ["output.log"]);
        assert_eq!(files(&running), all);
    }
}
