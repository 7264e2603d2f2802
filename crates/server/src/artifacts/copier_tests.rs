use super::super::files::AttemptFiles;
use super::super::unreliable::{Faults, Unreliable};
use super::*;
use crate::data::DataDirectory;
use crate::model::THIS_MACHINE;
use crate::model::{Commit, Digest, Moment, Revision, Sighting};
use crate::store::{AttemptId, MemoryStore, Outcome};
use crate::test_attempts::{end, start};

/// A server, the object store, and another server with the same store.
struct Servers {
    _root: tempfile::TempDir,
    data: DataDirectory,
    store: Arc<MemoryStore>,
    objects: Arc<Unreliable>,
    bucket: Arc<Bucket>,
    copier: Copier<MemoryStore>,
    not_copied: Arc<NotCopied>,
    other: AttemptFiles,
}

impl Servers {
    async fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let data = DataDirectory::create(&root.path().join("one")).unwrap();
        let other = DataDirectory::create(&root.path().join("other")).unwrap();
        let store = Arc::new(MemoryStore::new(Arc::new(Moment::default)));
        let revision = Revision { commit: Commit::new("c"), digest: Digest::new("d") };
        let seen =
            ["a", "b"].map(|name| (name.parse().unwrap(), Sighting::Found(revision.clone())));
        assert_eq!(store.observe("infra", 0, &seen, &[]).await.unwrap(), Outcome::Made);
        let objects = Arc::new(Unreliable::new(Faults::None));
        let bucket = Arc::new(Bucket::of(objects.clone()));
        let not_copied = Arc::<NotCopied>::default();
        let copier = Self::copier(&store, &bucket, &data, &not_copied);
        let other = AttemptFiles::new(other.attempts(), "other".into(), Some(bucket.clone()));
        Self { _root: root, data, store, objects, bucket, copier, not_copied, other }
    }

    fn copier(
        store: &Arc<MemoryStore>,
        bucket: &Arc<Bucket>,
        data: &DataDirectory,
        not_copied: &Arc<NotCopied>,
    ) -> Copier<MemoryStore> {
        let (store, bucket, not_copied) = (store.clone(), bucket.clone(), not_copied.clone());
        Copier::new(store, bucket, data.attempts(), THIS_MACHINE.to_owned(), not_copied)
    }

    /// The server is started again.
    fn restart(&mut self) {
        self.copier = Self::copier(&self.store, &self.bucket, &self.data, &self.not_copied);
    }

    async fn start(&self) -> AttemptId {
        let attempt = start(&self.store, &self.data, "a", "1").await;
        self.write(&attempt, "log.jsonl", "one\n");
        attempt
    }

    fn write(&self, attempt: &AttemptId, name: &str, content: &str) {
        let directory = AttemptDirectory::of(&self.data.attempts(), attempt);
        std::fs::write(directory.path().join(name), content).unwrap();
    }

    /// What the other server has of a file.
    async fn seen(&self, attempt: &AttemptId, name: &str) -> Option<String> {
        tokio::time::advance(Duration::from_secs(2)).await;
        let directory = self.other.of(attempt, THIS_MACHINE).await.unwrap();
        std::fs::read_to_string(directory.path().join(name)).ok()
    }

    async fn has_plan(&self) -> bool {
        let chunks = self.bucket.chunks("attempts").await.unwrap();
        chunks.keys().any(|name| name.ends_with("/saved-plan"))
    }
}

#[tokio::test(start_paused = true)]
async fn another_server_sees_the_log_while_an_attempt_runs_and_its_plan_when_it_has_ended() {
    let mut servers = Servers::new().await;
    let attempt = servers.start().await;
    assert_eq!(servers.copier.pass().await, 0);
    assert_eq!(servers.seen(&attempt, "log.jsonl").await.unwrap(), "one\n");
    assert_eq!(servers.seen(&attempt, "saved-plan").await, None);
    assert!(servers.other.is_awaited(&attempt, THIS_MACHINE));
    servers.write(&attempt, "log.jsonl", "one\ntwo\n");
    end(&servers.store, &attempt).await;
    servers.restart();
    assert_eq!(servers.copier.pass().await, 0);
    assert_eq!(servers.seen(&attempt, "log.jsonl").await.unwrap(), "one\ntwo\n");
    assert_eq!(servers.seen(&attempt, "saved-plan").await.unwrap(), "x");
    assert!(!servers.other.is_awaited(&attempt, THIS_MACHINE));
    // A complete copy is read without the object store.
    servers.objects.set(Faults::Away);
    assert_eq!(servers.seen(&attempt, "saved-plan").await.unwrap(), "x");
}

#[tokio::test(start_paused = true)]
async fn plan_that_is_not_needed_any_more_is_removed_from_the_object_store() {
    let mut servers = Servers::new().await;
    let attempt = servers.start().await;
    end(&servers.store, &attempt).await;
    servers.copier.pass().await;
    assert!(servers.has_plan().await);
    PlanFiles::remove(&AttemptDirectory::of(&servers.data.attempts(), &attempt)).unwrap();
    servers.objects.set(Faults::Away);
    assert_eq!(servers.copier.pass().await, 1);
    servers.objects.set(Faults::None);
    servers.restart();
    assert_eq!(servers.copier.pass().await, 0);
    assert!(!servers.has_plan().await);
    assert_eq!(servers.seen(&attempt, "log.jsonl").await.unwrap(), "one\n");
}

#[tokio::test(start_paused = true)]
async fn object_store_that_is_away_gets_everything_when_it_is_back() {
    let mut servers = Servers::new().await;
    let attempt = servers.start().await;
    servers.objects.set(Faults::Away);
    assert_eq!(servers.copier.pass().await, 1);
    assert_eq!(servers.not_copied.count(Instant::now()), 1);
    end(&servers.store, &attempt).await;
    let failed = servers.other.of(&attempt, THIS_MACHINE).await;
    assert!(matches!(failed, Err(BucketError::Unavailable { .. })), "{failed:?}");
    assert_eq!(servers.copier.pass().await, 1);
    servers.objects.set(Faults::None);
    assert_eq!(servers.copier.pass().await, 0);
    assert_eq!(servers.not_copied.count(Instant::now()), 0);
    assert_eq!(servers.seen(&attempt, "log.jsonl").await.unwrap(), "one\n");
    assert_eq!(servers.seen(&attempt, "saved-plan").await.unwrap(), "x");
}

#[tokio::test(start_paused = true)]
async fn request_that_is_never_answered_delays_no_other_and_is_counted() {
    let servers = Servers::new().await;
    let hangs = servers.start().await;
    let other = start(&servers.store, &servers.data, "b", "2").await;
    servers.write(&other, "log.jsonl", "one\n");
    servers.objects.set(Faults::Silent(hangs.to_string()));
    let (not_copied, store) = (servers.not_copied.clone(), servers.store.clone());
    let log = AttemptDirectory::of(&servers.data.attempts(), &other).path().join("log.jsonl");
    let mut copier = servers.copier;
    let files = servers.other;
    let seen = async |attempt: &AttemptId| {
        let directory = files.of(attempt, THIS_MACHINE).await.unwrap();
        std::fs::read_to_string(directory.path().join("log.jsonl")).ok()
    };
    let looks = async {
        // Long enough for some deadlines of requests.
        for round in 0..40 {
            tokio::time::sleep(Duration::from_secs(5)).await;
            let text = format!("one\n{}", "more\n".repeat(round));
            assert_eq!(seen(&other).await, Some(text.clone()), "{round}");
            assert_eq!(seen(&hangs).await, None);
            std::fs::write(&log, text + "more\n").unwrap();
            let expected = usize::from(round >= 2);
            assert!(not_copied.count(Instant::now()) >= expected, "{round}");
        }
        assert_eq!(not_copied.count(Instant::now()), 1);
        servers.objects.set(Faults::None);
        end(&store, &hangs).await;
        tokio::time::sleep(AWAY * 2).await;
        assert_eq!(seen(&hangs).await.unwrap(), "one\n");
        assert_eq!(not_copied.count(Instant::now()), 0);
    };
    tokio::select! {
        () = copier.run() => unreachable!("it never ends"),
        () = looks => {}
    }
}

#[tokio::test(start_paused = true)]
async fn copies_of_other_servers_are_not_copied_again() {
    let mut servers = Servers::new().await;
    let attempt = servers.start().await;
    end(&servers.store, &attempt).await;
    servers.copier.pass().await;
    servers.seen(&attempt, "log.jsonl").await.unwrap();
    let (store, not_copied) = (servers.store.clone(), Arc::<NotCopied>::default());
    let empty = Arc::new(Bucket::of(Arc::new(Unreliable::new(Faults::None))));
    let directory = servers.other.local(&attempt).path().parent().unwrap().to_owned();
    let mut copier = Copier::new(store, empty.clone(), directory, "other".into(), not_copied);
    assert_eq!(copier.pass().await, 0);
    assert!(empty.chunks("attempts").await.unwrap().is_empty());
    // The loss of the disk: the server itself reads its attempts from the object store.
    let attempts = servers.data.attempts();
    std::fs::remove_dir_all(&attempts).unwrap();
    let files = AttemptFiles::new(attempts, THIS_MACHINE.into(), Some(servers.bucket.clone()));
    let directory = files.of(&attempt, THIS_MACHINE).await.unwrap();
    assert_eq!(std::fs::read(directory.path().join("log.jsonl")).unwrap(), b"one\n");
}
