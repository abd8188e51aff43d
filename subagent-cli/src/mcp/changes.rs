//! Notices that other agents may be called than the client knows of, and tells it. A manager's agents are in files, which
//! are read when a tool is listed or called; an agent's are the daemon's to say, which is asked when a turn of that agent begins.

use std::sync::{Arc, Mutex, PoisonError};

use rmcp::service::{Peer, RoleServer, SubscriptionSink};
use subagent_protocol::api::{CallableAgent, WaitRequest};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::server::Shared;
use crate::client::{Ask, segment};
use crate::failure::Result;
use crate::tasks::Callable;

/// What the client knows.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Which agents it was told of last.
    known: Mutex<Option<Vec<CallableAgent>>>,
    /// How often others were found.
    found: watch::Sender<u64>,
    /// Follows the turns of the agent that calls.
    follower: Mutex<Option<JoinHandle<()>>>,
}

impl Changes {
    /// The agents that may be called now, which the client is told.
    pub(super) async fn list(
        &self,
        shared: &Arc<Shared>,
        peer: &Peer<RoleServer>,
    ) -> Result<Vec<CallableAgent>> {
        let Callable { agents, worker } = shared.giver.agents().await?;
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(agents.clone());
        if let Some(worker) = worker {
            self.follow(shared, peer, Some(worker));
        }
        Ok(agents)
    }

    /// The agents could not be found out: the client, which knows of those before or of none, is told once they can be.
    pub(super) fn missed(&self, shared: &Arc<Shared>, peer: &Peer<RoleServer>) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default();
        if shared.giver.token().is_some() {
            self.follow(shared, peer, None);
        }
    }

    /// Looks again, of a manager: that takes a few files.
    pub(super) async fn called(&self, shared: &Arc<Shared>, peer: &Peer<RoleServer>) {
        if shared.giver.token().is_none() {
            self.look(shared, peer).await;
        }
    }

    /// Looks again, and tells if others are found than those that the client knows.
    async fn look(&self, shared: &Shared, peer: &Peer<RoleServer>) {
        if let Ok(Callable { agents, .. }) = shared.giver.agents().await {
            self.are(agents, peer).await;
        }
    }

    async fn are(&self, agents: Vec<CallableAgent>, peer: &Peer<RoleServer>) {
        let others = match &mut *self.known.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(known) if *known != agents => {
                *known = agents;
                true
            }
            // Who has not asked knows of none.
            _ => false,
        };
        if others {
            self.found.send_modify(|times| *times += 1);
            // A client of the newer protocol subscribes; one that has gone need not know.
            if peer.peer_info().is_some() {
                let _ = peer.notify_tool_list_changed().await;
            }
        }
    }

    /// Tells one subscription, until it ends.
    pub(super) async fn tell(&self, sink: &SubscriptionSink) {
        let mut found = self.found.subscribe();
        while found.changed().await.is_ok() && sink.notify_tool_list_changed().await.is_ok() {}
    }

    /// Looks again whenever a turn of this worker begins; where it is not known, as soon as it is. One that has failed is begun
    /// again with the next list.
    fn follow(&self, shared: &Arc<Shared>, peer: &Peer<RoleServer>, worker: Option<String>) {
        let mut follower = self.follower.lock().unwrap_or_else(PoisonError::into_inner);
        if follower.as_ref().is_none_or(JoinHandle::is_finished) {
            let (shared, peer) = (shared.clone(), peer.clone());
            *follower = Some(tokio::spawn(async move {
                let mut closed = shared.closed.clone();
                tokio::select! {
                    // What it could not do is tried again by the next list.
                    _ = turns(&shared, &peer, worker) => {}
                    _ = closed.wait_for(|closed| *closed) => {}
                }
            }));
        }
    }
}

async fn turns(shared: &Shared, peer: &Peer<RoleServer>, worker: Option<String>) -> Result<()> {
    let worker = match worker {
        Some(worker) => worker,
        None => {
            let Callable { agents, worker } = shared.giver.agents().await?;
            shared.changes.are(agents, peer).await;
            let Some(worker) = worker else { return Ok(()) };
            worker
        }
    };
    let mut client = shared.giver.client()?;
    let path = format!("/v1/workers/{}", segment(&worker));
    let latest = client.ask(&Ask::get(format!("{path}/events/latest"))).await?;
    let mut cursor = latest["event"]["eventId"].as_str().map(str::to_owned);
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
        let ask = Ask::post(format!("{path}/wait"), &request)?.within(None);
        let waited = client.ask(&ask).await?;
        let Some(event) = waited["matchedEvent"]["eventId"].as_str() else { return Ok(()) };
        cursor = Some(event.to_owned());
        shared.changes.look(shared, peer).await;
    }
}
