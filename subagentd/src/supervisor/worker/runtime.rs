//! The runtime of a worker as its actor knows it: started, adopted, connected, heard, ended, gone.

use std::collections::HashMap;
use std::process::Child;
use std::time::Duration;

use subagent_protocol::frame::{Command, FromRuntime, Phase, Refusal, RuntimeHello};
use subagent_protocol::ids::RequestId;
use subagent_protocol::process::ProcessId;
use subagent_protocol::record::TurnEnd;
use subagent_protocol::start::{AgentCommand, Limits, RuntimeStart};
use subagent_protocol::state::Desired;
use subagent_protocol::{Code, Error, PROTOCOL, Result};
use tokio::time::Instant;

use super::actor::Actor;
use super::ingest::Goal;
use crate::core::worker::{Link as LinkState, State};
use crate::core::{Action, Input};
use crate::store::{Cursor, Durability, workers};
use crate::supervisor::environment;
use crate::supervisor::journal;
use crate::supervisor::link::Link;
use crate::supervisor::locks;
use crate::supervisor::process::{self, ExitWatch};
use crate::supervisor::shared::LiveToken;

/// From a runtime's start until it listens.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(10);
/// From our hello or command to the runtime's answer, before it counts as unresponsive.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Between attempts to reach a runtime that lives and cannot be reached.
const RECONNECT: Duration = Duration::from_millis(250);
/// Before what a runtime could not take for now is said again.
const SAY_AGAIN: Duration = Duration::from_secs(1);
/// How long what an earlier agent left may hold up the start of the next runtime.
const LEFTOVERS_TIMEOUT: Duration = Duration::from_secs(10);
/// From the demand to end until the runtime is killed (its own steps and the agent's grace are shorter).
const TERMINATE_TIMEOUT: Duration = Duration::from_secs(15);
/// The same for one that does not answer.
const TERMINATE_UNRESPONSIVE_TIMEOUT: Duration = Duration::from_secs(3);
/// How long the lock of a runtime that has ended may still be held: its descriptors are closed before it is reaped.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// A runtime that lives, as far as is known.
pub(super) struct Runtime {
    pub(super) link: Option<Link>,
    /// `None` while it is not known which process it is.
    pub(super) exit: Option<ExitWatch>,
    pub(super) unresponsive: bool,
    child: Option<Child>,
    greeted: bool,
    /// Commands without an answer.
    unanswered: HashMap<u64, Asked>,
    answer_by: Option<Instant>,
    reconnect_at: Option<Instant>,
    kill_at: Option<Instant>,
    _live: LiveToken,
}

/// What a command was about, for when it is refused.
enum Asked {
    Prompt { turn: u64 },
    Cancel { turn: u64 },
    Answer { request_id: RequestId },
    Terminate,
}

impl Actor {
    pub(super) fn runtime_process(&self) -> Option<ProcessId> {
        self.runtime.as_ref().and_then(|runtime| runtime.exit.as_ref()).map(ExitWatch::process)
    }

    /// Finds out how things stand when the daemon starts.
    pub(super) async fn recover(&mut self) {
        if self.incarnation == 0 && self.worker.state == State::Starting {
            // A new worker, or one whose daemon died before it could start a runtime.
            self.settled = true;
            self.start_runtime().await;
            return;
        }
        match locks::try_lock(&self.directory, locks::RUNTIME) {
            Ok(None) => {
                self.worker.link = LinkState::Starting;
                let exit = self.stored_runtime.and_then(|process| ExitWatch::of(process).ok().flatten());
                self.runtime = Some(self.new_runtime(exit, None));
                self.shared.set_guard(&self.worker_id, self.stored_guard);
                self.connect().await;
            }
            Ok(Some(lock)) => {
                drop(lock);
                self.settled = true;
                let begun = journal::is_begun(&self.directory, self.cursor.segment);
                if self.may_live && self.worker.state == State::Starting && self.cursor.offset == 0 && !begun
                {
                    // The daemon died before the runtime was there.
                    self.start_runtime().await;
                } else if self.may_live {
                    self.recall_proof().await;
                    self.gone().await;
                } else {
                    self.resume_without_runtime();
                }
            }
            Err(_) if !locks::directory_exists(&self.directory) && self.may_live => self.gone().await,
            Err(_) if !locks::directory_exists(&self.directory) => {
                self.settled = true;
                self.resume_without_runtime();
            }
            Err(error) => {
                tracing::error!(worker = %self.worker_id, %error, "a worker cannot be adopted; trying again");
                self.retry = Some(Instant::now() + Duration::from_secs(1));
            }
        }
    }

    /// Whether the last record that was taken before the daemon died is the guard's proof.
    async fn recall_proof(&mut self) {
        let (id, number) = (self.id, self.cursor.number);
        match self.shared.store.read(move |connection| workers::is_proof(connection, id, number)).await {
            Ok(proof) => self.clean_end = proof,
            Err(error) => {
                tracing::warn!(worker = %self.worker_id, %error, "the last record cannot be looked at")
            }
        }
    }

    /// No runtime lives and all that the last one wrote was taken: what was accepted since goes on.
    fn resume_without_runtime(&mut self) {
        if self.worker.turn().is_some_and(|turn| !turn.dispatching)
            && matches!(self.worker.state, State::Turn(_))
        {
            self.worker.link = LinkState::Starting;
            self.todo.push_back(Action::StartRuntime);
        }
    }

    fn new_runtime(&self, exit: Option<ExitWatch>, child: Option<Child>) -> Runtime {
        Runtime {
            link: None,
            exit,
            unresponsive: false,
            child,
            greeted: false,
            unanswered: HashMap::new(),
            answer_by: None,
            reconnect_at: None,
            kill_at: None,
            _live: LiveToken::new(&self.shared),
        }
    }

    /// Starts a runtime; a failure is what the rules make of it.
    pub(super) async fn start_runtime(&mut self) {
        if self.runtime.is_some() {
            // It is still there; its hello or its end decides.
            return;
        }
        if let Err(error) = self.try_start_runtime().await {
            self.may_live = false;
            self.runtime = None;
            self.apply(Input::SpawnFailed { error }).await;
        }
    }

    async fn try_start_runtime(&mut self) -> Result<()> {
        locks::make_directory(&self.directory)?;
        let held = |what: &str| {
            Error::new(
                Code::StopIncomplete,
                format!("{what} of this worker still runs; try again in a moment"),
            )
            .retryable()
        };
        let lock = locks::lock_within(&self.directory, locks::RUNTIME, LOCK_TIMEOUT).await?;
        let lock = lock.ok_or_else(|| held("an earlier runtime"))?;
        let guard_lock = locks::lock_within(&self.directory, locks::GUARD, LEFTOVERS_TIMEOUT).await?;
        let guard_lock = guard_lock.ok_or_else(|| held("what an earlier agent left"))?;
        let env = environment::read(&self.environment)?;
        let start = self.begin_incarnation(env).await?;
        subagent_failpoint::hit("spawn.before");
        let failed = |error: std::io::Error| {
            Error::new(Code::BackendRuntimeError, format!("the worker's runtime cannot be started: {error}"))
                .with("reasonCategory", "worker")
                .with("command", self.shared.setup.runtime_program.display().to_string())
                .recommend("check that subagent-runtime is installed beside subagentd")
        };
        let started =
            process::start(&self.shared.setup.runtime_program, &start, lock, guard_lock).map_err(failed)?;
        subagent_failpoint::hit("spawn.after");
        let process = started.process;
        // Without a watch its end is found out by the lock.
        let exit = ExitWatch::of(process).ok().flatten();
        let listening = tokio::task::spawn_blocking(move || started.wait_until_listening());
        let child = match tokio::time::timeout(LISTEN_TIMEOUT, listening).await {
            Ok(Ok(Err(error))) if error.kind() == std::io::ErrorKind::Interrupted => {
                let message = "the worker's runtime was killed while it was being started; try again";
                return Err(Error::new(Code::RuntimeLost, message).retryable().with("dispatched", "no"));
            }
            Ok(Ok(result)) => result.map_err(failed)?,
            Ok(Err(error)) => return Err(failed(std::io::Error::other(error))),
            Err(_) => {
                if let Some(exit) = &exit {
                    exit.kill();
                }
                return Err(failed(std::io::Error::new(
                    std::io::ErrorKind::TimedOut,
                    "it does not listen in time",
                )));
            }
        };
        self.runtime = Some(self.new_runtime(exit, Some(child)));
        let id = self.id;
        let stored = self
            .shared
            .store
            .write(Durability::Full, 1, move |tx| tx.update_processes(id, Some(process), None))
            .await;
        if let Err(error) = stored {
            // It lives. Its hello says it again.
            tracing::warn!(worker = %self.worker_id, %error, "a runtime's process could not be stored");
        }
        self.connect().await;
        Ok(())
    }

    /// Stores that a runtime may live from now on, and says what it must know.
    async fn begin_incarnation(&mut self, env: environment::Variables) -> Result<RuntimeStart> {
        let incarnation = self.incarnation + 1;
        let cursor = Cursor { segment: self.cursor.segment + 1, offset: 0, number: self.cursor.number };
        let (id, boot_id) = (self.id, self.shared.boot_id.clone());
        self.shared
            .store
            .write(Durability::Full, 1, move |tx| {
                tx.begin_incarnation(id, incarnation, &boot_id)?;
                tx.update_cursor(id, cursor)
            })
            .await?;
        journal::remove_before(&self.directory, cursor.segment);
        self.incarnation = incarnation;
        self.cursor = cursor;
        self.boot_id = Some(self.shared.boot_id.clone());
        self.may_live = true;
        self.clean_end = false;
        self.damaged = false;
        let launcher = &self.spec.launcher;
        Ok(RuntimeStart {
            protocol: PROTOCOL,
            worker_id: self.worker_id.clone(),
            incarnation,
            generation: self.shared.generation(),
            directory: self.directory.clone(),
            socket: self.socket.clone(),
            log: self.log.clone(),
            segment: cursor.segment,
            first_record: cursor.number + 1,
            // The turn that this runtime is started for was accepted and not sent.
            last_turn: self.worker.turn().map_or(self.worker.last_turn, |turn| turn.no - 1),
            boot_id: self.shared.boot_id.clone(),
            marker: format!("{}.{incarnation}", self.worker_id),
            agent: AgentCommand {
                program: launcher.program.clone(),
                args: launcher.args.clone(),
                cwd: self.cwd.clone(),
                env,
                umask: self.spec.umask,
                nofile: self.spec.nofile,
            },
            session: self.session_id.clone(),
            timeouts: launcher.timeouts,
            limits: Limits::default(),
        })
    }

    fn desired(&self) -> Desired {
        if matches!(self.worker.state, State::Stopping(_) | State::Stopped) {
            Desired::Stop
        } else {
            Desired::Run
        }
    }

    async fn connect(&mut self) {
        let link = Link::connect(&self.socket, self.shared.generation(), self.desired()).await;
        let Some(runtime) = &mut self.runtime else { return };
        runtime.unanswered.clear();
        runtime.greeted = false;
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

    pub(super) fn command(&mut self, command: Command) {
        let Some(runtime) = &mut self.runtime else { return };
        // What cannot be said now is said again after the next hello.
        let Some(link) = &mut runtime.link else { return };
        let asked = match &command {
            Command::Prompt { turn, .. } => Asked::Prompt { turn: *turn },
            Command::Answer { request_id, .. } => Asked::Answer { request_id: request_id.clone() },
            Command::Cancel { turn, .. } => Asked::Cancel { turn: *turn },
            Command::Terminate { .. } => Asked::Terminate,
        };
        let id = link.send(command);
        runtime.unanswered.insert(id, asked);
        runtime.answer_by.get_or_insert(Instant::now() + ANSWER_TIMEOUT);
    }

    pub(super) fn terminate(&mut self) {
        self.command(Command::Terminate { reason: "worker stopped by manager".to_owned() });
        let Some(runtime) = &mut self.runtime else { return };
        let patience = if runtime.unresponsive { TERMINATE_UNRESPONSIVE_TIMEOUT } else { TERMINATE_TIMEOUT };
        runtime.kill_at.get_or_insert(Instant::now() + patience);
    }

    pub(super) async fn on_frame(&mut self, frame: Option<FromRuntime>) {
        let Some(runtime) = &mut self.runtime else { return };
        let Some(frame) = frame else {
            // Closed: the process is ending, or it dropped us. Its end is told by the exit watch.
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
            FromRuntime::End(_) => {
                self.ingest_or_retry(Goal::Some).await;
            }
            FromRuntime::Reply { id, refusal } => {
                let asked = runtime.unanswered.remove(&id);
                if !runtime.unanswered.is_empty() {
                    runtime.answer_by = Some(Instant::now() + ANSWER_TIMEOUT);
                }
                if let (Some(asked), Some(refusal)) = (asked, refusal) {
                    self.on_refusal(asked, refusal).await;
                }
            }
        }
    }

    async fn on_hello(&mut self, hello: RuntimeHello) {
        if hello.worker_id != self.worker_id || hello.incarnation != self.incarnation {
            tracing::error!(
                worker = %self.worker_id, other = %hello.worker_id, incarnation = hello.incarnation,
                "another runtime answers on this worker's socket"
            );
            return self.not_served();
        }
        let exit = ExitWatch::of(hello.process).ok().flatten();
        if let Some(runtime) = &mut self.runtime {
            runtime.greeted = true;
            if runtime.exit.is_none() {
                runtime.exit = exit;
            }
        }
        self.shared.set_guard(&self.worker_id, hello.guard);
        if !self.ingest_or_retry(Goal::Record(hello.journal_end.number)).await {
            return self.say_again_later();
        }
        let (id, process, guard) = (self.id, Some(hello.process), hello.guard);
        let stored = self
            .shared
            .store
            .write(Durability::Full, 1, move |tx| tx.update_processes(id, process, guard))
            .await;
        if let Err(error) = stored {
            tracing::warn!(worker = %self.worker_id, %error, "a runtime's process could not be stored");
        }
        let link = match hello.phase {
            Phase::Starting => LinkState::Starting,
            Phase::Ready => LinkState::Ready,
            Phase::Ending | Phase::Failed { .. } => LinkState::Ending,
        };
        self.settled = true;
        self.apply(Input::Attached { link, last_turn: hello.last_turn }).await;
        let open = self.worker.turn().map(|turn| turn.no);
        if let Some(open) = open
            && hello.last_turn >= open
            && hello.open_turn != Some(open)
            && self.cursor.number >= hello.journal_end.number
        {
            self.end_unknown_turn(open).await;
        }
    }

    async fn on_refusal(&mut self, asked: Asked, refusal: Refusal) {
        // What the runtime wrote before it refused comes first. Where that fails, or the refusal may pass, the next
        // hello says everything again that is still wanted.
        if !self.ingest_or_retry(Goal::End).await {
            return self.say_again_later();
        }
        match (asked, refusal) {
            (Asked::Prompt { turn }, Refusal::WrongTurn { last }) if last >= turn => {}
            (Asked::Prompt { turn }, Refusal::NotReady | Refusal::Ending) => {
                self.apply(Input::PromptRefused { turn, error: None }).await;
            }
            (Asked::Prompt { turn }, Refusal::StorageFull) => {
                let error =
                    Error::new(Code::StorageFull, "the worker's journal cannot be written: the disk is full")
                        .retryable();
                self.apply(Input::PromptRefused { turn, error: Some(error) }).await;
            }
            (Asked::Prompt { turn }, refusal) => {
                let message = format!("the worker's runtime did not take the prompt: {refusal:?}");
                let error = Error::new(Code::BackendRuntimeError, message);
                self.apply(Input::PromptRefused { turn, error: Some(error) }).await;
            }
            (Asked::Answer { .. }, Refusal::StorageFull) => self.say_again_later(),
            (Asked::Answer { request_id }, _) => self.apply(Input::AnswerRefused { request_id }).await,
            (Asked::Cancel { turn }, Refusal::NoSuchTurn) => self.end_unknown_turn(turn).await,
            (Asked::Cancel { .. } | Asked::Terminate, refusal) => {
                tracing::info!(worker = %self.worker_id, ?refusal, "a runtime had nothing to cancel or to end");
            }
        }
    }

    /// The runtime has no such turn open, and all of its journal was taken: the turn's end was in a part of the
    /// journal that could not be read.
    async fn end_unknown_turn(&mut self, turn: u64) {
        if self.worker.turn().is_some_and(|open| open.no == turn && open.dispatching) {
            tracing::error!(worker = %self.worker_id, turn, "the end of a turn is missing in the journal");
            let error = Error::new(
                Code::RuntimeLost,
                "the end of the turn could not be read; look at what it has done before sending again",
            );
            let end = TurnEnd::Failed { error: error.with("dispatched", "maybe") };
            self.apply(Input::TurnEnd { turn, end }).await;
        }
    }

    /// Begins the connection anew in a moment.
    fn say_again_later(&mut self) {
        if let Some(runtime) = &mut self.runtime {
            runtime.link = None;
            runtime.reconnect_at = Some(Instant::now() + SAY_AGAIN);
        }
    }

    /// The runtime lives and does not serve us. Orders are taken all the same, as from an unresponsive one.
    fn not_served(&mut self) {
        self.settled = true;
        if let Some(runtime) = &mut self.runtime {
            runtime.unresponsive = true;
            runtime.link = None;
            runtime.reconnect_at = Some(Instant::now() + SAY_AGAIN);
        }
    }

    /// The runtime's process has ended.
    pub(super) async fn on_exit(&mut self) {
        if let Some(mut child) = self.runtime.as_mut().and_then(|runtime| runtime.child.take()) {
            // It has ended, so this does not wait.
            if let Err(error) = child.wait() {
                tracing::warn!(worker = %self.worker_id, %error, "a runtime could not be reaped");
            }
        }
        match locks::lock_within(&self.directory, locks::RUNTIME, LOCK_TIMEOUT).await {
            Ok(Some(lock)) => {
                drop(lock);
                self.gone().await;
            }
            Ok(None) => {
                tracing::error!(worker = %self.worker_id, "a runtime has ended and its lock is held; looking again");
                self.look_again();
            }
            // The directory was removed under us: nobody can hold a lock in it.
            Err(_) if !locks::directory_exists(&self.directory) => self.gone().await,
            Err(error) => {
                tracing::error!(worker = %self.worker_id, %error, "a runtime's lock cannot be looked at");
                self.look_again();
            }
        }
    }

    fn look_again(&mut self) {
        if let Some(runtime) = &mut self.runtime {
            runtime.exit = None;
            runtime.link = None;
            runtime.reconnect_at = Some(Instant::now() + Duration::from_secs(1));
        }
    }

    /// No runtime lives: what it wrote is taken, and what was open is ended.
    async fn gone(&mut self) {
        if let Some(child) = self.runtime.take().and_then(|mut runtime| runtime.child.take()) {
            process::reap_later(child);
        }
        if !self.ingest_or_retry(Goal::End).await {
            return;
        }
        subagent_failpoint::hit("gone.before_commit");
        self.settled = true;
        self.may_live = false;
        // What cannot be read may have been the record of a prompt, as after a reboot.
        let rebooted = self.boot_id.as_deref() != Some(self.shared.boot_id.as_str()) || self.damaged;
        self.apply(Input::RuntimeGone { clean: self.clean_end, rebooted }).await;
        self.check_leftovers().await;
        let _ = std::fs::remove_file(&self.socket);
        if let Some(cooldown) = self.shared.setup.restart_cooldown {
            let now = Instant::now();
            self.revive_at = Some(self.revived.map_or(now, |last| now.max(last + cooldown)));
        }
    }

    /// Starts a runtime for an idle worker whose last one died: only where a person watches over the daemon
    /// (`subagentd run`), and never for a worker that is stopped. It repeats no prompt: no turn is open.
    fn revive(&mut self) {
        self.revive_at = None;
        if self.worker.state == State::Idle && self.worker.link == LinkState::None && self.runtime.is_none() {
            self.revived = Some(Instant::now());
            self.worker.link = LinkState::Starting;
            self.todo.push_back(Action::StartRuntime);
        }
    }

    /// A worker counts as stopped, and its guard as gone, only when that has ended everything.
    pub(super) async fn check_leftovers(&mut self) {
        self.leftovers = None;
        if self.runtime.is_some() {
            return;
        }
        let free = match locks::try_lock(&self.directory, locks::GUARD) {
            Ok(lock) => lock.is_some(),
            Err(_) => !locks::directory_exists(&self.directory),
        };
        if free {
            // Only now: until then what is left is still the agent's, not the owner's.
            self.shared.set_guard(&self.worker_id, None);
            if matches!(self.worker.state, State::Stopping(_)) {
                self.apply(Input::NothingLeft).await;
            }
        } else {
            self.leftovers_pause =
                (self.leftovers_pause * 2).clamp(Duration::from_millis(1), Duration::from_secs(1));
            self.leftovers = Some(Instant::now() + self.leftovers_pause);
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let runtime = self.runtime.as_ref();
        [
            self.retry,
            self.leftovers,
            self.revive_at,
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
                None if self.may_live => self.gone().await,
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
            self.revive();
        }
        let Some(runtime) = &mut self.runtime else { return };
        if due(runtime.kill_at) {
            runtime.kill_at = None;
            if let Some(exit) = &runtime.exit {
                tracing::warn!(worker = %self.worker_id, "a runtime did not end in time and is killed");
                exit.kill();
            }
        }
        if due(runtime.answer_by) {
            runtime.answer_by = None;
            runtime.unresponsive = true;
            // Orders are taken all the same: they are stored, and said to the runtime when it answers.
            self.settled = true;
            if runtime.kill_at.is_some() {
                runtime.kill_at = Some(now + TERMINATE_UNRESPONSIVE_TIMEOUT);
            }
            tracing::warn!(worker = %self.worker_id, "a runtime lives and does not answer");
        }
        if due(runtime.reconnect_at) {
            runtime.reconnect_at = None;
            self.reconnect().await;
        }
    }

    async fn reconnect(&mut self) {
        match locks::try_lock(&self.directory, locks::RUNTIME) {
            Ok(Some(lock)) => {
                drop(lock);
                self.on_exit().await;
            }
            Ok(None) => self.connect().await,
            Err(_) if !locks::directory_exists(&self.directory) => self.gone().await,
            Err(error) => {
                tracing::error!(worker = %self.worker_id, %error, "a runtime's lock cannot be looked at");
                self.look_again();
            }
        }
    }
}
