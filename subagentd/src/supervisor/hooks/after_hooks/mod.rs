//! Runs hooks after events, in order and at least once each, from a cursor stored per worker. Each
//! worker with hooks has its own task, so a hanging hook delays no other worker. A failed hook is
//! reported as an event and has no further effect.

mod input;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use subagent_config::hooks::run::command as hook_command;
use subagent_protocol::command_run::{CommandEnd, CommandResult};
use subagent_protocol::hook::{Hook, HookFailed};
use subagent_protocol::hook_matcher::Matcher;
use subagent_protocol::ids::EventId;
use subagent_protocol::{Error, Result};

use tokio::sync::watch;

use super::{hook_failed, hook_trust};
use crate::store::questions::owner_rules;
use crate::store::{Durability, Tx, WorkerRow, hook_events, workers};
use crate::supervisor::command_run;
use crate::supervisor::shared::{SupervisorState, is_ending};
use crate::supervisor::start::spec;
use input::HookedEvent;

/// Maximum length of a hook's standard error in an event, in characters.
const MAX_REASON_CHARS: usize = 500;
/// Delay after a failure of the store.
const RETRY: Duration = Duration::from_secs(1);
/// Maximum number of events without hooks after which the cursor is stored anyway.
const MAX_UNSTORED: i64 = 5000;

/// Runs the hooks of a worker from now on, if it has any. `news` changes with each event of the
/// worker and closes when its actor ends.
pub(crate) fn begin<T: Send + Sync + 'static>(
    shared: &Arc<SupervisorState>,
    row: &WorkerRow,
    news: watch::Receiver<T>,
) {
    if shared.is_copy(row.id) {
        return;
    }
    start(shared, row, Some(news));
}

/// Runs the remaining hooks of stopped workers.
pub(crate) async fn catch_up(shared: &Arc<SupervisorState>) -> Result<()> {
    for row in shared.store.read(hook_events::stopped_behind).await? {
        run_of_stopped(shared, &row);
    }
    Ok(())
}

/// Runs the remaining hooks of a stopped worker. Its worktree can change after its end.
pub(crate) fn run_of_stopped(shared: &Arc<SupervisorState>, row: &WorkerRow) {
    if row.state == "stopped" && !shared.is_copy(row.id) {
        start::<()>(shared, row, None);
    }
}

fn start<T: Send + Sync + 'static>(
    shared: &Arc<SupervisorState>,
    row: &WorkerRow,
    news: Option<watch::Receiver<T>>,
) {
    let hooks = spec::stored(row).map(|spec| spec.hooks).unwrap_or_default();
    // A task without hooks may have a parent with hooks for tasks.
    if hooks.is_empty() && !row.agent.is_task {
        return;
    }
    let shared = Arc::clone(shared);
    let worker = AfterHookRunner {
        shared: Arc::clone(&shared),
        row: row.clone(),
        hooks,
        seen: 0,
        stored: 0,
        reported: BTreeSet::new(),
    };
    let mut ending = shared.ending.subscribe();
    tokio::spawn(async move {
        let run = async {
            // Two concurrent runs would process the same events.
            let _alone = shared.locks.after_hooks.lock(worker.row.worker_id.as_str()).await;
            worker.run(news).await;
        };
        tokio::select! {
            () = run => {}
            () = is_ending(&mut ending) => {}
        }
    });
}

struct AfterHookRunner {
    shared: Arc<SupervisorState>,
    row: WorkerRow,
    hooks: Vec<Hook>,
    /// Events up to this one were processed.
    seen: i64,
    /// The stored value of `seen`.
    stored: i64,
    /// Files that were reported as untrusted.
    reported: BTreeSet<PathBuf>,
}

impl AfterHookRunner {
    async fn run<T>(mut self, mut news: Option<watch::Receiver<T>>) {
        while let Err(error) = self.prepare().await {
            self.pause(&error).await;
        }
        if self.hooks.is_empty() && !self.parent_has_hooks().await {
            return;
        }
        loop {
            if let Err(error) = self.run_all().await {
                self.pause(&error).await;
                continue;
            }
            // A closed channel means that the actor has ended. Its last events are read once more.
            let Some(receiver) = &mut news else { break };
            if receiver.changed().await.is_err() {
                news = None;
            }
        }
        if let Err(error) = self.store_cursor().await {
            tracing::warn!(worker = %self.row.worker_id, %error, "the cursor of its hooks was not stored");
        }
    }

    /// Waits after a failure of the store.
    async fn pause(&self, error: &Error) {
        tracing::error!(worker = %self.row.worker_id, %error, "hooks cannot run; trying again");
        tokio::time::sleep(RETRY).await;
    }

    /// Reads the cursor. Reports untrusted hook files of a worker that has no cursor yet.
    async fn prepare(&mut self) -> Result<()> {
        let id = self.row.id;
        match self.shared.store.read(move |connection| hook_events::cursor(connection, id)).await? {
            Some(seq) => (self.seen, self.stored) = (seq, seq),
            None if self.hooks.is_empty() => {}
            None => {
                for hook in self.hooks.clone() {
                    if !hook_trust::is_trusted(&self.shared, &hook).await? {
                        self.report_untrusted(&hook, None).await;
                    }
                }
                self.shared
                    .store
                    .write(Durability::Progress, 1, move |tx| hook_events::move_cursor(tx, id, 0))
                    .await?;
            }
        }
        Ok(())
    }

    /// Returns whether the parent of this task has hooks that run when a task starts or ends.
    async fn parent_has_hooks(&self) -> bool {
        let (id, worker_id) = (self.row.id, self.row.worker_id.clone());
        let task =
            self.shared.store.read(move |connection| hook_events::task(connection, id, &worker_id)).await;
        let parent = task.ok().flatten().and_then(|(_, parent)| parent);
        parent.is_some_and(|spec| !input::of_spec(&spec).is_empty())
    }

    /// Runs the hooks of all events after the cursor.
    async fn run_all(&mut self) -> Result<()> {
        let id = self.row.id;
        let workspace =
            self.shared.store.read(move |connection| owner_rules::workspace_of(connection, id)).await?;
        loop {
            let (row, hooks, after) = (self.row.clone(), self.hooks.clone(), self.seen);
            let read = self.shared.store.read(move |connection| {
                let row = workers::get(connection, row.worker_id.as_str())?.unwrap_or(row);
                let page = hook_events::page(connection, id, after, &|event| input::fires(event).is_some())?;
                let mut due = Vec::new();
                for event in &page.events {
                    due.extend(input::of(connection, &row, &hooks, event)?);
                }
                Ok((due, page.seen, page.end))
            });
            let (due, seen, end) = read.await?;
            for due in due {
                if self.run_event(&due, Path::new(&workspace)).await? {
                    // In memory first, so that a full disk does not make a hook run again and
                    // again.
                    self.seen = due.seq;
                    self.store_cursor().await?;
                    subagent_failpoint::hit("after_hook.after_cursor");
                }
            }
            self.seen = self.seen.max(seen);
            if self.seen - self.stored > MAX_UNSTORED {
                self.store_cursor().await?;
            }
            if end {
                return Ok(());
            }
        }
    }

    async fn store_cursor(&mut self) -> Result<()> {
        let (id, seq) = (self.row.id, self.seen);
        if seq > self.stored {
            let write = move |tx: &mut Tx<'_>| hook_events::move_cursor(tx, id, seq);
            self.shared.store.write(Durability::Progress, 1, write).await?;
            self.stored = seq;
        }
        Ok(())
    }

    async fn report_untrusted(&mut self, hook: &Hook, event: Option<i64>) {
        if self.reported.insert(hook.file.clone()) {
            self.report(hook, hook_trust::advice(hook), event).await;
        }
    }

    async fn report(&self, hook: &Hook, reason: String, event: Option<i64>) {
        let failed = HookFailed::of(hook, reason, event.map(EventId));
        hook_failed::journal(&self.shared, self.row.id, failed).await;
    }

    /// Runs the hooks of an event. Returns whether one ran.
    async fn run_event(&mut self, due: &HookedEvent, workspace: &Path) -> Result<bool> {
        let Ok(stdin) = serde_json::to_string(&due.input) else { return Ok(false) };
        let mut ran = false;
        for hook in &due.hooks {
            let matcher = Matcher::parse(hook.matcher.as_deref());
            if !matcher.is_ok_and(|matcher| matcher.matches(due.input.subject())) {
                continue;
            }
            if !hook_trust::is_trusted(&self.shared, hook).await? {
                self.report_untrusted(hook, Some(due.seq)).await;
                continue;
            }
            let run = hook_command(hook, workspace, std::env::vars_os(), stdin.clone());
            subagent_failpoint::hit("after_hook.before_run");
            let result = command_run::run(&self.shared.setup.runtime_program, run).await;
            subagent_failpoint::hit("after_hook.after_run");
            ran = true;
            if let Some(reason) = failure(&result, hook) {
                self.report(hook, reason, Some(due.seq)).await;
            }
        }
        Ok(ran)
    }
}

/// Returns the reason if a run failed.
fn failure(result: &CommandResult, hook: &Hook) -> Option<String> {
    let why = match &result.end {
        CommandEnd::Exited { code: 0 } => return None,
        CommandEnd::Exited { code: code @ (126 | 127) } => format!(
            "it exited with {code}: a command that it names was not found or is not executable (chmod +x); it runs in the workspace"
        ),
        CommandEnd::Exited { code } => format!("it exited with {code}"),
        CommandEnd::Signaled { signal } => format!("it was ended by signal {signal}"),
        CommandEnd::TimedOut => {
            let seconds = Duration::from_millis(hook.timeout_ms).as_secs_f64();
            format!(
                "it did not end within {seconds} s and was killed; raise its `timeout` or have it do less"
            )
        }
        CommandEnd::NotStarted { error } => format!("it could not be started: {error}"),
    };
    let said: String = result.stderr.trim().chars().take(MAX_REASON_CHARS).collect();
    Some(if said.is_empty() { why } else { format!("{why}: {said}") })
}
