//! When a runtime ends by itself: its files are gone, or no daemon has connected for long.

use std::time::Duration;

use super::alarms::Alarm;
use super::daemon_restart::DaemonReplacement;
use super::state::Driver;
use crate::conversation::ConversationInput;
use crate::daemon_start::DaemonStartInput as Daemon;

/// How long a runtime without a daemon waits for one.
const ORPHAN_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);
/// Time to the next check if work is open then.
const ORPHAN_PAUSE: Duration = Duration::from_secs(60 * 60);

/// Begins to watch our files, and to wait for a daemon.
pub(super) fn begin(driver: &mut Driver) {
    watch_files(driver);
    expect_a_daemon(driver);
    decide(driver, Daemon::Lost);
}

/// No daemon is connected.
pub(super) fn expect_a_daemon(driver: &mut Driver) {
    driver.alarms.set(Alarm::Orphaned, driver.daemon.lease.unwrap_or(ORPHAN_TIMEOUT));
}

/// Handles an event about a daemon that may have died.
pub(super) fn decide(driver: &mut Driver, input: Daemon) {
    if input == Daemon::Due {
        // A runtime whose state directory is gone ends.
        look_at_lock(driver);
    }
    let is_ending = driver.conversation.is_ending();
    if let Some(daemon_restart) = &mut driver.replacement {
        daemon_restart.take(input, is_ending, &mut driver.alarms, &mut driver.log);
    }
}

/// The started daemon has reported.
pub(super) fn read_readiness(driver: &mut Driver) {
    if let Some(said) = driver.replacement.as_mut().and_then(DaemonReplacement::read) {
        decide(driver, said);
    }
}

pub(super) fn orphaned(driver: &mut Driver) {
    let reason = match driver.daemon.lease {
        Some(lease) => format!("no daemon for {} s, the lease of its placement", lease.as_secs()),
        None if driver.conversation.has_work() => {
            return driver.alarms.set(Alarm::Orphaned, ORPHAN_PAUSE);
        }
        None => "no daemon for 24 hours".to_owned(),
    };
    driver.apply(ConversationInput::End { reason });
}

/// Starts watching our files. A worker without a watch is better than none: it only notices
/// late that the state directory or the command socket was removed.
fn watch_files(driver: &mut Driver) {
    let Some((error, after)) = driver.files.watch() else { return };
    if let Some(error) = error {
        driver.log.note(&format!("removed files of this worker are noticed late: {error}"));
    }
    driver.alarms.set(Alarm::Look, after);
}

/// There are no notifications. Starts the watch first and then checks, so that
/// no change is missed.
pub(super) fn look_and_watch(driver: &mut Driver) {
    watch_files(driver);
    look_at_files(driver);
}

/// One of our files was unlinked or moved.
pub(super) fn look_at_files(driver: &mut Driver) {
    look_at_lock(driver);
    driver.look_at_quota();
    if driver.files.has_lost_socket() {
        rebind(driver);
    }
}

/// Without its lock a runtime looks dead, and another one may be started beside it.
pub(super) fn look_at_lock(driver: &mut Driver) {
    if !driver.conversation.is_ending()
        && let Some(path) = driver.files.lost_lock()
    {
        driver.apply(ConversationInput::End { reason: format!("{} is gone", path.display()) });
    }
}

pub(super) fn rebind(driver: &mut Driver) {
    if driver.conversation.is_ending() {
        return;
    }
    match driver.files.rebind() {
        Ok(false) => {}
        Ok(true) => watch_files(driver),
        Err((error, after)) => {
            driver.log.note(&format!("the command socket could not be bound again: {error}"));
            driver.alarms.set(Alarm::Rebind, after);
        }
    }
}
