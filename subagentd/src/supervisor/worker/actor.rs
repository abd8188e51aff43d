//! The state that a worker's actor owns, in components. Each component changes its own fields; what
//! needs several of them is a function in the folder of its subject.

use std::collections::VecDeque;
use std::sync::Arc;

use subagent_core::model::{Fact, LifecycleState, Transition, Worker, WorkerAction};
use subagent_protocol::{Code, Error, Result};
use tokio::sync::mpsc;

use super::budget::state::Budgets;
use super::identity::WorkerIdentity;
use super::ingest::journal::JournalIntake;
use super::message::ActorMessage;
use super::questions::tracker::{QuestionTracker, Rules};
use super::runtime::slot::RuntimeSlot;
use super::session::WorkerSession;
use super::settings::pending::Settings;
use super::snapshot::{Published, Snapshot};
use super::tasks::state::Tasks;
use super::worktree::OwnWorktree;
use crate::store::{ControllerRow, WorkerRow};
use crate::supervisor::runtimes::journal::JournalReader;
use crate::supervisor::runtimes::place::RuntimePlace;
use crate::supervisor::shared::SupervisorState;
use crate::supervisor::start::environment;
use crate::supervisor::start::spec::Spec;
use crate::supervisor::turns::agent_change::Changed;

pub(in crate::supervisor) struct Actor {
    pub(super) shared: Arc<SupervisorState>,
    pub(super) identity: WorkerIdentity,
    pub(super) spec: Spec,
    pub(super) worker: Worker,
    /// Actions required by the rules, in order.
    pub(super) todo: VecDeque<WorkerAction>,
    pub(super) runtime: RuntimeSlot,
    pub(super) journal: JournalIntake,
    pub(super) session: WorkerSession,
    /// The worktree that is being made for the worker, if any.
    pub(super) worktree: OwnWorktree,
    pub(super) settings: Settings,
    pub(super) questions: QuestionTracker,
    pub(super) budgets: Budgets,
    pub(super) tasks: Tasks,
    pub(super) published: Published,
    pub(super) mailbox: mpsc::Receiver<ActorMessage>,
}

impl Actor {
    pub(super) fn new(
        shared: Arc<SupervisorState>,
        row: &WorkerRow,
        controller: ControllerRow,
        mut worker: Worker,
        last_seq: i64,
        mailbox: mpsc::Receiver<ActorMessage>,
    ) -> Result<Self> {
        // Until the budgets were checked.
        worker.queue.gated = true;
        let spec: Spec = serde_json::from_str(&row.spec).map_err(|error| {
            Error::new(
                Code::Internal,
                format!("the stored spec of {} cannot be read: {error}", row.worker_id),
            )
        })?;
        let identity = WorkerIdentity::of(&shared.setup, row, controller)?;
        let journal = JournalIntake::new(JournalReader::new(&identity.directory), row.runtime.cursor);
        let serving = spec.delegation.is_some().then(|| shared.placed_connections.of(&row.worker_id));
        let place = RuntimePlace::of(row, &shared.setup, &identity.directory, serving);
        let (runtime, session) = (RuntimeSlot::of(row, place), WorkerSession::of(row));
        let last_error = row.rules.last_error.clone();
        let snapshot = Snapshot::of(&worker, &spec, &runtime, &journal, &session, last_seq, last_error);
        Ok(Self {
            journal,
            identity,
            spec,
            worker,
            todo: VecDeque::new(),
            runtime,
            session,
            worktree: OwnWorktree::default(),
            settings: Settings::default(),
            questions: QuestionTracker::new(shared.changes.rules.subscribe()),
            budgets: Budgets::new(shared.changes.budgets.subscribe()),
            tasks: Tasks::new(row.agent.is_task, row.agent.has_tasks, shared.changes.bells.of(row.id)),
            published: Published::new(snapshot, shared.changes.noted.of(row.id)),
            mailbox,
            shared,
        })
    }

    /// Returns whether requests are executed: the state of the runtime is known, and the store
    /// works.
    pub(super) fn serves(&self) -> bool {
        self.runtime.settled && self.journal.retry.is_none()
    }

    /// Returns whether the worker is to stop or has stopped.
    pub(in crate::supervisor::worker) fn stops(&self) -> bool {
        matches!(self.worker.state, LifecycleState::Stopping(_) | LifecycleState::Stopped)
    }

    /// Takes over a committed change.
    pub(super) fn adopt(&mut self, step: Transition, last_seq: Option<i64>) {
        let Transition { worker, facts, actions } = step;
        self.worker = worker;
        self.todo.extend(actions);
        self.questions.see(&facts);
        self.budgets.see(&facts);
        self.tasks.see(&facts);
        self.published.see(&facts, last_seq);
        if self.worker.waits_to_open() {
            self.budgets.is_news();
        }
        if facts.iter().any(|fact| matches!(fact, Fact::QueuedTurnOpened { .. })) {
            subagent_failpoint::hit("queue_open.after_commit");
        }
        if self.worker.state == LifecycleState::Stopped {
            subagent_failpoint::hit("stopped.after_commit");
            environment::remove(&self.identity.environment);
            if self.runtime.place.is_container() {
                let id = self.identity.worker_id.as_str();
                environment::remove(&self.shared.setup.runtime_dir.container_token(id));
            }
        }
        self.publish();
    }

    /// Takes over events that were stored without a change of the worker.
    pub(super) fn has_stored(&mut self, facts: Vec<Fact>, last_seq: Option<i64>) {
        self.adopt(Transition { worker: self.worker.clone(), facts, actions: Vec::new() }, last_seq);
    }

    /// Takes over a definition that was stored with the opened turn.
    pub(super) fn take_changed(&mut self, changed: Option<Changed>) {
        let Some(Changed { spec, watch, any }) = changed else { return };
        self.spec = *spec;
        self.questions.rules_stale = self.questions.take_rules(Rules { watch, any });
    }

    pub(super) fn publish(&mut self) {
        self.runtime.revivals.follow(&self.worker, self.published.last_error.as_ref());
        self.published.follow_parking(&self.worker, &self.shared);
        let (last_seq, last_error) = (self.published.last_seq, self.published.last_error.clone());
        let snapshot = Snapshot::of(
            &self.worker,
            &self.spec,
            &self.runtime,
            &self.journal,
            &self.session,
            last_seq,
            last_error,
        );
        self.published.snapshots.send_replace(Arc::new(snapshot));
        self.shared.changes.announce(last_seq);
    }
}
