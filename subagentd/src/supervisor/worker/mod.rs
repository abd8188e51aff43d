//! The actor of one worker: all of its changes happen here, one after the other.
//!
//! It owns the rules' state, the cursor into the journal and the connection to the runtime. An API handler sends an
//! [`Order`] and waits; if its client goes away, the order is carried out all the same.

mod actor;
mod apply;
mod base;
mod batch;
mod blocked;
mod budget;
mod child_cancel;
mod client_rules;
mod copied;
mod elicitation;
mod gone;
mod hibernation;
mod hooks;
mod inbox;
mod ingest;
mod order;
mod own_worktree;
mod parking;
mod revival;
mod runtime;
mod setting;
mod snapshot;
mod starting;
mod task;
mod task_limits;
mod task_result;
mod worktree;

use std::sync::Arc;
use std::time::Duration;

use subagent_protocol::ids::WorkerId;
use subagent_protocol::{Code, Error, Result};
use tokio::sync::{Notify, mpsc, oneshot, watch};

pub(super) use budget::LimitOrder;
pub(super) use child_cancel::{ChildCancel, broken};
#[cfg(any(test, feature = "testing"))]
pub(crate) use ingest::{Aside, input};
pub(super) use order::{Also, Order, Respond};
pub(super) use revival::{Demand, Revival};
pub(super) use setting::SetOrder;
pub(super) use snapshot::Snapshot;

use super::shared::Shared;
use crate::core::Worker;
use crate::store::{ControllerRow, RowId, WorkerRow};

/// How many orders may wait for one worker.
const WAITING_ORDERS: usize = 256;

/// What may be asked of a worker's actor.
pub(super) enum Message {
    /// Carry out a change.
    Order(Box<Order>),
    /// Choose options of the session.
    Set(Box<SetOrder>),
    /// Change what it may use.
    Limits(Box<LimitOrder>),
    /// Cancel a session below the worker's own.
    CancelChild(ChildCancel),
    /// Journal that somebody below the worker was refused.
    Forbidden {
        /// What was asked for.
        what: String,
    },
    /// Start a runtime if the worker has lost its own.
    Revive {
        /// At the earliest so long after the last time.
        cooldown: Duration,
        /// What becomes of it.
        reply: oneshot::Sender<Demand>,
    },
}

/// The way to a worker's actor.
#[derive(Clone)]
pub(super) struct Handle {
    pub(super) id: RowId,
    pub(super) worker_id: WorkerId,
    mailbox: mpsc::Sender<Message>,
    pub(super) snapshot: watch::Receiver<Arc<Snapshot>>,
    /// Told when somebody wants the actor to begin.
    wanted: Arc<Notify>,
    /// Whether it gives tasks, or was about to: true before the first one is stored.
    pub(super) gives: Arc<watch::Sender<bool>>,
}

impl Handle {
    /// Starts the actor of a worker whose rules' state is `worker`. It begins when it is wanted.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` for a stored spec that cannot be read.
    pub(super) fn start(
        shared: &Arc<Shared>,
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

    /// Has the actor find out how things stand, if it has not begun.
    pub(super) fn begin(&self) {
        self.wanted.notify_one();
    }

    /// The snapshots from now on, for which the actor begins.
    pub(super) fn follow(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.begin();
        self.snapshot.clone()
    }

    /// The snapshot once it is known how things stand, for which the actor begins. Whoever waits has a deadline; `None` when the
    /// actor has ended.
    pub(super) async fn settled(&self) -> Option<Arc<Snapshot>> {
        let mut snapshots = self.follow();
        let settled = snapshots.wait_for(|snapshot| snapshot.settled).await.ok()?;
        Some(Arc::clone(&settled))
    }

    /// Whether there is room for a message that nobody waits for, beside those of the owner.
    pub(super) fn has_room(&self) -> bool {
        self.mailbox.capacity() >= WAITING_ORDERS / 2
    }

    /// Hands a message over.
    ///
    /// # Errors
    /// `DAEMON_NOT_RUNNING` when the daemon is ending, `WORKER_BUSY` when too much waits already.
    pub(super) fn send(&self, message: Message) -> Result<()> {
        self.begin();
        self.mailbox.try_send(message).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => {
                Error::new(Code::WorkerBusy, "too many requests wait for this worker").retryable()
            }
            mpsc::error::TrySendError::Closed(_) => ending(),
        })
    }
}

/// What a request is told that the daemon cannot finish any more.
pub(super) fn ending() -> Error {
    Error::new(Code::DaemonNotRunning, "the daemon is ending; ask again").retryable()
}
