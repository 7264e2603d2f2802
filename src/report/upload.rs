//! Sends the log while the run goes on: decides what is sent when; how is the sink's affair.
//!
//! One batch is in flight at a time, because the registry's readers never see a lower number that
//! arrives late. Lines are sent an interval after the first of them came, or at once when a batch
//! is full or the log has ended; where there are none, nothing is sent. A batch that cannot be
//! delivered is kept as it is, and what comes after it waits in the queue.

use std::collections::VecDeque;
use std::future::Future;
use std::ops::RangeInclusive;
use std::time::Duration;

use tokio::time::Instant;

use super::batch::{Batch, LARGEST_BODY, MOST_LINES};
use super::spool::Receiver;

/// The longest pause between two tries while the run goes on: soon enough for whoever watches.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The shortest pause between two tries, however short the interval.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);

/// Where batches go.
pub trait LogSink {
    /// Posts a batch, with what retries are worth doing at once. Dropping the future gives it up.
    fn send(&self, batch: &Batch) -> impl Future<Output = Delivery> + Send;
}

/// What became of a batch.
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
    },
}

/// How often lines are sent.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// How long lines are collected, give or take a tenth, so that runners that were started
    /// together do not send together.
    pub interval: Duration,
    /// How long it may take from the end of the log until everything is delivered.
    pub deadline_after_close: Duration,
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
    /// The numbers of the lines that were not (a batch that was given up in flight may have been).
    pub undelivered: Option<RangeInclusive<u32>>,
    /// Why it ended.
    pub end: UploadEnd,
}

/// Sends what `receiver` gets, until the log is closed and delivered, or the deadline is over.
///
/// When the registry takes no more lines, later ones are dropped, and this still waits for the log
/// to be closed, so that its report is about the whole of it.
pub async fn upload(receiver: Receiver, sink: &(impl LogSink + Sync), pace: Pace) -> UploadReport {
    let closed = receiver.closed();
    let overdue = async {
        closed.await;
        tokio::time::sleep(pace.deadline_after_close).await;
    };
    let mut uploader = Uploader {
        receiver,
        sink,
        interval: pace.interval,
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
        let due = since + jittered(self.interval);
        tokio::select! {
            _ = self.receiver.ready(MOST_LINES, self.largest_body) => {}
            () = tokio::time::sleep_until(due) => {}
        }
        true
    }

    /// Draws the conclusion from what became of the oldest batch.
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
            Delivery::Unreachable { reason } => {
                if self.pause.is_zero() {
                    tracing::warn!(%reason, "log lines cannot be delivered; they are kept for later");
                }
                self.wait().await;
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
    async fn wait(&mut self) {
        let shortest = self.interval.clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
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
    }

    async fn finish(mut self, end: UploadEnd) -> UploadReport {
        let waiting = self.receiver.unread();
        let kept = self.hand.front().map(|batch| *batch.numbers().start());
        let last = self.receiver.last();
        self.receiver.discard();
        self.receiver.closed().await;
        let first = kept.or(waiting.map(|waiting| *waiting.start())).unwrap_or(last + 1);
        let last = self.receiver.last();
        UploadReport {
            delivered: self.delivered,
            undelivered: (first <= last).then_some(first..=last),
            end,
        }
    }
}

fn refused(reason: &str) -> UploadEnd {
    tracing::warn!(%reason, "the registry refuses log lines; no more are sent");
    UploadEnd::Refused
}

/// `duration` give or take a tenth.
fn jittered(duration: Duration) -> Duration {
    duration.mul_f64(0.9 + 0.2 * fastrand::f64())
}
