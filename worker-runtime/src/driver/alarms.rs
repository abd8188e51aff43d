//! The driver's timers: few, and each is set at most once.

use std::time::Duration;

use tokio::time::Instant;

use crate::conversation::Timer;

/// The purpose of a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alarm {
    /// A timer of the conversation.
    Conversation(Timer),
    /// The agent ended, and its pipes are still open.
    Drain,
    /// The agent closed a pipe, but has not ended.
    PipeClosed,
    /// Records wait for disk space.
    Retry,
    /// The agent is not read until the daemon has deleted part of the journal.
    Quota,
    /// No daemon is connected.
    Orphaned,
    /// The next check for a dead daemon.
    DaemonCheck,
    /// The command socket could not be bound.
    Rebind,
    /// There is no notification when our files are removed.
    Look,
    /// The guard died, and some processes remain.
    Rescue,
    /// The guard of a terminal died, and some processes remain.
    RescueLost,
    /// The end waits for a terminal that is being started.
    TerminalStart,
    /// Connections could not be accepted.
    Accept,
    /// The end of a burst of output.
    Trim,
}

/// The alarms that are set.
#[derive(Debug, Default)]
pub(super) struct Alarms {
    set: Vec<(Alarm, Instant)>,
}

impl Alarms {
    /// Sets or replaces the alarm.
    pub(super) fn set(&mut self, alarm: Alarm, after: Duration) {
        self.clear(alarm);
        // A time beyond the clock's range never arrives.
        if let Some(at) = Instant::now().checked_add(after) {
            self.set.push((alarm, at));
        }
    }

    pub(super) fn clear(&mut self, alarm: Alarm) {
        self.set.retain(|(which, _)| *which != alarm);
    }

    pub(super) fn is_set(&self, alarm: Alarm) -> bool {
        self.set.iter().any(|(which, _)| *which == alarm)
    }

    /// Waits for the next alarm and clears it.
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
