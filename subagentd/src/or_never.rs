//! Waiting for what may be absent.

use tokio::time::Instant;

/// Waits for this. Never returns without it.
pub(crate) async fn or_never<F: Future>(awaited: Option<F>) -> F::Output {
    match awaited {
        Some(awaited) => awaited.await,
        None => std::future::pending().await,
    }
}

/// Waits for this time. Never returns without it.
pub(crate) async fn sleep_until(deadline: Option<Instant>) {
    or_never(deadline.map(tokio::time::sleep_until)).await;
}
