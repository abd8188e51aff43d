//! The driver's timers: a handful, each set at most once.

use std::time::Duration;

use tokio::time::Instant;

use crate::conversation::Timer;

/// What a timer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alarm {
    /// One of the conversation's.
    Conversation(Timer),
    /// The agent ended, and its pipes are still open.
    Drain,
    /// The agent closed a pipe, and has not ended.
    PipeClosed,
    /// Records wait for room on the disk.
    Retry,
    /// The agent is not read until the daemon has deleted some of the journal.
    Quota,
    /// No daemon is connected.
    Orphaned,
    /// A daemon that died is looked for.
    Comeback,
    /// The command socket could not be bound.
    Rebind,
    /// Nothing tells when our files go away.
    Look,
    /// The guard died, and something withstands.
    Rescue,
    /// The guard of a terminal died, and something withstands.
    RescueLost,
    /// The end waits for a terminal that is being started.
    TerminalStart,
    /// Connections could not be accepted.
    Accept,
    /// A burst is over.
    Trim,
}

/// Those that are set.
#[derive(Debug, Default)]
pub(super) struct Alarms {
    set: Vec<(Alarm, Instant)>,
}

impl Alarms {
    /// Sets it, or sets it anew.
    pub(super) fn set(&mut self, alarm: Alarm, after: Duration) {
        self.clear(alarm);
        // A time that the clock cannot hold never comes.
        if let Some(at) = Instant::now().checked_add(after) {
            self.set.push((alarm, at));
        }
    }

    /// Forgets it.
    pub(super) fn clear(&mut self, alarm: Alarm) {
        self.set.retain(|(which, _)| *which != alarm);
    }

    /// Whether it is set.
    pub(super) fn is_set(&self, alarm: Alarm) -> bool {
        self.set.iter().any(|(which, _)| *which == alarm)
    }

    /// Waits for the next one, which is not set any more then.
    pub(super) async fn next(&mut self) -> Alarm {
        let Some((alarm, at)) = self.set.iter().min_by_key(|(_, at)| *at).copied() else {
            return std::future::pending().await;
        };
        tokio::time::sleep_until(at).await;
        self.clear(alarm);
        alarm
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn the_earliest_comes_first_and_only_once() {
        let mut alarms = Alarms::default();
        alarms.set(Alarm::Retry, Duration::from_millis(9));
        alarms.set(Alarm::Quota, Duration::from_millis(5));
        alarms.set(Alarm::Retry, Duration::from_millis(1));
        assert_eq!(alarms.next().await, Alarm::Retry);
        assert!(!alarms.is_set(Alarm::Retry));
        assert_eq!(alarms.next().await, Alarm::Quota);
        assert!(alarms.set.is_empty());
    }
}
