//! The loss of a runtime: its process ends, its journal is read to the end, and its remaining
//! processes are waited for.

use std::time::Duration;

use subagent_core::model::{LifecycleState, WorkerInput};
use subagent_protocol::{Code, Error};
use tokio::time::Instant;

use crate::supervisor::runtimes::{locks, process, stray_processes};
use crate::supervisor::worker::actor::Actor;
use crate::supervisor::worker::ingest::Goal;

impl Actor {
    /// Handles the end of the runtime's process.
    pub(crate) async fn on_exit(&mut self) {
        self.see_end();
        if let Some(mut child) = self.runtime.as_mut().and_then(|runtime| runtime.child.take()) {
            // The process has ended, so this does not block.
            if let Err(error) = child.wait() {
                tracing::warn!(worker = %self.worker_id, %error, "a runtime could not be reaped");
            }
        }
        match locks::lock_within(&self.directory, locks::RUNTIME, locks::LOCK_TIMEOUT).await {
            Ok(Some(lock)) => {
                drop(lock);
                self.gone().await;
            }
            Ok(None) => {
                tracing::error!(worker = %self.worker_id, "a runtime has ended and its lock is held; looking again");
                self.look_again();
            }
            // The directory was removed, so no process holds a lock in it.
            Err(_) if !locks::directory_exists(&self.directory) => self.gone().await,
            Err(error) => {
                tracing::error!(worker = %self.worker_id, %error, "a runtime's lock cannot be looked at");
                self.is_blocked(error);
                self.look_again();
            }
        }
    }

    fn look_again(&mut self) {
        if let Some(runtime) = &mut self.runtime {
            runtime.exit = None;
            runtime.link = None;
            runtime.reconnect_at = Some(Instant::now() + Duration::from_secs(1));
        }
    }

    /// Reads the journal to the end and closes what was open. No runtime may be alive.
    pub(crate) async fn gone(&mut self) {
        if subagent_failpoint::sabotaged("gone.ignore") {
            self.runtime = None;
            return;
        }
        if let Some(child) = self.runtime.take().and_then(|mut runtime| runtime.child.take()) {
            process::reap_later(child);
        }
        if !self.ingest_or_retry(Goal::End).await {
            return;
        }
        let lost =
            Error::new(Code::RuntimeLost, "the worker's runtime died before the options were set; try again");
        self.fail_settings(&lost.retryable());
        // Before the event is visible, and before a restarted daemon would no longer look for it.
        subagent_failpoint::hit("gone.before_unlink");
        let _ = std::fs::remove_file(&self.socket);
        subagent_failpoint::hit("gone.before_commit");
        self.settled = true;
        self.may_live = false;
        if let LifecycleState::Turn(turn) = &mut self.worker.state
            && subagent_failpoint::sabotaged("prompt.again")
        {
            turn.dispatching = false;
        }
        // The unreadable part may have contained the record of a prompt, as after a reboot.
        let rebooted = self.boot_id.as_deref() != Some(self.shared.boot_id.as_str()) || self.damaged;
        self.apply(WorkerInput::RuntimeGone { clean: self.clean_end, rebooted }).await;
        subagent_failpoint::hit("gone.after_commit");
        self.check_leftovers().await;
        self.plan_revival();
    }

    /// Reports a worker as stopped, and its guard as gone, only after all its processes have ended.
    pub(crate) async fn check_leftovers(&mut self) {
        self.leftovers = None;
        if self.runtime.is_some() {
            return;
        }
        let free = match locks::try_lock(&self.directory, locks::GUARD) {
            Ok(lock) => lock.is_some(),
            Err(_) => !locks::directory_exists(&self.directory),
        };
        if free {
            self.end_strays().await;
            // Only now: until then, remaining processes belong to the agent, not to the owner.
            self.shared.set_guard(&self.worker_id, None);
            if matches!(self.worker.state, LifecycleState::Stopping(_)) && self.end_worktree().await {
                self.apply(WorkerInput::NothingLeft).await;
            }
        } else {
            self.leftovers_pause =
                (self.leftovers_pause * 2).clamp(Duration::from_millis(1), Duration::from_secs(1));
            self.leftovers = Some(Instant::now() + self.leftovers_pause);
        }
    }

    /// Ends processes of the last runtime and its guard, unless the guard proved that there are
    /// none. Call it while both locks are free, and before the next runtime, whose processes have
    /// another marker.
    pub(crate) async fn end_strays(&mut self) {
        if self.clean_end || self.swept || self.incarnation == 0 {
            return;
        }
        self.swept = true;
        let killed =
            stray_processes::end(stray_processes::marker(self.worker_id.as_str(), self.incarnation)).await;
        if killed > 0 {
            tracing::warn!(worker = %self.worker_id, killed, "processes that runtime and guard left were ended");
        }
    }

    pub(crate) async fn reconnect(&mut self) {
        match locks::try_lock(&self.directory, locks::RUNTIME) {
            Ok(Some(lock)) => {
                drop(lock);
                self.on_exit().await;
            }
            Ok(None) => self.connect().await,
            Err(_) if !locks::directory_exists(&self.directory) => self.gone().await,
            Err(error) => {
                tracing::error!(worker = %self.worker_id, %error, "a runtime's lock cannot be looked at");
                self.is_blocked(error);
                self.look_again();
            }
        }
    }
}
