//! Whether something waits for events or times, so that a daemon that dies must come back: sinks of notifications, and
//! schedules.

use tokio::sync::watch;

/// The number of sinks, and of schedules that fire.
pub(super) struct Awaited {
    pub(super) sinks: watch::Receiver<usize>,
    pub(super) schedules: watch::Receiver<usize>,
}

impl Awaited {
    pub(super) fn now(&mut self) -> bool {
        let waits = |count: &mut watch::Receiver<usize>| *count.borrow_and_update() > 0;
        waits(&mut self.sinks) | waits(&mut self.schedules)
    }

    /// Ends when one of them may have changed since [`Self::now`].
    pub(super) async fn changed(&mut self) {
        tokio::select! {
            Ok(()) = self.sinks.changed() => {}
            Ok(()) = self.schedules.changed() => {}
            // The senders are gone only with the daemon.
            else => std::future::pending().await,
        }
    }
}
