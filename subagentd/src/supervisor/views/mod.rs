//! Views of workers for clients.

pub(crate) mod base_folder;
pub(crate) mod diff;
pub(crate) mod examine;
pub(crate) mod inspect;
pub(crate) mod overview;
pub(crate) mod question;
pub(crate) mod queue;
pub(crate) mod transcript;
pub(crate) mod usage;

use subagent_core::model::{Hibernation, Queue, RuntimeStatus, Worker};
use subagent_protocol::Result;
use subagent_protocol::api::{
    AgentView, ParkedView, PendingApproval, QueueView, WorkerList, WorkerLogs, WorkerShown, WorkerView,
};
use subagent_protocol::details::AuthStatus;
use subagent_protocol::placement::Placement;
use subagent_protocol::state::{ParkReason, WorkerState};
use subagent_protocol::tags::Selector;

use super::Supervisor;
use super::runtimes::memory;
use super::start::spec;
use crate::store::WorkerRow;
use crate::store::questions::{self};
use crate::store::tasks::{self, TaskQuery};
use crate::store::workers::{self, child_sessions, details};
use crate::supervisor::questions::open_questions;
use crate::supervisor::runtimes::{logs, place};
use crate::supervisor::worktrees::lookup::worktree_of;

/// Maximum size of a returned log, in bytes.
const MAX_LOG_BYTES: u64 = 4 * 1024 * 1024;

impl Supervisor {
    pub(super) async fn row(&self, worker: &str) -> Result<WorkerRow> {
        let id = worker.to_owned();
        let row = self.shared.store.read(move |connection| workers::get(connection, &id)).await?;
        row.ok_or_else(|| self.roster.not_found(worker))
    }

    pub(super) async fn view(&self, row: &WorkerRow) -> WorkerView {
        let handle = match self.roster.live(row.worker_id.as_str()) {
            // The worker was just stored.
            Err(_) if row.state != "stopped" && row.incarnation == 0 => {
                self.roster.adopted(&self.shared, row).await
            }
            found => found,
        };
        let snapshot = match handle {
            Ok(handle) => Some(handle.settle().await),
            Err(_) => None,
        };
        let state = match (&snapshot, row.state.as_str()) {
            (Some(snapshot), _) => snapshot.public_state(),
            (None, "stopped") => WorkerState::Stopped,
            // The worker is set aside, because its rows contradict each other.
            (None, _) => WorkerState::Error,
        };
        let last_error = match &snapshot {
            Some(snapshot) => snapshot.obstacle.clone().or_else(|| snapshot.last_error.clone()),
            None => row.rules.last_error.clone(),
        };
        let runtime = snapshot.as_ref().and_then(|snapshot| snapshot.runtime);
        // Until the next runtime starts.
        let hibernated = snapshot.as_ref().is_some_and(|snapshot| {
            let worker = &snapshot.worker;
            worker.hibernation == Hibernation::Begun && worker.link == RuntimeStatus::None
        });
        // Read again, because the row may be older than the snapshot.
        let hibernated_at = match hibernated {
            true => self.row(row.worker_id.as_str()).await.ok().and_then(|row| row.rules.hibernated_at),
            false => None,
        };
        let spec = spec::shown(row);
        let socket =
            || place::socket_path(&self.shared.setup, row.placement.as_ref(), row.worker_id.as_str()).ok();
        WorkerView {
            worker_id: row.worker_id.clone(),
            name: row.name.clone(),
            controller_id: row.controller_id.clone(),
            label: self.label(row),
            launcher: row.launcher.clone(),
            role: row.agent.role.clone(),
            state,
            cwd: row.cwd.clone(),
            session_id: row.agent.shown_session().to_owned(),
            active_turn_id: snapshot.as_ref().and_then(|snapshot| snapshot.worker.open_turn().cloned()),
            runtime_pid: runtime.map(|runtime| runtime.pid),
            runtime_socket: runtime.and_then(|_| socket()).map(|path| path.display().to_string()),
            created_at: row.history.created_at,
            updated_at: row.history.updated_at,
            stopped_at: row.history.stopped_at,
            recovery_state: recovery_state(row.history.has_handoff, state).to_owned(),
            last_error: last_error.map(|error| error.to_string()),
            unresponsive: snapshot.as_ref().is_some_and(|snapshot| snapshot.unresponsive),
            unreachable: snapshot.as_ref().and_then(|snapshot| snapshot.unreachable.clone()),
            pending: snapshot.as_ref().and_then(|snapshot| snapshot.place.pending.clone()),
            idle_timeout_ms: snapshot.as_ref().and_then(|snapshot| snapshot.hibernation.idle_timeout_ms),
            hibernation: snapshot
                .as_ref()
                .and_then(|snapshot| snapshot.hibernation.obstacle)
                .map(str::to_owned),
            hibernated,
            hibernated_at,
            parked: snapshot.as_ref().and_then(|snapshot| parked_view(&snapshot.worker)),
            on_rate_limit: spec.on_rate_limit,
            questions: Vec::new(),
            questions_below: Vec::new(),
            child_sessions: Vec::new(),
            queue: snapshot.as_ref().map(|snapshot| &snapshot.worker.queue).and_then(queue_view),
            answer_time: spec.answer_time,
            has_policy: spec.policy.is_some(),
            login_wanted: false,
            worktree: None,
            delegates: spec.delegation.is_some(),
            sandbox: spec.sandbox,
            no_sandbox: spec.no_sandbox,
            placement: row.placement.as_ref().and_then(Placement::view),
            agent_definition: spec.agent.map(|agent| agent.name),
            tags: spec.tags,
        }
    }

    fn label(&self, row: &WorkerRow) -> String {
        if subagent_failpoint::sabotaged("view.values") {
            let file = self.shared.setup.runtime_dir.worker_environment(row.worker_id.as_str());
            let values = crate::supervisor::start::environment::read(&file).unwrap_or_default().variables;
            return values.iter().map(|(_, value)| String::from_utf8_lossy(&value.0)).collect();
        }
        row.agent.label.clone()
    }
}

/// Lists all workers, newest first: optionally those of one controller, with some tags, or of
/// tasks created by `parent`. Workers of tasks that are not inspectable are listed only with
/// `all`. An unknown controller has no workers.
///
/// # Errors
/// `INVALID_ARGUMENT{selector,position}`, `WORKER_NOT_FOUND` for the parent, `STORAGE_ERROR`.
pub(crate) async fn list_workers(
    supervisor: &Supervisor,
    controller: Option<String>,
    selector: Option<String>,
    all: bool,
    parent: Option<String>,
) -> Result<WorkerList> {
    let chosen = selector.as_deref().map(Selector::parse).transpose()?;
    if let Some(parent) = &parent {
        supervisor.row(parent).await?;
    }
    let filter = controller.clone();
    let read = supervisor.shared.store.read(move |connection| {
        let mut rows = workers::list(connection, filter.as_deref())?;
        if !all {
            let hidden = tasks::hidden(connection)?;
            rows.retain(|row| !hidden.contains(&row.id.0));
        }
        if parent.is_some() {
            let below = tasks::list(connection, &TaskQuery { parent, all: true, ..TaskQuery::default() })?;
            rows.retain(|row| below.iter().any(|task| task.task_id == row.worker_id));
        }
        Ok(rows)
    });
    let mut rows = read.await?;
    if let Some(chosen) = chosen {
        rows.retain(|row| chosen.matches(&spec::tags(row)));
    }
    // Concurrently, so that a hanging runtime does not delay the others.
    let items = futures_util::future::join_all(rows.iter().map(|row| supervisor.view(row))).await;
    Ok(WorkerList { count: items.len(), items, controller_id: controller, selector })
}

/// Returns one worker in detail.
///
/// # Errors
/// `WORKER_NOT_FOUND`, `STORAGE_ERROR`.
pub(crate) async fn show_worker(supervisor: &Supervisor, worker: &str) -> Result<WorkerShown> {
    let row = supervisor.row(worker).await?;
    let mut view = supervisor.view(&row).await;
    // Read again, because settling may have changed the row.
    let row = supervisor.row(worker).await?;
    let id = row.id;
    view.worktree = worktree_of(supervisor, row.worker_id.as_str()).await?;
    view.questions = open_questions(supervisor, &row).await?;
    view.questions_below =
        crate::supervisor::events::questions_below::questions_below(supervisor, &row).await?;
    view.child_sessions =
        supervisor.shared.store.read(move |connection| child_sessions::known(connection, id)).await?;
    let agent = agent_view(supervisor, &row).await?;
    view.login_wanted = agent.auth_status.as_ref().is_some_and(AuthStatus::is_logged_out);
    Ok(WorkerShown { worker: view, agent })
}

/// Returns a worker whose agent was just started, and whether the agent reports that it is
/// logged out.
pub(super) async fn started_view(supervisor: &Supervisor, row: &WorkerRow) -> Result<WorkerView> {
    let id = row.id;
    let details = supervisor.shared.store.read(move |connection| details::details(connection, id)).await?;
    let login_wanted = details.auth_status.is_some_and(|status| status.is_logged_out());
    let worktree = worktree_of(supervisor, row.worker_id.as_str()).await?;
    Ok(WorkerView { login_wanted, worktree, ..supervisor.view(row).await })
}

async fn agent_view(supervisor: &Supervisor, row: &WorkerRow) -> Result<AgentView> {
    let id = row.id;
    let found = supervisor.shared.store.read(move |connection| {
        Ok((details::details(connection, id)?, details::last_activity(connection, id)?))
    });
    let (known, last_activity_at) = found.await?;
    let memory_bytes = match row.runtime.guard {
        Some(guard) => memory::below(guard).await,
        None => None,
    };
    Ok(AgentView {
        name: known.name,
        version: known.version,
        model: known.model,
        mode: known.mode,
        config_options: known.config_options,
        title: known.session.title,
        context_used: known.session.context_used,
        context_size: known.session.context_size,
        cost: known.session.cost,
        tokens: known.session.tokens,
        auth_status: known.auth_status,
        last_activity_at,
        restarts: row.incarnation.saturating_sub(1),
        memory_bytes,
    })
}

/// Returns the undecided permission requests of a worker, oldest first.
///
/// # Errors
/// `WORKER_NOT_FOUND`, `STORAGE_ERROR`.
pub(crate) async fn approvals(supervisor: &Supervisor, worker: &str) -> Result<Vec<PendingApproval>> {
    let row = supervisor.row(worker).await?;
    let found =
        supervisor.shared.store.read(move |connection| questions::list(connection, row.id, None)).await?;
    Ok(found.into_iter().map(question::pending_approval).collect())
}

/// Returns the end of the agent's log of standard error.
///
/// # Errors
/// `WORKER_NOT_FOUND`, and those of [`logs::end_of_log`]. A log that does not exist yet is empty.
pub(crate) async fn worker_logs(
    supervisor: &Supervisor,
    worker: &str,
    tail_bytes: u64,
) -> Result<WorkerLogs> {
    let row = supervisor.row(worker).await?;
    let setup = &supervisor.shared.setup;
    let path = place::log_path(setup, row.placement.as_ref(), row.worker_id.as_str());
    let end = logs::end_of_log(setup, &row, &path, tail_bytes.min(MAX_LOG_BYTES)).await?;
    let (text, truncated) = (String::from_utf8_lossy(&end.bytes).into_owned(), end.truncated);
    Ok(WorkerLogs { worker_id: row.worker_id, path: path.display().to_string(), text, truncated })
}

/// Returns until when the worker is parked.
pub(super) fn parked_view(worker: &Worker) -> Option<ParkedView> {
    worker.parking.until.map(|until| ParkedView { until, reason: ParkReason::RateLimit })
}

/// Returns the view of a queue that is not empty.
fn queue_view(queue: &Queue) -> Option<QueueView> {
    (!queue.turns.is_empty()).then(|| queue::queue_view(queue))
}

/// Returns how the worker's work can be recovered.
const fn recovery_state(has_handoff: bool, state: WorkerState) -> &'static str {
    match (has_handoff, state) {
        (true, _) => "handoff_available",
        (false, WorkerState::Stopped) => "lost",
        (false, _) => "restartable",
    }
}
