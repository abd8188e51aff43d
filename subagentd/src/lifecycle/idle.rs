//! The idle exit of a background daemon.

use std::time::Duration;

use tokio::sync::watch;

/// Returns after `after` without connections and without work: live workers, parked workers with
/// queued messages, due deliveries and due schedules. A timer runs only in that state. Connections
/// are watched only without work, so they cause no wakeups otherwise.
pub(super) async fn idle(
    after: Duration,
    mut connections: watch::Receiver<usize>,
    work: [watch::Receiver<usize>; 4],
) {
    let [mut live_workers, mut parked_workers, mut busy_sinks, mut schedules] = work;
    loop {
        let all = [&mut live_workers, &mut parked_workers, &mut busy_sinks, &mut schedules];
        // `map` reads all four, so that none stays marked as changed.
        let amounts = all.map(|amount| *amount.borrow_and_update());
        let no_work = amounts == [0; 4];
        let is_idle = *connections.borrow_and_update() == 0 && no_work;
        let timer =
            async { if is_idle { tokio::time::sleep(after).await } else { std::future::pending().await } };
        tokio::select! {
            biased;
            Ok(()) = connections.changed(), if no_work => {}
            Ok(()) = live_workers.changed() => {}
            Ok(()) = parked_workers.changed() => {}
            Ok(()) = busy_sinks.changed() => {}
            Ok(()) = schedules.changed() => {}
            // Also reached when all senders are gone.
            () = timer => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake};
    use std::time::Instant;

    use super::*;

    /// Counts wakeups of the task.
    #[derive(Default)]
    struct Wakings(AtomicUsize);

    impl Wake for Wakings {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn while_a_worker_lives_no_connection_wakes_anybody() {
        let (connections, connected) = watch::channel(0);
        let (workers, live) = watch::channel(1);
        let wakings = Arc::new(Wakings::default());
        let waker = Arc::clone(&wakings).into();
        let mut waiting =
            pin!(idle(Duration::from_secs(3600), connected, [live, none_due(), none_due(), none_due()]));
        let mut look = || assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        look();
        connections.send_replace(1);
        connections.send_replace(0);
        assert_eq!(wakings.0.load(Ordering::Relaxed), 0);
        workers.send_replace(0);
        assert_eq!(wakings.0.load(Ordering::Relaxed), 1);
        look();
        connections.send_replace(1);
        assert_eq!(wakings.0.load(Ordering::Relaxed), 2);
    }

    fn none_due() -> watch::Receiver<usize> {
        watch::channel(0).1
    }

    #[tokio::test]
    async fn it_stays_while_a_delivery_is_due() {
        let (_connections, connected) = watch::channel(0);
        let (_workers, live) = watch::channel(0);
        let (sinks, busy) = watch::channel(1);
        let mut waiting = Box::pin(idle(AFTER, connected, [live, none_due(), busy, none_due()]));
        assert!(tokio::time::timeout(AFTER * 3, &mut waiting).await.is_err());
        sinks.send_replace(0);
        tokio::time::timeout(Duration::from_secs(20), waiting).await.expect("it ends");
    }

    #[tokio::test]
    async fn it_stays_while_a_schedule_is_due() {
        let (_connections, connected) = watch::channel(0);
        let (schedules, due) = watch::channel(1);
        let mut waiting = Box::pin(idle(AFTER, connected, [none_due(), none_due(), none_due(), due]));
        assert!(tokio::time::timeout(AFTER * 3, &mut waiting).await.is_err());
        schedules.send_replace(0);
        tokio::time::timeout(Duration::from_secs(20), waiting).await.expect("it ends");
    }

    const AFTER: Duration = Duration::from_millis(40);

    #[tokio::test]
    async fn it_ends_only_after_the_time_without_anybody() {
        let (connections, connected) = watch::channel(1);
        let (workers, live) = watch::channel(1);
        let mut waiting = Box::pin(idle(AFTER, connected, [live, none_due(), none_due(), none_due()]));
        // A connection is open, so no time suffices. A wrong exit would happen here.
        assert!(tokio::time::timeout(AFTER * 3, &mut waiting).await.is_err());
        connections.send_replace(0);
        assert!(tokio::time::timeout(AFTER * 3, &mut waiting).await.is_err());
        let begin = Instant::now();
        workers.send_replace(0);
        tokio::time::timeout(Duration::from_secs(20), waiting).await.expect("it ends");
        assert!(begin.elapsed() >= AFTER);
    }

    #[tokio::test]
    async fn a_visit_begins_the_time_anew() {
        let (connections, connected) = watch::channel(0);
        let (_workers, live) = watch::channel(0);
        let mut waiting = Box::pin(idle(
            Duration::from_secs(3600),
            connected.clone(),
            [live.clone(), none_due(), none_due(), none_due()],
        ));
        assert!(futures_util::FutureExt::now_or_never(&mut waiting).is_none());
        connections.send_replace(1);
        connections.send_replace(0);
        assert!(futures_util::FutureExt::now_or_never(&mut waiting).is_none());
        tokio::time::timeout(
            Duration::from_secs(20),
            idle(AFTER, connected, [live, none_due(), none_due(), none_due()]),
        )
        .await
        .expect("it ends");
    }
}
