//! The diff of a worker, by `subagent-runtime diff`. Must not run git or compare texts in this process.

use std::path::{Path, PathBuf};
use std::time::Duration;

use subagent_config::user_command;
use subagent_protocol::api::{DiffSource, WorkerDiff, WorkerOverview, WorktreeView};
use subagent_protocol::command_run::CommandEnd;
use subagent_protocol::work_tree::{Compared, DiffTask, NO_REPOSITORY};
use subagent_protocol::{Code, Error, Result};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::inspect::InspectQuery;
use crate::supervisor::views::inspect::inspect;
use crate::supervisor::views::overview::worker_overview;
use crate::supervisor::{Supervisor, command_run};

/// Maximum time of a diff, with the wait for a place.
const PATIENCE: Duration = Duration::from_secs(45);
/// Part of it after which git is ended; alone, git has a shorter limit. The rest is for reported changes.
const PATIENCE_OF_GIT: Duration = Duration::from_secs(42);
/// Maximum size of its answer, in bytes. An answer within its own limits is smaller.
const MAX_ANSWER_BYTES: usize = 32 * 1024 * 1024;
/// Number of tool calls to take changes from where git cannot compare: the newest updates of them.
const MAX_EVENTS: u32 = 1000;
const TYPES: [&str; 2] = ["progress.update:tool_call", "progress.update:tool_call_update"];
/// Comparisons at a time: each reads a whole work tree.
static COMPARING: Semaphore = Semaphore::const_new(2);

/// Returns the changes of a worker's folder since its first turn.
///
/// # Errors
/// `WORKER_NOT_FOUND`, `STORAGE_ERROR`; `DAEMON_BUSY` if they are not computed in time; `INTERNAL_ERROR`
/// if they cannot be computed.
pub(crate) async fn diff(supervisor: &Supervisor, worker: &str) -> Result<WorkerDiff> {
    let began = Instant::now();
    match timeout_at(began + PATIENCE, Box::pin(diff_since(supervisor, worker, began))).await {
        Ok(made) => made,
        Err(_) => Err(busy("the diff was not made in time")),
    }
}

async fn diff_since(supervisor: &Supervisor, worker: &str, began: Instant) -> Result<WorkerDiff> {
    let overview = worker_overview(supervisor, worker).await?;
    let Ok(_place) = timeout_at(began + PATIENCE_OF_GIT, COMPARING.acquire()).await else {
        return Err(busy("other diffs are being made, and they did not end in time"));
    };
    let copy = overview.shown.worker.worktree.as_ref().filter(|worktree| worktree.copied.is_some());
    let source = if copy.is_some() { DiffSource::Copy } else { DiffSource::Git };
    let task_of_source = DiffTask { copy: copy.map(WorktreeView::worktree), ..task(&overview) };
    let reason = match source {
        DiffSource::Git if overview.base.is_none() => NO_REPOSITORY.to_owned(),
        _ => match compared(supervisor, &task_of_source, began + PATIENCE_OF_GIT).await {
            Err(reason) | Ok(Compared { reason: Some(reason), .. }) => reason,
            Ok(compared) => return Ok(view(overview, compared, source, None)),
        },
    };
    let query = InspectQuery {
        limit: MAX_EVENTS,
        since: None,
        turn_id: None,
        event_types: Some(TYPES.map(str::to_owned).to_vec()),
    };
    let events = inspect(supervisor, worker, query).await?.events;
    let unreadable = |error: &str| Error::new(Code::Internal, format!("no diff can be made: {error}"));
    let events = events.iter().map(serde_json::to_value).collect::<serde_json::Result<_>>();
    let events = events.map_err(|error| unreadable(&error.to_string()))?;
    let task = DiffTask { events: Some(events), ..task(&overview) };
    let compared = compared(supervisor, &task, began + PATIENCE).await;
    let compared = compared.map_err(|why| unreadable(&why).retryable())?;
    Ok(view(overview, compared, DiffSource::Events, Some(reason)))
}

/// Runs a comparison that must end by then. The error is the reason why there is none.
async fn compared(supervisor: &Supervisor, task: &DiffTask, until: Instant) -> Result<Compared, String> {
    let program = &supervisor.shared.setup.runtime_program;
    let name = program.to_str().ok_or("the path of `subagent-runtime` is not UTF-8")?;
    let argv = vec![name.to_owned(), "diff".to_owned()];
    let left = until.saturating_duration_since(Instant::now());
    let millis = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
    let unreadable = |error: serde_json::Error| format!("the comparison cannot be read: {error}");
    let stdin = serde_json::to_string(task).map_err(unreadable)?;
    let mut run = user_command::of(argv, Path::new("/"), std::env::vars_os(), stdin, millis);
    run.max_output_bytes = MAX_ANSWER_BYTES;
    let result = command_run::run(program, run).await;
    let why = match result.end {
        CommandEnd::Exited { code: 0 } if result.truncated => "its answer is too large".to_owned(),
        CommandEnd::Exited { code: 0 } => {
            return serde_json::from_str(&result.stdout).map_err(unreadable);
        }
        CommandEnd::Exited { code } => format!("it ended with exit code {code}"),
        CommandEnd::Signaled { signal } => format!("signal {signal} ended it"),
        CommandEnd::TimedOut => "it did not finish in time".to_owned(),
        CommandEnd::NotStarted { error } => format!("it was not started: {error}"),
    };
    tracing::warn!(why, error = result.stderr, "a diff was not made");
    Err(format!("the comparison failed: {why}"))
}

fn busy(why: &str) -> Error {
    Error::new(Code::DaemonBusy, why).retryable()
}

fn task(overview: &WorkerOverview) -> DiffTask {
    DiffTask {
        folder: PathBuf::from(&overview.base_folder),
        cwd: PathBuf::from(&overview.shown.worker.cwd),
        events: None,
        copy: None,
    }
}

fn view(
    overview: WorkerOverview,
    compared: Compared,
    source: DiffSource,
    reason: Option<String>,
) -> WorkerDiff {
    WorkerDiff {
        worker_id: overview.shown.worker.worker_id,
        source,
        reason,
        base: overview.base.filter(|_| source == DiffSource::Git),
        files: compared.files,
        count: compared.count,
        added: compared.added,
        deleted: compared.deleted,
        truncated: compared.truncated,
    }
}
