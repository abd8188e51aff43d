//! The workers of one workspace as a page shows them. No I/O.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use subagent_model::{Group, OverviewRow, Workers};
use subagent_protocol::api::{
    ApprovalShown, Doing, ElicitationForm, OverviewItem, TaskOfWorker, TaskStatus, UsageSums, WorktreeState,
    WorktreeView,
};
use subagent_protocol::budget::BudgetView;
use subagent_protocol::clean::{clean, one_line};
use subagent_protocol::ids::{TurnId, WorkerId};
use subagent_protocol::lenient;
use subagent_protocol::state::WorkerState;
use subagent_protocol::tags::Tags;
use subagent_protocol::time::Timestamp;

use crate::form;
use crate::story::{self, StoryRule};

/// A row as JSON for the page.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownRow<'a> {
    #[serde(flatten)]
    worker: ShownIdentity<'a>,
    state: WorkerState,
    group: &'static str,
    since: Timestamp,
    last_event_at: Option<Timestamp>,
    turn: Option<&'a TurnId>,
    doing: Option<ShownActivity>,
    /// Number of open questions.
    needs: usize,
    #[serde(flatten)]
    queue: ShownQueue,
    /// Absent while it is reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreachable_since: Option<Timestamp>,
    error: Option<String>,
    usage: &'a UsageSums,
    budget: &'a BudgetView,
    task: Option<ShownTask<'a>>,
    worktree: Option<ShownWorktree>,
}

/// What names and describes a worker.
#[derive(Serialize)]
struct ShownIdentity<'a> {
    id: &'a WorkerId,
    name: String,
    label: String,
    launcher: &'a str,
    role: String,
    cwd: String,
    tags: &'a Tags,
}

/// The messages that a worker has still to read.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownQueue {
    /// Number of queued messages.
    waiting: usize,
    paused: bool,
    parked_until: Option<Timestamp>,
}

#[derive(Serialize)]
struct ShownActivity {
    tool: Option<String>,
    step: Option<String>,
    /// Number of completed plan entries.
    done: usize,
    /// Number of plan entries.
    of: usize,
    editing: Vec<String>,
}

#[derive(Serialize)]
struct ShownTask<'a> {
    name: String,
    status: TaskStatus,
    parent: Option<&'a WorkerId>,
    root: Option<&'a WorkerId>,
    depth: u32,
}

#[derive(Serialize)]
struct ShownWorktree {
    name: String,
    branch: String,
    state: WorktreeState,
    /// The branch that the worktree came from.
    source: Option<String>,
}

impl<'a> ShownRow<'a> {
    fn of(row: &'a OverviewRow) -> Self {
        let item = &row.snapshot;
        Self {
            worker: ShownIdentity::of(item),
            state: row.state,
            group: match row.group() {
                Group::Needs => "needs",
                Group::Working => "working",
                Group::Done => "done",
            },
            since: row.since,
            last_event_at: row.last_event_at,
            turn: row.active_turn_id.as_ref(),
            doing: row.doing().map(ShownActivity::of),
            needs: row.needs.len(),
            queue: ShownQueue { waiting: row.waiting, paused: row.is_paused, parked_until: row.parked_until },
            unreachable_since: row.unreachable_since,
            error: row.last_error.as_deref().map(one_line),
            usage: &item.usage,
            budget: &item.budget,
            task: item.task.as_ref().map(ShownTask::of),
            worktree: item.worktree.as_ref().map(ShownWorktree::of),
        }
    }
}

impl<'a> ShownIdentity<'a> {
    fn of(item: &'a OverviewItem) -> Self {
        Self {
            id: &item.worker_id,
            name: one_line(&item.name),
            label: one_line(&item.label),
            launcher: &item.launcher,
            role: one_line(&item.role),
            cwd: one_line(&item.cwd),
            tags: &item.tags,
        }
    }
}

impl ShownActivity {
    fn of(doing: Doing) -> Self {
        Self {
            tool: doing.tool.as_deref().map(one_line),
            step: doing.step.as_deref().map(one_line),
            done: doing.steps_completed,
            of: doing.steps,
            editing: doing.editing.iter().map(|path| one_line(path)).collect(),
        }
    }
}

impl<'a> ShownTask<'a> {
    fn of(task: &'a TaskOfWorker) -> Self {
        Self {
            name: one_line(&task.name),
            status: task.status,
            parent: task.parent.as_ref(),
            root: task.root.as_ref(),
            depth: task.depth,
        }
    }
}

impl ShownWorktree {
    fn of(worktree: &WorktreeView) -> Self {
        Self {
            name: one_line(&worktree.name),
            branch: one_line(&worktree.branch),
            state: worktree.state,
            source: worktree.source_branch.as_deref().map(one_line),
        }
    }
}

/// The rows as they were last sent to a page.
#[derive(Default)]
pub(crate) struct SentRows {
    rows: HashMap<WorkerId, Box<RawValue>>,
}

impl SentRows {
    /// Returns the rows that are new or changed, and the ids of those that are gone.
    ///
    /// # Errors
    /// If a row cannot be serialized.
    pub(crate) fn changes(
        &mut self,
        workers: &Workers,
    ) -> serde_json::Result<(Vec<Box<RawValue>>, Vec<WorkerId>)> {
        let changed = self.changes_of(workers.rows().iter())?;
        let known: HashSet<&WorkerId> = workers.rows().iter().map(OverviewRow::worker_id).collect();
        let gone = self.rows.extract_if(|id, _| !known.contains(id)).map(|(id, _)| id).collect();
        Ok((changed, gone))
    }

    /// Returns which of some rows are new or changed.
    ///
    /// # Errors
    /// If a row cannot be serialized.
    pub(crate) fn changes_of<'a>(
        &mut self,
        rows: impl Iterator<Item = &'a OverviewRow>,
    ) -> serde_json::Result<Vec<Box<RawValue>>> {
        let mut changed = Vec::new();
        for row in rows {
            let now = to_raw_value(&ShownRow::of(row))?;
            let sent = self.rows.get(row.worker_id());
            if sent.is_none_or(|sent| sent.get() != now.get()) {
                self.rows.insert(row.worker_id().clone(), now.clone());
                changed.push(now);
            }
        }
        Ok(changed)
    }
}

/// The open questions, by their ids.
pub(crate) type OpenQuestions = BTreeMap<String, Value>;

/// A question as it is answered in place.
pub(crate) fn question(asked: &ApprovalShown) -> Value {
    let item = &asked.item;
    let rule = item.rule.as_ref().and_then(|rule| lenient::read::<StoryRule<'_>>(rule).rule.0);
    let ElicitationForm { mode, schema, url } = ElicitationForm::of(&asked.request);
    json!({
        "id": item.request_id, "worker": item.worker_id, "name": one_line(&item.name), "label": one_line(&item.label),
        "path": item.path.iter().map(|name| one_line(name)).collect::<Vec<_>>(), "kind": item.kind,
        "toolKind": item.tool_kind, "subject": clean(&item.subject), "message": clean(&asked.message),
        "since": item.created_at, "deadline": item.deadline_at, "onTimeout": item.on_timeout,
        "rule": rule.map(one_line), "always": asked.always_rule.as_deref().map(one_line), "cwd": one_line(&asked.cwd),
        "options": asked.options.iter().map(|option| json!({
            "id": option.id, "label": one_line(&option.label), "kind": option.kind,
        })).collect::<Vec<_>>(),
        "call": story::tool(&asked.request), "mode": mode,
        "fields": form::fields(&schema),
        // The page opens it as it is.
        "url": url,
        "urlShown": url.as_str().map(one_line),
    })
}
