//! The bodies of requests, which must arrive in a limited time.

use std::time::Duration;

use axum::BoxError;
use axum::body::{Body, Bytes, HttpBody};
use futures_util::{StreamExt, stream};
use tokio::time::{Instant, timeout_at};

/// How long a body may take, however small it is.
pub(super) const BODY: Duration = Duration::from_secs(20);

/// How many bytes of a body must arrive in each second after that, on average.
const RATE: u64 = 8 << 10;

/// A body that did not arrive in time.
#[derive(Debug, thiserror::Error)]
#[error(
    "the body of the request did not arrive in time: at least {RATE} bytes in a second are expected"
)]
struct TooSlow;

/// How long after its beginning a body may take of which so many bytes have arrived.
fn patience(least: Duration, received: u64) -> Duration {
    least + Duration::from_millis(received.saturating_mul(1000) / RATE)
}

/// The same body, which ends with an error if it takes too long. The time begins when it is read first, because the
/// server may have had other things to do.
pub(super) fn timed(body: Body, least: Duration) -> Body {
    if body.is_end_stream() {
        return body;
    }
    let first = (body.into_data_stream(), None, 0);
    Body::from_stream(stream::try_unfold(first, move |(mut parts, begun, received)| async move {
        let begun = begun.unwrap_or_else(Instant::now);
        let part = timeout_at(begun + patience(least, received), parts.next()).await;
        let part: Option<Result<Bytes, _>> = part.map_err(|_| BoxError::from(TooSlow))?;
        let part = part.transpose()?;
        Ok::<_, BoxError>(part.map(|part| {
            let received = received + part.len() as u64;
            (part, (parts, Some(begun), received))
        }))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A body whose parts arrive so much after each other.
    fn body(parts: Vec<(Duration, usize)>) -> Body {
        Body::from_stream(stream::unfold(parts.into_iter(), |mut parts| async {
            let (wait, length) = parts.next()?;
            tokio::time::sleep(wait).await;
            Some((Ok::<_, BoxError>(Bytes::from(vec![b'a'; length])), parts))
        }))
    }

    #[tokio::test(start_paused = true)]
    async fn body_must_arrive_in_time() {
        let second = Duration::from_secs(1);
        for (name, parts, arrives) in [
            ("nothing", vec![], true),
            ("at once", vec![(Duration::ZERO, 60_000)], true),
            ("small, with a pause", vec![(second * 19, 1)], true),
            ("never", vec![(second * 21, 1)], false),
            ("a byte now and then", vec![(second, 1); 30], false),
            ("a byte just before each second", vec![(second * 9, 1); 4], false),
            ("large and steady", vec![(second, 9 << 10); 600], true),
            ("large and too slow", vec![(second, 6 << 10); 600], false),
            ("large, and then nothing", vec![(second, 64 << 10), (second * 60, 1)], false),
        ] {
            let read = axum::body::to_bytes(timed(body(parts), BODY), usize::MAX).await;
            assert_eq!(read.is_ok(), arrives, "{name}: {read:?}");
        }
    }
}
