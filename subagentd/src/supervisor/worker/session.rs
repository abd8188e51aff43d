//! The session of a worker's agent: its id, whether the agent can resume it, and how long it has
//! been idle. Must not end or start an agent.

use subagent_core::model::{RuntimeStatus, Worker};
use subagent_protocol::frame::HIBERNATE;
use tokio::time::Instant;

use super::runtime::slot::RuntimeSlot;
use crate::store::WorkerRow;
use crate::supervisor::start::spec::Spec;

/// Failed restores after which the session is given up.
const MAX_RESTORE_FAILURES: usize = 2;

/// The session of the worker's agent.
pub(super) struct WorkerSession {
    pub(super) id: Option<String>,
    /// Errors of the last starts that failed to restore the session, newest first.
    pub(super) restore_failures: Vec<String>,
    /// Whether the agent supports resuming its session.
    pub(super) restores: bool,
    /// Start of the wake-up of a hibernating worker.
    pub(super) waking_since: Option<Instant>,
    /// Time of the last activity of the agent, or of a client with it.
    pub(super) active_at: Instant,
}

impl WorkerSession {
    pub(super) fn of(row: &WorkerRow) -> Self {
        Self {
            id: row.agent.session_id.clone(),
            restore_failures: row.agent.restore_failures.clone(),
            restores: false,
            waking_since: None,
            active_at: Instant::now(),
        }
    }

    /// Resets the idle timer.
    pub(super) fn is_active(&mut self) {
        self.active_at = Instant::now();
    }

    /// Returns the new list of failed restores, or `None` if it does not change.
    pub(super) fn failures_with(&self, began: bool, failure: Option<String>) -> Option<Vec<String>> {
        match failure {
            // A successful session resets the count, even if a start failed in the same batch.
            _ if began => (!self.restore_failures.is_empty()).then(Vec::new),
            Some(failure) => {
                let mut failures = self.restore_failures.clone();
                failures.truncate(MAX_RESTORE_FAILURES - 1);
                failures.insert(0, failure);
                Some(failures)
            }
            None => None,
        }
    }

    /// Returns why an idle agent cannot be ended despite an idle timeout.
    pub(super) fn hibernation_obstacle(
        &self,
        spec: &Spec,
        worker: &Worker,
        runtime: &RuntimeSlot,
    ) -> Option<&'static str> {
        spec.idle_timeout_ms?;
        let runtime = runtime.live.as_ref().filter(|runtime| runtime.version.is_some())?;
        if worker.link != RuntimeStatus::Ready {
            return None;
        }
        if !runtime.can(HIBERNATE) {
            return Some("not possible: the worker's runtime is too old; restart the worker");
        }
        if !self.restores {
            return Some("not possible: the agent does not say that it can load or resume its session");
        }
        None
    }
}
