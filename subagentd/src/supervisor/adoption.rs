//! Taking up the workers of a store when the daemon starts: a few at a time, and those first that somebody asks for.
//!
//! All at once they would keep each other, and their runtimes, from the processors, and the first request would be answered
//! with the last worker.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;

use super::shared::{Shared, is_ending};
use super::worker::Handle;

/// How many are being taken up at the same time, beside those that are asked for.
const AT_ONCE: usize = 8;
/// How long the next one waits for one of these, several times of what it takes: a runtime that does not answer keeps nobody
/// else waiting.
const PATIENCE: Duration = Duration::from_millis(20);

/// Has the actors begin, the newest first. Ends with the daemon.
pub(super) async fn run(shared: Arc<Shared>, mut workers: Vec<Handle>) {
    if subagent_failpoint::sabotaged("adoption.never") {
        return;
    }
    // As they are listed.
    workers.sort_unstable_by_key(|worker| std::cmp::Reverse(worker.id.0));
    let mut ending = shared.ending.subscribe();
    let all = futures_util::stream::iter(workers).for_each_concurrent(AT_ONCE, |worker| async move {
        // Later is late enough for whoever waits.
        let _ = tokio::time::timeout(PATIENCE, worker.settled()).await;
    });
    tokio::select! {
        () = is_ending(&mut ending) => {}
        () = all => {}
    }
}
