//! Tells a manager's client of the ends of its tasks in the background: by a message (`notifications/message`), and by the
//! resource [`TASKS`], which changes then.
//!
//! A task is watched from the call that gives it or has it go on; with a subscription, every one that has not ended. Must
//! not start a daemon that ended in order.

#![allow(deprecated, reason = "the revisions of MCP that clients speak now have no other message")]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam, ResourceUpdatedNotificationParam};
use rmcp::service::{Peer, RoleServer, SubscriptionSink};
use serde_json::json;
use subagent_protocol::Code;
use subagent_protocol::api::{TaskMode, TaskShown, TaskStatus, TaskView};
use tokio::sync::watch;
use tokio::time::Instant;

use super::answers;
use super::server::Shared;
use crate::client::{Ask, Client, TaskWait, read_info, running_soon};
use crate::failure::Result;

/// The resource: the client's tasks, as `get_subagents` lists them.
pub(super) const TASKS: &str = "subagent://tasks";
/// The name of the sender in messages.
const LOGGER: &str = "subagent";
/// How long a daemon that is away is waited for at once, and the time between two starts.
const PAUSE: Duration = Duration::from_secs(60);

/// What of ends the client wants to hear.
#[derive(Debug, Default)]
pub(super) struct Ends {
    /// The tasks that are watched, by their ids.
    watched: Mutex<BTreeSet<String>>,
    /// How many ends were noticed.
    noticed: watch::Sender<u64>,
    /// Whether the client has subscribed to [`TASKS`], in the older revision of MCP.
    subscribed: AtomicBool,
    /// The least severity of messages; `None`: all.
    level: Mutex<Option<LoggingLevel>>,
}

impl Ends {
    /// Watches a task until its end, unless it is watched, has ended or has a call that waits for it.
    pub(super) fn watch(&self, shared: &Arc<Shared>, peer: &Peer<RoleServer>, task: &TaskView) {
        if !shared.is_manager() || task.mode != TaskMode::Background || task.status.is_end() {
            return;
        }
        let id = task.task_id.to_string();
        if !self.watched().insert(id.clone()) {
            return;
        }
        let (shared, peer, task) = (shared.clone(), peer.clone(), task.clone());
        tokio::spawn(async move {
            let mut closed = shared.closed.clone();
            let ended = tokio::select! {
                ended = end(&shared, &task) => ended.ok(),
                _ = closed.wait_for(|closed| *closed) => None,
            };
            // Before it is told: the client may have it go on at once.
            shared.ends.watched().remove(&id);
            if let Some(shown) = ended {
                shared.ends.tell(&peer, &shown).await;
            }
        });
    }

    fn watched(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn subscribe(&self, subscribed: bool) {
        self.subscribed.store(subscribed, Ordering::Relaxed);
    }

    pub(super) fn set_level(&self, level: LoggingLevel) {
        *self.level.lock().unwrap_or_else(PoisonError::into_inner) = Some(level);
    }

    /// A client that has gone need not know.
    async fn tell(&self, peer: &Peer<RoleServer>, shown: &TaskShown) {
        self.noticed.send_modify(|times| *times += 1);
        // A client of the newer protocol subscribes, and has no messages that it did not ask for.
        if peer.peer_info().is_none() {
            return;
        }
        let level = level(shown.task.status);
        if self.wants(level) {
            let told = LoggingMessageNotificationParam::new(level, message(shown)).with_logger(LOGGER);
            let _ = peer.notify_logging_message(told).await;
        }
        if self.subscribed.load(Ordering::Relaxed) {
            let _ = peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(TASKS)).await;
        }
    }

    fn wants(&self, level: LoggingLevel) -> bool {
        let least = *self.level.lock().unwrap_or_else(PoisonError::into_inner);
        least.is_none_or(|least| severity(level) >= severity(least))
    }

    /// Tells one subscription of the newer protocol, until it ends. One that is about other things is told nothing.
    pub(super) async fn notify(&self, sink: &SubscriptionSink) {
        let mut noticed = self.noticed.subscribe();
        let wanted = sink.accepted().resource_subscriptions.as_ref();
        if wanted.is_some_and(|uris| uris.iter().any(|uri| uri == TASKS)) {
            while noticed.changed().await.is_ok() && sink.notify_resource_updated(TASKS).await.is_ok() {}
        } else {
            std::future::pending().await
        }
    }
}

/// The task at its end, over any number of daemons. One that died is started again at most once a [`PAUSE`]; one that ended
/// in order is waited for.
async fn end(shared: &Shared, task: &TaskView) -> Result<TaskShown> {
    let state_dir = shared.giver.workspace()?.state_dir;
    let mut next_start = Instant::now();
    loop {
        let wait = TaskWait::new(task.task_id.as_str(), None, None).knowing(task);
        let ended = wait.end(&mut Client::of_running(state_dir.clone())).await;
        if !ended.as_ref().is_err_and(|failure| failure.is(Code::DaemonNotRunning)) {
            return ended;
        }
        let until = Instant::now() + PAUSE;
        if read_info(&state_dir).is_some_and(|info| !info.ending) && Instant::now() >= next_start {
            next_start = until;
            if shared.giver.client()?.ask(&Ask::get("/v1/daemon")).await.is_ok() {
                continue;
            }
        }
        if running_soon(&state_dir, until).await?.is_none() {
            // Where nothing tells of a daemon that comes, it is asked again after the pause.
            tokio::time::sleep_until(until).await;
        }
    }
}

fn level(status: TaskStatus) -> LoggingLevel {
    if status == TaskStatus::Completed { LoggingLevel::Info } else { LoggingLevel::Warning }
}

const fn severity(level: LoggingLevel) -> u8 {
    match level {
        LoggingLevel::Debug => 0,
        LoggingLevel::Info => 1,
        LoggingLevel::Notice => 2,
        LoggingLevel::Warning => 3,
        LoggingLevel::Error => 4,
        LoggingLevel::Critical => 5,
        LoggingLevel::Alert => 6,
        LoggingLevel::Emergency => 7,
    }
}

/// What a message holds. The result is get_subagents' to give: it is the agent's text, and may be long.
fn message(shown: &TaskShown) -> serde_json::Value {
    let task = &shown.task;
    json!({
        "message": answers::progress(task),
        "id": task.task_id, "name": task.name, "agent": task.agent, "status": task.status,
        "error": task.error.as_ref().map(|error| json!({"code": error.code, "message": error.message})),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_hears_what_is_as_severe_as_it_wants() {
        let ends = Ends::default();
        assert!(ends.wants(level(TaskStatus::Completed)));
        ends.set_level(LoggingLevel::Warning);
        assert!(!ends.wants(level(TaskStatus::Completed)) && ends.wants(level(TaskStatus::Failed)));
        ends.set_level(LoggingLevel::Error);
        assert!(!ends.wants(level(TaskStatus::Failed)));
    }
}
