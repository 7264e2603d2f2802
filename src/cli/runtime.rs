//! The asynchronous runtime of a command.

use std::time::Duration;

use super::output::complain;

/// How long the exit of the process waits for blocking threads. All relevant work has ended by then. The remaining
/// threads are name lookups without a response, which can take minutes and cannot be interrupted.
const SHUTDOWN: Duration = Duration::from_secs(1);

/// Runs `future` on this thread: the runner waits for children and sockets, it does not compute.
pub(super) fn block_on<T>(future: impl Future<Output = T>) -> Option<T> {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            let value = runtime.block_on(future);
            runtime.shutdown_timeout(SHUTDOWN);
            Some(value)
        }
        Err(error) => {
            complain(&format!("cannot start the runtime: {error}"), None);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, mpsc};

    use super::*;

    #[test]
    fn exit_does_not_wait_for_a_blocked_thread() {
        let (release, released) = mpsc::channel::<()>();
        let timed_out = Arc::new(AtomicBool::new(false));
        let noted = timed_out.clone();
        let value = block_on(async move {
            drop(tokio::task::spawn_blocking(move || {
                let waited = released.recv_timeout(Duration::from_secs(20));
                noted.store(waited == Err(mpsc::RecvTimeoutError::Timeout), Ordering::SeqCst);
            }));
            7
        });
        assert_eq!(value, Some(7));
        assert!(!timed_out.load(Ordering::SeqCst), "the exit waited for the thread's own timeout");
        drop(release);
    }
}
