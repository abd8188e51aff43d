//! How a worker gets a runtime: a new process, or a live one that a new daemon adopts.

use std::path::Path;
use std::time::Duration;

use subagent_core::model::{LifecycleState, Restart, RuntimeStatus, WorkerAction, WorkerInput};
use subagent_protocol::start::{AgentProgram, Login, RuntimeLimits, RuntimeStart};
use subagent_protocol::{Code, Error, PROTOCOL, Result};
use tokio::time::Instant;

use super::LiveRuntime;
use crate::descriptors;
use crate::store::turns::tool_calls;
use crate::store::workers::{self, details};
use crate::store::{Cursor, Durability};
use crate::supervisor::runtimes::process::{self, ExitWatch};
use crate::supervisor::runtimes::{daemon_start, journal, locks, stray_processes};
use crate::supervisor::shared::LiveToken;
use crate::supervisor::start::{definition, delegation, environment, program, sandbox};
use crate::supervisor::worker::actor::{Actor, STORE_RETRY};
use crate::supervisor::worker::ingest::Goal;

/// Time limit from a runtime's start until it listens.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(10);
/// Time that processes of an earlier agent may delay the start of the next runtime.
const LEFTOVERS_TIMEOUT: Duration = Duration::from_secs(10);

impl Actor {
    /// Determines the state of the worker when the daemon starts.
    pub(crate) async fn recover(&mut self) {
        if self.shared.is_copy(self.id) {
            return self.retire_copy().await;
        }
        self.recall_task_limits().await;
        // A new worker, or one whose daemon died before it could start a runtime.
        let is_new = self.incarnation == 0 && self.worker.state == LifecycleState::Starting && !self.may_live;
        self.recall(is_new).await;
        if is_new {
            self.settled = true;
            self.start_runtime().await;
            return;
        }
        self.recall_calls().await;
        let lock = locks::try_lock(&self.directory, locks::RUNTIME);
        if matches!(lock, Ok(Some(_))) {
            self.blocked = None;
        }
        if matches!(lock, Ok(None)) {
            // Processes below these belong to the agent, even without a connection.
            self.shared.set_processes(&self.worker_id, self.stored_runtime, self.stored_guard);
        }
        match lock {
            Ok(None) if subagent_failpoint::sabotaged("gone.invent") => self.gone().await,
            Ok(None) => match LiveToken::take(&self.shared) {
                Ok(live) => self.adopt_runtime(live).await,
                // The runtime continues. The actor connects when another runtime has ended.
                Err(error) => self.recover_later(error),
            },
            Ok(Some(lock)) => {
                drop(lock);
                self.settled = true;
                if self.may_live && self.begun_for_nothing() {
                    self.worker.link = RuntimeStatus::Starting;
                    self.start_runtime().await;
                } else if self.may_live {
                    self.gone().await;
                } else {
                    self.resume_without_runtime().await;
                }
            }
            Err(_) if !locks::directory_exists(&self.directory) && self.may_live => self.gone().await,
            Err(_) if !locks::directory_exists(&self.directory) => {
                self.settled = true;
                self.resume_without_runtime().await;
            }
            Err(error) => {
                tracing::error!(worker = %self.worker_id, %error, "a worker cannot be adopted; trying again");
                self.recover_later(error);
            }
        }
    }

    async fn adopt_runtime(&mut self, live: LiveToken) {
        self.blocked = None;
        self.worker.link = RuntimeStatus::Adopted;
        let exit = self.stored_runtime.and_then(|process| ExitWatch::of(process).ok().flatten());
        self.runtime = Some(LiveRuntime::new(live, exit, None));
        self.connect().await;
    }

    fn recover_later(&mut self, error: Error) {
        self.retry = Some(Instant::now() + STORE_RETRY);
        self.is_blocked(error);
    }

    /// Replays the calls of the open turn for the policy.
    async fn recall_calls(&mut self) {
        let (Some(mut watch), Some(turn)) = (self.watch.clone(), self.worker.turn().map(|open| open.no))
        else {
            return;
        };
        let id = self.id;
        let recalled = self.shared.store.read(move |connection| {
            tool_calls::for_each_report(connection, id, turn, |record, body| watch.recall(record, body))?;
            Ok(watch)
        });
        match recalled.await {
            Ok(watch) => self.watch = Some(watch),
            Err(error) => {
                tracing::error!(worker = %self.worker_id, %error, "the rules do not know the calls of the open turn");
            }
        }
    }

    /// Returns whether the daemon died before it had started a runtime that is still needed.
    fn begun_for_nothing(&self) -> bool {
        let unborn = self.cursor.offset == 0 && !journal::is_begun(&self.directory, self.cursor.segment);
        let same_boot = self.boot_id.as_deref() == Some(self.shared.boot_id.as_str());
        unborn
            && match &self.worker.state {
                LifecycleState::Starting => true,
                // After a reboot, its journal may be lost.
                LifecycleState::Turn(turn) => same_boot && !turn.dispatching && turn.cancel.is_none(),
                LifecycleState::Idle | LifecycleState::Local(_) | LifecycleState::Error => {
                    self.worker.restart == Restart::Begun
                }
                LifecycleState::Stopping(_) | LifecycleState::Stopped => false,
            }
    }

    /// Reads the policy and, unless the worker is new, facts about stored records: whether the
    /// newest one is the guard's proof, and whether some are missing.
    async fn recall(&mut self, is_new: bool) {
        let (id, number, rules) = (self.id, self.cursor.number, self.rules_that_are_stored());
        let recalled = self.shared.store.read(move |connection| {
            let records = || {
                let restores = details::details(connection, id)?.restores == Some(true);
                Ok((workers::is_proof(connection, id, number)?, workers::gaps(connection, id)?, restores))
            };
            Ok((rules(connection), (!is_new).then(records)))
        });
        let (rules, records) = match recalled.await {
            Ok(recalled) => recalled,
            Err(error) => (Err(error), None),
        };
        match rules {
            Ok(rules) => self.questions.rules_stale = self.take_rules(rules),
            // Without readable rules, every request waits for the owner.
            Err(error) => {
                tracing::error!(worker = %self.worker_id, %error, "the rules of a worker cannot be read");
            }
        }
        match records {
            Some(Ok((proof, (gap, in_turn), restores))) => {
                self.restores = restores;
                self.clean_end = proof;
                self.gap |= gap;
                self.damaged |= in_turn;
            }
            Some(Err::<_, Error>(error)) => {
                tracing::warn!(worker = %self.worker_id, %error, "the last record cannot be looked at")
            }
            None => {}
        }
    }

    /// Continues what was accepted. No runtime is alive, and the whole journal of the last one was
    /// read.
    async fn resume_without_runtime(&mut self) {
        // The previous daemon may have died before it ended the remaining processes.
        self.check_leftovers().await;
        let unsent = matches!(&self.worker.state, LifecycleState::Turn(turn) if !turn.dispatching);
        if (unsent && !self.worker.holds_turn()) || self.worker.restart == Restart::Begun {
            self.worker.link = RuntimeStatus::Starting;
            self.todo.push_back(WorkerAction::StartRuntime);
        }
    }

    /// Starts a runtime. The rules decide what follows from a failure.
    pub(crate) async fn start_runtime(&mut self) {
        if self.runtime.is_some() {
            // The old runtime still exists. Its hello or its end decides.
            return;
        }
        if self.waits_for_worktree() {
            return;
        }
        let before = self.incarnation;
        if let Err(error) = self.try_start_runtime().await {
            if self.incarnation != before
                && let Err(error) = self.ingest(Goal::End).await
            {
                // The journal contains only its header: the runtime had not started anything.
                tracing::warn!(worker = %self.worker_id, %error, "a failed runtime's journal is not read");
            }
            self.may_live = false;
            self.runtime = None;
            // A runtime that was killed during its start may have created the socket.
            let _ = std::fs::remove_file(&self.socket);
            let error = self.located(error);
            self.apply(WorkerInput::SpawnFailed { error }).await;
        }
    }

    /// Adds file locations to the error of a failed start.
    pub(crate) fn located(&self, error: Error) -> Error {
        if !error.code.as_str().starts_with("BACKEND_") {
            return error;
        }
        let permission = error.code == Code::BackendPermissionDenied;
        let login = error.details.get("reasonCategory").is_some_and(|category| category == "auth");
        let error = error
            .with("workerId", self.worker_id.as_str())
            .with("socketPath", self.socket.display().to_string())
            .with("logPath", self.log.display().to_string());
        if login {
            // A runtime that knows its launcher sets the command itself.
            let command = format!("subagent launcher login {}", self.spec.launcher.name);
            let said = error.details.get("recommendedCommand").cloned();
            return error.with("recommendedCommand", said.unwrap_or_else(|| command.into()));
        }
        if !permission {
            return error;
        }
        error
            .with("recommendedCommand", format!("subagent launcher probe {} --json", self.spec.launcher.name))
    }

    async fn try_start_runtime(&mut self) -> Result<()> {
        let live = LiveToken::take(&self.shared)?;
        locks::make_directory(&self.directory)?;
        let held = |what: &str| {
            Error::new(
                Code::StopIncomplete,
                format!("{what} of this worker still runs; try again in a moment"),
            )
            .retryable()
        };
        let lock = locks::lock_within(&self.directory, locks::RUNTIME, locks::LOCK_TIMEOUT).await?;
        let lock = lock.ok_or_else(|| held("an earlier runtime"))?;
        let guard_lock = locks::lock_within(&self.directory, locks::GUARD, LEFTOVERS_TIMEOUT).await?;
        let guard_lock = guard_lock.ok_or_else(|| held("what an earlier agent left"))?;
        self.end_strays().await;
        let kept = environment::read(&self.environment)?;
        let program = program::find(&self.spec.launcher, &self.cwd, &kept.variables)?;
        let start = self.begin_incarnation(program, kept).await?;
        let failed = |error: std::io::Error| {
            if descriptors::is_reached(&error) {
                return descriptors::too_many("cannot start the worker's runtime");
            }
            Error::new(Code::BackendRuntimeError, format!("the worker's runtime cannot be started: {error}"))
                .with("reasonCategory", "worker")
                .with("command", self.shared.setup.runtime_program.display().to_string())
                .recommend("check that subagent-runtime is installed beside subagentd")
                .or_storage_full(&error)
        };
        let started =
            process::start(&self.shared.setup.runtime_program, &start, lock, guard_lock).map_err(failed)?;
        subagent_failpoint::hit("spawn.after");
        let process = started.process;
        self.stored_runtime = Some(process);
        // Without a watch, the lock reports the end.
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
                    "it did not listen in time",
                )));
            }
        };
        self.runtime = Some(LiveRuntime::new(live, exit, Some(child)));
        subagent_failpoint::hit("listening.after_heard");
        let id = self.id;
        let stored = self
            .shared
            .store
            .write(Durability::Full, 1, move |tx| workers::update_processes(tx, id, Some(process), None))
            .await;
        if let Err(error) = stored {
            // The runtime is alive. Its hello repeats the data.
            tracing::warn!(worker = %self.worker_id, %error, "a runtime's process could not be stored");
        }
        self.connect().await;
        Ok(())
    }

    /// Stores that a runtime may be alive from now on, and returns its start parameters.
    async fn begin_incarnation(
        &mut self,
        program: String,
        kept: environment::AgentEnvironment,
    ) -> Result<RuntimeStart> {
        let incarnation = self.incarnation + 1;
        let cursor = Cursor { segment: self.cursor.segment + 1, offset: 0, number: self.cursor.number };
        let (id, boot_id) = (self.id, self.shared.boot_id.clone());
        let delivered = self
            .shared
            .store
            .write(Durability::Full, 1, move |tx| {
                workers::begin_incarnation(tx, id, incarnation, &boot_id)?;
                workers::update_cursor(tx, id, cursor)?;
                workers::instructed(tx.connection(), id)
            })
            .await?;
        subagent_failpoint::hit("incarnation.after_commit");
        journal::remove_before(&self.directory, cursor.segment);
        self.incarnation = incarnation;
        self.cursor = cursor;
        self.boot_id = Some(self.shared.boot_id.clone());
        self.may_live = true;
        self.clean_end = false;
        self.swept = false;
        self.damaged = false;
        let launcher = &self.spec.launcher;
        let mcp_servers = delegation::servers(&kept, launcher.prefix_tools, &self.shared.setup);
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
            // The turn for which this runtime is started was accepted but not sent.
            last_turn: self.worker.turn().map_or(self.worker.last_turn, |turn| turn.no - 1),
            boot_id: self.shared.boot_id.clone(),
            marker: stray_processes::marker(self.worker_id.as_str(), incarnation),
            agent: AgentProgram {
                program,
                args: launcher.args.clone(),
                cwd: self.cwd.clone(),
                env: kept.variables,
                umask: self.spec.umask,
                nofile: self.spec.nofile,
                sandbox: sandbox::of_agent(self.spec.sandbox.as_ref(), self.shared.setup.own_folders()),
            },
            // The session to resume at the start counts only until the worker has one.
            session: self.session_id.clone().or_else(|| self.spec.resume.clone()),
            resume_only: self.session_id.is_none() && self.spec.resume.is_some(),
            restore_failures: self.restore_failures.clone(),
            timeouts: launcher.timeouts,
            limits: RuntimeLimits::default(),
            roots: [&self.cwd]
                .into_iter()
                .chain(&self.spec.additional_directories)
                .chain(self.spec.policy.iter().filter_map(|policy| policy.memory.as_ref()))
                .cloned()
                .collect(),
            private: self.shared.setup.own_folders().map(Path::to_owned).into(),
            options: self.spec.options.clone(),
            mcp_servers,
            additional_directories: self.spec.additional_directories.clone(),
            instructions: self
                .spec
                .agent
                .as_ref()
                .map(|agent| definition::instructions(agent, delivered, self.spec.agent_since.is_some())),
            login: Login { launcher: Some(launcher.name.clone()), method: launcher.auth_method.clone() },
            daemon: daemon_start::of(
                &self.shared.setup,
                self.tasks.is_task() || self.spec.delegation.is_some() || !self.spec.hooks.is_empty(),
            ),
            client_rules: self.client_rules(),
        })
    }
}
