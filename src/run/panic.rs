//! Turns a panic of a phase into a failure, so that the registry learns how the run ended.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

use super::failure::Failure;
use butler_base::event::Phase;

/// Executes `work`. A panic becomes a failure, with the panic's message as the reason.
pub(super) async fn catch_panic<T>(
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    AssertUnwindSafe(work)
        .catch_unwind()
        .await
        .unwrap_or_else(|panic| Err(panicked(panic.as_ref())))
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Failure {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default();
    Failure::because(Phase::Report, format!("the runner failed (a bug): {text}"))
        .advise("report this bug with the runner's version")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn panic_becomes_a_failure() {
        let failure = catch_panic::<()>(async { panic!("index out of bounds") }).await.unwrap_err();
        assert_eq!(failure.reason, "the runner failed (a bug): index out of bounds");
        assert!(catch_panic(async { Ok(()) }).await.is_ok());
    }
}
