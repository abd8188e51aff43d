//! Hibernation: when an idle agent is ended, what prevents it, and what wakes it. The idle timer
//! runs while the runtime is ready and the worker has nothing open. Requests and activity of the
//! agent reset it.

use std::time::Duration;

use subagent_core::model::{Hibernation, LifecycleState, RuntimeStatus, WorkerInput};
use subagent_protocol::frame::HIBERNATE;
use subagent_protocol::record::{JournalRecord, RecordType};
use tokio::time::Instant;

use crate::store::{Durability, Tx, controllers, requests, workers};
use crate::supervisor::entropy;
use crate::supervisor::start::environment;
use crate::supervisor::worker::actor::Actor;
use crate::supervisor::worker::setting::SetOrder;

/// Kinds of updates that agents send while they are idle.
const IDLE_KINDS: [&str; 6] =
    ["usage", "session_info", "available_commands", "mode", "config_option", "notice"];

/// Returns whether a record reports activity of the agent or of a client with it.
pub(crate) fn is_activity(record: &JournalRecord<'_>) -> bool {
    match record.t {
        RecordType::Update => !record.k.as_deref().is_some_and(|kind| IDLE_KINDS.contains(&kind)),
        RecordType::Segment | RecordType::Sealed | RecordType::Noise => false,
        _ => true,
    }
}

impl Actor {
    /// Resets the idle timer.
    pub(crate) fn is_active(&mut self) {
        self.active_at = Instant::now();
    }

    /// Returns when the agent is to be ended, unless something happens before.
    pub(crate) fn hibernate_at(&self) -> Option<Instant> {
        let timeout = Duration::from_millis(self.spec.idle_timeout_ms?);
        let listens =
            self.runtime.as_ref().is_some_and(crate::supervisor::worker::runtime::LiveRuntime::listens);
        let may = self.settled && listens && self.worker.rests() && self.settings.is_empty();
        if !may || self.hibernation_obstacle().is_some() {
            return None;
        }
        // A time that overflows the clock means no timer.
        self.active_at.checked_add(timeout)
    }

    /// Returns why an idle agent cannot be ended despite an idle timeout.
    pub(crate) fn hibernation_obstacle(&self) -> Option<&'static str> {
        self.spec.idle_timeout_ms?;
        let runtime = self.runtime.as_ref().filter(|runtime| runtime.version.is_some())?;
        if self.worker.link != RuntimeStatus::Ready {
            return None;
        }
        if !runtime.capabilities.iter().any(|known| known == HIBERNATE) {
            return Some("not possible: the worker's runtime is too old; restart the worker");
        }
        if !self.restores {
            return Some("not possible: the agent does not say that it can load or resume its session");
        }
        None
    }

    pub(crate) async fn hibernate(&mut self) {
        let idle_seconds = self.active_at.elapsed().as_secs();
        let Ok(step) = self.worker.step(WorkerInput::Hibernate { idle_seconds }) else { return };
        let (id, cursor, now, worker) = (self.id, self.cursor, entropy::now(), step.worker.clone());
        subagent_failpoint::hit("hibernate.before_commit");
        let write = move |tx: &mut Tx<'_>| workers::update(tx, id, &worker, cursor, now);
        match self.shared.store.write(Durability::Full, 1, write).await {
            Ok(()) => {
                self.adopt(step.worker, &step.facts, None);
                self.todo.extend(step.actions);
            }
            // Nothing has happened yet. The next attempt follows after another idle timeout.
            Err(error) => {
                tracing::warn!(worker = %self.worker_id, %error, "a hibernation cannot be stored");
                self.is_active();
            }
        }
        subagent_failpoint::hit("hibernate.after_commit");
    }

    /// Returns whether the agent hibernates or is about to.
    pub(crate) fn sleeps(&self) -> bool {
        self.worker.hibernation != Hibernation::None
    }

    /// Queues an order until the agent is awake, and wakes it.
    pub(crate) async fn wake_for(&mut self, order: SetOrder) {
        let (owner, controller, key) = (order.owner.clone(), self.controller.clone(), order.key.clone());
        let allowed = self.shared.store.write(Durability::Full, 1, move |tx: &mut Tx<'_>| {
            controllers::check_owner(tx.connection(), &owner, &controller)?;
            match &key {
                Some((key, fingerprint)) => requests::recall(tx.connection(), key, fingerprint),
                None => Ok(None),
            }
        });
        match allowed.await {
            Ok(None) => self.sleeping.push(order),
            // A repetition gets its stored result, and a refused order its error.
            Ok(Some(_)) | Err(_) => self.set_awake(order).await,
        }
    }

    /// Wakes the agent for queued orders. Executes them when it is awake or cannot be woken.
    pub(crate) async fn look_after_sleepers(&mut self) {
        self.sleeping.retain(|order| !order.reply.is_closed());
        if self.sleeping.is_empty() {
            return;
        }
        let stopping = matches!(self.worker.state, LifecycleState::Stopping(_) | LifecycleState::Stopped);
        match self.worker.link {
            RuntimeStatus::None if self.sleeps() && environment::read(&self.environment).is_ok() => {
                // This changes only the link, which is not stored.
                if let Ok(step) = self.worker.step(WorkerInput::Wake) {
                    self.worker = step.worker;
                    self.todo.extend(step.actions);
                }
            }
            RuntimeStatus::Starting | RuntimeStatus::Adopted | RuntimeStatus::Ending if !stopping => {}
            RuntimeStatus::Ready if self.runtime.as_ref().is_some_and(|runtime| !runtime.is_greeted()) => {}
            _ => {
                for order in std::mem::take(&mut self.sleeping) {
                    self.set_awake(order).await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_agent_reports_of_itself_is_no_work() {
        let active = |text: &str| is_activity(&serde_json::from_str(text).unwrap());
        for kind in IDLE_KINDS {
            assert!(!active(&format!(r#"{{"n":1,"at":1,"t":"update","k":"{kind}","b":{{}}}}"#)), "{kind}");
        }
        for idle in [r#""t":"noise""#, r#""t":"segment""#, r#""t":"sealed""#] {
            assert!(!active(&format!(r#"{{"n":1,"at":1,{idle},"b":{{}}}}"#)), "{idle}");
        }
        for work in [
            r#""t":"update","k":"message""#,
            r#""t":"update","k":"tool_call_update""#,
            r#""t":"update","k":"a word of tomorrow""#,
            r#""t":"update""#,
            r#""t":"childUpdate","k":"usage""#,
            r#""t":"clientRequest","k":"terminal""#,
            r#""t":"terminalExited","k":"terminal""#,
            r#""t":"notification""#,
            r#""t":"approvalRequested""#,
        ] {
            assert!(active(&format!(r#"{{"n":1,"at":1,{work},"b":{{}}}}"#)), "{work}");
        }
    }
}
