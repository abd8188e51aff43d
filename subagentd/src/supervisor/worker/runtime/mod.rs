//! A live runtime in its worker's actor: connection, commands, notices and time limits.

pub(crate) mod blocked;
pub(crate) mod copied;
pub(crate) mod gone;
pub(crate) mod hibernation;
pub(crate) mod parking;
pub(crate) mod revival;
pub(crate) mod starting;

use std::collections::HashMap;
use std::process::Child;
use std::time::Duration;

use subagent_core::model::{AgentRequest, Approval, LifecycleState, Restart, RuntimeStatus, WorkerInput};
use subagent_core::rules::reasons::{RESTARTED_BY_MANAGER, STOPPED_BY_MANAGER};
use subagent_core::rules::recovered::missing_end;
use subagent_protocol::frame::{
    ELICITATION, FromRuntime, Refusal, RuntimeCommand, RuntimeHello, RuntimePhase,
};
use subagent_protocol::ids::{RequestId, TurnId};
use subagent_protocol::process::ProcessId;
use subagent_protocol::state::Desired;
use subagent_protocol::{Code, Error, Result};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::actor::Actor;
use super::child_cancel;
use super::ingest::Goal;
use crate::store::{Durability, workers};
use crate::supervisor::entropy;
use crate::supervisor::runtimes::link::RuntimeConnection;
use crate::supervisor::runtimes::process::ExitWatch;
use crate::supervisor::shared::LiveToken;

/// Time limit of an answer to a hello or command. Then the runtime counts as unresponsive.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Delay between attempts to reach a live runtime.
const RECONNECT: Duration = Duration::from_millis(250);
/// Delay before commands that a runtime refused for now are sent again.
const SAY_AGAIN: Duration = Duration::from_secs(1);
/// Time from the terminate command to the kill. The runtime's steps and the agent's grace are
/// shorter.
const TERMINATE_TIMEOUT: Duration = Duration::from_secs(15);
/// The same time for an unresponsive runtime.
const TERMINATE_UNRESPONSIVE_TIMEOUT: Duration = Duration::from_secs(3);

/// A runtime that is alive, as far as is known.
pub(super) struct LiveRuntime {
    pub(super) link: Option<RuntimeConnection>,
    /// `None` while its process is unknown.
    pub(super) exit: Option<ExitWatch>,
    /// Whether its process has ended. The actor handles the end later.
    pub(super) ended: bool,
    pub(super) unresponsive: bool,
    pub(super) child: Option<Child>,
    greeted: bool,
    /// From the runtime's hello.
    pub(super) version: Option<String>,
    pub(super) capabilities: Vec<String>,
    /// Commands without an answer, by id.
    unanswered: HashMap<u64, PendingCommand>,
    answer_by: Option<Instant>,
    pub(super) reconnect_at: Option<Instant>,
    kill_at: Option<Instant>,
    _live: LiveToken,
}

/// The subject of a command, for its answer.
pub(super) enum PendingCommand {
    Prompt { turn: u64 },
    Cancel { turn: u64 },
    Answer { request_id: RequestId },
    Set { request: String },
    CancelChild(oneshot::Sender<Result<()>>),
    Terminate,
    Hibernate,
}

impl LiveRuntime {
    pub(super) fn new(live: LiveToken, exit: Option<ExitWatch>, child: Option<Child>) -> Self {
        Self {
            link: None,
            exit,
            ended: false,
            unresponsive: false,
            child,
            greeted: false,
            version: None,
            capabilities: Vec::new(),
            unanswered: HashMap::new(),
            answer_by: None,
            reconnect_at: None,
            kill_at: None,
            _live: live,
        }
    }

    /// Returns whether the runtime has answered the hello.
    pub(super) fn is_greeted(&self) -> bool {
        self.greeted
    }

    /// Returns whether the prompt of this turn was sent and not answered.
    pub(super) fn is_asked(&self, turn: u64) -> bool {
        self.unanswered
            .values()
            .any(|asked| matches!(asked, PendingCommand::Prompt { turn: given } if *given == turn))
    }

    /// Returns whether commands reach the runtime now.
    pub(super) fn listens(&self) -> bool {
        self.link.is_some() && self.greeted && !self.unresponsive
    }
}

impl Actor {
    pub(super) fn runtime_process(&self) -> Option<ProcessId> {
        let running = self.runtime.as_ref().filter(|runtime| !runtime.ended);
        running.and_then(|runtime| runtime.exit.as_ref()).map(ExitWatch::process)
    }

    fn desired(&self) -> Desired {
        if matches!(self.worker.state, LifecycleState::Stopping(_) | LifecycleState::Stopped) {
            Desired::Stop
        } else {
            Desired::Run
        }
    }

    pub(super) async fn connect(&mut self) {
        let link = RuntimeConnection::connect(&self.socket, self.shared.generation(), self.desired()).await;
        let Some(runtime) = &mut self.runtime else { return };
        runtime.unanswered.clear();
        runtime.greeted = false;
        let broken =
            "the connection to the worker's runtime broke; what the agent accepted is stored. Try again";
        self.fail_settings(&Error::new(Code::BackendSocketUnreachable, broken).retryable());
        let Some(runtime) = &mut self.runtime else { return };
        match link {
            Ok(link) => {
                runtime.link = Some(link);
                runtime.reconnect_at = None;
                runtime.answer_by = Some(Instant::now() + ANSWER_TIMEOUT);
            }
            Err(error) => {
                tracing::warn!(worker = %self.worker_id, %error, "a runtime cannot be reached");
                runtime.link = None;
                runtime.reconnect_at = Some(Instant::now() + RECONNECT);
                runtime.answer_by.get_or_insert(Instant::now() + ANSWER_TIMEOUT);
            }
        }
    }

    /// Sends a command. If that is not possible, it is sent after the next hello.
    pub(super) fn command(&mut self, command: RuntimeCommand) {
        let (asked, point) = match &command {
            RuntimeCommand::Prompt { turn, .. } => {
                (PendingCommand::Prompt { turn: *turn }, "dispatch.before_send")
            }
            RuntimeCommand::Answer { request_id, .. }
            | RuntimeCommand::AnswerElicitation { request_id, .. } => {
                (PendingCommand::Answer { request_id: request_id.clone() }, "answer.before_send")
            }
            RuntimeCommand::Cancel { turn, .. } => {
                (PendingCommand::Cancel { turn: *turn }, "cancel.before_send")
            }
            RuntimeCommand::SetOptions { request, .. } => {
                (PendingCommand::Set { request: request.clone() }, "options.before_send")
            }
            RuntimeCommand::Terminate { .. } => (PendingCommand::Terminate, "terminate.before_send"),
            RuntimeCommand::Hibernate { .. } => (PendingCommand::Hibernate, "hibernate.before_send"),
            // Sent by `cancel_child`, which waits for the answer.
            RuntimeCommand::CancelChild { .. } => return,
        };
        if self.runtime.as_ref().is_some_and(LiveRuntime::is_greeted) {
            subagent_failpoint::hit(point);
        }
        self.send_command(command, asked);
    }

    /// Sends a command, and remembers its subject until the answer.
    pub(super) fn send_command(&mut self, command: RuntimeCommand, asked: PendingCommand) {
        let Some(runtime) = &mut self.runtime else { return };
        // Nothing is sent before the hello is answered: the answer reports what the runtime has
        // taken, and a prompt in transit would invalidate it.
        let Some(link) = runtime.link.as_mut().filter(|_| runtime.greeted) else { return };
        let id = link.send(command);
        runtime.unanswered.insert(id, asked);
        runtime.answer_by.get_or_insert(Instant::now() + ANSWER_TIMEOUT);
    }

    /// Returns whether the runtime takes answers to elicitations, as far as is known.
    pub(super) fn takes_elicitations(&self) -> bool {
        self.runtime.as_ref().is_none_or(|runtime| {
            !runtime.greeted || runtime.capabilities.iter().any(|word| word == ELICITATION)
        })
    }

    pub(super) fn terminate(&mut self) {
        let reason = match self.worker.restart {
            Restart::Wanted => RESTARTED_BY_MANAGER,
            Restart::None | Restart::Begun => STOPPED_BY_MANAGER,
        };
        self.command(RuntimeCommand::Terminate { reason: reason.to_owned() });
        let Some(runtime) = &mut self.runtime else { return };
        let patience = if runtime.unresponsive { TERMINATE_UNRESPONSIVE_TIMEOUT } else { TERMINATE_TIMEOUT };
        runtime.kill_at.get_or_insert(Instant::now() + patience);
    }

    pub(super) async fn on_frame(&mut self, frame: Option<FromRuntime>) {
        let Some(runtime) = &mut self.runtime else { return };
        let Some(frame) = frame else {
            // The process ends or closed the connection. The exit watch reports its end.
            runtime.link = None;
            runtime.reconnect_at = Some(Instant::now() + RECONNECT);
            return;
        };
        runtime.unresponsive = false;
        runtime.answer_by = None;
        match frame {
            FromRuntime::Hello(hello) => self.on_hello(*hello).await,
            FromRuntime::Refused { refusal, generation } => {
                tracing::error!(worker = %self.worker_id, ?refusal, generation, "a runtime refuses this daemon");
                self.not_served();
                if refusal == Refusal::OldGeneration {
                    self.shared.raise_generation(generation).await;
                }
            }
            // One read of the journal can cover several end notices.
            FromRuntime::End(end) if end.number <= self.cursor.number => {}
            FromRuntime::End(_) => {
                self.ingest_or_retry(Goal::Some).await;
            }
            FromRuntime::Reply { id, refusal } => {
                let asked = runtime.unanswered.remove(&id);
                if !runtime.unanswered.is_empty() {
                    runtime.answer_by = Some(Instant::now() + ANSWER_TIMEOUT);
                }
                match (asked, refusal) {
                    (Some(asked), Some(refusal)) => self.on_refusal(asked, refusal).await,
                    (Some(PendingCommand::Hibernate), None) => self.ends_soon(),
                    (Some(PendingCommand::CancelChild(reply)), None) => {
                        // The client may be gone.
                        let _ = reply.send(Ok(()));
                    }
                    _ => {}
                }
            }
        }
    }

    async fn on_hello(&mut self, hello: RuntimeHello) {
        // A runtime that is newer than the store reports itself in its journal.
        if hello.worker_id != self.worker_id || hello.incarnation < self.incarnation {
            return self.not_ours(&hello);
        }
        let exit = ExitWatch::of(hello.process).ok().flatten();
        if let Some(runtime) = &mut self.runtime {
            runtime.greeted = true;
            runtime.ended = false;
            runtime.version = Some(hello.version.clone());
            runtime.capabilities.clone_from(&hello.capabilities);
            if runtime.exit.is_none() {
                runtime.exit = exit;
            }
        }
        self.shared.set_guard(&self.worker_id, hello.guard);
        if hello.guard.is_some() {
            self.shared.set_runtime(&self.worker_id, hello.process);
        }
        let ends = self.starts_without_rules(&hello).await;
        if !self.ingest_or_retry(Goal::Record(hello.journal_end.number)).await {
            return self.say_again_later();
        }
        if hello.incarnation != self.incarnation {
            return self.not_ours(&hello);
        }
        let (id, process, guard) = (self.id, Some(hello.process), hello.guard);
        self.stored_runtime = process;
        let stored = self
            .shared
            .store
            .write(Durability::Full, 1, move |tx| workers::update_processes(tx, id, process, guard))
            .await;
        if let Err(error) = stored {
            tracing::warn!(worker = %self.worker_id, %error, "a runtime's process could not be stored");
        }
        let link = match hello.phase {
            RuntimePhase::Starting => RuntimeStatus::Starting,
            RuntimePhase::Ready => RuntimeStatus::Ready,
            RuntimePhase::Ending | RuntimePhase::Failed { .. } => RuntimeStatus::Ending,
        };
        self.settled = true;
        if ends || self.ends_without_rules(&hello).await {
            return;
        }
        self.recover_what_is_open(&hello).await;
        self.attach(link, hello.last_turn).await;
        if link == RuntimeStatus::Ending && self.sleeps() {
            self.ends_soon();
        }
        let open = self.worker.turn().map(|turn| turn.no);
        if let Some(open) = open
            && hello.last_turn >= open
            && hello.open_turn != Some(open)
            && self.cursor.number >= hello.journal_end.number
        {
            self.end_unknown_turn(open).await;
        }
    }

    /// Applies the state that the runtime reports. Writes nothing if it is known, as for most
    /// runtimes that outlived a daemon, except for tasks that may need to be settled.
    async fn attach(&mut self, link: RuntimeStatus, last_turn: u64) {
        let input = WorkerInput::Attached { link, last_turn };
        match self.worker.step(input.clone()) {
            Ok(step)
                if step.facts.is_empty()
                    && step.worker.is_stored_like(&self.worker)
                    && !self.tasks.is_task() =>
            {
                self.adopt(step.worker, &[], None);
                self.todo.extend(step.actions);
            }
            _ => self.apply(input).await,
        }
    }

    /// Limits the time of a runtime that has agreed to end, so that it does not delay its
    /// successor.
    pub(super) fn ends_soon(&mut self) {
        if let Some(runtime) = &mut self.runtime {
            runtime.kill_at.get_or_insert(Instant::now() + TERMINATE_TIMEOUT);
        }
    }

    fn not_ours(&mut self, hello: &RuntimeHello) {
        tracing::error!(
            worker = %self.worker_id, other = %hello.worker_id, incarnation = hello.incarnation,
            "another runtime answers on this worker's socket"
        );
        self.not_served();
    }

    /// Recovers turns and questions that the runtime reports and the store does not know although
    /// the whole journal was read: their records are missing, as after a restore. Ignores a hello
    /// that is older than the journal.
    async fn recover_what_is_open(&mut self, hello: &RuntimeHello) {
        if !self.gap || self.cursor.number != hello.journal_end.number {
            return;
        }
        if let Some(turn) = hello.open_turn
            && turn > self.worker.known_turn
        {
            if let Some(open) = self.worker.turn().map(|open| open.no) {
                self.apply(WorkerInput::TurnEnd { turn: open, end: missing_end() }).await;
            }
            match entropy::random() {
                Ok(bytes) => {
                    self.apply(WorkerInput::TurnRecovered { turn, turn_id: TurnId::from_random(bytes) })
                        .await;
                }
                Err(error) => tracing::error!(%error, "an open turn gets no id"),
            }
        }
        for request_id in &hello.open_approvals {
            if !self.worker.approvals.contains_key(request_id) {
                self.apply(WorkerInput::ApprovalRecovered { request_id: request_id.clone() }).await;
            }
        }
        let over = |asked: &AgentRequest| matches!(asked.approval, Approval::Held | Approval::Pending);
        let pending = self.worker.approvals.iter().filter(|(_, asked)| over(asked)).map(|(id, _)| id.clone());
        for request_id in pending.collect::<Vec<_>>() {
            if !hello.open_approvals.contains(&request_id) {
                self.apply(WorkerInput::AnswerRefused { request_id }).await;
            }
        }
    }

    async fn on_refusal(&mut self, asked: PendingCommand, refusal: Refusal) {
        // Records written before the refusal come first. If reading them fails, or the refusal is
        // temporary, everything is sent again after the next hello.
        if !self.ingest_or_retry(Goal::End).await {
            return self.say_again_later();
        }
        match (asked, refusal) {
            (PendingCommand::Prompt { turn }, Refusal::WrongTurn { last }) if last >= turn => {}
            (PendingCommand::Prompt { turn }, Refusal::NotReady | Refusal::Ending) => {
                self.apply(WorkerInput::PromptRefused { turn, error: None }).await;
            }
            (PendingCommand::Prompt { turn }, Refusal::StorageFull) => {
                let error =
                    Error::new(Code::StorageFull, "the worker's journal cannot be written: the disk is full")
                        .retryable();
                self.apply(WorkerInput::PromptRefused { turn, error: Some(error) }).await;
            }
            (PendingCommand::Prompt { turn }, Refusal::NotSupported { error }) => {
                self.apply(WorkerInput::PromptRefused { turn, error: Some(*error) }).await;
            }
            (PendingCommand::Prompt { turn }, refusal) => {
                let message = format!("the worker's runtime did not take the prompt: {refusal:?}");
                let error = Error::new(Code::BackendRuntimeError, message);
                self.apply(WorkerInput::PromptRefused { turn, error: Some(error) }).await;
            }
            (PendingCommand::Set { request }, refusal) => self.setting_refused(&request, &refusal),
            (PendingCommand::CancelChild(reply), refusal) => {
                let _ = reply.send(Err(child_cancel::refused(&refusal)));
            }
            (PendingCommand::Answer { .. }, Refusal::StorageFull) => self.say_again_later(),
            (PendingCommand::Answer { request_id }, _) => {
                self.apply(WorkerInput::AnswerRefused { request_id }).await
            }
            // The turn's end is missing in the journal, or the turn began after the command. The
            // next hello shows which.
            (PendingCommand::Cancel { turn }, Refusal::NoSuchTurn)
                if self.worker.turn().is_some_and(|open| open.no == turn && open.dispatching) =>
            {
                self.say_again_later();
            }
            // The command was taken before.
            (PendingCommand::Hibernate, Refusal::Ending) => {}
            (PendingCommand::Hibernate, refusal) => {
                tracing::info!(worker = %self.worker_id, ?refusal, "a runtime does not hibernate yet");
                self.is_active();
                self.apply(WorkerInput::HibernateRefused).await;
                self.end_all_the_same();
            }
            (PendingCommand::Cancel { .. } | PendingCommand::Terminate, refusal) => {
                tracing::info!(worker = %self.worker_id, ?refusal, "a runtime had nothing to cancel or to end");
            }
        }
    }

    /// Ends a turn that the runtime does not report although the whole journal was read: its end
    /// was in an unreadable part.
    async fn end_unknown_turn(&mut self, turn: u64) {
        if self.worker.turn().is_some_and(|open| open.no == turn && open.dispatching) {
            tracing::error!(worker = %self.worker_id, turn, "the end of a turn is missing in the journal");
            self.apply(WorkerInput::TurnEnd { turn, end: missing_end() }).await;
        }
    }

    /// Schedules a new connection, after which everything is sent again.
    pub(super) fn say_again_later(&mut self) {
        if let Some(runtime) = &mut self.runtime {
            runtime.link = None;
            runtime.reconnect_at = Some(Instant::now() + SAY_AGAIN);
        }
    }

    /// Handles a live runtime that refuses this daemon. Orders are accepted, as for an unresponsive
    /// one.
    fn not_served(&mut self) {
        self.settled = true;
        if let Some(runtime) = &mut self.runtime {
            runtime.unresponsive = true;
            runtime.link = None;
            runtime.reconnect_at = Some(Instant::now() + SAY_AGAIN);
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let runtime = self.runtime.as_ref();
        [
            self.retry,
            self.leftovers,
            self.revive_at,
            self.budgets.at,
            self.task_limits.at,
            self.hibernate_at(),
            self.expires_at(),
            runtime.and_then(|runtime| runtime.answer_by),
            runtime.and_then(|runtime| runtime.reconnect_at),
            runtime.and_then(|runtime| runtime.kill_at),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    pub(super) async fn on_deadline(&mut self) {
        let now = Instant::now();
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if due(self.retry) {
            self.retry = None;
            match &self.runtime {
                None if self.may_live && self.settled => self.gone().await,
                // The lock could not be checked, so a runtime may be alive.
                None => self.recover().await,
                Some(_) => {
                    self.ingest_or_retry(Goal::Some).await;
                }
            }
        }
        if due(self.leftovers) {
            self.check_leftovers().await;
        }
        if due(self.revive_at) {
            self.revive_at = None;
            self.demand(Duration::ZERO);
        }
        if due(self.budgets.at) {
            self.budgets.at = None;
            self.budgets.is_news();
        }
        if due(self.task_limits.at) {
            self.task_limits.is_due();
        }
        if due(self.hibernate_at()) {
            self.hibernate().await;
        }
        self.expire().await;
        let ends = self.desired() == Desired::Stop || self.worker.restart == Restart::Wanted;
        let Some(runtime) = &mut self.runtime else { return };
        if due(runtime.kill_at) {
            runtime.kill_at = None;
            if let Some(exit) = &runtime.exit {
                tracing::warn!(worker = %self.worker_id, "a runtime did not end in time and is killed");
                subagent_failpoint::hit("runtime.before_kill");
                exit.kill();
            }
        }
        if due(runtime.answer_by) {
            runtime.answer_by = None;
            runtime.unresponsive = true;
            // Orders are accepted: they are stored, and sent when the runtime answers.
            self.settled = true;
            // An earlier daemon may have ended it, and this daemon cannot.
            if runtime.kill_at.is_some() || ends {
                runtime.kill_at = Some(now + TERMINATE_UNRESPONSIVE_TIMEOUT);
            }
            tracing::warn!(worker = %self.worker_id, "a runtime is alive but does not answer");
        }
        if due(runtime.reconnect_at) {
            runtime.reconnect_at = None;
            self.reconnect().await;
        }
    }
}
