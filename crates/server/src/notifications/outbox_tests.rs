//! Outboxes over the store in memory, with receivers that fail, and with a clock that does not wait.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use butler_registry::TokenHash;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::delivery::{Answer, Transport};
use super::message::Delivery;
use super::notifier::Notifier;
use super::outbox::{Shared, is_undecided};
use super::receiver::Receiver;
use crate::config::{Config, parse};
use crate::layers::Catalog;
use crate::metrics::{DeliveryResult, NotificationMetrics};
use crate::model::{
    Action, Cause, ChangeCounts, Commit, Digest, Ending, FailureClass, LayerName, Moment, NewRun,
    PlanDigest, Revision, RunId, SavedPlan, Sighting,
};
use crate::store::{
    AttemptId, AttemptResult, Clock, Cursors, MemoryStore, Outcome, StartRequest, Store,
};

/// One try: the receiver, the id and the layer.
type Try = (String, String, String);

/// Receivers that answer as they are told, and otherwise acknowledge.
struct Scripted {
    answers: Arc<Mutex<BTreeMap<String, VecDeque<Answer>>>>,
    tries: mpsc::UnboundedSender<Try>,
}

impl Transport for Scripted {
    async fn send(&self, receiver: &Receiver, delivery: &Delivery) -> Answer {
        let layer = delivery.notification.layer.to_string();
        let _ = self.tries.send((receiver.name.clone(), delivery.id.clone(), layer));
        let mut answers = self.answers.lock().unwrap();
        let answer = answers.get_mut(&receiver.name).and_then(VecDeque::pop_front);
        answer.unwrap_or(Answer::Acknowledged)
    }
}

struct Tested {
    store: Arc<MemoryStore>,
    clock: Clock,
    answers: Arc<Mutex<BTreeMap<String, VecDeque<Answer>>>>,
    metrics: Arc<NotificationMetrics>,
    configs: watch::Sender<Arc<Config>>,
    catalogs: watch::Sender<Arc<Catalog>>,
    sender: mpsc::UnboundedSender<Try>,
    tries: mpsc::UnboundedReceiver<Try>,
}

fn config(receivers: &[&str]) -> Arc<Config> {
    let entries = receivers.iter().map(|name| {
        format!(
            "  - {{name: {name}, url-file: /run/secrets/{name}, format: slack, on: [failed]}}\n"
        )
    });
    let text = format!("notifications:\n{}", entries.collect::<String>());
    Arc::new(parse(&[("a.yaml".into(), text)]).unwrap())
}

fn failed() -> Answer {
    Answer::Failed("down".to_owned(), None)
}

impl Tested {
    fn new(receivers: &[&str]) -> Self {
        let began = Instant::now();
        let clock: Clock = Arc::new(move || Moment::from_millis(1_000_000) + began.elapsed());
        let (sender, tries) = mpsc::unbounded_channel();
        Self {
            store: Arc::new(MemoryStore::new(Arc::clone(&clock))),
            clock,
            answers: Arc::default(),
            metrics: Arc::default(),
            configs: watch::Sender::new(config(receivers)),
            catalogs: watch::Sender::default(),
            sender,
            tries,
        }
    }

    /// Starts the notifications. The receivers of the configuration are known to the store.
    async fn start(&self) -> Notifier {
        let config = self.configs.borrow().clone();
        for notification in &config.notifications {
            self.store.cursor(&notification.entry.receiver().unwrap()).await.unwrap();
        }
        let shared = Shared {
            store: Arc::clone(&self.store),
            transport: Scripted { answers: Arc::clone(&self.answers), tries: self.sender.clone() },
            catalogs: self.catalogs.subscribe(),
            metrics: Arc::clone(&self.metrics),
            public_url: None,
            clock: Arc::clone(&self.clock),
        };
        Notifier::over(shared, self.configs.subscribe())
    }

    fn answer(&self, receiver: &str, answers: impl IntoIterator<Item = Answer>) {
        let answers = answers.into_iter().collect();
        self.answers.lock().unwrap().insert(receiver.to_owned(), answers);
    }

    /// A plan of this layer fails.
    async fn fail(&self, name: &str) {
        let result = AttemptResult::ended(Ending::Failed(FailureClass::Syntax));
        self.plan(name, ("d", 1), Cause::Commit { change: 1 }, result).await;
    }

    /// A plan of this layer ends, for the digest of this change.
    async fn plan(
        &self,
        name: &str,
        (digest, change): (&str, u64),
        cause: Cause,
        result: AttemptResult,
    ) -> RunId {
        let layer: LayerName = name.parse().unwrap();
        let revision = Revision { commit: Commit::new("c"), digest: Digest::new(digest) };
        let readings = self.store.readings("infra").await.unwrap();
        let seen = [(layer.clone(), Sighting::Found(revision.clone()))];
        let seen = self.store.observe("infra", readings, &seen, &[]).await.unwrap();
        assert_eq!(seen, Outcome::Made);
        let action = Action::Plan;
        let id = RunId::derived(&layer, &revision.digest, action, &cause);
        let run = NewRun { id: id.clone(), action, cause, revision, change, destroys: false };
        assert_eq!(self.store.insert_run(&layer, run).await.unwrap(), Outcome::Made);
        let attempt = AttemptId { layer, run: id.clone(), number: 1 };
        let request = StartRequest {
            attempt: &attempt,
            state_key: name,
            after: &[],
            concurrency: 100,
            repository: "infra",
            repository_concurrency: None,
            timeout: Duration::from_mins(1),
            place: "this machine",
            token: &TokenHash::of("brce_test"),
            fence: None,
        };
        assert_eq!(self.store.start_attempt(request).await.unwrap(), Outcome::Made);
        assert_eq!(self.store.finish(&attempt, result).await.unwrap(), Outcome::Made);
        id
    }

    /// Whether the plan of this run waits for a person.
    async fn is_undecided(&self, layer: &LayerName, run: &RunId) -> bool {
        let (_, run) = self.store.run(run).await.unwrap().unwrap();
        is_undecided(&self.store.snapshot(layer, "a", &[]).await.unwrap(), &run)
    }

    async fn next(&mut self) -> Try {
        self.tries.recv().await.unwrap()
    }

    /// What was tried, and was not taken yet.
    fn rest(&mut self) -> Vec<Try> {
        std::iter::from_fn(|| self.tries.try_recv().ok()).collect()
    }

    fn counts(&self, receiver: &str) -> [u64; 3] {
        let results = [DeliveryResult::Delivered, DeliveryResult::Failed, DeliveryResult::Dropped];
        results.map(|result| self.metrics.counted(receiver, result))
    }
}

#[tokio::test(start_paused = true)]
async fn receiver_that_fails_twice_gets_each_notification_once_and_in_order() {
    let mut tested = Tested::new(&["slack"]);
    tested.answer("slack", [failed(), failed()]);
    let notifier = tested.start().await;
    tested.fail("a").await;
    tested.fail("b").await;
    let first = tested.next().await;
    assert_eq!((&*first.0, &*first.2), ("slack", "a"));
    for _ in 0..2 {
        assert_eq!(tested.next().await, first);
    }
    let second = tested.next().await;
    assert_eq!(second.2, "b");
    assert_ne!(second.1, first.1);
    notifier.stop().await;
    assert_eq!(tested.rest(), []);
    assert_eq!(tested.counts("slack"), [2, 2, 0]);
}

#[tokio::test(start_paused = true)]
async fn receiver_that_is_down_does_not_hold_up_others_and_loses_what_is_too_old() {
    let mut tested = Tested::new(&["down", "up"]);
    tested.answer("down", (0..1_000).map(|_| failed()));
    let notifier = tested.start().await;
    tested.fail("a").await;
    let mut tries = Vec::new();
    // Until the receiver that is down gets no further try.
    while tested.counts("down")[2] == 0 {
        tries.push(tested.next().await.0);
        tokio::task::yield_now().await;
    }
    assert_eq!(tries.iter().filter(|name| *name == "up").count(), 1);
    assert!(tries.iter().position(|name| name == "up").unwrap() < 3);
    assert!(tries.len() > 100, "{}", tries.len());
    // The next one is not held up by the lost one.
    tested.answer("down", []);
    tested.fail("b").await;
    let mut next = [tested.next().await, tested.next().await].map(|it| (it.0, it.2));
    next.sort();
    assert_eq!(next, [("down".to_owned(), "b".to_owned()), ("up".to_owned(), "b".to_owned())]);
    notifier.stop().await;
    assert_eq!(tested.counts("up"), [2, 0, 0]);
    assert_eq!((tested.counts("down")[0], tested.counts("down")[2]), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn next_server_sends_what_was_not_acknowledged_and_nothing_else() {
    let mut tested = Tested::new(&["slack"]);
    let notifier = tested.start().await;
    tested.fail("a").await;
    assert_eq!(tested.next().await.2, "a");
    tested.answer("slack", (0..1_000).map(|_| failed()));
    tested.fail("b").await;
    let b = tested.next().await;
    notifier.stop().await;
    tested.rest();
    // While no server runs.
    tested.fail("c").await;
    tested.answer("slack", []);
    let notifier = tested.start().await;
    assert_eq!(tested.next().await, b);
    assert_eq!(tested.next().await.2, "c");
    notifier.stop().await;
    assert_eq!(tested.rest(), []);
}

#[tokio::test(start_paused = true)]
async fn what_is_a_day_old_at_the_start_is_dropped() {
    let mut tested = Tested::new(&["slack"]);
    tested.start().await.stop().await;
    tested.fail("old").await;
    tokio::time::advance(Duration::from_hours(24)).await;
    tested.fail("new").await;
    let notifier = tested.start().await;
    assert_eq!(tested.next().await.2, "new");
    notifier.stop().await;
    assert_eq!(tested.rest(), []);
    assert_eq!(tested.counts("slack"), [1, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn refused_notification_is_dropped_and_the_next_one_is_sent() {
    let mut tested = Tested::new(&["slack"]);
    tested.answer("slack", [Answer::Refused("gone".to_owned())]);
    let notifier = tested.start().await;
    tested.fail("a").await;
    tested.fail("b").await;
    assert_eq!(tested.next().await.2, "a");
    assert_eq!(tested.next().await.2, "b");
    notifier.stop().await;
    assert_eq!(tested.counts("slack"), [1, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn receiver_of_a_new_configuration_begins_with_what_happens_then() {
    let mut tested = Tested::new(&["old"]);
    let notifier = tested.start().await;
    tested.fail("a").await;
    assert_eq!(tested.next().await.0, "old");
    // The store knows it before its first entry.
    tested.configs.send_replace(config(&["new"]));
    tested.store.cursor("new").await.unwrap();
    tested.fail("b").await;
    let next = tested.next().await;
    assert_eq!((&*next.0, &*next.2), ("new", "b"));
    notifier.stop().await;
    assert_eq!(tested.rest(), []);
    // The cursor of the other one was removed.
    assert_eq!(tested.store.cursor("old").await.unwrap(), *tested.store.journal().borrow());
}

#[tokio::test(start_paused = true)]
async fn acknowledged_notification_is_recorded_before_the_next_one_is_tried() {
    let mut tested = Tested::new(&["slack"]);
    tested.start().await.stop().await;
    tested.fail("a").await;
    let of_a = *tested.store.journal().borrow();
    tested.fail("b").await;
    tested.answer("slack", [Answer::Acknowledged].into_iter().chain((0..9).map(|_| failed())));
    let notifier = tested.start().await;
    assert_eq!((tested.next().await.2, tested.next().await.2), ("a".to_owned(), "b".to_owned()));
    // A server that is killed now does not send the first one again.
    assert_eq!(tested.store.cursor("slack").await.unwrap(), of_a);
    notifier.stop().await;
}

#[tokio::test]
async fn plan_waits_until_a_person_a_newer_plan_or_a_commit_decides() {
    let tested = Tested::new(&["slack"]);
    let layer: LayerName = "a".parse().unwrap();
    let saved = |digest: &str| AttemptResult {
        plan: Some(SavedPlan {
            digest: PlanDigest::new(digest),
            counts: ChangeCounts { add: 1, ..ChangeCounts::default() },
            is_stored: true,
            is_empty: false,
            saved: Moment::from_millis(5),
            discarded: None,
            stale: None,
        }),
        ..AttemptResult::ended(Ending::Succeeded)
    };
    let person = |request: &str| Cause::Person { request: request.into() };
    let first = tested.plan("a", ("d", 1), Cause::Commit { change: 1 }, saved("p1")).await;
    assert!(tested.is_undecided(&layer, &first).await);
    let second = tested.plan("a", ("d", 1), person("1"), saved("p2")).await;
    assert!(!tested.is_undecided(&layer, &first).await);
    assert!(tested.is_undecided(&layer, &second).await);
    let discarded = tested.store.discard(&layer, &PlanDigest::new("p2"), "ana").await.unwrap();
    assert_eq!(discarded, Outcome::Made);
    assert!(!tested.is_undecided(&layer, &second).await);
    let third = tested.plan("a", ("d", 1), person("2"), saved("p3")).await;
    assert!(tested.is_undecided(&layer, &third).await);
    let approved = tested.store.approve(&layer, &PlanDigest::new("p3"), "ana").await.unwrap();
    assert_eq!(approved, Outcome::Made);
    assert!(!tested.is_undecided(&layer, &third).await);
    let next = tested.plan("a", ("e", 2), Cause::Commit { change: 2 }, saved("p4")).await;
    assert!(tested.is_undecided(&layer, &next).await);
    tested
        .plan(
            "a",
            ("f", 3),
            Cause::Commit { change: 3 },
            AttemptResult::ended(Ending::Failed(FailureClass::Syntax)),
        )
        .await;
    assert!(!tested.is_undecided(&layer, &next).await);
}
