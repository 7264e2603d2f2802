use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::super::spool::{Sender, channel};
use super::*;
use butler_base::event::LogLineRef;
use butler_base::event::Stream;

const INTERVAL: Duration = Duration::from_secs(2);
const DEADLINE: Duration = Duration::from_secs(20);

/// The precision of timers.
const TICK: Duration = Duration::from_millis(1);

/// Answers with `answer`, and records each request with its time.
#[derive(Clone)]
struct Registry {
    requests: Arc<Mutex<Vec<(Instant, Batch)>>>,
    answer: fn(request: usize, batch: &Batch) -> Option<Delivery>,
}

impl Registry {
    fn new(answer: fn(usize, &Batch) -> Option<Delivery>) -> Self {
        Self { requests: Arc::default(), answer }
    }

    fn numbers(&self) -> Vec<RangeInclusive<u32>> {
        self.requests.lock().unwrap().iter().map(|(_, batch)| batch.numbers()).collect()
    }

    fn times(&self) -> Vec<Instant> {
        self.requests.lock().unwrap().iter().map(|(time, _)| *time).collect()
    }

    fn bodies(&self) -> Vec<Bytes> {
        self.requests.lock().unwrap().iter().map(|(_, batch)| batch.body()).collect()
    }
}

impl LogSink for Registry {
    async fn send(&self, batch: &Batch) -> Delivery {
        let request = {
            let mut requests = self.requests.lock().unwrap();
            requests.push((Instant::now(), batch.clone()));
            requests.len()
        };
        match (self.answer)(request, batch) {
            Some(delivery) => delivery,
            None => std::future::pending().await,
        }
    }
}

fn unreachable() -> Delivery {
    Delivery::Unreachable { reason: "not reachable".to_owned(), retry_after: Duration::ZERO }
}

fn start(registry: &Registry) -> (Sender, tokio::task::JoinHandle<UploadReport>) {
    let (sender, receiver) = channel(16 << 20, "/nonexistent/overflow".into());
    let registry = registry.clone();
    (
        sender,
        tokio::spawn(async move {
            let overdue = async { tokio::time::sleep(DEADLINE).await };
            upload(receiver, &registry, INTERVAL, overdue).await.0
        }),
    )
}

fn send(sender: &Sender, numbers: RangeInclusive<u32>, content: &str) {
    for sequence in numbers {
        sender.send(LogLineRef { sequence, stream: Stream::Stdout, content });
    }
}

#[tokio::test(start_paused = true)]
async fn lines_are_collected_for_an_interval_and_nothing_is_sent_without_lines() {
    let registry = Registry::new(|_, _| Some(Delivery::Delivered));
    let (sender, uploaded) = start(&registry);
    tokio::time::sleep(INTERVAL * 100).await;
    assert_eq!(registry.numbers(), []);
    let begin = Instant::now();
    send(&sender, 1..=2, "x");
    tokio::time::sleep(INTERVAL / 2).await;
    send(&sender, 3..=3, "x");
    tokio::time::sleep(INTERVAL * 100).await;
    assert_eq!(registry.numbers(), [1..=3]);
    let waited = registry.times()[0] - begin;
    assert!(waited >= INTERVAL / 2 && waited <= INTERVAL + TICK, "{waited:?}");
    let end = Instant::now();
    send(&sender, 4..=4, "x");
    drop(sender);
    let report = uploaded.await.unwrap();
    assert_eq!(registry.times()[1], end, "the last batch waited for the interval");
    let expected = UploadReport { delivered: 4, undelivered: None, end: UploadEnd::Complete };
    assert_eq!(report, expected);
}

#[tokio::test(start_paused = true)]
async fn runners_that_print_at_the_same_time_send_at_different_times_and_not_late() {
    let begin = Instant::now();
    let registries: Vec<_> =
        (0..100).map(|_| Registry::new(|_, _| Some(Delivery::Delivered))).collect();
    let runners: Vec<_> = registries.iter().map(start).collect();
    for number in 1..=20 {
        for (sender, _) in &runners {
            send(sender, number..=number, "x");
        }
        tokio::time::sleep(INTERVAL / 2).await;
    }
    let mut first: Vec<_> = registries.iter().map(|registry| registry.times()[0]).collect();
    first.sort_unstable();
    assert!(first[99] - first[0] > INTERVAL / 4, "{:?}", first[99] - first[0]);
    for registry in &registries {
        for (batch, sent) in registry.numbers().iter().zip(registry.times()) {
            let came = begin + INTERVAL / 2 * (batch.start() - 1);
            assert!(sent <= came + INTERVAL + TICK * 2, "{batch:?}: {:?}", sent - came);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn full_batch_is_sent_immediately() {
    let registry = Registry::new(|_, _| Some(Delivery::Delivered));
    let begin = Instant::now();
    let (sender, uploaded) = start(&registry);
    let long = "x".repeat(LARGEST_BODY / 3);
    send(&sender, 1..=25_000, "x");
    send(&sender, 25_001..=25_004, &long);
    drop(sender);
    assert_eq!(uploaded.await.unwrap().delivered, 25_004);
    assert_eq!(registry.numbers(), [1..=10_000, 10_001..=20_000, 20_001..=25_002, 25_003..=25_004]);
    assert_eq!(registry.times().last(), Some(&begin));
}

#[tokio::test(start_paused = true)]
async fn undelivered_batch_is_retried_unchanged_before_later_lines() {
    let registry = Registry::new(|request, _| match request {
        1..=5 => Some(unreachable()),
        _ => Some(Delivery::Delivered),
    });
    let (sender, uploaded) = start(&registry);
    send(&sender, 1..=1, "first");
    tokio::time::sleep(INTERVAL * 2).await;
    send(&sender, 2..=9000, "later");
    tokio::time::sleep(INTERVAL * 100).await;
    assert_eq!(registry.numbers()[..6], vec![1..=1; 6]);
    assert_eq!(registry.numbers()[6..], [2..=9000]);
    assert!(registry.bodies()[..6].windows(2).all(|pair| pair[0] == pair[1]));
    let pauses: Vec<_> =
        registry.times().windows(2).take(4).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses.is_sorted(), "{pauses:?}");
    drop(sender);
    assert_eq!(uploaded.await.unwrap().undelivered, None);
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_followed_up_to_its_limit() {
    let registry = Registry::new(|request, _| match request {
        1 => Some(Delivery::Unreachable { reason: String::new(), retry_after: INTERVAL * 5 }),
        2 => Some(Delivery::Unreachable { reason: String::new(), retry_after: Duration::MAX }),
        _ => Some(Delivery::Delivered),
    });
    let (sender, uploaded) = start(&registry);
    send(&sender, 1..=1, "x");
    tokio::time::sleep(INTERVAL * 100).await;
    let times = registry.times();
    let pauses: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(pauses, [INTERVAL * 5, MAX_RETRY_AFTER]);
    drop(sender);
    assert_eq!(uploaded.await.unwrap().undelivered, None);
}

#[tokio::test(start_paused = true)]
async fn deadline_starts_at_the_end_of_the_log_and_undelivered_lines_are_reported() {
    let registry = Registry::new(|request, _| match request {
        1 => Some(Delivery::Delivered),
        _ => Some(unreachable()),
    });
    let (sender, uploaded) = start(&registry);
    send(&sender, 1..=10_010, "x");
    tokio::time::sleep(DEADLINE * 10).await;
    assert!(!uploaded.is_finished());
    send(&sender, 10_011..=10_020, "x");
    drop(sender);
    let closed = Instant::now();
    let report = uploaded.await.unwrap();
    assert_eq!(Instant::now() - closed, DEADLINE);
    let expected = UploadReport {
        delivered: 10_000,
        undelivered: Some(10_001..=10_020),
        end: UploadEnd::Overdue,
    };
    assert_eq!(report, expected);
    let tries = registry.times().iter().filter(|time| **time >= closed).count();
    assert!(tries >= 5, "{tries} tries between the end and the deadline");
}

#[tokio::test(start_paused = true)]
async fn request_without_an_answer_is_aborted_at_the_deadline() {
    let registry = Registry::new(|_, _| None);
    let (sender, uploaded) = start(&registry);
    send(&sender, 1..=3, "x");
    drop(sender);
    let report = uploaded.await.unwrap();
    assert_eq!((report.end, report.undelivered), (UploadEnd::Overdue, Some(1..=3)));
    assert_eq!(registry.numbers(), [1..=3]);
}

#[tokio::test(start_paused = true)]
async fn too_large_batch_is_halved_and_later_batches_are_smaller() {
    let registry = Registry::new(|_, batch| {
        let fits = batch.body().len() <= 5000;
        Some(if fits { Delivery::Delivered } else { Delivery::TooLarge })
    });
    let (sender, uploaded) = start(&registry);
    send(&sender, 1..=8, &"x".repeat(1000));
    send(&sender, 9..=9, &"x".repeat(6000));
    send(&sender, 10..=10, "x");
    tokio::time::sleep(INTERVAL * 3).await;
    let before = registry.numbers().len();
    send(&sender, 11..=18, &"x".repeat(1000));
    drop(sender);
    let report = uploaded.await.unwrap();
    assert_eq!((report.delivered, report.undelivered), (18, None));
    let delivered: Vec<_> =
        registry.bodies().into_iter().filter(|body| body.len() <= 5000).collect();
    let text: Vec<_> = delivered.iter().map(|body| std::str::from_utf8(body).unwrap()).collect();
    let text = text.concat();
    assert!((1..=18).all(|number| text.matches(&format!("\"sequence\":{number},")).count() == 1));
    assert!(text.contains("[a line was left out: "));
    assert!(registry.bodies()[before..].iter().all(|body| body.len() <= 5000));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_after_the_registry_has_refused_lines() {
    for (answer, end) in [
        (Delivery::RunOver, UploadEnd::RunOver),
        (Delivery::Refused { reason: "malformed".to_owned() }, UploadEnd::Refused),
        (Delivery::TooLarge, UploadEnd::Refused),
    ] {
        let registry = match answer {
            Delivery::RunOver => Registry::new(|_, _| Some(Delivery::RunOver)),
            Delivery::Refused { .. } => {
                Registry::new(|_, _| Some(Delivery::Refused { reason: String::new() }))
            }
            _ => Registry::new(|_, _| Some(Delivery::TooLarge)),
        };
        let (sender, uploaded) = start(&registry);
        send(&sender, 1..=1, "x");
        tokio::time::sleep(INTERVAL * 2).await;
        send(&sender, 2..=5, "x");
        tokio::time::sleep(INTERVAL * 2).await;
        assert_eq!(registry.numbers(), [1..=1]);
        drop(sender);
        let report = uploaded.await.unwrap();
        assert_eq!(report, UploadReport { delivered: 0, undelivered: Some(1..=5), end });
    }
}
