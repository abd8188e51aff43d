//! Rows of tasks: creation, reads, and continuing an ended one.
//! It must not decide who may submit or see a task. Ends are in `ends`, slots in `places`.

pub(crate) mod archive;
pub(super) mod below;
mod causes;
pub(crate) mod ends;
pub(crate) mod events;
pub(crate) mod limits;
pub(crate) mod places;
pub(crate) mod prune;
pub(crate) mod results;
mod row;
pub(crate) mod transcripts;

use rusqlite::{Connection, Row, params};
use serde_json::{Value, json};
use subagent_core::model::{Fact, TaskEnding};
use subagent_core::task::{folded, made_name};
use subagent_protocol::api::{TaskMerge, TaskMode};
use subagent_protocol::data::EventData;
use subagent_protocol::data::tasks::SubagentSpawned;
use subagent_protocol::delegation::TaskLimits;
use subagent_protocol::ids::{TurnId, WorkerId};
use subagent_protocol::time::Timestamp;
use subagent_protocol::{Code, Error, Result};

use super::WorkerRow;
use super::rows::{self, RowId};
use super::tx::Tx;
use super::{facts, workers};
use below::TaskSelection;
use row::SELECT;
pub(crate) use row::TaskRow;

/// A task to store with its worker.
#[derive(Debug, Clone)]
pub(crate) struct NewTask {
    /// The worker that submitted it; `None` for a manager.
    pub(crate) parent: Option<RowId>,
    pub(crate) controller: RowId,
    pub(crate) limits: TaskLimits,
    /// Without a name, one is derived from the description.
    pub(crate) name: Option<String>,
    pub(crate) agent: Option<String>,
    pub(crate) description: String,
    pub(crate) prompt: String,
    pub(crate) mode: TaskMode,
    /// Terms of the task as JSON.
    pub(crate) terms: String,
    pub(crate) metadata: Value,
}

/// The position of a task in its tree.
struct TaskPosition {
    parent_id: Option<String>,
    parent_turn: Option<i64>,
    parent_turn_id: Option<TurnId>,
    root: Option<i64>,
    root_id: Option<String>,
    depth: u32,
    /// Names from the root to the parent.
    path: Vec<String>,
}

/// Stores the task of a new worker. Returns its name.
///
/// # Errors
/// `TASK_DEPTH_LIMIT{limit,depth}`, `TASK_LIMIT{limit}`, `TASK_NAME_TAKEN{name}`, `STORAGE_ERROR`.
pub(crate) fn insert(
    tx: &mut Tx<'_>,
    id: RowId,
    worker_id: &WorkerId,
    task: &NewTask,
    now: Timestamp,
) -> Result<String> {
    let mut place = place(tx, task.parent)?;
    if place.depth > task.limits.max_depth {
        let message =
            format!("the task would be nested {} deep; the limit is {}", place.depth, task.limits.max_depth);
        let error = Error::new(Code::TaskDepthLimit, message).with("limit", task.limits.max_depth);
        return Err(error.with("depth", place.depth).recommend("do the work without another agent"));
    }
    let all = count(
        tx.connection,
        "SELECT count(*) FROM tasks WHERE controller = ?1 AND root IS ?2 AND archived_at IS NULL",
        params![task.controller.0, place.root],
    )?;
    if all >= i64::from(task.limits.max_tasks) {
        let message = format!("the limit of {} tasks is reached", task.limits.max_tasks);
        let error = Error::new(Code::TaskLimit, message).with("limit", task.limits.max_tasks);
        return Err(error.recommend("continue a task that has ended: send it a message"));
    }
    let name = free_name(tx, task)?;
    place.path.push(name.clone());
    tx.execute(
        "INSERT INTO tasks (worker, parent, parent_id, parent_turn, root, root_id, controller, depth, name, folded, path,
                            agent, description, prompt, mode, terms, metadata, max_active, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)",
        params![
            id.0,
            task.parent.map(|parent| parent.0),
            place.parent_id,
            place.parent_turn,
            place.root,
            place.root_id,
            task.controller.0,
            place.depth,
            name,
            folded(&name),
            json!(place.path).to_string(),
            task.agent,
            task.description,
            task.prompt,
            task.mode.as_str(),
            task.terms,
            task.metadata.to_string(),
            task.limits.max_active,
            now.0,
        ],
    )?;
    tx.execute("UPDATE workers SET label = ?2 WHERE id = ?1", params![id.0, name])?;
    workers::names::name_after_task(tx, id, &name)?;
    let spawned = SubagentSpawned {
        id: worker_id.clone(),
        name: name.clone(),
        agent: task.agent.clone(),
        task: task.description.clone(),
        mode: task.mode,
        parent_turn_id: place.parent_turn_id,
    };
    let event = Fact::Event { data: EventData::SubagentSpawned(spawned), turn: None };
    facts::store(tx, id, &[event], None, now)?;
    Ok(name)
}

fn place(tx: &Tx<'_>, parent: Option<RowId>) -> Result<TaskPosition> {
    let Some(parent) = parent else {
        return Ok(TaskPosition {
            parent_id: None,
            parent_turn: None,
            parent_turn_id: None,
            root: None,
            root_id: None,
            depth: 1,
            path: Vec::new(),
        });
    };
    let sql = "SELECT w.worker_id, w.label, u.no, t.worker IS NOT NULL, t.root, t.root_id, t.depth, t.path, u.turn_id
               FROM workers w LEFT JOIN tasks t ON t.worker = w.id
               LEFT JOIN turns u ON u.worker = w.id AND u.status = 'accepted' WHERE w.id = ?1";
    rows::one(tx.connection, sql, [parent.0], |row| {
        let worker_id: String = row.get(0)?;
        let (parent_turn, parent_turn_id) = (row.get(2)?, turn(row, 8)?);
        if row.get(3)? {
            let path: String = row.get(7)?;
            return Ok(TaskPosition {
                parent_id: Some(worker_id),
                parent_turn,
                parent_turn_id,
                root: row.get(4)?,
                root_id: row.get(5)?,
                depth: row.get::<_, u32>(6)?.saturating_add(1),
                path: serde_json::from_str(&path).unwrap_or_default(),
            });
        }
        let label: String = row.get(1)?;
        Ok(TaskPosition {
            root: Some(parent.0),
            root_id: Some(worker_id.clone()),
            path: vec![if label.is_empty() { worker_id.clone() } else { label }],
            parent_id: Some(worker_id),
            parent_turn,
            parent_turn_id,
            depth: 1,
        })
    })
}

fn free_name(tx: &Tx<'_>, task: &NewTask) -> Result<String> {
    let family = task.parent.map_or(-task.controller.0, |parent| parent.0);
    let sql = "SELECT folded FROM tasks WHERE coalesce(parent, -controller) = ?1 AND archived_at IS NULL";
    let taken: std::collections::HashSet<String> = rows::all(tx.connection, sql, [family], |row| row.get(0))?;
    match &task.name {
        Some(name) if taken.contains(&folded(name)) => {
            let message =
                format!("another task is called {name:?}; choose another name, or send that one a message");
            Err(Error::new(Code::TaskNameTaken, message).with("name", name.as_str()))
        }
        Some(name) => Ok(name.clone()),
        None => Ok(made_name(&task.description, |name| taken.contains(&folded(name)))),
    }
}

/// Applies a fact to the worker's task, if it has one.
pub(super) fn store_fact(tx: &Tx<'_>, id: RowId, fact: &Fact, now: Timestamp) -> Result<()> {
    match fact {
        Fact::TaskEnding(ending) => {
            tx.execute(
                "UPDATE tasks SET ending = ?2 WHERE worker = ?1 AND outcome IS NULL AND ending IS NULL",
                params![id.0, ending.status().as_str()],
            )?;
            ends::discard_due_results(tx, id)?;
        }
        Fact::TaskCause { error, turn } => causes::note(tx, id, error, *turn)?,
        Fact::TurnQueued { .. } if !is_paused(tx, id)? => go_on(tx, id)?,
        Fact::Event { data: EventData::QueueResumed(queue), .. } if queue.length != 0 => go_on(tx, id)?,
        Fact::TurnOpened { .. } | Fact::QueuedTurnOpened { .. } => {
            go_on(tx, id)?;
            tx.execute(
                // A turn that begins after an end was requested later than that end.
                "UPDATE tasks SET ending = NULL, cause = NULL, started_at = coalesce(started_at, ?2) WHERE worker = ?1",
                params![id.0, now.0],
            )?;
        }
        Fact::TurnClosed { no, status, .. } => below::end(tx, id, TaskSelection::after(*status), Some(*no))?,
        // A stopped worker receives no results. They stay readable in its tasks.
        Fact::DesiredStop => {
            below::end(tx, id, TaskSelection::All, None)?;
            ends::discard_due_results(tx, id)?;
        }
        _ => {}
    }
    Ok(())
}

/// Whether the worker's queue is paused.
fn is_paused(tx: &Tx<'_>, id: RowId) -> Result<bool> {
    let sql = "SELECT count(*) FROM workers WHERE id = ?1 AND queue_pause IS NOT NULL";
    Ok(count(tx.connection, sql, [id.0])? > 0)
}

/// Begins another run of an ended task whose worker has startable work.
pub(super) fn go_on(tx: &Tx<'_>, id: RowId) -> Result<()> {
    tx.execute(
        "UPDATE tasks SET runs = runs + 1, steps = 0, ending = NULL, outcome = NULL, error = NULL, result = NULL,
                why = NULL, cause = NULL, asked_again = 0, merged = NULL, parent_turn = NULL, started_at = NULL, completed_at = NULL,
                first_turn = 1 + coalesce((SELECT max(no) FROM turns u WHERE u.worker = ?1 AND u.status <> 'accepted'), 0)
         WHERE worker = ?1 AND outcome IS NOT NULL",
        [id.0],
    )?;
    Ok(())
}

/// Resumes a task in `mode`; `None` keeps its mode. If the parent resumes it, the task belongs
/// to the parent's open turn, otherwise to none.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(crate) fn take_up(tx: &Tx<'_>, id: RowId, mode: Option<TaskMode>, by_parent: bool) -> Result<()> {
    tx.execute(
        "UPDATE tasks SET mode = coalesce(?2, mode),
                parent_turn = CASE WHEN ?3 THEN
                    (SELECT no FROM turns u WHERE u.worker = tasks.parent AND u.status = 'accepted') END
         WHERE worker = ?1",
        params![id.0, mode.map(TaskMode::as_str), by_parent],
    )?;
    Ok(())
}

/// Whether the worker's task, if it has one, has ended or is to end.
pub(crate) fn is_over(connection: &Connection, id: RowId) -> Result<bool> {
    let sql = "SELECT count(*) FROM tasks
               WHERE worker = ?1 AND (outcome IS NOT NULL OR ending IS NOT NULL OR why IS NOT NULL)";
    Ok(count(connection, sql, [id.0])? > 0)
}

/// Returns the worker that submitted this task, if a worker did.
pub(crate) fn parent(connection: &Connection, task: RowId) -> Result<Option<RowId>> {
    let sql = "SELECT parent FROM tasks WHERE worker = ?1";
    let found: Option<Option<i64>> = rows::optional(connection, sql, [task.0], |row| row.get(0))?;
    Ok(found.flatten().map(RowId))
}

pub(super) fn count(connection: &Connection, sql: &str, params: impl rusqlite::Params) -> Result<i64> {
    rows::one(connection, sql, params, |row| row.get(0))
}

/// Whether more than its last turn is between a task `t` and its completion: a schema to meet, or files to merge.
pub(super) const COMPLETES_LATER: &str = "(coalesce(json_type(t.terms, '$.resultSchema'), 'null') <> 'null'
     OR coalesce(t.terms ->> '$.writeBack', 0))";

/// SQL condition: a task `t` is hidden from lists.
pub(super) const HIDDEN: &str = "coalesce(t.terms ->> '$.inspectable', 1) = 0";

/// SQL for the id of the parent's turn that submitted or continued a task `t`.
macro_rules! parent_turn {
    () => {
        "(SELECT u.turn_id FROM turns u WHERE u.worker = t.parent AND u.no = t.parent_turn)"
    };
}
pub(super) use parent_turn;

/// A filter for tasks.
#[derive(Debug, Clone, Default)]
pub(crate) struct TaskQuery {
    /// Only tasks of this parent.
    pub(crate) parent: Option<String>,
    /// Only tasks below this root.
    pub(crate) root: Option<String>,
    /// Archived tasks; `false` selects unarchived tasks that are not hidden.
    pub(crate) archived: bool,
    /// All tasks, including archived and hidden ones.
    pub(crate) all: bool,
}

/// Returns the matching tasks, oldest first.
pub(crate) fn list(connection: &Connection, query: &TaskQuery) -> Result<Vec<TaskRow>> {
    // A list has only the beginning of a prompt, and no result.
    let select = SELECT.replace("t.prompt", "substr(t.prompt, 1, 1000)").replace("t.result", "NULL");
    let sql = format!(
        "{select} WHERE w.removed_at IS NULL AND (?1 IS NULL OR t.parent_id = ?1) AND (?2 IS NULL OR t.root_id = ?2)
           AND (?4 OR ((t.archived_at IS NOT NULL) = ?3 AND (?3 OR NOT ({HIDDEN})))) ORDER BY t.worker"
    );
    rows::all(connection, &sql, params![query.parent, query.root, query.archived, query.all], TaskRow::read)
}

/// Returns the workers of tasks that are hidden from lists.
pub(crate) fn hidden(connection: &Connection) -> Result<std::collections::HashSet<i64>> {
    rows::all(connection, &format!("SELECT worker FROM tasks t WHERE {HIDDEN}"), [], |row| row.get(0))
}

/// Returns the workers for which the daemon itself submitted a task to this agent definition, with
/// the task id.
pub(crate) fn of_agent(connection: &Connection, agent: &str) -> Result<Vec<(WorkerRow, String)>> {
    let sql = "SELECT t.parent_id, w.worker_id FROM tasks t JOIN workers w ON w.id = t.worker
               WHERE t.agent = ?1 AND t.parent_id IS NOT NULL AND t.terms ->> '$.endsSilently' AND w.removed_at IS NULL ORDER BY t.worker";
    let found: Vec<(String, String)> =
        rows::all(connection, sql, [agent], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut given = Vec::new();
    for (parent, task) in found {
        given.extend(workers::get(connection, &parent)?.map(|row| (row, task)));
    }
    Ok(given)
}

/// Finds tasks by id or name, among those of one parent or among all.
pub(crate) fn find(connection: &Connection, parent: Option<&WorkerId>, wanted: &str) -> Result<Vec<TaskRow>> {
    let sql = format!(
        "{SELECT} WHERE w.removed_at IS NULL AND (?1 IS NULL OR t.parent_id = ?1)
           AND (w.worker_id = ?2 OR (t.folded = ?3 AND t.archived_at IS NULL)) ORDER BY w.worker_id = ?2 DESC, t.worker"
    );
    rows::all(connection, &sql, params![parent.map(WorkerId::as_str), wanted, folded(wanted)], TaskRow::read)
}

/// Returns the task of a worker.
pub(crate) fn of_worker(connection: &Connection, worker: &str) -> Result<Option<TaskRow>> {
    let sql = format!("{SELECT} WHERE w.worker_id = ?1 AND w.removed_at IS NULL");
    rows::optional(connection, &sql, [worker], TaskRow::read)
}

/// Returns the worker's name in the paths of tasks below it: the task name, else the label, else
/// the id.
pub(crate) fn name_in_a_path(connection: &Connection, worker: &WorkerRow) -> Result<String> {
    let sql = "SELECT name FROM tasks WHERE worker = ?1";
    let named: Option<String> = rows::optional(connection, sql, [worker.id.0], |row| row.get(0))?;
    let label = || Some(worker.agent.label.clone()).filter(|label| !label.is_empty());
    Ok(named.or_else(label).unwrap_or_else(|| worker.worker_id.to_string()))
}

/// Stored fields of an unfinished task.
pub(super) struct OpenTask {
    pub(super) task_id: WorkerId,
    pub(super) parent: Option<RowId>,
    pub(super) parent_turn: Option<TurnId>,
    pub(super) name: String,
    pub(super) mode: TaskMode,
    pub(super) run: u64,
    pub(super) first_turn: u64,
    pub(super) ending: Option<TaskEnding>,
    pub(super) why: Option<String>,
    /// Why its current run ends early.
    pub(super) cause: Option<Error>,
    pub(super) completes_later: bool,
    pub(super) asked_again: bool,
    /// The last merge of its files, in its present run.
    pub(super) merge: Option<TaskMerge>,
}

/// Returns the worker's task if it is unfinished.
pub(super) fn open(connection: &Connection, id: RowId) -> Result<Option<OpenTask>> {
    let sql = format!(
        "SELECT w.worker_id, t.parent, t.name, t.mode, t.runs, t.first_turn, t.ending, t.why, {COMPLETES_LATER}, t.asked_again, t.cause, t.merged,
                {}
         FROM tasks t JOIN workers w ON w.id = t.worker WHERE t.worker = ?1 AND t.outcome IS NULL",
        parent_turn!()
    );
    rows::optional(connection, &sql, [id.0], |row| {
        Ok(OpenTask {
            task_id: rows::parsed(row, 0)?,
            parent: row.get::<_, Option<i64>>(1)?.map(RowId),
            name: row.get(2)?,
            mode: rows::word(row, 3, TaskMode::parse)?,
            run: rows::unsigned(row, 4)?,
            first_turn: rows::unsigned(row, 5)?,
            ending: row.get::<_, Option<String>>(6)?.and_then(|word| TaskEnding::parse(&word)),
            why: row.get(7)?,
            completes_later: row.get(8)?,
            asked_again: row.get(9)?,
            cause: error(row, 10)?,
            merge: row::json(row, 11)?,
            parent_turn: turn(row, 12)?,
        })
    })
}

pub(super) fn turn(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<TurnId>> {
    Ok(row.get::<_, Option<String>>(index)?.and_then(|id| id.parse().ok()))
}

pub(super) fn error(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<Error>> {
    let text: Option<String> = row.get(index)?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

/// Deletes the task of a removed worker, and the deliveries of its results.
///
/// # Errors
/// `STORAGE_ERROR`.
pub(super) fn delete(connection: &Connection, id: RowId) -> Result<()> {
    for sql in ["DELETE FROM task_deliveries WHERE task = ?1", "DELETE FROM tasks WHERE worker = ?1"] {
        rows::execute(connection, sql, [id.0])?;
    }
    Ok(())
}
