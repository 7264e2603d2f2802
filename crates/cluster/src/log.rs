//! Reads the log of a pod to its end, over broken streams, without losing or repeating a line.
//!
//! Each line has a timestamp. After a break the log is requested again from the second of the last line on, and
//! lines that were sent already are skipped: those before that timestamp, and as many with that timestamp as
//! were sent. A line without an end is kept, because the next stream repeats it.

use std::time::Duration;

use backon::BackoffBuilder;
use futures_util::{AsyncBufRead, AsyncBufReadExt};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, LogParams};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use crate::backoff::backoff;
use crate::client::Cluster;
use crate::manifest::CONTAINER;
use crate::pod::{Stage, name, stage};
use crate::watch::ObservedObject;

/// How long a stream may stay open after the container's end, before the rest is requested.
const REST_LIMIT: Duration = Duration::from_secs(5);
/// The timeout for the next line of the rest: a broken connection may stay silent.
const SILENCE_LIMIT: Duration = Duration::from_secs(30);
/// The pause between the end of a stream and the next one.
const PAUSE: Duration = Duration::from_millis(500);

/// A part of a pod's log.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum LogPart {
    /// A line, without its timestamp.
    Line(String),
    /// The rest of the log cannot be read, for this reason.
    Missing(String),
}

/// Sends the lines of the pod's log until the log is complete or cannot be read any more.
pub(crate) async fn send_log(
    cluster: &Cluster,
    mut sight: watch::Receiver<ObservedObject<Pod>>,
    parts: mpsc::Sender<LogPart>,
) {
    let Some(pod) = wait_for_start(&mut sight).await else { return };
    let api: Api<Pod> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let mut position = Position::default();
    let mut pauses = backoff().build();
    // Whether the last stream ended without an error.
    let mut had_ended = false;
    loop {
        let over = is_over(&sight.borrow());
        let ended_before = std::mem::take(&mut had_ended);
        let read = position.advance(&api, &pod, !over, &parts);
        let outcome = if over {
            read.await
        } else {
            let mut watched = sight.clone();
            tokio::select! {
                outcome = read => {
                    had_ended = outcome.is_ok();
                    outcome
                }
                () = wait_for_stalled_stream(&mut watched) => Ok(()),
            }
        };
        match outcome {
            Ok(()) if over => {
                position.flush(&parts).await;
                return;
            }
            Ok(()) => {
                pauses = backoff().build();
                sleep(PAUSE).await;
            }
            Err(error) if parts.is_closed() => {
                tracing::debug!(%error, "the reader of the log is gone");
                return;
            }
            Err(error) => {
                tracing::debug!(%error, "the log's stream broke");
                let code = if let kube::Error::Api(status) = &error { status.code } else { 0 };
                if code == 404 && ended_before {
                    // The pod was removed right after its end, and its log was read completely.
                    position.flush(&parts).await;
                    return;
                }
                // Retries without a limit while the run continues, and with a limit after its end. A removed
                // pod is final, and so is a rejection before the first line: the permission is missing.
                let is_forbidden = matches!(code, 401 | 403) && position.last.is_none();
                let is_final = is_forbidden || over && code == 404;
                match pauses.next().filter(|_| !is_final) {
                    Some(pause) => sleep(pause).await,
                    None if over || is_final => {
                        position.flush(&parts).await;
                        let _ = parts.send(LogPart::Missing(describe(&error))).await;
                        return;
                    }
                    None => sleep(Duration::from_secs(8)).await,
                }
            }
        }
    }
}

/// Waits until the pod's container has started. Returns the pod's name; `None` if the container never ran.
async fn wait_for_start(sight: &mut watch::Receiver<ObservedObject<Pod>>) -> Option<String> {
    let seen = sight
        .wait_for(|sight| match sight {
            ObservedObject::Unknown | ObservedObject::Nothing => false,
            ObservedObject::There(pod) => stage(pod) != Stage::Waiting,
            ObservedObject::Gone(_) => true,
        })
        .await
        .ok()?;
    let pod = seen.last()?;
    let has_run = stage(pod) == Stage::Running || super::pod::ended(pod).is_some();
    has_run.then(|| name(pod).to_owned())
}

fn is_over(sight: &ObservedObject<Pod>) -> bool {
    match sight {
        ObservedObject::Unknown | ObservedObject::Nothing => false,
        ObservedObject::There(pod) => stage(pod) == Stage::Over,
        ObservedObject::Gone(_) => true,
    }
}

/// Waits until [`REST_LIMIT`] after the container's end, when its stream should have ended too.
async fn wait_for_stalled_stream(sight: &mut watch::Receiver<ObservedObject<Pod>>) {
    if sight.wait_for(is_over).await.is_err() {
        std::future::pending::<()>().await;
    }
    sleep(REST_LIMIT).await;
}

fn describe(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => butler_base::error::chain(other),
    }
}

/// The position up to which the log was sent.
#[derive(Debug, Default)]
struct Position {
    /// The timestamp of the last line, and the number of lines with it.
    last: Option<(Timestamp, usize)>,
    /// A line whose end has not been read.
    partial: Vec<u8>,
}

impl Position {
    /// Requests the log from this position on and sends it.
    async fn advance(
        &mut self,
        api: &Api<Pod>,
        pod: &str,
        follow: bool,
        parts: &mpsc::Sender<LogPart>,
    ) -> kube::Result<()> {
        let parameters = LogParams {
            container: Some(CONTAINER.to_owned()),
            follow,
            timestamps: true,
            since_time: self.last.and_then(|(time, _)| Timestamp::new(time.as_second(), 0).ok()),
            ..LogParams::default()
        };
        let limit = (!follow).then_some(SILENCE_LIMIT);
        let stream = with_timeout(limit, api.log_stream(pod, &parameters)).await?;
        self.drain(std::pin::pin!(stream), limit, parts).await
    }

    /// Sends the lines of a stream to its end. `limit` is the timeout for each read.
    async fn drain(
        &mut self,
        mut stream: impl AsyncBufRead + Unpin,
        limit: Option<Duration>,
        parts: &mpsc::Sender<LogPart>,
    ) -> kube::Result<()> {
        let mut known = self.sent_lines();
        self.partial.clear();
        loop {
            let read = stream.read_until(b'\n', &mut self.partial);
            let length = with_timeout(limit, async { read.await.map_err(kube::Error::ReadEvents) });
            if length.await? == 0 {
                return Ok(());
            }
            if self.partial.ends_with(b"\n") {
                self.partial.pop();
                let line = std::mem::take(&mut self.partial);
                self.send_line(&line, &mut known, parts).await?;
            }
        }
    }

    fn sent_lines(&self) -> SentLines {
        self.last.map_or(SentLines { before: None, left: 0 }, |(time, count)| SentLines {
            before: Some(time),
            left: count,
        })
    }

    async fn send_line(
        &mut self,
        line: &[u8],
        known: &mut SentLines,
        parts: &mpsc::Sender<LogPart>,
    ) -> kube::Result<()> {
        let (time, text) = split_timestamp(line);
        if time.is_some_and(|time| known.skip(time)) {
            return Ok(());
        }
        // If the reader is slow, this future may be dropped here. So the line is marked as sent only after the
        // reservation.
        let closed = |_| kube::Error::Service("the reader is gone".into());
        let permit = parts.reserve().await.map_err(closed)?;
        if let Some(time) = time {
            self.last = Some(match self.last {
                Some((last, count)) if last == time => (time, count + 1),
                _ => (time, 1),
            });
        }
        permit.send(LogPart::Line(text));
        Ok(())
    }

    /// Sends the last line if it has no end.
    async fn flush(&mut self, parts: &mpsc::Sender<LogPart>) {
        let line = std::mem::take(&mut self.partial);
        if !line.is_empty() && !self.sent_lines().has_line(&line) {
            let (_, text) = split_timestamp(&line);
            let _ = parts.send(LogPart::Line(text)).await;
        }
    }
}

/// Awaits `answer`, with a timeout if `limit` is set.
async fn with_timeout<T>(
    limit: Option<Duration>,
    answer: impl Future<Output = kube::Result<T>>,
) -> kube::Result<T> {
    match limit {
        Some(limit) => timeout(limit, answer)
            .await
            .unwrap_or_else(|_| Err(kube::Error::Service("the log does not come".into()))),
        None => answer.await,
    }
}

/// The lines that a new stream repeats.
struct SentLines {
    before: Option<Timestamp>,
    left: usize,
}

impl SentLines {
    /// Whether the next line, with this timestamp, was sent before. After the first new line, all lines are new.
    fn skip(&mut self, time: Timestamp) -> bool {
        let Some(before) = self.before else { return false };
        if time < before {
            return true;
        }
        if time == before && self.left > 0 {
            self.left -= 1;
            return true;
        }
        self.before = None;
        false
    }

    fn has_line(&self, line: &[u8]) -> bool {
        let time = split_timestamp(line).0;
        self.before.zip(time).is_some_and(|(before, time)| time < before)
    }
}

/// The timestamp and the text of a line.
fn split_timestamp(line: &[u8]) -> (Option<Timestamp>, String) {
    let line = String::from_utf8_lossy(line);
    let parsed = line.split_once(' ').and_then(|(time, text)| Some((time.parse().ok()?, text)));
    match parsed {
        Some((time, text)) => (Some(time), text.to_owned()),
        // An empty line consists of its timestamp only.
        None => match line.parse() {
            Ok(time) => (Some(time), String::new()),
            Err(_) => (None, line.into_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    /// The lines that are sent from streams that break after their last line.
    async fn sent_from(streams: &[&[&str]]) -> Vec<String> {
        let (parts, mut received) = mpsc::channel(100);
        let mut position = Position::default();
        for lines in streams {
            let mut known = position.sent_lines();
            for line in *lines {
                position.send_line(line.as_bytes(), &mut known, &parts).await.unwrap();
            }
        }
        drop(parts);
        let mut sent = Vec::new();
        while let Some(LogPart::Line(line)) = received.recv().await {
            sent.push(line);
        }
        sent
    }

    #[tokio::test]
    async fn repeated_lines_are_sent_once_and_no_line_is_lost() {
        let (one, two) = ("2026-11-21T10:00:00.5Z", "2026-11-21T10:00:00.7Z");
        let first = [format!("{one} a"), format!("{two} b"), format!("{two} b")];
        let again =
            [format!("{one} a"), format!("{two} b"), format!("{two} b"), format!("{two} c")];
        let first: Vec<_> = first.iter().map(String::as_str).collect();
        let again: Vec<_> = again.iter().map(String::as_str).collect();
        assert_eq!(sent_from(&[&first, &again]).await, ["a", "b", "b", "c"]);
        assert_eq!(sent_from(&[&first, &again, &again]).await, ["a", "b", "b", "c"]);
    }

    #[tokio::test]
    async fn no_line_of_a_stream_is_lost_if_the_clock_goes_back() {
        let lines = ["2026-11-21T10:00:02Z a", "2026-11-21T10:00:01Z b", "no time c"];
        assert_eq!(sent_from(&[&lines]).await, ["a", "b", "no time c"]);
    }

    #[tokio::test]
    async fn line_that_did_not_fit_into_the_channel_is_sent_from_the_next_stream() {
        let (parts, mut received) = mpsc::channel(1);
        let mut position = Position::default();
        let lines = b"2026-11-21T10:00:00Z a\n2026-11-21T10:00:01Z b\n".as_slice();
        // The first stream is dropped while it waits for room for the second line.
        assert!(position.drain(lines, None, &parts).now_or_never().is_none());
        assert_eq!(received.try_recv().unwrap(), LogPart::Line("a".to_owned()));
        position.drain(lines, None, &parts).await.unwrap();
        assert_eq!(received.try_recv().unwrap(), LogPart::Line("b".to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn reading_a_silent_stream_times_out() {
        use futures_util::{TryStreamExt, stream};

        let (parts, _received) = mpsc::channel(1);
        let silent = stream::pending::<std::io::Result<Vec<u8>>>().into_async_read();
        let drained = Position::default().drain(silent, Some(SILENCE_LIMIT), &parts).await;
        assert!(drained.unwrap_err().to_string().contains("the log does not come"));
    }

    #[test]
    fn line_is_split_into_timestamp_and_text() {
        let (time, text) = split_timestamp(b"2026-11-21T10:00:00.123456789+01:00  two spaces ");
        assert_eq!((time.is_some(), &*text), (true, " two spaces "));
        assert_eq!(split_timestamp(b"2026-11-21T10:00:00Z").1, "");
        assert_eq!(split_timestamp(b"plain"), (None, "plain".to_owned()));
    }
}
