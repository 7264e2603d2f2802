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
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// The shortest pause between two attempts, for any interval.
const MIN_PAUSE: Duration = Duration::from_millis(100);

/// The longest `Retry-After` that is followed.
const MAX_RETRY_AFTER: Duration = Duration::from_mins(1);

/// The destination of batches.
pub trait LogSink {
    /// Posts a batch. May retry immediately. Dropping the future aborts the request.
    fn send(&self, batch: &Batch) -> impl Future<Output = Delivery> + Send;
}

/// The result of sending a batch.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Delivery {
    /// It was stored.
    Delivered,
    /// The registry has ended the run and accepts no more lines.
    RunOver,
    /// The body is larger than the registry's limit (413).
    TooLarge,
    /// The registry permanently refuses the batch and would refuse later ones.
    Refused {
        /// The reason, for users.
        reason: String,
    },
    /// It was not delivered, but may be later.
    Unreachable {
        /// The reason, for users.
        reason: String,
        /// The registry's `Retry-After`, or zero.
        retry_after: Duration,
    },
}

/// The reason why the upload ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum UploadEnd {
    /// All lines were delivered.
    Complete,
    /// The registry has ended the run.
    RunOver,
    /// The registry refused a batch.
    Refused,
    /// The deadline was over.
    Overdue,
}

/// The result of an upload.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct UploadReport {
    /// The number of lines that were delivered.
    pub delivered: u32,
    /// The numbers of the lines that were not delivered. A batch that was aborted in flight may have been
    /// delivered.
    pub undelivered: Option<RangeInclusive<u32>>,
    /// The reason of the end.
    pub end: UploadEnd,
}

/// Sends the lines of `receiver` until the end of the log, or until `overdue` completes, which is polled from the
/// end of the log on.
///
/// Lines are collected for `interval` or a random time that is a little shorter, so that runners that were
/// started at the same time do not send at the same time.
///
/// If the registry accepts no more lines, this still waits for the end of the log, so that the report covers
/// the whole log. Also returns the lines that were not delivered. If the registry has ended the run, these
/// lines are dropped.
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
        pending: VecDeque::new(),
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
    /// Batches that have left the queue and were not delivered yet, the oldest first.
    pending: VecDeque<Batch>,
    delivered: u32,
    /// The last pause; zero if the last batch was delivered.
    pause: Duration,
}

impl<S: LogSink> Uploader<'_, S> {
    /// Sends until the end of the log. Can be dropped at any time: undelivered lines are in `pending` or in the
    /// queue.
    async fn run(&mut self) -> UploadEnd {
        let mut started = None;
        loop {
            if self.pending.is_empty() {
                if !self.collect(started.take()).await {
                    return UploadEnd::Complete;
                }
                self.pending.extend(Batch::fill(&mut self.receiver, self.largest_body));
            }
            let Some(batch) = self.pending.front() else { continue };
            started = Some(Instant::now());
            let delivery = self.sink.send(batch).await;
            if let Some(end) = self.handle_delivery(delivery).await {
                return end;
            }
        }
    }

    /// Waits until a batch should be sent; `false` is the end of the log. The interval of lines that arrived
    /// during the last request begins with that request.
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

    /// Handles the result of sending the oldest batch. Returns the reason if the upload ends.
    async fn handle_delivery(&mut self, delivery: Delivery) -> Option<UploadEnd> {
        match delivery {
            Delivery::Delivered => {
                let lines = self.pending.pop_front().map_or(0, |batch| batch.lines());
                self.delivered += u32::try_from(lines).expect("a batch has 10,000 lines at most");
                if !self.pause.is_zero() {
                    tracing::info!("log lines are delivered again");
                    self.pause = Duration::ZERO;
                }
                None
            }
            Delivery::RunOver => Some(UploadEnd::RunOver),
            Delivery::TooLarge => self.split_batch(),
            Delivery::Refused { reason } => Some(warn_of_refusal(&reason)),
            Delivery::Unreachable { reason, retry_after } => {
                if self.pause.is_zero() {
                    tracing::warn!(%reason, "log lines cannot be delivered; they are kept for later");
                }
                self.wait(retry_after.min(MAX_RETRY_AFTER)).await;
                None
            }
        }
    }

    /// Replaces a batch that is too large by two halves, and a single line that is too large by a note.
    fn split_batch(&mut self) -> Option<UploadEnd> {
        let batch = self.pending.pop_front()?;
        if let Some([first, second]) = batch.halves() {
            // Later batches are smaller from the start.
            self.largest_body = self.largest_body.min(batch.body().len() / 2);
            self.pending.push_front(second);
            self.pending.push_front(first);
            return None;
        }
        let note = format!("[a line was left out: {} bytes are too large]", batch.body().len());
        let replacement = Batch::note(*batch.numbers().start(), &note);
        let smaller = replacement.body().len() < batch.body().len();
        self.pending.push_front(if smaller { replacement } else { batch });
        (!smaller).then(|| warn_of_refusal("even a single line is too large"))
    }

    /// Waits before the next attempt. During the run the pause grows, because the lines are stored. After the end
    /// of the log it is one interval, because the deadline runs.
    async fn wait(&mut self, retry_after: Duration) {
        let shortest = self.interval.clamp(MIN_PAUSE, MAX_PAUSE);
        let retry_after = tokio::time::sleep(retry_after);
        if self.receiver.is_closed() {
            self.pause = shortest;
            tokio::time::sleep(jittered(self.pause)).await;
        } else {
            self.pause = (2 * self.pause).clamp(shortest, MAX_PAUSE);
            tokio::select! {
                () = tokio::time::sleep(jittered(self.pause)) => {}
                () = self.receiver.closed() => {}
            }
        }
        retry_after.await;
    }

    /// Waits for the end of the log, and counts the undelivered lines.
    async fn finish(mut self, end: UploadEnd) -> (UploadReport, Undelivered) {
        if end == UploadEnd::RunOver {
            let first = self.first_undelivered();
            self.receiver.discard();
            self.receiver.closed().await;
            return self.into_report(end, first);
        }
        self.receiver.closed().await;
        let first = self.first_undelivered();
        self.into_report(end, first)
    }

    /// The number of the oldest undelivered line, or the next number if all lines were delivered.
    fn first_undelivered(&mut self) -> u32 {
        // Read before the queue: a line that arrives in between is a waiting one.
        let last = self.receiver.last();
        let waiting = self.receiver.unread();
        let kept = self.pending.front().map(|batch| *batch.numbers().start());
        kept.or(waiting.map(|waiting| *waiting.start())).unwrap_or(last + 1)
    }

    fn into_report(self, end: UploadEnd, first: u32) -> (UploadReport, Undelivered) {
        let last = self.receiver.last();
        let report = UploadReport {
            delivered: self.delivered,
            undelivered: (first <= last).then_some(first..=last),
            end,
        };
        (report, Undelivered { pending: self.pending, receiver: self.receiver })
    }
}

fn warn_of_refusal(reason: &str) -> UploadEnd {
    tracing::warn!(%reason, "the registry refuses log lines; no more are sent");
    UploadEnd::Refused
}

#[cfg(test)]
#[path = "upload_tests.rs"]
mod tests;
