//! The connections of daemons, and the one that is served.

use std::time::Duration;

use subagent_protocol::frame::FromRuntime;
use subagent_protocol::ids::WorkerId;
use subagent_protocol::start::RuntimeStart;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::socket::ConnectionEvent;

/// Capacity of the event channel of all connections; senders wait when it is full.
const EVENTS: usize = 16;

/// The connection that is served.
pub(super) struct Serving {
    pub(super) connection: u64,
    pub(super) out: mpsc::UnboundedSender<FromRuntime>,
}

pub(super) struct DaemonConnections {
    pub(super) worker_id: WorkerId,
    pub(super) incarnation: u64,
    pub(super) generation: u64,
    /// The line with which connections from outside of the container begin.
    pub(super) container_token: Option<String>,
    /// How long the runtime works on without a daemon; `None`: while it has work.
    pub(super) lease: Option<Duration>,
    pub(super) events: mpsc::Receiver<ConnectionEvent>,
    pub(super) events_in: mpsc::Sender<ConnectionEvent>,
    pub(super) connections: JoinSet<()>,
    pub(super) next_connection: u64,
    pub(super) serving: Option<Serving>,
}

impl DaemonConnections {
    pub(super) fn new(start: &RuntimeStart) -> Self {
        let (events_in, events) = mpsc::channel(EVENTS);
        Self {
            worker_id: start.worker_id.clone(),
            incarnation: start.incarnation,
            generation: start.generation,
            container_token: start.container_token.clone(),
            lease: start.lease_ms.map(Duration::from_millis),
            events,
            events_in,
            connections: JoinSet::new(),
            next_connection: 0,
            serving: None,
        }
    }

    pub(super) fn is_served(&self, connection: u64) -> bool {
        self.serving.as_ref().is_some_and(|serving| serving.connection == connection)
    }

    pub(super) fn reply(&self, connection: u64, frame: FromRuntime) {
        if let Some(serving) = self.serving.as_ref().filter(|serving| serving.connection == connection) {
            // A closed connection is reported by its own event.
            let _ = serving.out.send(frame);
        }
    }
}
