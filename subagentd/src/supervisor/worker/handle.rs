//! The handle of a worker's actor, for the rest of the control plane.

use std::sync::Arc;
use std::time::Duration;

use subagent_core::model::Worker;
use subagent_protocol::ids::WorkerId;
use subagent_protocol::placement::Placement;
use subagent_protocol::{Code, Error, Result};
use tokio::sync::{Notify, mpsc, watch};

use super::actor::Actor;
use super::message::ActorMessage;
use super::run;
use super::snapshot::Snapshot;
use crate::store::{ControllerRow, RowId, WorkerRow};
use crate::supervisor::shared::{SupervisorState, ending_error};

/// Time that a view waits for an adopted worker to settle.
const SETTLE: Duration = Duration::from_secs(6);
/// Maximum number of messages that wait for one actor.
const WAITING_ORDERS: usize = 256;

/// The handle of a worker's actor. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ActorHandle {
    pub(in crate::supervisor) id: RowId,
    pub(in crate::supervisor) worker_id: WorkerId,
    pub(in crate::supervisor) placement: Option<Placement>,
    mailbox: mpsc::Sender<ActorMessage>,
    pub(in crate::supervisor) snapshot: watch::Receiver<Arc<Snapshot>>,
    /// Signals the actor to start.
    wanted: Arc<Notify>,
    /// Whether the worker has tasks. Turns true before the first one is stored.
    pub(in crate::supervisor) gives: Arc<watch::Sender<bool>>,
}

impl ActorHandle {
    /// Creates the actor of a worker with this state of the rules. It starts when it is needed.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` if the stored spec is unreadable.
    pub(in crate::supervisor) fn start(
        shared: &Arc<SupervisorState>,
        row: &WorkerRow,
        controller: ControllerRow,
        worker: Worker,
        last_seq: i64,
    ) -> Result<Self> {
        let (mailbox, orders) = mpsc::channel(WAITING_ORDERS);
        let actor = Actor::new(Arc::clone(shared), row, controller, worker, last_seq, orders)?;
        let snapshot = actor.published.snapshots.subscribe();
        let gives = Arc::new(watch::Sender::new(row.agent.has_tasks));
        let wanted = Arc::<Notify>::default();
        tokio::spawn(run::run(actor, Arc::clone(&wanted)));
        let (worker_id, placement) = (row.worker_id.clone(), row.placement.clone());
        Ok(Self { id: row.id, worker_id, placement, mailbox, snapshot, wanted, gives })
    }

    /// Waits a limited time until the actor is settled or reports an obstacle. Returns its snapshot.
    pub(in crate::supervisor) async fn settle(&self) -> Arc<Snapshot> {
        let mut snapshots = self.follow();
        let known = snapshots.wait_for(|snapshot| snapshot.settled || snapshot.obstacle.is_some());
        match tokio::time::timeout(SETTLE, known).await {
            Ok(Ok(snapshot)) => Arc::clone(&snapshot),
            _ => Arc::clone(&self.snapshot.borrow()),
        }
    }

    /// Starts the actor, if it has not started.
    pub(in crate::supervisor) fn begin(&self) {
        self.wanted.notify_one();
    }

    /// Starts the actor and returns its snapshots.
    pub(in crate::supervisor) fn follow(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.begin();
        self.snapshot.clone()
    }

    /// Starts the actor and returns its snapshot once it is settled, or `None` if it has ended.
    /// Callers need a time limit.
    pub(in crate::supervisor) async fn settled(&self) -> Option<Arc<Snapshot>> {
        let mut snapshots = self.follow();
        let settled = snapshots.wait_for(|snapshot| snapshot.settled).await.ok()?;
        Some(Arc::clone(&settled))
    }

    /// Returns whether the mailbox has room for messages that are not from the owner.
    pub(in crate::supervisor) fn has_room(&self) -> bool {
        self.mailbox.capacity() >= WAITING_ORDERS / 2
    }

    /// Sends a message.
    ///
    /// # Errors
    /// `DAEMON_NOT_RUNNING` if the daemon is ending, `WORKER_BUSY` if the mailbox is full.
    pub(in crate::supervisor) fn send(&self, message: ActorMessage) -> Result<()> {
        self.begin();
        self.mailbox.try_send(message).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => {
                Error::new(Code::WorkerBusy, "too many requests wait for this worker").retryable()
            }
            mpsc::error::TrySendError::Closed(_) => ending_error(),
        })
    }
}
