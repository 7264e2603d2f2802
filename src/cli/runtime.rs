//! The asynchronous runtime of a command.

use std::time::Duration;

use super::output::complain;

/// How long the end of the process waits for work in blocking threads. Everything that matters is
/// joined by then; what is left is a name look-up whose resolver does not answer, which can take
/// minutes and cannot be interrupted.
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
    fn a_blocking_task_that_does_not_end_does_not_hold_the_process() {
        let (release, released) = mpsc::channel::<()>();
        let gave_up = Arc::new(AtomicBool::new(false));
        let noted = gave_up.clone();
        let answer = block_on(async move {
            drop(tokio::task::spawn_blocking(move || {
                let waited = released.recv_timeout(Duration::from_secs(20));
                noted.store(waited == Err(mpsc::RecvTimeoutError::Timeout), Ordering::SeqCst);
            }));
            7
        });
        assert_eq!(answer, Some(7));
        assert!(!gave_up.load(Ordering::SeqCst), "it was waited for until it gave up by itself");
        drop(release);
    }
}
