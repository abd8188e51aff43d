//! The actor of one worker. All changes of the worker happen here, one at a time. It owns the state
//! of the rules, the journal cursor and the connection to the runtime. A handler sends a
//! [`ChangeRequest`] and waits; the change is executed even if its client disconnects.

mod actor;
mod base;
mod budget;
mod child_cancel;
mod ingest;
mod order;
mod own_worktree;
pub(crate) mod questions;
mod runtime;
mod setting;
mod snapshot;
pub(crate) mod tasks;
mod worktree;

use std::sync::Arc;
use std::time::Duration;

use subagent_core::model::Worker;
use subagent_protocol::ids::WorkerId;
use subagent_protocol::{Code, Error, Result};
use tokio::sync::{Notify, mpsc, oneshot, watch};

pub(super) use budget::LimitOrder;
pub(super) use child_cancel::{ChildCancel, broken};
#[cfg(any(test, feature = "testing"))]
pub(crate) use ingest::{SessionUpdates, input};
pub(super) use order::{Also, ChangeRequest, Respond};
pub(super) use runtime::revival::{Revival, RevivalOutcome};
pub(super) use setting::SetOrder;
pub(super) use snapshot::Snapshot;

use super::shared::SupervisorState;
use crate::store::{ControllerRow, RowId, WorkerRow};

/// Time that a view waits for an adopted worker to settle.
const SETTLE: Duration = Duration::from_secs(6);
/// Maximum number of messages that wait for one actor.
const WAITING_ORDERS: usize = 256;

/// A message to a worker's actor.
pub(super) enum ActorMessage {
    /// Executes a change by a client.
    Order(Box<ChangeRequest>),
    /// Sets options of the session.
    Set(Box<SetOrder>),
    /// Changes the budget of the worker.
    Limits(Box<LimitOrder>),
    /// Cancels a child session.
    CancelChild(ChildCancel),
    /// Stores an event about a refused request from below the worker.
    Forbidden {
        /// The request that was refused.
        what: String,
    },
    /// Starts a runtime if the worker has lost its own.
    Revive {
        /// Minimum time since the last start.
        cooldown: Duration,
        /// Receives the outcome of the demand.
        reply: oneshot::Sender<RevivalOutcome>,
    },
}

/// The handle of a worker's actor. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ActorHandle {
    pub(super) id: RowId,
    pub(super) worker_id: WorkerId,
    mailbox: mpsc::Sender<ActorMessage>,
    pub(super) snapshot: watch::Receiver<Arc<Snapshot>>,
    /// Signals the actor to start.
    wanted: Arc<Notify>,
    /// Whether the worker has tasks. Turns true before the first one is stored.
    pub(super) gives: Arc<watch::Sender<bool>>,
}

impl ActorHandle {
    /// Creates the actor of a worker with this state of the rules. It starts when it is needed.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` if the stored spec is unreadable.
    pub(super) fn start(
        shared: &Arc<SupervisorState>,
        row: &WorkerRow,
        controller: ControllerRow,
        worker: Worker,
        last_seq: i64,
    ) -> Result<Self> {
        let (mailbox, orders) = mpsc::channel(WAITING_ORDERS);
        let actor = actor::Actor::new(Arc::clone(shared), row, controller, worker, last_seq, orders)?;
        let snapshot = actor.subscribe();
        let gives = Arc::new(watch::Sender::new(row.has_tasks));
        let wanted = actor.wanted();
        let handle = Self { id: row.id, worker_id: row.worker_id.clone(), mailbox, snapshot, wanted, gives };
        tokio::spawn(actor.run());
        Ok(handle)
    }

    /// Waits a limited time until the actor is settled or reports an obstacle. Returns its snapshot.
    pub(super) async fn settle(&self) -> Arc<Snapshot> {
        let mut snapshots = self.follow();
        let known = snapshots.wait_for(|snapshot| snapshot.settled || snapshot.obstacle.is_some());
        match tokio::time::timeout(SETTLE, known).await {
            Ok(Ok(snapshot)) => Arc::clone(&snapshot),
            _ => Arc::clone(&self.snapshot.borrow()),
        }
    }

    /// Starts the actor, if it has not started.
    pub(super) fn begin(&self) {
        self.wanted.notify_one();
    }

    /// Starts the actor and returns its snapshots.
    pub(super) fn follow(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.begin();
        self.snapshot.clone()
    }

    /// Starts the actor and returns its snapshot once it is settled, or `None` if it has ended.
    /// Callers need a time limit.
    pub(super) async fn settled(&self) -> Option<Arc<Snapshot>> {
        let mut snapshots = self.follow();
        let settled = snapshots.wait_for(|snapshot| snapshot.settled).await.ok()?;
        Some(Arc::clone(&settled))
    }

    /// Returns whether the mailbox has room for messages that are not from the owner.
    pub(super) fn has_room(&self) -> bool {
        self.mailbox.capacity() >= WAITING_ORDERS / 2
    }

    /// Sends a message.
    ///
    /// # Errors
    /// `DAEMON_NOT_RUNNING` if the daemon is ending, `WORKER_BUSY` if the mailbox is full.
    pub(super) fn send(&self, message: ActorMessage) -> Result<()> {
        self.begin();
        self.mailbox.try_send(message).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => {
                Error::new(Code::WorkerBusy, "too many requests wait for this worker").retryable()
            }
            mpsc::error::TrySendError::Closed(_) => ending(),
        })
    }
}

/// Returns the error for requests that the daemon cannot finish because it ends.
pub(super) fn ending() -> Error {
    Error::new(Code::DaemonNotRunning, "the daemon is ending; ask again").retryable()
}
