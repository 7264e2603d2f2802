//! Removes what is no longer kept: old runs with the files of their attempts, plan files, mirrors of repositories
//! that left the configuration, and old entries of the journal.
//!
//! Rows are removed before files. If the server ends in between, or another server with the same store removes the
//! rows, the next pass removes the directories of attempts whose run does not exist. Decisions go on meanwhile: each
//! layer is one short transaction.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use butler_base::blocking::blocking;
use fs_err as fs;

use super::desired::Desired;
use super::plan_files::remove_plan_files;
use super::timestamp::Timestamp;
use crate::artifacts::{Bucket, prefix};
use crate::attempts::AttemptDirectory;
use crate::config::HistoryEntry;
use crate::data::{DataDirectory, names};
use crate::layers::Catalog;
use crate::model::{Moment, RunId};
use crate::notifications;
use crate::store::{Keep, Store, StoreResult};

/// The time between two passes, if the configuration does not change.
const AGAIN: Duration = Duration::from_hours(1);

/// How long the mirror of a repository that left the configuration is kept.
const UNUSED_MIRROR: Duration = Duration::from_hours(7 * 24);

/// How many runs of each action are kept, if the configuration does not say it.
const RUNS: u32 = 10;

/// How many days they are kept.
const DAYS: u32 = 90;

/// How long entries of the journal are kept.
const JOURNAL: Duration = Duration::from_hours(90 * 24);

// Otherwise, notifications that a receiver did not take yet would be lost.
const _: () = assert!(JOURNAL.as_secs() > notifications::LIMIT.as_secs());

/// The file in a mirror that says since when no repository uses it.
const UNUSED_SINCE: &str = "butler-unused";

/// Removes what is no longer kept, now, when the configuration changes, and each hour.
pub(super) async fn remove_old<S: Store>(
    store: Arc<S>,
    data: DataDirectory,
    bucket: Option<Arc<Bucket>>,
    desired: Arc<Desired>,
) {
    let mut configs = desired.configs();
    let mut copies = Vec::new();
    loop {
        // Of an earlier server, or of this one if another server has removed the run.
        remove_unknown_attempts(&*store, &data).await;
        let config = configs.borrow_and_update().clone();
        let catalog = desired.catalogs().borrow().clone();
        remove_old_runs(&*store, &data, &mut copies, &catalog).await;
        if let Some(bucket) = &bucket {
            remove_copies(bucket, &mut copies).await;
        }
        if let Err(error) = remove_plan_files(&*store, &data, &catalog).await {
            tracing::warn!(%error, "cannot remove plan files that are not needed");
        }
        let mirrors = data.mirrors();
        let removed = blocking(move |_| {
            let is_used =
                |name: &str| config.repositories.contains_key(name) || config.is_unlisted(name);
            remove_unused_mirrors(&mirrors, is_used, SystemTime::now())
        });
        if let Err(error) = removed.await {
            tracing::warn!(%error, "cannot remove mirrors that are not used");
        }
        if let Err(error) = remove_old_events(&*store, Timestamp::of(SystemTime::now()).0).await {
            tracing::warn!(%error, "cannot remove old events");
        }
        if let Err(error) = store.prune_sessions().await {
            tracing::warn!(%error, "cannot remove sessions that have ended");
        }
        tokio::select! {
            () = tokio::time::sleep(AGAIN) => {}
            changed = configs.changed() => if changed.is_err() { return },
        }
    }
}

/// Removes runs that are no longer kept, with the files of their attempts, and adds these to `copies`. Layers that
/// left the configuration have the default history.
async fn remove_old_runs<S: Store>(
    store: &S,
    data: &DataDirectory,
    copies: &mut Vec<String>,
    catalog: &Catalog,
) {
    let layers = match store.layers().await {
        Ok(layers) => layers,
        Err(error) => {
            tracing::warn!(%error, "cannot read which layers have runs");
            return;
        }
    };
    for layer in layers {
        // Perhaps a member of a layer set whose repository was not read yet: its history is not known.
        if catalog.may_be_missing(&layer) {
            continue;
        }
        let history = catalog.layers.get(&layer).and_then(|source| source.entry.history);
        match store.prune(&layer, keep(history)).await {
            Ok(removed) => {
                for attempt in removed {
                    let directory = AttemptDirectory::of(&data.attempts(), &attempt);
                    remove(directory.path().to_owned()).await;
                    copies.push(attempt.to_string());
                }
            }
            Err(error) => tracing::warn!(%layer, %error, "cannot remove old runs"),
        }
    }
}

/// Removes the copies of these attempts from the object store. Those that are left are tried again in the next pass.
///
/// Only what this installation has removed: another one can use the same bucket.
async fn remove_copies(bucket: &Bucket, copies: &mut Vec<String>) {
    while let Some(attempt) = copies.pop() {
        if let Err(error) = bucket.delete(&prefix(&attempt)).await {
            let attempts = copies.len() + 1;
            tracing::warn!(attempts, %error, "copies of old attempts are removed later");
            copies.push(attempt);
            return;
        }
    }
}

/// Removes entries of the journal that are no longer kept at `now`.
async fn remove_old_events<S: Store>(store: &S, now: Moment) -> StoreResult<()> {
    let age = u64::try_from(JOURNAL.as_millis()).unwrap_or(u64::MAX);
    store.prune_events(Moment::from_millis(now.as_millis().saturating_sub(age))).await
}

fn keep(entry: Option<HistoryEntry>) -> Keep {
    let HistoryEntry { runs, days } = entry.unwrap_or_default();
    let hours = u64::from(days.unwrap_or(DAYS)) * 24;
    Keep { runs: runs.unwrap_or(RUNS), age: Duration::from_hours(hours) }
}

/// Removes the directories of attempts whose run does not exist.
async fn remove_unknown_attempts<S: Store>(store: &S, data: &DataDirectory) {
    let attempts = data.attempts();
    let names = blocking(move |_| names(&attempts)).await.unwrap_or_default();
    for name in names {
        let Some((run, _)) = name.rsplit_once('-') else { continue };
        let run = RunId::new(run);
        // An attempt is recorded before it has a directory. What cannot be read is kept.
        if matches!(store.run(&run).await, Ok(None)) {
            remove(data.attempts().join(&name)).await;
        }
    }
}

async fn remove(directory: PathBuf) {
    let path = directory.clone();
    if let Err(error) = blocking(move |_| AttemptDirectory::remove(&path)).await {
        let path = directory.display();
        tracing::warn!(%path, %error, "cannot remove the files of an attempt");
    }
}

/// Removes mirrors that were found unused seven days ago, and marks those that are found now. What a
/// killed fetch has left beside them is removed like a mirror.
fn remove_unused_mirrors(
    mirrors: &Path,
    is_used: impl Fn(&str) -> bool,
    now: SystemTime,
) -> io::Result<()> {
    for name in names(mirrors)? {
        let directory = mirrors.join(&name);
        match remove_if_unused(&directory, is_used(&name), now) {
            // The directory of a fetch that has ended meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let path = directory.display();
                tracing::warn!(%path, %error, "cannot remove a mirror that is not used");
            }
            Ok(()) => {}
        }
    }
    Ok(())
}

fn remove_if_unused(directory: &Path, is_used: bool, now: SystemTime) -> io::Result<()> {
    let mark = directory.join(UNUSED_SINCE);
    let since = mark.metadata().and_then(|mark| mark.modified()).ok();
    match since {
        Some(_) if is_used => fs::remove_file(mark),
        None if is_used || !directory.is_dir() => Ok(()),
        None => fs::write(mark, b""),
        Some(since) if now.duration_since(since).is_ok_and(|time| time >= UNUSED_MIRROR) => {
            fs::remove_dir_all(directory)
        }
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifacts::unreliable::{Faults, Unreliable};
    use crate::model::{
        Action, Cause, Closed, Commit, Digest, LayerName, NewRun, Revision, Sighting,
    };
    use crate::store::{AttemptId, MemoryStore, Outcome};
    use crate::test_attempts::{end, start};

    #[test]
    fn mirror_is_removed_seven_days_after_its_repository() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        for name in ["infra", "old"] {
            std::fs::create_dir(path(name)).unwrap();
        }
        let is_used = |name: &str| name == "infra";
        let now = SystemTime::now();
        remove_unused_mirrors(root.path(), is_used, now).unwrap();
        let later = now + UNUSED_MIRROR + Duration::from_mins(1);
        // Used again in between.
        remove_unused_mirrors(root.path(), |_| true, now).unwrap();
        remove_unused_mirrors(root.path(), is_used, later).unwrap();
        assert!(path("old").exists());
        remove_unused_mirrors(root.path(), is_used, now + Duration::from_hours(1)).unwrap();
        assert!(path("old").exists());
        remove_unused_mirrors(root.path(), is_used, later).unwrap();
        assert!(path("infra").exists() && !path("old").exists());
    }

    #[test]
    fn mirror_that_cannot_be_removed_does_not_keep_others() {
        let root = tempfile::tempdir().unwrap();
        // The mark of the first one cannot be written.
        std::fs::create_dir_all(root.path().join("a").join(UNUSED_SINCE)).unwrap();
        std::fs::create_dir(root.path().join("b")).unwrap();
        let (is_used, now) = (|name: &str| name == "a", SystemTime::now());
        remove_unused_mirrors(root.path(), is_used, now).unwrap();
        assert!(root.path().join("b").join(UNUSED_SINCE).exists());
    }

    #[tokio::test]
    async fn old_runs_of_a_layer_that_left_the_configuration_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let data = DataDirectory::create(root.path()).unwrap();
        let layer: LayerName = "a".parse().unwrap();
        let now = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let told = now.clone();
        let clock = move || Moment::from_millis(told.load(std::sync::atomic::Ordering::Relaxed));
        let store = MemoryStore::new(Arc::new(clock));
        for change in 1..=3 {
            let (commit, digest) = (Commit::new("c"), Digest::new(change.to_string()));
            let revision = Revision { commit, digest };
            let seen = [(layer.clone(), Sighting::Found(revision.clone()))];
            let seen = store.observe("infra", change - 1, &seen, &[]).await.unwrap();
            assert_eq!(seen, Outcome::Made);
            let (action, cause) = (Action::Plan, Cause::Commit { change });
            let id = RunId::derived(&layer, &revision.digest, action, &cause);
            let run = NewRun { id: id.clone(), action, cause, revision, change, destroys: false };
            assert_eq!(store.insert_run(&layer, run).await.unwrap(), Outcome::Made);
            let closed = store.close_run(&layer, &id, Closed::Superseded).await.unwrap();
            assert_eq!(closed, Outcome::Made);
        }
        remove_old_runs(&store, &data, &mut Vec::new(), &Catalog::default()).await;
        assert_eq!(store.history(&layer, None, 9).await.unwrap().len(), 3);
        now.store(91 * 24 * 3_600_000, std::sync::atomic::Ordering::Relaxed);
        // It may be a member of a layer set that was not read yet.
        let incomplete = Catalog { is_incomplete: true, ..Catalog::default() };
        remove_old_runs(&store, &data, &mut Vec::new(), &incomplete).await;
        assert_eq!(store.history(&layer, None, 9).await.unwrap().len(), 3);
        remove_old_runs(&store, &data, &mut Vec::new(), &Catalog::default()).await;
        assert_eq!(store.history(&layer, None, 9).await.unwrap().len(), 1);
    }

    /// A store with a run.
    async fn store_with_run() -> (MemoryStore, RunId) {
        let store = MemoryStore::new(Arc::new(Moment::default));
        let layer: LayerName = "a".parse().unwrap();
        let revision = Revision { commit: Commit::new("c"), digest: Digest::new("d") };
        let seen = [(layer.clone(), Sighting::Found(revision.clone()))];
        assert_eq!(store.observe("infra", 0, &seen, &[]).await.unwrap(), Outcome::Made);
        let (action, cause, change) = (Action::Plan, Cause::Commit { change: 1 }, 1);
        let id = RunId::derived(&layer, &revision.digest, action, &cause);
        let run = NewRun { id: id.clone(), action, cause, revision, change, destroys: false };
        assert_eq!(store.insert_run(&layer, run).await.unwrap(), Outcome::Made);
        (store, id)
    }

    #[tokio::test]
    async fn directory_of_an_attempt_without_a_run_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let data = DataDirectory::create(root.path()).unwrap();
        let (store, known) = store_with_run().await;
        let directory = |run: RunId| {
            let id = AttemptId { layer: "a".parse().unwrap(), run, number: 1 };
            AttemptDirectory::of(&data.attempts(), &id)
        };
        let known = directory(known);
        let unknown = directory(RunId::new("gone"));
        // A process that runs keeps its directory.
        let running = directory(RunId::new("runs"));
        // A state that could not be stored is nowhere else.
        let recovered = directory(RunId::new("recovered"));
        for directory in [&known, &unknown, &running, &recovered] {
            directory.create(crate::data::DataAccess::Server).unwrap();
        }
        let process = butler_base::process::ProcessIdentity::own().unwrap();
        running.record_process(&process).unwrap();
        std::fs::create_dir(recovered.recovery()).unwrap();
        std::fs::write(recovered.recovery().join("terraform.tfstate"), "{}").unwrap();
        remove_unknown_attempts(&store, &data).await;
        assert!(recovered.path().exists());
        assert!(known.path().exists() && running.path().exists());
        assert!(!unknown.path().exists());
    }

    #[tokio::test]
    async fn events_are_kept_for_ninety_days() {
        let (store, _) = store_with_run().await;
        remove_old_events(&store, Moment::default() + JOURNAL).await.unwrap();
        assert_eq!(store.events(None, None, 9).await.unwrap().len(), 2);
        let later = Moment::default() + JOURNAL + Duration::from_millis(1);
        remove_old_events(&store, later).await.unwrap();
        assert_eq!(store.events(None, None, 9).await.unwrap(), []);
    }

    #[test]
    fn ten_runs_and_ninety_days_are_kept_by_default() {
        let days = |days: u64| Duration::from_hours(24 * days);
        assert_eq!(keep(None), Keep { runs: 10, age: days(90) });
        let entry = HistoryEntry { runs: Some(3), days: Some(7) };
        assert_eq!(keep(Some(entry)), Keep { runs: 3, age: days(7) });
    }

    #[tokio::test]
    async fn copies_of_removed_runs_are_removed_when_the_object_store_answers() {
        let root = tempfile::tempdir().unwrap();
        let data = DataDirectory::create(root.path()).unwrap();
        let now = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let told = now.clone();
        let clock = move || Moment::from_millis(told.load(std::sync::atomic::Ordering::Relaxed));
        let store = MemoryStore::new(Arc::new(clock));
        let revision = Revision { commit: Commit::new("c"), digest: Digest::new("d") };
        let seen = [("a".parse().unwrap(), Sighting::Found(revision))];
        assert_eq!(store.observe("infra", 0, &seen, &[]).await.unwrap(), Outcome::Made);
        let old = start(&store, &data, "a", "1").await;
        end(&store, &old).await;
        let newest = start(&store, &data, "a", "2").await;
        end(&store, &newest).await;
        let objects = Arc::new(Unreliable::new(Faults::None));
        let bucket = Bucket::of(objects.clone());
        // The last one is that of another installation.
        for attempt in [old.to_string(), newest.to_string(), "other-1".to_owned()] {
            let file = format!("{}/log.jsonl", prefix(&attempt));
            bucket.put(&file, 0, b"line".to_vec()).await.unwrap();
        }
        now.store(91 * 24 * 3_600_000, std::sync::atomic::Ordering::Relaxed);
        let mut copies = Vec::new();
        remove_old_runs(&store, &data, &mut copies, &Catalog::default()).await;
        objects.set(Faults::Away);
        remove_copies(&bucket, &mut copies).await;
        objects.set(Faults::None);
        assert_eq!(bucket.chunks("attempts").await.unwrap().len(), 3);
        remove_copies(&bucket, &mut copies).await;
        let left = bucket.chunks("attempts").await.unwrap();
        let expected = [format!("{newest}/log.jsonl"), "other-1/log.jsonl".to_owned()];
        assert_eq!(left.into_keys().collect::<Vec<_>>(), expected);
    }
}
