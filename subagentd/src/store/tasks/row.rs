//! A task as stored, with what is looked up from its worker. Must not change it.

use rusqlite::Row;
use serde_json::Value;
use subagent_protocol::Error;
use subagent_protocol::api::{TaskMerge, TaskMode, TaskStatus, TaskTimes};
use subagent_protocol::details::Details;
use subagent_protocol::ids::{TurnId, WorkerId};
use subagent_protocol::time::Timestamp;

use super::{error, parent_turn, turn};
use crate::store::rows::{parsed, unsigned, word};

/// A task as stored, with values looked up from its worker.
#[derive(Debug, Clone)]
pub(crate) struct TaskRow {
    pub(crate) task_id: WorkerId,
    pub(crate) name: String,
    pub(crate) tree: StoredPosition,
    pub(crate) request: StoredRequest,
    pub(crate) work: WorkDone,
    pub(crate) end: StoredEnd,
    pub(crate) times: TaskTimes,
    pub(crate) worker: TaskWorker,
}

/// The position of a stored task in its tree.
#[derive(Debug, Clone)]
pub(crate) struct StoredPosition {
    pub(crate) parent_id: Option<WorkerId>,
    /// The parent's turn that submitted or continued the task.
    pub(crate) parent_turn: Option<TurnId>,
    pub(crate) root_id: Option<WorkerId>,
    pub(crate) depth: u32,
    pub(crate) path: Vec<String>,
}

/// What was submitted as a task.
#[derive(Debug, Clone)]
pub(crate) struct StoredRequest {
    pub(crate) agent: Option<String>,
    pub(crate) description: String,
    pub(crate) prompt: String,
    pub(crate) mode: TaskMode,
    pub(crate) terms: String,
    pub(crate) metadata: Value,
}

/// How much was done for a task.
#[derive(Debug, Clone)]
pub(crate) struct WorkDone {
    pub(crate) runs: u64,
    pub(crate) steps: u64,
    pub(crate) tool_calls: u64,
    /// Tokens used by its own worker, if known.
    pub(crate) tokens: Option<u64>,
}

/// The end of a task's present run.
#[derive(Debug, Clone)]
pub(crate) struct StoredEnd {
    pub(crate) outcome: Option<TaskStatus>,
    pub(crate) error: Option<Error>,
    pub(crate) result: Option<String>,
    /// The last merge of its files.
    pub(crate) merge: Option<TaskMerge>,
}

/// The worker of a task.
#[derive(Debug, Clone)]
pub(crate) struct TaskWorker {
    pub(crate) launcher: String,
    /// For an open turn: whether its prompt may have been sent.
    open: Option<bool>,
    /// Whether a question is open.
    asks: bool,
    /// Whether it has queued messages.
    waits: bool,
    /// Whether its agent ever had a session.
    pub(crate) had_session: bool,
    pub(crate) details: Details,
}

pub(super) const SELECT: &str = concat!(
    "SELECT w.worker_id, t.parent_id, t.root_id, t.depth, t.name, t.path, t.agent, t.description,
        t.prompt, t.mode, t.terms, t.metadata, t.runs, t.steps, t.tool_calls, t.outcome, t.error, t.result, t.created_at,
        t.started_at, t.completed_at, t.archived_at, w.launcher,
        (SELECT u.dispatched FROM turns u WHERE u.worker = t.worker AND u.status = 'accepted'),
        EXISTS (SELECT 1 FROM approvals a WHERE a.worker = t.worker AND a.status IN ('pending', 'decided') AND a.status = 'pending' AND a.held = 0),
        w.details, (SELECT CASE WHEN own ->> '$.tokensKnown' > 0 THEN own ->> '$.tokens' END
           FROM (SELECT coalesce(account -> '$.own', account) AS own FROM accounts WHERE scope = 'worker' AND key = t.worker)),
        w.session_id IS NOT NULL, EXISTS (SELECT 1 FROM queued_turns q WHERE q.worker = t.worker),
        ",
    parent_turn!(),
    ",
        max(t.created_at, coalesce(t.started_at, 0), coalesce(t.completed_at, 0), coalesce(t.archived_at, 0),
          coalesce((SELECT e.at FROM events e WHERE e.worker = t.worker AND e.internal = 0 ORDER BY e.seq DESC LIMIT 1), 0)), t.merged
     FROM tasks t JOIN workers w ON w.id = t.worker"
);

impl TaskRow {
    /// Derives the status that users see.
    pub(crate) fn status(&self) -> TaskStatus {
        self.end.outcome.unwrap_or_else(|| self.worker.status())
    }

    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            task_id: parsed(row, 0)?,
            name: row.get(4)?,
            tree: StoredPosition::read(row)?,
            request: StoredRequest::read(row)?,
            work: WorkDone::read(row)?,
            end: StoredEnd::read(row)?,
            times: read_times(row)?,
            worker: TaskWorker::read(row)?,
        })
    }
}

impl StoredPosition {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let known = |index: usize| -> rusqlite::Result<Option<WorkerId>> {
            Ok(row.get::<_, Option<String>>(index)?.and_then(|id| id.parse().ok()))
        };
        Ok(Self {
            parent_id: known(1)?,
            root_id: known(2)?,
            depth: row.get(3)?,
            path: json(row, 5)?.unwrap_or_default(),
            parent_turn: turn(row, 29)?,
        })
    }
}

impl StoredRequest {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            agent: row.get(6)?,
            description: row.get(7)?,
            prompt: row.get(8)?,
            mode: word(row, 9, TaskMode::parse)?,
            terms: row.get(10)?,
            metadata: json(row, 11)?.unwrap_or_default(),
        })
    }
}

impl WorkDone {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            runs: unsigned(row, 12)?,
            steps: unsigned(row, 13)?,
            tool_calls: unsigned(row, 14)?,
            tokens: row.get::<_, Option<i64>>(26)?.map(i64::unsigned_abs),
        })
    }
}

impl StoredEnd {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            outcome: match row.get::<_, Option<String>>(15)? {
                None => None,
                Some(_) => Some(word(row, 15, TaskStatus::parse)?),
            },
            error: error(row, 16)?,
            result: row.get(17)?,
            merge: json(row, 31)?,
        })
    }
}

fn read_times(row: &Row<'_>) -> rusqlite::Result<TaskTimes> {
    let at = |index: usize| row.get::<_, Option<i64>>(index).map(|at| at.map(Timestamp));
    Ok(TaskTimes {
        created_at: Timestamp(row.get(18)?),
        started_at: at(19)?,
        completed_at: at(20)?,
        archived_at: at(21)?,
        updated_at: Timestamp(row.get(30)?),
    })
}

impl TaskWorker {
    /// Derives the status of a task that has no outcome yet.
    const fn status(&self) -> TaskStatus {
        match (self.open, self.asks) {
            (None, _) if self.waits => TaskStatus::Queued,
            // Its last turn has ended, and the result is being checked.
            (None, _) => TaskStatus::Running,
            (Some(_), true) => TaskStatus::WaitingApproval,
            (Some(false), false) => TaskStatus::Spawning,
            (Some(true), false) => TaskStatus::Running,
        }
    }

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            launcher: row.get(22)?,
            open: row.get::<_, Option<String>>(23)?.map(|dispatched| dispatched != "no"),
            asks: row.get(24)?,
            details: json(row, 25)?.unwrap_or_default(),
            had_session: row.get(27)?,
            waits: row.get(28)?,
        })
    }
}

/// Reads a column of JSON. `None` also if it has another shape.
pub(super) fn json<T: serde::de::DeserializeOwned>(
    row: &Row<'_>,
    index: usize,
) -> rusqlite::Result<Option<T>> {
    let text = row.get::<_, Option<String>>(index)?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}
