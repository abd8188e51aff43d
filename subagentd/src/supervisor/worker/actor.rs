//! The event loop of a worker's actor, and the state that the actor owns.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize as _;
use serde_json::{Value, json};
use subagent_core::model::{Fact, LifecycleState, Worker, WorkerAction, WorkerInput};
use subagent_protocol::attachment::Attachment;
use subagent_protocol::frame::{CHANGE_AGENT, RuntimeCommand};
use subagent_protocol::hook::HookFailed;
use subagent_protocol::ids::WorkerId;
use subagent_protocol::state::QuestionKind;
use subagent_protocol::{Code, Error, Result};
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;

use super::budget::Budgets;
use super::ingest::Goal;
use super::own_worktree::OwnWorktree;
use super::questions::QuestionTracker;
use super::runtime::LiveRuntime;
use super::runtime::blocked::Blocked;
use super::setting::{PendingOptions, SetOrder};
use super::tasks::Tasks;
use super::tasks::limits::TaskLimitState;
use super::{ActorMessage, Revival, Snapshot};
use crate::alarm;
use crate::store::{ControllerRow, Cursor, Durability, RowId, WorkerRow, facts, turns};
use crate::supervisor::entropy;
use crate::supervisor::hooks::RunningHooks;
use crate::supervisor::policy::PolicyTracker;
use crate::supervisor::runtimes::journal::JournalReader;
use crate::supervisor::shared::{ParkedWorkGuard, SupervisorState, is_ending};
use crate::supervisor::start::environment;
use crate::supervisor::start::spec::Spec;

/// Reason in the journal of a runtime that ends because its worker hibernates.
const HIBERNATED: &str = "the worker was idle for as long as its idle timeout";
/// Delay after a failure of the store.
pub(super) const STORE_RETRY: Duration = Duration::from_secs(1);

pub(in crate::supervisor) struct Actor {
    pub(super) shared: Arc<SupervisorState>,
    pub(super) id: RowId,
    pub(super) worker_id: WorkerId,
    pub(super) controller: ControllerRow,
    pub(super) spec: Spec,
    pub(super) cwd: PathBuf,
    /// The worktree that is being made for the worker, if any.
    pub(super) worktree: OwnWorktree,
    pub(super) directory: PathBuf,
    pub(super) socket: PathBuf,
    pub(super) environment: PathBuf,
    pub(super) log: PathBuf,

    pub(super) worker: Worker,
    /// The policy at work, if there are any rules.
    pub(super) watch: Option<PolicyTracker>,
    /// Approval state that the state machine does not track.
    pub(super) questions: QuestionTracker,
    /// Hooks that run for permission requests.
    pub(super) hooks: RunningHooks,
    /// The newest event that was stored outside of this actor.
    noted: watch::Receiver<i64>,
    pub(super) cursor: Cursor,
    pub(super) incarnation: u64,
    pub(super) session_id: Option<String>,
    /// Errors of the last starts that failed to restore the session, newest first.
    pub(super) restore_failures: Vec<String>,
    pub(super) boot_id: Option<String>,
    /// Whether a runtime may be alive according to the store.
    pub(super) may_live: bool,
    pub(super) stored_runtime: Option<subagent_protocol::process::ProcessId>,
    pub(super) stored_guard: Option<subagent_protocol::process::ProcessId>,
    pub(super) last_error: Option<Error>,
    last_seq: i64,

    pub(super) journal: JournalReader,
    /// Whether the newest record of the runtime is the guard's proof.
    pub(super) clean_end: bool,
    /// Whether stray processes of the last runtime were searched without that proof.
    pub(super) swept: bool,
    /// Whether a part of this runtime's journal was unreadable.
    pub(super) damaged: bool,
    /// Number of unreadable records since this daemon started.
    pub(super) misread: u64,
    /// Whether records of this worker are missing.
    pub(super) gap: bool,
    pub(super) runtime: Option<LiveRuntime>,
    /// Time of the last activity of the agent, or of a client with it.
    pub(super) active_at: Instant,
    /// Whether the agent supports resuming its session.
    pub(super) restores: bool,
    /// Start of the wake-up of a hibernating worker.
    pub(super) waking_since: Option<Instant>,
    /// Orders that wait until the agent is awake.
    pub(super) sleeping: Vec<SetOrder>,
    /// Option changes that the runtime executes.
    pub(super) settings: Vec<PendingOptions>,
    /// Actions required by the rules, in order.
    pub(super) todo: VecDeque<WorkerAction>,
    pub(super) settled: bool,
    /// Whether the journal contains records that were not read.
    more: bool,
    /// When to read the journal again after a failure of the store.
    pub(super) retry: Option<Instant>,
    /// The failure that repeats, if there is one.
    pub(super) blocked: Option<Blocked>,
    /// When to check again whether all processes of a stopped worker have ended.
    pub(super) leftovers: Option<Instant>,
    /// The last delay of that check. It doubles each time.
    pub(super) leftovers_pause: Duration,
    pub(super) budgets: Budgets,
    pub(super) tasks: Tasks,
    pub(super) task_limits: TaskLimitState,
    /// The last start of a runtime without a message.
    pub(super) revival: Option<Revival>,
    /// When to start a runtime without a message.
    pub(super) revive_at: Option<Instant>,
    /// Present while the worker is parked with queued work.
    pub(super) parked: Option<ParkedWorkGuard>,

    wanted: Arc<Notify>,
    pub(super) mailbox: mpsc::Receiver<ActorMessage>,
    snapshots: watch::Sender<Arc<Snapshot>>,
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
        let id = row.worker_id.as_str();
        let runtimes = shared.setup.state_dir.join("runtimes");
        let directory = runtimes.join(id);
        let runtime_dir = &shared.setup.runtime_dir;
        let socket = runtime_dir
            .worker_socket(id)
            .map_err(|error| Error::new(Code::SocketPathTooLong, error.to_string()))?;
        let snapshot = Snapshot {
            worker: worker.clone(),
            last_seq,
            last_error: row.last_error.clone(),
            obstacle: None,
            runtime: None,
            last_runtime: row.runtime,
            had_runtime: row.incarnation > 0,
            revival: None,
            unresponsive: false,
            runtime_version: None,
            cursor: row.cursor,
            misread: 0,
            settled: false,
            idle_timeout_ms: spec.idle_timeout_ms,
            hibernation_obstacle: None,
        };
        Ok(Self {
            watch: None,
            questions: QuestionTracker::new(shared.rules.subscribe()),
            hooks: RunningHooks::default(),
            noted: shared.noted.of(row.id),
            id: row.id,
            worker_id: row.worker_id.clone(),
            controller,
            spec,
            cwd: PathBuf::from(&row.cwd),
            worktree: OwnWorktree::default(),
            journal: JournalReader::new(&directory),
            directory,
            socket,
            environment: runtime_dir.worker_environment(id),
            log: runtimes.join(format!("{id}.log")),
            worker,
            cursor: row.cursor,
            incarnation: row.incarnation,
            session_id: row.session_id.clone(),
            restore_failures: row.restore_failures.clone(),
            boot_id: row.boot_id.clone(),
            may_live: row.may_live,
            stored_runtime: row.runtime,
            stored_guard: row.guard,
            last_error: row.last_error.clone(),
            last_seq,
            clean_end: false,
            swept: false,
            damaged: false,
            misread: 0,
            gap: false,
            runtime: None,
            active_at: Instant::now(),
            restores: false,
            waking_since: None,
            sleeping: Vec::new(),
            settings: Vec::new(),
            todo: VecDeque::new(),
            settled: false,
            more: false,
            retry: None,
            blocked: None,
            leftovers: None,
            leftovers_pause: Duration::ZERO,
            budgets: Budgets::new(shared.budgets.subscribe()),
            tasks: Tasks::new(row.is_task, row.has_tasks, shared.bells.of(row.id)),
            task_limits: TaskLimitState::default(),
            revival: None,
            revive_at: None,
            parked: None,
            wanted: Arc::default(),
            mailbox,
            snapshots: watch::Sender::new(Arc::new(snapshot)),
            shared,
        })
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshots.subscribe()
    }

    /// Returns the signal that starts the actor.
    pub(super) fn wanted(&self) -> Arc<Notify> {
        Arc::clone(&self.wanted)
    }

    /// Starts when signaled. Runs until the worker is stopped or the daemon ends.
    pub(super) async fn run(mut self) {
        let mut ending = self.shared.ending.subscribe();
        tokio::select! {
            biased;
            () = is_ending(&mut ending) => return,
            () = self.wanted.notified() => {}
        }
        self.recover().await;
        loop {
            while let Some(action) = self.todo.pop_front() {
                self.perform(action).await;
            }
            self.drop_making();
            if matches!(self.worker.state, LifecycleState::Stopping(_))
                && self.runtime.is_none()
                && self.leftovers.is_none()
            {
                self.check_leftovers().await;
            }
            self.look_after_sleepers().await;
            self.look_after_questions().await;
            self.look_after_hooks();
            // A reset may lie before the actor's start. Its timer would fire only after the first
            // message.
            self.unpark_if_due().await;
            let looked = self.look_at_budgets().await
                || self.look_at_task_limits().await
                || self.look_after_tasks().await;
            if looked || !self.todo.is_empty() {
                continue;
            }
            self.publish();
            if self.worker.state == LifecycleState::Stopped {
                self.shared.bells.forget(self.id);
                self.shared.noted.forget(self.id);
                return;
            }
            let serve = self.settled && self.retry.is_none();
            let refuse = !serve && self.blocked.as_ref().is_some_and(Blocked::is_overdue);
            let deadline = self.next_deadline();
            let unparks_at = self.unparks_at();
            let (link, exit) = match &mut self.runtime {
                Some(runtime) => (runtime.link.as_mut(), runtime.exit.as_ref()),
                None => (None, None),
            };
            tokio::select! {
                biased;
                () = is_ending(&mut ending) => return,
                // New rules apply before anything else is decided.
                Ok(()) = self.questions.rules.changed() => self.questions.rules_stale = true,
                frame = next_frame(link) => self.on_frame(frame).await,
                () = ended(exit) => self.on_exit().await,
                () = reached(deadline) => self.on_deadline().await,
                () = alarm::reached(unparks_at) => self.unpark_if_due().await,
                Ok(()) = self.budgets.news.changed() => self.budgets.is_news(),
                Ok(()) = self.tasks.bell.changed() => self.is_rung(),
                // Published at the start of the next iteration.
                Ok(()) = self.noted.changed() => self.last_seq = self.last_seq.max(*self.noted.borrow_and_update()),
                made = self.worktree.made() => self.worktree_made(made).await,
                answered = self.hooks.next(), if serve => self.hooks_answered(answered).await,
                message = self.mailbox.recv(), if serve || refuse => match message {
                    Some(message) if refuse => self.refuse_message(message),
                    Some(ActorMessage::Order(order)) => self.carry_out(*order).await,
                    Some(ActorMessage::Set(order)) => self.set(*order).await,
                    Some(ActorMessage::Limits(order)) => self.set_limits(*order).await,
                    Some(ActorMessage::CancelChild(order)) => self.cancel_child(order),
                    Some(ActorMessage::Forbidden { what }) => self.note_forbidden(what).await,
                    Some(ActorMessage::Revive { cooldown, reply }) => {
                        // The sender may be gone.
                        let _ = reply.send(self.demand(cooldown));
                    }
                    None => return,
                },
                () = std::future::ready(()), if self.more => {
                    self.ingest_or_retry(Goal::Some).await;
                }
            }
        }
    }

    /// Takes over a committed change.
    pub(super) fn adopt(&mut self, worker: Worker, facts: &[Fact], last_seq: Option<i64>) {
        self.questions.see(facts);
        self.worker = worker;
        self.last_seq = self.last_seq.max(last_seq.unwrap_or(0));
        self.budgets.see(facts);
        self.tasks.see(facts);
        self.task_limits.see(facts);
        if self.worker.waits_to_open() {
            self.budgets.is_news();
        }
        for fact in facts {
            match fact {
                Fact::LastError(error) => self.last_error.clone_from(error),
                Fact::QueuedTurnOpened { .. } => subagent_failpoint::hit("queue_open.after_commit"),
                _ => {}
            }
        }
        if self.worker.state == LifecycleState::Stopped {
            subagent_failpoint::hit("stopped.after_commit");
            environment::remove(&self.environment);
        }
        self.publish();
    }

    pub(super) fn publish(&mut self) {
        self.follow_revival();
        self.follow_parking();
        let snapshot = Snapshot {
            worker: self.worker.clone(),
            last_seq: self.last_seq,
            last_error: self.last_error.clone(),
            obstacle: self.obstacle(),
            runtime: self.runtime_process(),
            last_runtime: self.runtime_process().or(self.stored_runtime),
            had_runtime: self.incarnation > 0,
            revival: self.revival.clone(),
            unresponsive: self.runtime.as_ref().is_some_and(|runtime| runtime.unresponsive),
            runtime_version: self.runtime.as_ref().and_then(|runtime| runtime.version.clone()),
            cursor: self.cursor,
            misread: self.misread,
            settled: self.settled,
            idle_timeout_ms: self.spec.idle_timeout_ms,
            hibernation_obstacle: self.hibernation_obstacle(),
        };
        self.snapshots.send_replace(Arc::new(snapshot));
        self.shared.announce(self.last_seq);
    }

    async fn perform(&mut self, action: WorkerAction) {
        match action {
            WorkerAction::StartRuntime => {
                self.waking_since = self.sleeps().then(|| self.waking_since.unwrap_or_else(Instant::now));
                self.start_runtime().await;
            }
            // Both the hello and the record of the session may report that the runtime is ready.
            WorkerAction::Prompt { turn }
                if self.runtime.as_ref().is_some_and(|runtime| runtime.is_asked(turn)) => {}
            WorkerAction::Prompt { turn } => match self.prompt(turn).await {
                Ok(Some(command)) => {
                    self.record_base(turn).await;
                    self.command(command);
                }
                Ok(None) => {}
                Err(error) => self.apply(WorkerInput::PromptRefused { turn, error: Some(error) }).await,
            },
            WorkerAction::Cancel { turn, reason } => self.command(RuntimeCommand::Cancel { turn, reason }),
            WorkerAction::Answer { request_id, option_id } => {
                let asked = self.worker.approvals.get(&request_id).map(|asked| asked.kind);
                match asked {
                    Some(QuestionKind::Elicitation) => self.answer_elicitation(request_id, option_id).await,
                    // Closed, or a permission request. The runtime decides which.
                    _ => self.answer_permission(request_id, option_id).await,
                }
            }
            WorkerAction::Terminate => self.terminate(),
            WorkerAction::Hibernate { last_turn } => {
                let reason = HIBERNATED.to_owned();
                self.command(RuntimeCommand::Hibernate { last_turn, reason });
            }
        }
    }

    /// Returns the prompt of the open turn, built from its `message.sent`.
    async fn prompt(&self, turn: u64) -> Result<Option<RuntimeCommand>> {
        let Some(open) = self.worker.turn().filter(|open| open.no == turn) else { return Ok(None) };
        if subagent_failpoint::sabotaged("turn.leak_descriptor") {
            std::mem::forget(std::fs::File::open("/dev/null"));
        }
        if subagent_failpoint::sabotaged("turn.leak_memory") {
            std::mem::forget(vec![1_u8; 1024 * 1024]);
        }
        let (id, turn_id, since) = (self.id, open.id.clone(), self.spec.agent_since);
        let read = self.shared.store.read(move |connection| {
            let message = turns::message(connection, id, turn)?;
            let changes = since.map_or(Ok(false), |since| turns::is_untried(connection, id, since));
            Ok((message, changes?))
        });
        let (message, changes) = read.await?;
        let message: Value = serde_json::from_str(&message).map_err(|error| {
            Error::new(Code::StorageError, format!("the message of the turn is damaged: {error}"))
        })?;
        let mut prompt = Vec::new();
        match message["text"].as_str() {
            Some(text) if !text.trim().is_empty() => prompt.push(json!({"type": "text", "text": text})),
            _ => {}
        }
        prompt.extend(message["blocks"].as_array().into_iter().flatten().cloned());
        let attachments = attachments(&message)?;
        let takes = |runtime: &LiveRuntime| runtime.capabilities.iter().any(|known| known == "attachments");
        if !attachments.is_empty() && self.runtime.as_ref().is_some_and(|runtime| !takes(runtime)) {
            let message = "the worker's runtime is too old for attachments";
            let advice = format!("run `subagent worker restart {}`, then send again", self.worker_id);
            return Err(Error::new(Code::AttachmentNotSupported, message).recommend(advice));
        }
        // The agent may not have the change until a turn with it has ended well.
        let change = changes.then(|| self.spec.change(self.client_rules()).map(Box::new)).flatten();
        let takes = |runtime: &LiveRuntime| runtime.capabilities.iter().any(|known| known == CHANGE_AGENT);
        if change.is_some() && self.runtime.as_ref().is_some_and(|runtime| !takes(runtime)) {
            let message = "the worker's runtime is too old to change its definition while it runs";
            let advice = format!("run `subagent worker restart {}`, then send again", self.worker_id);
            return Err(Error::new(Code::InvalidWorkerState, message).recommend(advice));
        }
        Ok(Some(RuntimeCommand::Prompt { turn, turn_id, prompt, attachments, change }))
    }

    /// Reads the journal. Schedules another attempt if the store fails.
    pub(super) async fn ingest_or_retry(&mut self, goal: Goal) -> bool {
        match self.ingest(goal).await {
            Ok(more) => {
                self.more = more;
                self.retry = None;
                self.blocked = None;
                true
            }
            Err(error) => {
                tracing::error!(worker = %self.worker_id, %error, "the journal cannot be taken in; trying again");
                self.retry = Some(Instant::now() + STORE_RETRY);
                self.is_blocked(error);
                false
            }
        }
    }

    async fn note_forbidden(&mut self, what: String) {
        let event = Fact::Event {
            event_type: subagent_protocol::event::EventType::WorkerForbidden,
            data: json!({"request": what}),
            turn: self.worker.turn().map(|turn| turn.no),
        };
        self.note(vec![event]).await;
    }

    /// Stores the failure of a hook as an event. Returns whether it was stored.
    pub(super) async fn note_hook_failed(&mut self, failed: &HookFailed) -> bool {
        let fact = Fact::hook_failed(failed, self.worker.turn().map(|turn| turn.no));
        self.note(vec![fact]).await
    }

    /// Stores facts that do not change the worker. Returns whether they were stored.
    pub(super) async fn note(&mut self, facts: Vec<Fact>) -> bool {
        let (id, now, stored) = (self.id, entropy::now(), facts.clone());
        let result = self
            .shared
            .store
            .write(Durability::Full, 1, move |tx| facts::store(tx, id, &stored, None, now))
            .await;
        match result {
            Ok(added) => {
                self.adopt(self.worker.clone(), &facts, added.last().map(|(_, seq)| *seq));
                true
            }
            Err(error) => {
                tracing::error!(worker = %self.worker_id, %error, "an event could not be journaled");
                false
            }
        }
    }
}

/// Parses the attachments of a stored message.
fn attachments(message: &Value) -> Result<Vec<Attachment>> {
    match message.get("attachments") {
        None => Ok(Vec::new()),
        Some(stored) => Vec::deserialize(stored).map_err(|error| {
            Error::new(Code::StorageError, format!("the attachments of the turn are damaged: {error}"))
        }),
    }
}

async fn next_frame(
    link: Option<&mut crate::supervisor::runtimes::link::RuntimeConnection>,
) -> Option<subagent_protocol::frame::FromRuntime> {
    match link {
        Some(link) => link.next().await,
        None => std::future::pending().await,
    }
}

pub(super) async fn ended(exit: Option<&crate::supervisor::runtimes::process::ExitWatch>) {
    match exit {
        Some(exit) => exit.ended().await,
        None => std::future::pending().await,
    }
}

async fn reached(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
