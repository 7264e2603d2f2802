//! Uploads the log during the run: decides when to send which lines; the sink sends them.
//!
//! One batch is in flight at a time, because readers of the registry's log skip lines that arrive late with
//! a lower number. Lines are sent an interval after the first of them arrived, or at once if a batch is
//! full or the log has ended. An undelivered batch is kept unchanged, and later lines wait in the queue.

use std::collections::VecDeque;
use std::future::Future;
use std::ops::RangeInclusive;
use std::time::Duration;

use tokio::time::Instant;

use super::batch::{Batch, LARGEST_BODY, MOST_LINES};
use super::spool::Receiver;
use super::undelivered::Undelivered;
use butler_base::pace::{Pace, jittered};

/// The longest pause between two attempts during the run, so that viewers see a recent log.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The shortest pause between two tries, however short the interval.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);

/// The longest `Retry-After` that is followed.
const LONGEST_REST: Duration = Duration::from_mins(1);

/// Where batches go.
pub trait LogSink {
    /// Posts a batch, with what retries are worth doing at once. Dropping the future gives it up.
    fn send(&self, batch: &Batch) -> impl Future<Output = Delivery> + Send;
}

/// The result of sending a batch.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Delivery {
    /// It was stored.
    Delivered,
    /// The run is over for the registry, which takes no more lines.
    RunOver,
    /// The body is larger than is taken (413).
    TooLarge,
    /// The registry refuses it for good and would refuse what follows.
    Refused {
        /// Why, for people.
        reason: String,
    },
    /// It was not delivered, but may be later.
    Unreachable {
        /// Why, for people.
        reason: String,
        /// How long the registry asks to be left alone; nothing where it does not.
        rest: Duration,
    },
}

/// Why no more lines were sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum UploadEnd {
    /// Everything was sent.
    Complete,
    /// The registry has ended the run.
    RunOver,
    /// The registry refused a batch.
    Refused,
    /// The deadline was over.
    Overdue,
}

/// What was delivered.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UploadReport {
    /// The number of lines that were delivered.
    pub delivered: u32,
    /// The numbers of the lines that were not delivered (a batch that was aborted in flight may have
    /// been).
    pub undelivered: Option<RangeInclusive<u32>>,
    /// Why it ended.
    pub end: UploadEnd,
}

/// Sends what `receiver` gets, until the log is closed and delivered, or the deadline is over.
///
/// Lines are collected for `interval` at most, and for a little less by chance, so that runners that
/// were started together do not send together. From the end of the log on `overdue` is waited for:
/// when it completes, what was not delivered stays so.
///
/// When the registry takes no more lines, this still waits for the log to be closed, so that its
/// report is about the whole of it. Returns the lines that were not delivered, too; there are none
/// once the registry has ended the run, for which they are of no more use.
pub async fn upload(
    receiver: Receiver,
    sink: &(impl LogSink + Sync),
    interval: Duration,
    overdue: impl Future<Output = ()>,
) -> (UploadReport, Undelivered) {
    let closed = receiver.closed();
    let overdue = async move {
        closed.await;
        overdue.await;
    };
    let mut uploader = Uploader {
        receiver,
        sink,
        interval,
        pace: Pace::new(interval),
        largest_body: LARGEST_BODY,
        hand: VecDeque::new(),
        delivered: 0,
        pause: Duration::ZERO,
    };
    let end = tokio::select! {
        end = uploader.run() => end,
        () = overdue => UploadEnd::Overdue,
    };
    uploader.finish(end).await
}

struct Uploader<'sink, S> {
    receiver: Receiver,
    sink: &'sink S,
    interval: Duration,
    pace: Pace,
    largest_body: usize,
    /// What has left the queue and was not delivered yet, the oldest first.
    hand: VecDeque<Batch>,
    delivered: u32,
    /// The last pause; zero while the registry answers.
    pause: Duration,
}

impl<S: LogSink> Uploader<'_, S> {
    /// Sends until there is nothing more to send. Can be dropped at any time: what was not
    /// delivered is in `hand` or in the queue.
    async fn run(&mut self) -> UploadEnd {
        let mut started = None;
        loop {
            if self.hand.is_empty() {
                if !self.collect(started.take()).await {
                    return UploadEnd::Complete;
                }
                self.hand.extend(Batch::fill(&mut self.receiver, self.largest_body));
            }
            let Some(batch) = self.hand.front() else { continue };
            started = Some(Instant::now());
            let outcome = self.sink.send(batch).await;
            if let Some(end) = self.settle(outcome).await {
                return end;
            }
        }
    }

    /// Waits until a batch should be sent; `false` is the end of the log. Lines that came while
    /// the last batch was sent have waited since its start.
    async fn collect(&mut self, started: Option<Instant>) -> bool {
        let since = match started {
            Some(started) if self.receiver.unread().is_some() => started,
            _ if self.receiver.ready(1, 1).await => Instant::now(),
            _ => return false,
        };
        let due = since + self.pace.wait();
        tokio::select! {
            _ = self.receiver.ready(MOST_LINES, self.largest_body) => {}
            () = tokio::time::sleep_until(due) => {}
        }
        true
    }

    /// Handles the result of sending the oldest batch.
    async fn settle(&mut self, outcome: Delivery) -> Option<UploadEnd> {
        match outcome {
            Delivery::Delivered => {
                let lines = self.hand.pop_front().map_or(0, |batch| batch.lines());
                self.delivered += u32::try_from(lines).expect("a batch has 10,000 lines at most");
                if !self.pause.is_zero() {
                    tracing::info!("log lines are delivered again");
                    self.pause = Duration::ZERO;
                }
                None
            }
            Delivery::RunOver => Some(UploadEnd::RunOver),
            Delivery::TooLarge => self.divide(),
            Delivery::Refused { reason } => Some(refused(&reason)),
            Delivery::Unreachable { reason, rest } => {
                if self.pause.is_zero() {
                    tracing::warn!(%reason, "log lines cannot be delivered; they are kept for later");
                }
                self.wait(rest.min(LONGEST_REST)).await;
                None
            }
        }
    }

    /// Puts two halves in the place of a batch that was too large, and a note in the place of a
    /// line that was.
    fn divide(&mut self) -> Option<UploadEnd> {
        let batch = self.hand.pop_front()?;
        if let Some([first, second]) = batch.halves() {
            // What is refused once is not tried again with every batch.
            self.largest_body = self.largest_body.min(batch.body().len() / 2);
            self.hand.push_front(second);
            self.hand.push_front(first);
            return None;
        }
        let note = format!("[a line was left out: {} bytes are too large]", batch.body().len());
        let replacement = Batch::note(*batch.numbers().start(), &note);
        let smaller = replacement.body().len() < batch.body().len();
        self.hand.push_front(if smaller { replacement } else { batch });
        (!smaller).then(|| refused("even a single line is too large"))
    }

    /// Waits before the next try: longer each time while the run goes on, because the lines are
    /// safe; an interval once the log has ended, because then the deadline runs.
    async fn wait(&mut self, rest: Duration) {
        let shortest = self.interval.clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        let rested = tokio::time::sleep(rest);
        if self.receiver.is_closed() {
            self.pause = shortest;
            tokio::time::sleep(jittered(self.pause)).await;
        } else {
            self.pause = (2 * self.pause).clamp(shortest, LONGEST_PAUSE);
            tokio::select! {
                () = tokio::time::sleep(jittered(self.pause)) => {}
                () = self.receiver.closed() => {}
            }
        }
        rested.await;
    }

    async fn finish(mut self, end: UploadEnd) -> (UploadReport, Undelivered) {
        if end == UploadEnd::RunOver {
            let first = self.first_undelivered();
            self.receiver.discard();
            self.receiver.closed().await;
            return self.reported(end, first);
        }
        self.receiver.closed().await;
        let first = self.first_undelivered();
        self.reported(end, first)
    }

    /// The number of the oldest line that was not delivered, or of the next one that comes.
    fn first_undelivered(&mut self) -> u32 {
        // Read first: a line that comes just now belongs to what waits.
        let last = self.receiver.last();
        let waiting = self.receiver.unread();
        let kept = self.hand.front().map(|batch| *batch.numbers().start());
        kept.or(waiting.map(|waiting| *waiting.start())).unwrap_or(last + 1)
    }

    fn reported(self, end: UploadEnd, first: u32) -> (UploadReport, Undelivered) {
        let last = self.receiver.last();
        let report = UploadReport {
            delivered: self.delivered,
            undelivered: (first <= last).then_some(first..=last),
            end,
        };
        (report, Undelivered { hand: self.hand, receiver: self.receiver })
    }
}

fn refused(reason: &str) -> UploadEnd {
    tracing::warn!(%reason, "the registry refuses log lines; no more are sent");
    UploadEnd::Refused
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use bytes::Bytes;

    use super::super::spool::{Sender, channel};
    use super::*;
    use butler_base::event::LogLineRef;
    use butler_base::event::Stream;

    const INTERVAL: Duration = Duration::from_secs(2);
    const DEADLINE: Duration = Duration::from_secs(20);

    /// Timers are this exact.
    const TICK: Duration = Duration::from_millis(1);

    /// Answers as `answer` decides, and remembers when it was sent what.
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
        Delivery::Unreachable { reason: "not reachable".to_owned(), rest: Duration::ZERO }
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
        assert_eq!(registry.times()[1], end, "the end of the log waited for the interval");
        let expected = UploadReport { delivered: 4, undelivered: None, end: UploadEnd::Complete };
        assert_eq!(report, expected);
    }

    #[tokio::test(start_paused = true)]
    async fn runners_that_print_together_do_not_send_together_and_none_sends_late() {
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
    async fn full_batch_is_sent_at_once() {
        let registry = Registry::new(|_, _| Some(Delivery::Delivered));
        let begin = Instant::now();
        let (sender, uploaded) = start(&registry);
        let long = "x".repeat(LARGEST_BODY / 3);
        send(&sender, 1..=25_000, "x");
        send(&sender, 25_001..=25_004, &long);
        drop(sender);
        assert_eq!(uploaded.await.unwrap().delivered, 25_004);
        assert_eq!(
            registry.numbers(),
            [1..=10_000, 10_001..=20_000, 20_001..=25_002, 25_003..=25_004]
        );
        assert_eq!(registry.times().last(), Some(&begin));
    }

    #[tokio::test(start_paused = true)]
    async fn undelivered_batch_is_kept_as_it_is_and_large_ones_follow_it() {
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
    async fn registry_that_asks_for_rest_is_left_alone_but_not_for_ever() {
        let registry = Registry::new(|request, _| match request {
            1 => Some(Delivery::Unreachable { reason: String::new(), rest: INTERVAL * 5 }),
            2 => Some(Delivery::Unreachable { reason: String::new(), rest: Duration::MAX }),
            _ => Some(Delivery::Delivered),
        });
        let (sender, uploaded) = start(&registry);
        send(&sender, 1..=1, "x");
        tokio::time::sleep(INTERVAL * 100).await;
        let times = registry.times();
        let pauses: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(pauses, [INTERVAL * 5, LONGEST_REST]);
        drop(sender);
        assert_eq!(uploaded.await.unwrap().undelivered, None);
    }

    #[tokio::test(start_paused = true)]
    async fn deadline_runs_from_the_end_of_the_log_and_the_rest_is_reported() {
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
    async fn request_without_an_answer_is_given_up_at_the_deadline() {
        let registry = Registry::new(|_, _| None);
        let (sender, uploaded) = start(&registry);
        send(&sender, 1..=3, "x");
        drop(sender);
        let report = uploaded.await.unwrap();
        assert_eq!((report.end, report.undelivered), (UploadEnd::Overdue, Some(1..=3)));
        assert_eq!(registry.numbers(), [1..=3]);
    }

    #[tokio::test(start_paused = true)]
    async fn batch_that_is_too_large_is_halved_until_it_fits_and_later_ones_are_smaller() {
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
        let text: Vec<_> =
            delivered.iter().map(|body| std::str::from_utf8(body).unwrap()).collect();
        let text = text.concat();
        assert!(
            (1..=18).all(|number| text.matches(&format!("\"sequence\":{number},")).count() == 1)
        );
        assert!(text.contains("[a line was left out: "));
        assert!(registry.bodies()[before..].iter().all(|body| body.len() <= 5000));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_sent_once_the_registry_takes_no_more() {
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
}
