//! Views of workers for people: one worker in detail, or all workers at one moment.

use std::collections::HashMap;

use subagent_config::Environment;
use subagent_protocol::Result;
use subagent_protocol::api::{
    InboxItem, OverviewItem, OverviewShown, SchedulePaused, TaskOfWorker, TriggerPaused, UsageBy, UsageSums,
    WorkerOverview,
};
use subagent_protocol::budget::Scope;
use subagent_protocol::ids::{EventId, WorkerId};
use subagent_protocol::schedule::SchedulePause;
use subagent_protocol::state::WorkerState;
use subagent_protocol::tags::Selector;
use subagent_protocol::work_tree::{FILE, TreeBase};

use super::base_folder::base_folder;
use super::{parked_view, usage};
use crate::steady::steady;
use crate::store::events::{self, history, recent};
use crate::store::schedules::{self, ScheduleKind};
use crate::store::tasks::{self, TaskQuery};
use crate::store::turns::usage as used;
use crate::store::workers::{self, details};
use crate::store::{Connection, WorkerRow, accounts, worktrees};
use crate::supervisor::questions::inbox;
use crate::supervisor::start::spec;
use crate::supervisor::tasks::shown;
use crate::supervisor::views::queue::queue_view;
use crate::supervisor::views::show_worker;
use crate::supervisor::{Supervisor, entropy};
use crate::usage::Sums;

/// Selects the workers of an overview.
#[derive(Debug, Clone, Default)]
pub(crate) struct OverviewFilter {
    /// Only workers of this controller.
    pub controller_id: Option<String>,
    /// Only workers with these tags.
    pub selector: Option<String>,
    /// Includes workers of tasks that are not inspectable.
    pub all: bool,
    /// Only this worker, for a caller that may not see others.
    pub only: Option<WorkerId>,
}

/// Returns a worker, what it does now, and the base of its diff.
///
/// # Errors
/// `WORKER_NOT_FOUND`, `STORAGE_ERROR`.
pub(crate) async fn worker_overview(supervisor: &Supervisor, worker: &str) -> Result<WorkerOverview> {
    let shown = show_worker(supervisor, worker).await?;
    let (id, parent) = (supervisor.row(worker).await?.id, shown.worker.worker_id.as_str().to_owned());
    let folder = base_folder(&supervisor.shared.setup.state_dir, &parent);
    let file = folder.join(FILE);
    let read = supervisor.shared.store.read(move |connection| {
        let query = TaskQuery { parent: Some(parent), all: true, ..TaskQuery::default() };
        let base = std::fs::read(file).ok();
        Ok((recent::recent(connection, id)?, tasks::list(connection, &query)?, base))
    });
    let (recent, tasks, base) = read.await?;
    let (doing, last_message) = recent.finish();
    Ok(WorkerOverview {
        doing: shown.worker.active_turn_id.is_some().then_some(doing),
        shown,
        last_message,
        base: base.and_then(|text| serde_json::from_slice::<TreeBase>(&text).ok()),
        base_folder: folder.display().to_string(),
        tasks: tasks.iter().map(|task| shown::view(supervisor, task, true)).collect(),
    })
}

/// Returns all workers at one moment, with the position of that moment in the stream of all
/// events.
///
/// # Errors
/// `INVALID_ARGUMENT{selector,position}`, `CONFIG_PARSE_ERROR` for a config whose prices cannot
/// be read, `STORAGE_ERROR`.
pub(crate) async fn overview(
    supervisor: &Supervisor,
    filter: OverviewFilter,
    environment: Environment,
) -> Result<OverviewShown> {
    let selector = filter.selector.as_deref().map(Selector::parse).transpose()?;
    let prices = usage::prices(environment).await?;
    let read = supervisor.shared.store.read(move |connection| {
        let _moment = history::one_moment(connection)?;
        let mut rows = workers::list(connection, filter.controller_id.as_deref())?;
        let hidden = if filter.all { Default::default() } else { tasks::hidden(connection)? };
        rows.retain(|row| {
            !hidden.contains(&row.id.0)
                && filter.only.as_ref().is_none_or(|only| *only == row.worker_id)
                && selector.as_ref().is_none_or(|selector| selector.matches(&spec::tags(row)))
        });
        let mut sums = Sums::new(UsageBy::Worker, &prices);
        used::turns(connection, None, &mut |turn| sums.add(&turn))?;
        let mut beside = Beside::read(connection)?;
        beside.usage = sums.by_key();
        let items = rows.into_iter().map(|row| item(connection, row, &mut beside));
        let items: Vec<OverviewItem> = items.collect::<Result<_>>()?;
        let cursor = EventId(events::all::last_seq(connection)?);
        let (paused_schedules, paused_triggers) = match filter.only {
            Some(_) => Default::default(),
            None => paused(connection, filter.controller_id.as_deref())?,
        };
        let (at, count) = (entropy::now(), items.len());
        Ok(OverviewShown { cursor, at, items, count, paused_schedules, paused_triggers })
    });
    let mut shown = read.await?;
    for item in &mut shown.items {
        // Not stored: the actor knows it. Its events follow in any case.
        let live = supervisor.roster.live(item.worker_id.as_str());
        item.unreachable = live.ok().and_then(|handle| handle.snapshot.borrow().unreachable.clone());
    }
    Ok(shown)
}

/// Schedules and triggers that no longer fire, except those that a user paused.
fn paused(
    connection: &Connection,
    controller: Option<&str>,
) -> Result<(Vec<SchedulePaused>, Vec<TriggerPaused>)> {
    let mut found = (Vec::new(), Vec::new());
    for row in schedules::all(connection)? {
        let Some(reason) = row.paused.filter(|reason| *reason != SchedulePause::User) else { continue };
        if controller.is_some_and(|only| only != row.controller_id.as_str()) {
            continue;
        }
        let (name, error) = (row.name, row.error);
        match row.times.starter.kind() {
            ScheduleKind::Schedule => found.0.push(SchedulePaused { schedule: name, reason, error }),
            ScheduleKind::Trigger => found.1.push(TriggerPaused { trigger: name, reason, error }),
        }
    }
    Ok(found)
}

/// Data of all workers that is read once per overview.
#[derive(Default)]
struct Beside {
    tasks: HashMap<WorkerId, TaskOfWorker>,
    questions: HashMap<WorkerId, Vec<InboxItem>>,
    usage: HashMap<String, UsageSums>,
}

impl Beside {
    fn read(connection: &Connection) -> Result<Self> {
        let mut beside = Self::default();
        for row in tasks::list(connection, &TaskQuery { all: true, ..TaskQuery::default() })? {
            let task = TaskOfWorker {
                status: row.status(),
                name: row.name,
                parent: row.tree.parent_id,
                root: row.tree.root_id,
                depth: row.tree.depth,
            };
            beside.tasks.insert(row.task_id, task);
        }
        for asked in crate::store::questions::inbox::open(connection, |row| Some(inbox::listed(&row)))? {
            beside.questions.entry(asked.worker_id.clone()).or_default().push(asked);
        }
        Ok(beside)
    }
}

/// Returns a worker as stored. Its live actor may be ahead of this moment.
fn item(connection: &Connection, row: WorkerRow, beside: &mut Beside) -> Result<OverviewItem> {
    let worker = match row.state.as_str() {
        "stopped" => None,
        // The rows contradict each other, so the worker is set aside.
        _ => workers::load(connection, &row).ok(),
    };
    let state = match &worker {
        Some(worker) => worker.public_state(),
        None if row.state == "stopped" => WorkerState::Stopped,
        None => WorkerState::Error,
    };
    let active_turn_id = worker.as_ref().and_then(|worker| worker.open_turn().cloned());
    let doing = match active_turn_id {
        Some(_) => Some(recent::recent(connection, row.id)?.finish().0),
        None => None,
    };
    let questions = beside.questions.remove(&row.worker_id).unwrap_or_default();
    let turn = used::last_turn_at(connection, row.id)?;
    let since = match state {
        WorkerState::WaitingApproval => questions.first().map(|asked| asked.created_at).or(turn),
        WorkerState::Running | WorkerState::Canceling => turn,
        WorkerState::Idle => Some(turn.unwrap_or(row.history.created_at)),
        WorkerState::Stopped => row.history.stopped_at,
        _ => None,
    };
    let parked = worker.as_ref().and_then(parked_view);
    let queue = worker.map(|worker| worker.queue).filter(|queue| !queue.turns.is_empty());
    let shown = spec::shown(&row);
    let account = accounts::account(connection, Scope::Worker, row.id)?;
    Ok(OverviewItem {
        state,
        since: since.unwrap_or(row.history.updated_at),
        last_event_at: details::last_activity(connection, row.id)?,
        active_turn_id,
        doing,
        last_error: row.rules.last_error.as_ref().map(ToString::to_string),
        questions,
        queue: queue.as_ref().map(queue_view),
        parked,
        unreachable: None,
        task: beside.tasks.remove(&row.worker_id),
        usage: beside.usage.remove(row.worker_id.as_str()).unwrap_or_default(),
        budget: account.view(steady(entropy::now())),
        worktree: worktrees::of_worker(connection, row.worker_id.as_str())?.map(|row| row.view()),
        tags: shown.tags,
        worker_id: row.worker_id,
        name: row.name,
        label: row.agent.label,
        controller_id: row.controller_id,
        launcher: row.launcher,
        role: row.agent.role,
        cwd: row.cwd,
    })
}
