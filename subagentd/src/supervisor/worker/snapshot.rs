//! What the actor shows to the rest of the daemon: its snapshots, and whether it has parked work.

use std::sync::Arc;

use subagent_core::model::{Fact, LifecycleState, Worker};
use subagent_protocol::Error;
use subagent_protocol::data::workers::{PendingPlace, UnreachableState};
use subagent_protocol::process::ProcessId;
use subagent_protocol::state::WorkerState;
use tokio::sync::watch;

use super::ingest::journal::JournalIntake;
use super::runtime::revival::Revival;
use super::runtime::slot::RuntimeSlot;
use super::session::WorkerSession;
use crate::store::Cursor;
use crate::supervisor::changes::ParkedWorkGuard;
use crate::supervisor::shared::SupervisorState;
use crate::supervisor::start::spec::Spec;

/// The committed state of a worker. Each commit publishes a new one.
#[derive(Debug, Clone)]
pub(in crate::supervisor) struct Snapshot {
    /// State of the rules.
    pub(in crate::supervisor) worker: Worker,
    /// Sequence number of the newest event.
    pub(in crate::supervisor) last_seq: i64,
    /// The last error of the worker.
    pub(in crate::supervisor) last_error: Option<Error>,
    /// Why a worker without a connected runtime cannot go on. If it is settled, the runtime is
    /// gone.
    pub(in crate::supervisor) obstacle: Option<Error>,
    /// Process of the live runtime.
    pub(in crate::supervisor) runtime: Option<ProcessId>,
    /// Process of the last known runtime, alive or not. `None` for a worker that never had one.
    pub(in crate::supervisor) last_runtime: Option<ProcessId>,
    /// Whether there was ever a runtime.
    pub(in crate::supervisor) had_runtime: bool,
    /// The last start of a runtime without a message.
    pub(in crate::supervisor) revival: Option<Revival>,
    /// Whether the runtime is alive and does not answer.
    pub(in crate::supervisor) unresponsive: bool,
    /// Since when its place does not answer.
    pub(in crate::supervisor) unreachable: Option<UnreachableState>,
    /// Why its place gives no runtime now.
    pub(in crate::supervisor) place: PlaceObstacles,
    /// Version of the live runtime, after its hello.
    pub(in crate::supervisor) runtime_version: Option<String>,
    /// How far the journal was read.
    pub(in crate::supervisor) journal: JournalProgress,
    /// When an idle agent is ended.
    pub(in crate::supervisor) hibernation: HibernationTerms,
    /// Whether the actor knows the state of its runtime.
    pub(in crate::supervisor) settled: bool,
}

/// Why the place of a worker gives no runtime now.
#[derive(Debug, Clone)]
pub(in crate::supervisor) struct PlaceObstacles {
    /// Why this daemon may change nothing there.
    pub(in crate::supervisor) fenced: Option<Error>,
    /// What the next runtime waits for in an engine's queue.
    pub(in crate::supervisor) pending: Option<PendingPlace>,
}

/// How far the journal of a worker was read.
#[derive(Debug, Clone)]
pub(in crate::supervisor) struct JournalProgress {
    /// Position up to which it was read.
    pub(in crate::supervisor) cursor: Cursor,
    /// Number of unreadable records.
    pub(in crate::supervisor) misread: u64,
}

/// When an idle agent is ended.
#[derive(Debug, Clone)]
pub(in crate::supervisor) struct HibernationTerms {
    /// Time without activity, in milliseconds; `None` is never.
    pub(in crate::supervisor) idle_timeout_ms: Option<u64>,
    /// Why it cannot be ended.
    pub(in crate::supervisor) obstacle: Option<&'static str>,
}

impl Snapshot {
    pub(super) fn of(
        worker: &Worker,
        spec: &Spec,
        runtime: &RuntimeSlot,
        journal: &JournalIntake,
        session: &WorkerSession,
        last_seq: i64,
        last_error: Option<Error>,
    ) -> Self {
        let (process, live) = (runtime.process(), runtime.live.as_ref());
        let is_gone = live.is_none_or(|live| live.ended);
        Self {
            worker: worker.clone(),
            last_seq,
            last_error,
            obstacle: journal.obstacle().filter(|_| is_gone).cloned(),
            runtime: process,
            last_runtime: process.or(runtime.stored_process),
            had_runtime: runtime.incarnation > 0,
            revival: runtime.revivals.last.clone(),
            unresponsive: live.is_some_and(|live| live.unresponsive),
            unreachable: live.and_then(|live| live.reach.unreachable()),
            place: PlaceObstacles {
                fenced: runtime.fenced.clone(),
                pending: runtime.queue.pending().cloned(),
            },
            runtime_version: live.and_then(|live| live.version.clone()),
            journal: JournalProgress { cursor: journal.cursor, misread: journal.misread },
            settled: runtime.settled,
            hibernation: HibernationTerms {
                idle_timeout_ms: spec.idle_timeout_ms,
                obstacle: session.hibernation_obstacle(spec, worker, runtime),
            },
        }
    }

    /// Returns the public state. Never one that needs a runtime while the runtime is known to be
    /// gone.
    pub(in crate::supervisor) fn public_state(&self) -> WorkerState {
        match (&self.obstacle, &self.worker.state) {
            (Some(_), _) if !self.settled => self.worker.public_state(),
            (
                Some(_),
                LifecycleState::Starting | LifecycleState::Turn(_) | LifecycleState::Stopping(Some(_)),
            ) => WorkerState::Error,
            _ => self.worker.public_state(),
        }
    }
}

/// The published state of an actor.
pub(super) struct Published {
    pub(super) snapshots: watch::Sender<Arc<Snapshot>>,
    /// The newest event that was stored outside of this actor.
    pub(super) noted: watch::Receiver<i64>,
    pub(super) last_seq: i64,
    pub(super) last_error: Option<Error>,
    /// Present while the worker is parked with queued work.
    parked: Option<ParkedWorkGuard>,
}

impl Published {
    pub(super) fn new(snapshot: Snapshot, noted: watch::Receiver<i64>) -> Self {
        Self {
            noted,
            last_seq: snapshot.last_seq,
            last_error: snapshot.last_error.clone(),
            parked: None,
            snapshots: watch::Sender::new(Arc::new(snapshot)),
        }
    }

    /// Updates the state from committed facts and their newest event.
    pub(super) fn see(&mut self, facts: &[Fact], last_seq: Option<i64>) {
        self.last_seq = self.last_seq.max(last_seq.unwrap_or(0));
        for fact in facts {
            if let Fact::LastError(error) = fact {
                self.last_error.clone_from(error);
            }
        }
    }

    /// Takes the newest event that was stored outside of this actor.
    pub(super) fn see_noted(&mut self) {
        self.last_seq = self.last_seq.max(*self.noted.borrow_and_update());
    }

    /// Keeps a background daemon running while the worker is parked with queued work.
    pub(super) fn follow_parking(&mut self, worker: &Worker, shared: &Arc<SupervisorState>) {
        let has_work = worker.is_parked() && (worker.holds_turn() || worker.goes_on_alone());
        if has_work != self.parked.is_some() {
            self.parked = has_work.then(|| ParkedWorkGuard::count(&shared.changes));
        }
    }
}
