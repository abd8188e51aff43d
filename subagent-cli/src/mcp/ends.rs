//! Notifies a manager's client of the ends of its background tasks: by messages and by changes of
//! [`TASKS`]. A call that starts or continues a task watches it; a subscription watches all running
//! tasks. Must not restart a daemon that stopped in order.

#![allow(deprecated, reason = "the revisions of MCP that clients speak now have no other message")]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam, ResourceUpdatedNotificationParam};
use rmcp::service::{Peer, RoleServer, SubscriptionSink};
use serde_json::json;
use subagent_config::proc;
use subagent_protocol::Code;
use subagent_protocol::api::{TaskMode, TaskShown, TaskStatus, TaskView};
use tokio::sync::watch;
use tokio::time::Instant;

use super::answers;
use crate::client::{ApiRequest, DaemonClient, TaskWait, read_info, running_soon};
use crate::failure::Result;
use crate::tasks::TaskSubmitter;

/// The resource with the client's tasks, in the form of `get_subagents`.
pub(super) const TASKS: &str = "subagent://tasks";
const LOGGER: &str = "subagent";
/// Maximum wait for an absent daemon, and minimum time between two starts of it.
const PAUSE: Duration = Duration::from_secs(60);

/// Notifications of ends for one client. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct EndNotifier(Arc<EndNotifierInner>);

#[derive(Debug)]
struct EndNotifierInner {
    submitter: Arc<TaskSubmitter>,
    /// Whether this process is outside of any worker.
    outside: bool,
    /// Whether the client has disconnected.
    closed: watch::Receiver<bool>,
    watched: Mutex<BTreeSet<String>>,
    /// Number of ends so far.
    noticed: watch::Sender<u64>,
    /// Whether the client subscribed to [`TASKS`], in the older revision of MCP.
    subscribed: AtomicBool,
    /// Minimum severity of messages; `None` sends all.
    level: Mutex<Option<LoggingLevel>>,
}

impl EndNotifier {
    pub(super) fn new(submitter: Arc<TaskSubmitter>, closed: watch::Receiver<bool>) -> Self {
        Self(Arc::new(EndNotifierInner {
            submitter,
            outside: !proc::is_below_guard(),
            closed,
            watched: Mutex::default(),
            noticed: watch::Sender::default(),
            subscribed: AtomicBool::default(),
            level: Mutex::default(),
        }))
    }

    /// Whether the client is a manager, as far as is known without a daemon.
    pub(super) fn is_notified(&self) -> bool {
        self.0.outside && self.0.submitter.token().is_none()
    }

    /// Watches a background task until its end, unless it is already watched or has ended.
    pub(super) fn watch(&self, peer: &Peer<RoleServer>, task: &TaskView) {
        if !self.is_notified() || task.mode != TaskMode::Background || task.status.is_end() {
            return;
        }
        let id = task.task_id.to_string();
        if !self.watched().insert(id.clone()) {
            return;
        }
        let (ends, peer, task) = (self.clone(), peer.clone(), task.clone());
        tokio::spawn(async move {
            let mut closed = ends.0.closed.clone();
            let ended = tokio::select! {
                ended = end(&ends.0.submitter, &task) => ended.ok(),
                _ = closed.wait_for(|closed| *closed) => None,
            };
            // Precedes the notification, because the client may continue the task at once.
            ends.watched().remove(&id);
            if let Some(shown) = ended {
                ends.log_end(&peer, &shown).await;
            }
        });
    }

    fn watched(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.0.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn subscribe(&self, subscribed: bool) {
        self.0.subscribed.store(subscribed, Ordering::Relaxed);
    }

    pub(super) fn set_level(&self, level: LoggingLevel) {
        *self.0.level.lock().unwrap_or_else(PoisonError::into_inner) = Some(level);
    }

    /// Notifies the client, unless it has disconnected.
    async fn log_end(&self, peer: &Peer<RoleServer>, shown: &TaskShown) {
        self.0.noticed.send_modify(|times| *times += 1);
        // A client of the newer protocol subscribes and gets no other messages.
        if peer.peer_info().is_none() {
            return;
        }
        let level = level(shown.task.status);
        if self.wants(level) {
            let notification =
                LoggingMessageNotificationParam::new(level, message(shown)).with_logger(LOGGER);
            let _ = peer.notify_logging_message(notification).await;
        }
        if self.0.subscribed.load(Ordering::Relaxed) {
            let _ = peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(TASKS)).await;
        }
    }

    fn wants(&self, level: LoggingLevel) -> bool {
        let least = *self.0.level.lock().unwrap_or_else(PoisonError::into_inner);
        is_wanted(level, least)
    }

    /// Notifies one subscription of the newer protocol until it ends. Subscriptions to other resources get
    /// no notification.
    pub(super) async fn notify(&self, sink: &SubscriptionSink) {
        let mut noticed = self.0.noticed.subscribe();
        let wanted = sink.accepted().resource_subscriptions.as_ref();
        if wanted.is_some_and(|uris| uris.iter().any(|uri| uri == TASKS)) {
            while noticed.changed().await.is_ok() && sink.notify_resource_updated(TASKS).await.is_ok() {}
        } else {
            std::future::pending().await
        }
    }
}

/// Waits for the end of a task, even if daemons change. It restarts a crashed daemon at most once per
/// [`PAUSE`], and waits for one that stopped in order.
async fn end(submitter: &TaskSubmitter, task: &TaskView) -> Result<TaskShown> {
    let state_dir = submitter.workspace()?.state_dir;
    let mut next_start = Instant::now();
    loop {
        let wait = TaskWait::new(task.task_id.as_str(), None, None).knowing(task);
        let ended = wait.end(&mut DaemonClient::of_running(state_dir.clone())).await;
        if !ended.as_ref().is_err_and(|failure| failure.is(Code::DaemonNotRunning)) {
            return ended;
        }
        let until = Instant::now() + PAUSE;
        if read_info(&state_dir).is_some_and(|info| !info.ending) && Instant::now() >= next_start {
            next_start = until;
            if submitter.client()?.ask(&ApiRequest::get("/v1/daemon")).await.is_ok() {
                continue;
            }
        }
        if running_soon(&state_dir, until).await?.is_none() {
            // Without a watch, the daemon is asked again after the pause.
            tokio::time::sleep_until(until).await;
        }
    }
}

fn level(status: TaskStatus) -> LoggingLevel {
    if status == TaskStatus::Completed { LoggingLevel::Info } else { LoggingLevel::Warning }
}

fn is_wanted(level: LoggingLevel, least: Option<LoggingLevel>) -> bool {
    least.is_none_or(|least| severity(level) >= severity(least))
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

/// Returns the data of a message. It omits the result, which may be long and is untrusted; `get_subagents`
/// returns it.
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
        let wants = |least: Option<LoggingLevel>, status| is_wanted(level(status), least);
        assert!(wants(None, TaskStatus::Completed));
        assert!(!wants(Some(LoggingLevel::Warning), TaskStatus::Completed));
        assert!(wants(Some(LoggingLevel::Warning), TaskStatus::Failed));
        assert!(!wants(Some(LoggingLevel::Error), TaskStatus::Failed));
    }
}
