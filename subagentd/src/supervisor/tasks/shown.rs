//! Views of tasks for clients.

use subagent_core::task::beginning;
use subagent_core::task::transcript::Transcript;
use subagent_protocol::api::{TaskList, TaskShown, TaskStatus, TaskTranscript, TaskView};
use subagent_protocol::data::workers::UnreachableState;
use subagent_protocol::task_terms::TaskTerms;
use subagent_protocol::{Code, Error, Result};

use super::TaskCaller;
use crate::store::tasks::{self, TaskQuery, TaskRow, transcripts};
use crate::store::workers::child_sessions;
use crate::supervisor::Supervisor;
use crate::supervisor::worktrees::lookup::{show_worktree, worktree_of};

/// Maximum length of a prompt in a list, in characters.
const PREVIEW_CHARS: usize = 200;
/// Maximum size of the transcripts below one task, in bytes. The rest can be shown task by task.
const MAX_TRANSCRIPT_BYTES: usize = 1024 * 1024;

/// Filter for listing tasks.
#[derive(Debug, Clone, Default)]
pub(crate) struct TaskFilter {
    /// Only tasks created by this worker.
    pub parent: Option<String>,
    /// Only tasks below this worker.
    pub root: Option<String>,
    /// Only tasks with one of these statuses, separated by commas.
    pub status: Option<String>,
    /// Lists archived tasks instead of the others.
    pub archived: bool,
    /// Includes tasks that are not inspectable.
    pub all: bool,
}

/// Lists the tasks that the caller can see, oldest first.
///
/// # Errors
/// `INVALID_ARGUMENT{status}`, `STORAGE_ERROR`.
pub(crate) async fn list_tasks(
    supervisor: &Supervisor,
    caller: TaskCaller,
    filter: TaskFilter,
) -> Result<TaskList> {
    let wanted = filter.status.as_deref().map(statuses).transpose()?;
    let parent = match caller.parent() {
        Some(parent) => Some(parent.as_str().to_owned()),
        None => filter.parent,
    };
    let query = TaskQuery { parent, root: filter.root, archived: filter.archived, all: filter.all };
    let read = supervisor.shared.store.read(move |connection| {
        let mut rows = tasks::list(connection, &query)?;
        rows.retain(|row| wanted.as_ref().is_none_or(|wanted| wanted.contains(&row.status())));
        let sessions = child_sessions::of_tasks(connection, rows.iter().map(|row| &row.task_id))?;
        Ok((rows, sessions))
    });
    let (rows, mut sessions) = read.await?;
    let shown = |row: &TaskRow| TaskView {
        child_sessions: sessions.remove(&row.task_id).unwrap_or_default(),
        ..view(supervisor, row, true)
    };
    let items: Vec<TaskView> = rows.iter().map(shown).collect();
    Ok(TaskList { count: items.len(), items })
}

/// Returns a task with its result, and with `transcripts` those of hidden tasks below it.
///
/// # Errors
/// `TASK_NOT_FOUND`, `STORAGE_ERROR`.
pub(crate) async fn show_task(
    supervisor: &Supervisor,
    caller: TaskCaller,
    task: &str,
    transcripts: bool,
) -> Result<TaskShown> {
    let mut shown =
        with_worktree(supervisor, shown(supervisor, &super::task(supervisor, &caller, task).await?)).await?;
    if transcripts {
        shown.transcripts = task_transcripts(supervisor, shown.task.task_id.as_str()).await?;
    }
    Ok(shown)
}

/// Adds the worktree of a task. For an ended task, includes its contents.
pub(super) async fn with_worktree(supervisor: &Supervisor, mut shown: TaskShown) -> Result<TaskShown> {
    let Some(worktree) = worktree_of(supervisor, shown.task.task_id.as_str()).await? else {
        return Ok(shown);
    };
    shown.worktree = Some(match shown.task.status.is_end() {
        // A worktree that cannot be read is shown without its contents.
        true => show_worktree(supervisor, &worktree.name).await.unwrap_or(worktree),
        false => worktree,
    });
    Ok(shown)
}

async fn task_transcripts(supervisor: &Supervisor, task: &str) -> Result<Vec<TaskTranscript>> {
    let (task, store) = (task.to_owned(), &supervisor.shared.store);
    let below = store.read(move |connection| transcripts::hidden_below(connection, &task)).await?;
    let mut found = Vec::with_capacity(below.len());
    let mut left = MAX_TRANSCRIPT_BYTES;
    // Read one by one, so that no reader holds the database for long.
    for (id, row) in below {
        let status = row.status();
        let begun = Transcript::of(&row.name, row.request.agent.as_deref(), status.as_str());
        let text = store.read(move |connection| transcripts::transcript(connection, id, begun)).await?;
        let Some(rest) = left.checked_sub(text.len()) else { break };
        left = rest;
        found.push(TaskTranscript {
            task_id: row.task_id,
            path: row.tree.path,
            agent: row.request.agent,
            status,
            text,
        });
    }
    Ok(found)
}

fn statuses(text: &str) -> Result<Vec<TaskStatus>> {
    let status = |word: &str| {
        TaskStatus::parse(word).ok_or_else(|| {
            let known: Vec<&str> = TaskStatus::ALL.iter().map(|status| status.as_str()).collect();
            let message = format!("{word:?} is not a status of a task; these are: {}", known.join(", "));
            Error::new(Code::InvalidArgument, message).with("status", word)
        })
    };
    text.split(',').map(|word| status(word.trim())).collect()
}

/// Returns since when the place of a task's worker does not answer.
fn unreachable(supervisor: &Supervisor, row: &TaskRow) -> Option<UnreachableState> {
    let live = supervisor.roster.live(row.task_id.as_str()).ok().filter(|_| !row.status().is_end());
    live.and_then(|handle| handle.snapshot.borrow().unreachable.clone())
}

/// Returns the view of a task. A short view has only the beginning of the prompt.
pub(in crate::supervisor) fn view(supervisor: &Supervisor, row: &TaskRow, short: bool) -> TaskView {
    let model = row.worker.details.model.clone();
    let prompt = if short { beginning(&row.request.prompt, PREVIEW_CHARS) } else { &row.request.prompt };
    TaskView {
        task_id: row.task_id.clone(),
        name: row.name.clone(),
        path: row.tree.path.clone(),
        agent: row.request.agent.clone(),
        description: row.request.description.clone(),
        prompt: prompt.to_owned(),
        mode: row.request.mode,
        status: row.status(),
        unreachable: unreachable(supervisor, row),
        parent: row.tree.parent_id.clone(),
        parent_turn_id: row.tree.parent_turn.clone(),
        root: row.tree.root_id.clone(),
        depth: row.tree.depth,
        launcher: row.worker.launcher.clone(),
        model,
        steps: row.work.steps,
        tool_calls: row.work.tool_calls,
        cost: row.worker.details.session.cost.clone(),
        tokens: row.work.tokens,
        runs: row.work.runs,
        error: row.end.error.clone(),
        metadata: row.request.metadata.as_object().cloned().unwrap_or_default(),
        times: row.times.clone(),
        child_sessions: Vec::new(),
    }
}

/// Returns the view of a task with its complete result.
pub(super) fn shown(supervisor: &Supervisor, row: &TaskRow) -> TaskShown {
    let terms: TaskTerms = serde_json::from_str(&row.request.terms).unwrap_or_default();
    TaskShown {
        task: view(supervisor, row, false),
        result: row.end.result.clone(),
        result_schema: terms.result_schema,
        result_max_tokens: terms.result_max_tokens,
        worktree: None,
        merge: row.end.merge.clone(),
        transcripts: Vec::new(),
    }
}
