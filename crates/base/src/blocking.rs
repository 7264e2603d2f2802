//! Runs blocking work (hashing, unpacking, syncing) outside of the runtime, and cancels it if the
//! future is dropped.

use tokio_util::sync::CancellationToken;

/// Runs `work` on a thread where it may block. When the future is dropped, the token that `work`
/// got is cancelled, so that it ends soon and cleans up after itself.
pub async fn blocking<T, W>(work: W) -> T
where
    T: Send + 'static,
    W: FnOnce(&CancellationToken) -> T + Send + 'static,
{
    let abandoned = CancellationToken::new();
    let _guard = abandoned.clone().drop_guard();
    match tokio::task::spawn_blocking(move || work(&abandoned)).await {
        Ok(value) => value,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down and will not poll this again.
            Err(_) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn dropped_future_cancels_its_work() {
        let (started, start) = tokio::sync::oneshot::channel();
        let (told, end) = tokio::sync::oneshot::channel();
        let work = blocking(move |abandoned: &CancellationToken| {
            started.send(()).unwrap();
            while !abandoned.is_cancelled() {
                std::thread::yield_now();
            }
            told.send(()).unwrap();
        });
        tokio::select! {
            () = work => panic!("the work only ends when it is abandoned"),
            started = start => started.unwrap(),
        }
        end.await.unwrap();
    }
}
