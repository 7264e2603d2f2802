//! Servers that share a store which is slow or away, on a clock that the tests move.

use std::sync::Mutex;

use tokio::task::JoinHandle;

use super::*;
use crate::model::{DeciderLease, Moment};
use crate::store::{MemoryStore, StoreError, StoreResult};

/// The store, as one server reaches it.
struct Link {
    store: Arc<MemoryStore>,
    state: Mutex<State>,
}

struct State {
    is_down: bool,
    random: fastrand::Rng,
    /// The longest time that a request or an answer is on its way.
    delay: Duration,
}

impl Link {
    /// The time on the way. Whether the store is away is decided when it would arrive.
    async fn travel(&self) -> StoreResult<()> {
        let delay = {
            let mut state = self.state.lock().unwrap();
            let most = u64::try_from(state.delay.as_millis()).unwrap();
            Duration::from_millis(state.random.u64(0..=most))
        };
        tokio::time::sleep(delay).await;
        if self.state.lock().unwrap().is_down {
            return Err(StoreError::Unavailable("away".to_owned()));
        }
        Ok(())
    }
}

impl Deciders for Link {
    async fn decide(&self, server: &str, lifetime: Duration) -> StoreResult<DeciderLease> {
        self.travel().await?;
        let lease = self.store.decide(server, lifetime).await?;
        self.travel().await?;
        Ok(lease)
    }

    async fn resign(&self, server: &str) -> StoreResult<()> {
        self.store.resign(server).await
    }
}

/// A server that would decide.
struct Server {
    link: Arc<Link>,
    leadership: watch::Receiver<Leadership>,
    task: JoinHandle<()>,
}

impl Server {
    fn start(store: &Arc<MemoryStore>, name: &str, seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        let state = Mutex::new(State { is_down: false, random, delay: Duration::ZERO });
        let link = Arc::new(Link { store: Arc::clone(store), state });
        let (sender, leadership) = watch::channel(Leadership::Waits);
        let task = tokio::spawn(lead(Arc::clone(&link), name.to_owned(), sender));
        Self { link, leadership, task }
    }

    fn decides(&self) -> bool {
        self.leadership.borrow().decides()
    }

    /// Waits until it decides, and returns its fence.
    async fn fence(&mut self) -> Option<u64> {
        self.leadership.wait_for(|it| it.decides()).await.unwrap().fence()
    }
}

/// A store whose clock is that of the test.
fn store() -> Arc<MemoryStore> {
    let start = Instant::now();
    let now = move || Moment::from_millis(u64::try_from(start.elapsed().as_millis()).unwrap());
    Arc::new(MemoryStore::new(Arc::new(now)))
}

/// With this, another server decides at the latest.
const TAKEN_OVER: Duration = Duration::from_secs(20);

#[tokio::test(start_paused = true)]
async fn another_server_decides_soon_after_one_has_ended() {
    let store = store();
    let mut first = Server::start(&store, "first", 1);
    assert_eq!(first.fence().await, Some(1));
    let mut second = Server::start(&store, "second", 2);
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert!(first.decides() && !second.decides());
    // Killed: it does not resign.
    first.task.abort();
    let ended = Instant::now();
    assert_eq!(second.fence().await, Some(2));
    assert!(ended.elapsed() <= TAKEN_OVER, "{:?}", ended.elapsed());
}

#[tokio::test(start_paused = true)]
async fn server_without_its_store_stops_deciding_before_another_one_can() {
    let store = store();
    let mut first = Server::start(&store, "first", 1);
    first.fence().await;
    let mut second = Server::start(&store, "second", 2);
    first.link.state.lock().unwrap().is_down = true;
    second.fence().await;
    assert!(!first.decides());
    // It comes back, and waits.
    first.link.state.lock().unwrap().is_down = false;
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(!first.decides() && second.decides());
}

#[tokio::test(start_paused = true)]
async fn two_servers_never_decide_at_the_same_time() {
    for seed in 0..50 {
        let store = store();
        let mut random = fastrand::Rng::with_seed(seed);
        let servers: Vec<_> = ["a", "b", "c"]
            .into_iter()
            .map(|name| Server::start(&store, name, random.u64(..)))
            .collect();
        let mut deciders = 0;
        for _ in 0..6_000 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            if random.u32(0..100) == 0 {
                let server = &servers[random.usize(0..3)];
                let mut state = server.link.state.lock().unwrap();
                state.is_down = random.bool();
                state.delay = Duration::from_millis(random.u64(0..12_000));
            }
            let deciding = servers.iter().filter(|it| it.decides()).count();
            assert!(deciding <= 1, "seed {seed}: {deciding} servers decide");
            deciders += deciding;
        }
        assert!(deciders > 500, "seed {seed}: a server decided at {deciders} of 6,000 moments");
        // When all is well again, one decides.
        for server in &servers {
            let mut state = server.link.state.lock().unwrap();
            (state.is_down, state.delay) = (false, Duration::ZERO);
        }
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_eq!(servers.iter().filter(|it| it.decides()).count(), 1, "seed {seed}");
        for server in servers {
            server.task.abort();
        }
    }
}
