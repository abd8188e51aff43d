//! When a runtime ends by itself: its files are gone, or no daemon has connected for long.

use std::io;
use std::time::Duration;

use super::Driver;
use super::alarms::Alarm;
use super::daemon_restart::DaemonReplacement;
use crate::conversation::ConversationInput;
use crate::daemon_start::DaemonStartInput as Daemon;
use crate::socket::Endpoint;
use crate::startup;
use crate::watch::FileWatch;

/// How long a runtime without a daemon waits for one.
const ORPHAN_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);
/// Time to the next check if work is open then.
const ORPHAN_PAUSE: Duration = Duration::from_secs(60 * 60);
/// Delay before the command socket is bound again after a failure.
pub(super) const FIRST_REBIND: Duration = Duration::from_secs(1);
const LAST_REBIND: Duration = Duration::from_secs(60);
/// Delay of the first check of our files, and of the first retry of the watch, without
/// notifications. Doubles each time.
pub(super) const FIRST_LOOK: Duration = Duration::from_secs(1);
const LAST_LOOK: Duration = Duration::from_secs(60);

impl Driver {
    /// No daemon is connected.
    pub(super) fn expect_a_daemon(&mut self) {
        self.alarms.set(Alarm::Orphaned, ORPHAN_TIMEOUT);
    }

    /// Handles an event about a daemon that may have died.
    pub(super) fn decide(&mut self, input: Daemon) {
        if input == Daemon::Due {
            // A runtime whose state directory is gone ends.
            self.look_at_lock();
        }
        let is_ending = self.conversation.is_ending();
        if let Some(daemon_restart) = &mut self.daemon_restart {
            daemon_restart.take(input, is_ending, &mut self.alarms, &mut self.log);
        }
    }

    /// The started daemon has reported.
    pub(super) fn read_readiness(&mut self) {
        if let Some(said) = self.daemon_restart.as_mut().and_then(DaemonReplacement::read) {
            self.decide(said);
        }
    }

    pub(super) fn orphaned(&mut self) {
        if self.conversation.has_work() {
            self.alarms.set(Alarm::Orphaned, ORPHAN_PAUSE);
        } else {
            self.apply(ConversationInput::End { reason: "no daemon for 24 hours".to_owned() });
        }
    }

    /// Starts watching our files. A worker without a watch is better than none: it only notices
    /// late that the state directory or the command socket was removed.
    pub(super) fn watch_files(&mut self) {
        match self.begin_watch() {
            Ok(watch) => {
                self.watch = Some(watch);
                self.look_after = FIRST_LOOK;
            }
            Err(error) => {
                if self.look_after == FIRST_LOOK {
                    self.log.note(&format!("removed files of this worker are noticed late: {error}"));
                }
                self.watch = None;
                self.alarms.set(Alarm::Look, self.look_after);
                self.look_after = (self.look_after * 2).min(LAST_LOOK);
            }
        }
    }

    fn begin_watch(&self) -> io::Result<FileWatch> {
        let watch = FileWatch::new()?;
        watch.add_folder(&self.directory)?;
        for path in [&startup::lock_path(&self.directory), &self.socket_path] {
            watch.add(path)?;
        }
        watch.add_folders_of(&self.directory);
        Ok(watch)
    }

    /// There are no notifications. Starts the watch first and then checks, so that
    /// no change is missed.
    pub(super) fn look_and_watch(&mut self) {
        self.watch_files();
        self.look_at_files();
    }

    /// One of our files was unlinked or moved.
    pub(super) fn look_at_files(&mut self) {
        self.look_at_lock();
        self.look_at_quota();
        if self.endpoint.as_ref().is_some_and(|endpoint| !endpoint.is_there()) {
            self.rebind();
        }
    }

    /// Without its lock a runtime looks dead, and another one may be started beside it.
    pub(super) fn look_at_lock(&mut self) {
        let path = startup::lock_path(&self.directory);
        if !self.conversation.is_ending() && !startup::is_same_file(&self.lock, &path) {
            self.apply(ConversationInput::End { reason: format!("{} is gone", path.display()) });
        }
    }

    pub(super) fn rebind(&mut self) {
        if self.conversation.is_ending() {
            return;
        }
        match Endpoint::bind(&self.socket_path) {
            Ok(endpoint) => {
                self.endpoint = Some(endpoint);
                self.rebind_after = FIRST_REBIND;
                if self.watch.as_ref().is_some_and(|watch| watch.add(&self.socket_path).is_err()) {
                    self.watch_files();
                }
            }
            Err(error) => {
                self.log.note(&format!("the command socket could not be bound again: {error}"));
                self.alarms.set(Alarm::Rebind, self.rebind_after);
                self.rebind_after = (self.rebind_after * 2).min(LAST_REBIND);
            }
        }
    }
}
