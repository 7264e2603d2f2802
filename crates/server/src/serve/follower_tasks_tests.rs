//! The times at which followers are looked at, with a cluster in memory.

use super::super::follower_requests::FollowerAnswer;
use super::*;
use crate::config::{Config, RemoteLimits};
use crate::followers::tests::{CHAIN, Cluster};
use crate::model::Moment;
use crate::store::MemoryStore;

/// Tasks for the follower `web`, by the clock of the test, and their requests.
fn tasks(
    cluster: &Cluster,
    leadership: watch::Receiver<Leadership>,
) -> (FollowerTasks<MemoryStore, Cluster>, Arc<FollowerRequests>) {
    let begun = Instant::now();
    let millis = move || u64::try_from(begun.elapsed().as_millis()).unwrap();
    let clock = move || Moment::from_millis(1_000_000 + millis());
    let desired = Desired::new(Config::default(), RemoteLimits::default());
    desired.followed.replace(Registry::parse(CHAIN).unwrap());
    let requests = Arc::<FollowerRequests>::default();
    let tasks = FollowerTasks {
        store: Arc::new(MemoryStore::new(Arc::new(clock))),
        surroundings: Arc::new(cluster.clone()),
        desired: Arc::new(desired),
        leadership,
        requests: Arc::clone(&requests),
    };
    (tasks, requests)
}

#[tokio::test(start_paused = true)]
async fn looks_that_only_show_do_not_put_off_the_one_that_triggers() {
    let cluster = Cluster::default();
    let (_leads, leadership) = watch::channel(Leadership::Decides(None));
    let (tasks, requests) = tasks(&cluster, leadership);
    let shows = async {
        loop {
            tokio::time::sleep(Duration::from_secs(2)).await;
            let answer = requests.ask("web", Request::DryRun).await.unwrap();
            assert!(matches!(answer, FollowerAnswer::Looked(_)), "{answer:?}");
        }
    };
    tokio::select! {
        () = tasks.run() => unreachable!(),
        () = shows => unreachable!(),
        // The next look after a submission is due after five seconds.
        () = tokio::time::sleep(Duration::from_secs(8)) => {}
    }
    assert_eq!(cluster.submitted().len(), 2, "{:?}", cluster.submitted());
}

#[tokio::test(start_paused = true)]
async fn server_that_does_not_decide_looks_only_for_a_person_until_it_decides() {
    let cluster = Cluster::default();
    let (leads, leadership) = watch::channel(Leadership::Waits);
    let (tasks, requests) = tasks(&cluster, leadership);
    let story = async {
        tokio::time::sleep(Duration::from_mins(5)).await;
        assert_eq!(cluster.submitted().len(), 0);
        let answer = requests.ask("web", Request::Confirmed).await.unwrap();
        assert!(matches!(answer, FollowerAnswer::Looked(_)), "{answer:?}");
        tokio::time::sleep(Duration::from_mins(5)).await;
        assert_eq!(cluster.submitted().len(), 1);
        leads.send_replace(Leadership::Decides(Some(1)));
        tokio::time::sleep(Duration::from_secs(6)).await;
        assert_eq!(cluster.submitted().len(), 2);
    };
    tokio::select! {
        () = tasks.run() => unreachable!(),
        () = story => {}
    }
}
