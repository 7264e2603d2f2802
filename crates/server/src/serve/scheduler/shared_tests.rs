//! Two servers with one store.

use super::*;
use crate::serve::leadership::Leadership;
use crate::store::Deciders as _;

struct Server {
    scheduler: Scheduler<MemoryStore, Machine>,
    leads: watch::Sender<Leadership>,
    shared: Option<Shared>,
    _data: tempfile::TempDir,
}

impl Server {
    fn new(store: &Arc<MemoryStore>, name: &'static str) -> Self {
        Self::with_config(store, name, config("one"))
    }

    fn with_config(store: &Arc<MemoryStore>, name: &'static str, config: Config) -> Self {
        let data = tempfile::tempdir().unwrap();
        let desired = Arc::new(Desired::new(config, RemoteLimits::default()));
        let (leads, leadership) = watch::channel(Leadership::Waits);
        let mut scheduler = Scheduler::new(
            Arc::clone(store),
            Arc::new(Machine::new(name)),
            Capacity { concurrency: 9, starts_per_minute: 60 },
            data.path().to_owned(),
            desired,
            Arc::default(),
        );
        let shared = Shared { leadership, journal: store.journal() };
        scheduler.share(shared.clone());
        Self { scheduler, leads, shared: Some(shared), _data: data }
    }

    /// Handles what it is told of now, and returns what it has started and stopped.
    async fn settle(&mut self) -> Vec<String> {
        let (_sender, mut events) = mpsc::unbounded_channel();
        loop {
            tokio::select! {
                biased;
                news = news(&mut self.shared) => self.scheduler.hear(news).await,
                () = std::future::ready(()) => break,
            }
            self.scheduler.work_off(&mut events).await;
        }
        self.scheduler.executor.done()
    }

    async fn decide(&self, store: &MemoryStore) {
        let name = self.scheduler.executor.name;
        let lease = store.decide(name, Duration::from_secs(15)).await.unwrap();
        assert_eq!(lease.holder, name);
        self.leads.send_replace(Leadership::Decides(Some(lease.fence)));
    }

    async fn resign(&self, store: &MemoryStore) {
        store.resign(self.scheduler.executor.name).await.unwrap();
        self.leads.send_replace(Leadership::Waits);
    }
}

async fn see(store: &MemoryStore, digest: &str) {
    let readings = store.readings("one").await.unwrap();
    let revision = Revision { commit: Commit::new(digest), digest: Digest::new(digest) };
    let seen = [(layer("a"), Sighting::Found(revision))];
    assert_eq!(store.observe("one", readings, &seen, &[]).await.unwrap(), Outcome::Made);
}

/// The newest attempt of the layer `a`.
async fn attempt(store: &MemoryStore) -> AttemptId {
    let (layer, run) = store.newest_runs(None, 1).await.unwrap().remove(0);
    let number = run.attempts.last().unwrap().number;
    AttemptId { layer, run: run.id, number }
}

#[tokio::test]
async fn only_the_server_that_decides_starts_attempts_and_only_their_server_stops_them() {
    let store = Arc::new(MemoryStore::new(Arc::new(|| Moment::from_millis(1_000))));
    let (mut first, mut second) = (Server::new(&store, "first"), Server::new(&store, "second"));
    first.decide(&store).await;
    assert!(first.settle().await.is_empty());
    see(&store, "d1").await;
    assert!(second.settle().await.is_empty());
    assert!(store.newest_runs(None, 9).await.unwrap().is_empty(), "the other one decides");
    assert_eq!(first.settle().await, ["start a"]);
    let view = second.scheduler.views.layer(&layer("a")).unwrap();
    assert_eq!(view.phase, Phase::PendingTrigger, "what it saw last");
    assert!(second.settle().await.is_empty());
    let view = second.scheduler.views.layer(&layer("a")).unwrap();
    assert_eq!(view.phase, Phase::ClosingOut, "it shows what the other one has done");

    // The second one takes over. The attempt is not its own.
    first.resign(&store).await;
    second.decide(&store).await;
    let started = attempt(&store).await;
    see(&store, "d2").await;
    assert!(second.settle().await.is_empty(), "it only records that the attempt must stop");
    assert_eq!(first.settle().await, ["stop a"]);
    assert!(second.settle().await.is_empty());
    let end =
        crate::store::AttemptResult::ended(crate::model::Ending::Stopped(StopReason::Superseded));
    assert_eq!(store.finish(&started, end).await.unwrap(), Outcome::Made);
    assert!(first.settle().await.is_empty());
    assert_eq!(second.settle().await, ["start a"]);
    let runs = store.newest_runs(None, 9).await.unwrap();
    let places: Vec<_> =
        runs.iter().flat_map(|(_, run)| &run.attempts).map(|it| &*it.place).collect();
    assert_eq!(places, ["second", "first"]);
}

#[tokio::test]
async fn server_that_does_not_know_yet_that_another_one_decides_starts_nothing() {
    let store = Arc::new(MemoryStore::new(Arc::new(|| Moment::from_millis(1_000))));
    let (mut first, mut second) = (Server::new(&store, "first"), Server::new(&store, "second"));
    first.decide(&store).await;
    store.resign("first").await.unwrap();
    second.decide(&store).await;
    see(&store, "d1").await;
    // It creates the run, which is the same one, and cannot start it.
    assert!(first.settle().await.is_empty());
    assert_eq!(second.settle().await, ["start a"]);
    let snapshot = store.snapshot(&layer("a"), "", &[]).await.unwrap();
    let runs = &snapshot.facts.runs;
    assert_eq!(runs.iter().map(|run| run.attempts.len()).collect::<Vec<_>>(), [1]);
}

#[tokio::test]
async fn layer_whose_state_only_one_server_has_is_not_started() {
    for (backend, is_started) in [
        ("{type: local}", false),
        ("{type: local, config: {path: state/a}}", false),
        ("{type: local, config: {path: /mnt/states/a}}", true),
        ("{type: s3, config: {bucket: a, key: a, region: eu-west-1}}", true),
    ] {
        let store = Arc::new(MemoryStore::new(Arc::new(|| Moment::from_millis(1_000))));
        let text = format!(
            "repositories: {{one: {{url: 'file:///one'}}}}\n\
             layers: {{a: {{repository: one, path: a, backend: {backend}}}}}"
        );
        let config = parse(&[(PathBuf::from("butler.yaml"), text)]).unwrap();
        let mut server = Server::with_config(&store, "first", config);
        server.decide(&store).await;
        see(&store, "d1").await;
        assert_eq!(server.settle().await.len(), usize::from(is_started), "{backend}");
        let view = server.scheduler.views.layer(&layer("a")).unwrap();
        let waits = view.reasons.iter().any(|it| it.text.contains("data directory of one server"));
        assert_eq!(waits, !is_started, "{backend}: {:?}", view.reasons);
    }
}

#[tokio::test]
async fn commit_that_another_server_has_read_is_started_after_this_one_has_read_it_too() {
    let store = Arc::new(MemoryStore::new(Arc::new(|| Moment::from_millis(1_000))));
    let mut server = Server::new(&store, "first");
    let commits = |has: bool, server: &Server| {
        server.scheduler.executor.has_commits.store(has, Ordering::Relaxed);
    };
    commits(false, &server);
    server.decide(&store).await;
    see(&store, "d1").await;
    assert!(server.settle().await.is_empty());
    // It is read at once, and looked for again soon.
    server.scheduler.desired.due("one").notified().await;
    let look = server.scheduler.looks[&layer("a")];
    assert!(look > Instant::now() && look <= Instant::now() + READ_AGAIN);
    // The next poll fetches it, also if the branch has a newer one.
    assert_eq!(server.scheduler.desired.wanted.awaited("one"), [Commit::new("d1")]);
    commits(true, &server);
    server.scheduler.drive(&layer("a")).await;
    assert_eq!(server.scheduler.executor.done(), ["start a"]);
}

#[tokio::test]
async fn commit_that_the_repository_does_not_have_is_not_waited_for() {
    let store = Arc::new(MemoryStore::new(Arc::new(|| Moment::from_millis(1_000))));
    let mut server = Server::new(&store, "first");
    server.scheduler.executor.has_commits.store(false, Ordering::Relaxed);
    server.decide(&store).await;
    see(&store, "d1").await;
    assert!(server.settle().await.is_empty());
    server.scheduler.desired.wanted.found("one", &Commit::new("d1"), false);
    server.scheduler.drive(&layer("a")).await;
    assert_eq!(server.scheduler.executor.done(), ["start a"]);
}
