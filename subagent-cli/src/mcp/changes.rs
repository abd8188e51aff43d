//! Notifies the client when the callable agents change. A manager's agents come from files, which are read
//! on every list or call; an agent's come from the daemon, which is asked when a turn begins.

use std::sync::{Arc, Mutex, PoisonError};

use rmcp::service::{Peer, RoleServer, SubscriptionSink};
use subagent_protocol::api::{CallableAgent, WaitRequest};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::server::ToolServerState;
use crate::client::{ApiRequest, matched_event, segment};
use crate::failure::Result;
use crate::tasks::Callable;

/// The agents that the client knows.
#[derive(Debug, Default)]
pub(super) struct AgentListNotifier {
    /// The agents in the last list for the client.
    known: Mutex<Option<Vec<CallableAgent>>>,
    /// Number of changes so far.
    found: watch::Sender<u64>,
    /// The task that follows the turns of the calling agent.
    follower: Mutex<Option<JoinHandle<()>>>,
}

impl AgentListNotifier {
    /// Returns the callable agents and records them as known to the client.
    pub(super) async fn list(
        &self,
        shared: &Arc<ToolServerState>,
        peer: &Peer<RoleServer>,
    ) -> Result<Vec<CallableAgent>> {
        let Callable { agents, worker } = shared.submitter.agents().await?;
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(agents.clone());
        if let Some(worker) = worker {
            self.follow(shared, peer, Some(worker));
        }
        Ok(agents)
    }

    /// Records that the agents could not be determined. The client gets a notification as soon as they can.
    pub(super) fn missed(&self, shared: &Arc<ToolServerState>, peer: &Peer<RoleServer>) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default();
        if shared.submitter.token().is_some() {
            self.follow(shared, peer, None);
        }
    }

    /// Checks a manager's agents again, which reads a few files.
    pub(super) async fn called(&self, shared: &Arc<ToolServerState>, peer: &Peer<RoleServer>) {
        if shared.submitter.token().is_none() {
            self.look(shared, peer).await;
        }
    }

    /// Checks the agents again and notifies the client of a change.
    async fn look(&self, shared: &ToolServerState, peer: &Peer<RoleServer>) {
        if let Ok(Callable { agents, .. }) = shared.submitter.agents().await {
            self.are(agents, peer).await;
        }
    }

    async fn are(&self, agents: Vec<CallableAgent>, peer: &Peer<RoleServer>) {
        let others = match &mut *self.known.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(known) if *known != agents => {
                *known = agents;
                true
            }
            // A client without a list knows no agents.
            _ => false,
        };
        if others {
            self.found.send_modify(|times| *times += 1);
            // A client of the newer protocol subscribes; a disconnected one needs no notification.
            if peer.peer_info().is_some() {
                let _ = peer.notify_tool_list_changed().await;
            }
        }
    }

    /// Notifies one subscription until it ends.
    pub(super) async fn notify(&self, sink: &SubscriptionSink) {
        let mut found = self.found.subscribe();
        while found.changed().await.is_ok() && sink.notify_tool_list_changed().await.is_ok() {}
    }

    /// Checks the agents whenever a turn of this worker begins; an unknown worker is determined first. The
    /// next list restarts a failed follower.
    fn follow(&self, shared: &Arc<ToolServerState>, peer: &Peer<RoleServer>, worker: Option<String>) {
        let mut follower = self.follower.lock().unwrap_or_else(PoisonError::into_inner);
        if follower.as_ref().is_none_or(JoinHandle::is_finished) {
            let (shared, peer) = (shared.clone(), peer.clone());
            *follower = Some(tokio::spawn(async move {
                let mut closed = shared.closed.clone();
                tokio::select! {
                    // The next list retries after an error.
                    _ = turns(&shared, &peer, worker) => {}
                    _ = closed.wait_for(|closed| *closed) => {}
                }
            }));
        }
    }
}

async fn turns(shared: &ToolServerState, peer: &Peer<RoleServer>, worker: Option<String>) -> Result<()> {
    let worker = match worker {
        Some(worker) => worker,
        None => {
            let Callable { agents, worker } = shared.submitter.agents().await?;
            shared.changes.are(agents, peer).await;
            let Some(worker) = worker else { return Ok(()) };
            worker
        }
    };
    let mut client = shared.submitter.client()?;
    let path = format!("/v1/workers/{}", segment(&worker));
    let mut cursor = client.newest_event(&worker).await?;
    loop {
        let request = WaitRequest {
            until: Some("turn.started".to_owned()),
            include_history: cursor.is_none(),
            from_event_id: cursor.take(),
            timeout_seconds: 0.0,
            no_progress_timeout_seconds: 0.0,
            collect_turn: None,
            only_turn: None,
        };
        let ask = ApiRequest::post(format!("{path}/wait"), &request)?.within(None);
        let waited = client.ask(&ask).await?;
        let Some(event) = matched_event(&waited) else { return Ok(()) };
        cursor = Some(event);
        shared.changes.look(shared, peer).await;
    }
}
