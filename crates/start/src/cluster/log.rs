//! Reads the log of a pod to its end, over broken streams, without losing or repeating a line.
//!
//! Each line comes with its time. After a break the log is asked for again from the second of the last
//! line on, and what was handed on already is passed over: lines before that time, and as many of that
//! very time as there were. A line without an end is held back, because its rest may come again.

use std::time::Duration;

use backon::BackoffBuilder;
use futures_util::{AsyncBufRead, AsyncBufReadExt};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, LogParams};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use super::backoff::backoff;
use super::client::Cluster;
use super::manifest::CONTAINER;
use super::pod::{Stage, name, stage};
use super::watch::Sight;

/// How long a stream may go on after the container's end, before the rest is asked for.
const REST_LIMIT: Duration = Duration::from_secs(5);
/// How long the rest may be silent before it is asked for again: a connection that died says nothing.
const SILENCE_LIMIT: Duration = Duration::from_secs(30);
/// Between a stream's end and the next one.
const PAUSE: Duration = Duration::from_millis(500);

/// What is read of a log.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Part {
    /// A line, without its time.
    Line(String),
    /// The rest of the log cannot be had; why.
    Missing(String),
}

/// Sends the lines of the pod's log until it is complete, or never will be.
pub(super) async fn read(
    cluster: &Cluster,
    mut sight: watch::Receiver<Sight<Pod>>,
    parts: mpsc::Sender<Part>,
) {
    let Some(pod) = begun(&mut sight).await else { return };
    let api: Api<Pod> = Api::namespaced(cluster.client.clone(), &cluster.namespace);
    let mut position = Position::default();
    let mut pauses = backoff().build();
    // Whether the last stream came to its own end.
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
                () = stalled(&mut watched) => Ok(()),
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
                    // A pod that is removed right after its end; nothing of its log was left.
                    position.flush(&parts).await;
                    return;
                }
                // While the run goes on the log is waited for; after its end not for ever. What is
                // removed comes back no more, and who has never read a line may read none.
                let is_forbidden = matches!(code, 401 | 403) && position.last.is_none();
                let is_final = is_forbidden || over && code == 404;
                match pauses.next().filter(|_| !is_final) {
                    Some(pause) => sleep(pause).await,
                    None if over || is_final => {
                        position.flush(&parts).await;
                        let _ = parts.send(Part::Missing(said(&error))).await;
                        return;
                    }
                    None => sleep(Duration::from_secs(8)).await,
                }
            }
        }
    }
}

/// The name of the pod once its container has begun; none where it ended before.
async fn begun(sight: &mut watch::Receiver<Sight<Pod>>) -> Option<String> {
    let seen = sight
        .wait_for(|sight| match sight {
            Sight::Unknown | Sight::Nothing => false,
            Sight::There(pod) => stage(pod) != Stage::Waiting,
            Sight::Gone(_) => true,
        })
        .await
        .ok()?;
    let pod = seen.last()?;
    let has_run = stage(pod) == Stage::Running || super::pod::ended(pod).is_some();
    has_run.then(|| name(pod).to_owned())
}

fn is_over(sight: &Sight<Pod>) -> bool {
    match sight {
        Sight::Unknown | Sight::Nothing => false,
        Sight::There(pod) => stage(pod) == Stage::Over,
        Sight::Gone(_) => true,
    }
}

/// Waits until the container has ended and its stream should have, too.
async fn stalled(sight: &mut watch::Receiver<Sight<Pod>>) {
    if sight.wait_for(is_over).await.is_err() {
        std::future::pending::<()>().await;
    }
    sleep(REST_LIMIT).await;
}

fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => butler_base::error::chain(other),
    }
}

/// How far the log was handed on.
#[derive(Debug, Default)]
struct Position {
    /// The time of the last line, and how many lines had it.
    last: Option<(Timestamp, usize)>,
    /// A line whose end has not come.
    begun: Vec<u8>,
}

impl Position {
    /// Hands on what the log has from here on.
    async fn advance(
        &mut self,
        api: &Api<Pod>,
        pod: &str,
        follow: bool,
        parts: &mpsc::Sender<Part>,
    ) -> kube::Result<()> {
        let parameters = LogParams {
            container: Some(CONTAINER.to_owned()),
            follow,
            timestamps: true,
            since_time: self.last.and_then(|(time, _)| Timestamp::new(time.as_second(), 0).ok()),
            ..LogParams::default()
        };
        let limit = (!follow).then_some(SILENCE_LIMIT);
        let stream = in_time(limit, api.log_stream(pod, &parameters)).await?;
        self.drain(std::pin::pin!(stream), limit, parts).await
    }

    /// Hands on a stream to its end; `limit` is how long it may be silent.
    async fn drain(
        &mut self,
        mut stream: impl AsyncBufRead + Unpin,
        limit: Option<Duration>,
        parts: &mpsc::Sender<Part>,
    ) -> kube::Result<()> {
        let mut known = self.known();
        self.begun.clear();
        loop {
            let read = stream.read_until(b'\n', &mut self.begun);
            let length = in_time(limit, async { read.await.map_err(kube::Error::ReadEvents) });
            if length.await? == 0 {
                return Ok(());
            }
            if self.begun.ends_with(b"\n") {
                self.begun.pop();
                let line = std::mem::take(&mut self.begun);
                self.take(&line, &mut known, parts).await?;
            }
        }
    }

    fn known(&self) -> Known {
        self.last.map_or(Known { before: None, left: 0 }, |(time, count)| Known {
            before: Some(time),
            left: count,
        })
    }

    async fn take(
        &mut self,
        line: &[u8],
        known: &mut Known,
        parts: &mpsc::Sender<Part>,
    ) -> kube::Result<()> {
        let (time, text) = split(line);
        if time.is_some_and(|time| known.has(time)) {
            return Ok(());
        }
        // The reader may be slow, and this future may be dropped here: the line is marked as delivered only
        // after the reservation.
        let closed = |_| kube::Error::Service("the reader is gone".into());
        let place = parts.reserve().await.map_err(closed)?;
        if let Some(time) = time {
            self.last = Some(match self.last {
                Some((last, count)) if last == time => (time, count + 1),
                _ => (time, 1),
            });
        }
        place.send(Part::Line(text));
        Ok(())
    }

    /// Hands on the last line where it has no end.
    async fn flush(&mut self, parts: &mpsc::Sender<Part>) {
        let line = std::mem::take(&mut self.begun);
        if !line.is_empty() && !self.known().has_line(&line) {
            let (_, text) = split(&line);
            let _ = parts.send(Part::Line(text)).await;
        }
    }
}

/// What `answer` says, unless that takes longer than `limit`.
async fn in_time<T>(
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

/// What a new stream repeats.
struct Known {
    before: Option<Timestamp>,
    left: usize,
}

impl Known {
    /// Whether the next line, of this time, was handed on before. The first that was not ends it.
    fn has(&mut self, time: Timestamp) -> bool {
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
        let time = split(line).0;
        self.before.zip(time).is_some_and(|(before, time)| time < before)
    }
}

/// A line's time and text.
fn split(line: &[u8]) -> (Option<Timestamp>, String) {
    let line = String::from_utf8_lossy(line);
    let parsed = line.split_once(' ').and_then(|(time, text)| Some((time.parse().ok()?, text)));
    match parsed {
        Some((time, text)) => (Some(time), text.to_owned()),
        // An empty line is its time alone.
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

    /// What is handed on of streams that break where they end.
    async fn shown(streams: &[&[&str]]) -> Vec<String> {
        let (parts, mut received) = mpsc::channel(100);
        let mut position = Position::default();
        for lines in streams {
            let mut known = position.known();
            for line in *lines {
                position.take(line.as_bytes(), &mut known, &parts).await.unwrap();
            }
        }
        drop(parts);
        let mut shown = Vec::new();
        while let Some(Part::Line(line)) = received.recv().await {
            shown.push(line);
        }
        shown
    }

    #[tokio::test]
    async fn a_stream_that_repeats_shows_nothing_twice_and_loses_nothing() {
        let (one, two) = ("2026-11-21T10:00:00.5Z", "2026-11-21T10:00:00.7Z");
        let first = [format!("{one} a"), format!("{two} b"), format!("{two} b")];
        let again =
            [format!("{one} a"), format!("{two} b"), format!("{two} b"), format!("{two} c")];
        let first: Vec<_> = first.iter().map(String::as_str).collect();
        let again: Vec<_> = again.iter().map(String::as_str).collect();
        assert_eq!(shown(&[&first, &again]).await, ["a", "b", "b", "c"]);
        assert_eq!(shown(&[&first, &again, &again]).await, ["a", "b", "b", "c"]);
    }

    #[tokio::test]
    async fn a_clock_that_goes_back_loses_no_line_of_a_whole_stream() {
        let lines = ["2026-11-21T10:00:02Z a", "2026-11-21T10:00:01Z b", "no time c"];
        assert_eq!(shown(&[&lines]).await, ["a", "b", "no time c"]);
    }

    #[tokio::test]
    async fn line_that_did_not_fit_into_the_channel_comes_with_the_next_stream() {
        let (parts, mut received) = mpsc::channel(1);
        let mut position = Position::default();
        let lines = b"2026-11-21T10:00:00Z a\n2026-11-21T10:00:01Z b\n".as_slice();
        // The first stream is dropped while it waits for room for the second line.
        assert!(position.drain(lines, None, &parts).now_or_never().is_none());
        assert_eq!(received.try_recv().unwrap(), Part::Line("a".to_owned()));
        position.drain(lines, None, &parts).await.unwrap();
        assert_eq!(received.try_recv().unwrap(), Part::Line("b".to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn the_rest_of_a_log_that_never_comes_is_not_waited_for() {
        use futures_util::{TryStreamExt, stream};

        let (parts, _received) = mpsc::channel(1);
        let silent = stream::pending::<std::io::Result<Vec<u8>>>().into_async_read();
        let drained = Position::default().drain(silent, Some(SILENCE_LIMIT), &parts).await;
        assert!(drained.unwrap_err().to_string().contains("the log does not come"));
    }

    #[test]
    fn a_line_is_its_time_and_the_rest() {
        let (time, text) = split(b"2026-11-21T10:00:00.123456789+01:00  two spaces ");
        assert_eq!((time.is_some(), &*text), (true, " two spaces "));
        assert_eq!(split(b"2026-11-21T10:00:00Z").1, "");
        assert_eq!(split(b"plain"), (None, "plain".to_owned()));
    }
}
