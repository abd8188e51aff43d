//! Starts the actors of the stored workers when the daemon starts, a few at a time. Requested
//! workers come first. If all started at once, they and their runtimes would compete with the first
//! request for the processors.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;

use crate::supervisor::shared::{SupervisorState, is_ending};
use crate::supervisor::worker::ActorHandle;

/// Number of workers adopted at the same time, beside those that requests ask for.
pub(crate) const AT_ONCE: usize = 8;
/// How long one adoption delays the next. It usually takes a fraction of this, so a runtime that
/// does not answer does not block the others.
pub(crate) const PATIENCE: Duration = Duration::from_millis(20);

/// Starts the actors, newest worker first. Returns when all have started or the daemon ends.
pub(crate) async fn run(shared: Arc<SupervisorState>, mut workers: Vec<ActorHandle>) {
    if subagent_failpoint::sabotaged("adoption.never") {
        return;
    }
    // `worker list` shows the newest first, too.
    workers.sort_unstable_by_key(|worker| std::cmp::Reverse(worker.id.0));
    let mut ending = shared.ending.subscribe();
    let all = futures_util::stream::iter(workers).for_each_concurrent(AT_ONCE, |worker| async move {
        // After the timeout, the worker settles in the background.
        let _ = tokio::time::timeout(PATIENCE, worker.settled()).await;
    });
    tokio::select! {
        () = is_ending(&mut ending) => {}
        () = all => {}
    }
}
