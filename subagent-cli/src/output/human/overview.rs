//! A worker as `show` has it.

use serde::{Deserialize, Serialize};
use subagent_protocol::api::{AgentView, Doing, QueueView, TaskView, WorkerOverview};

use super::conversation::questions::open;
use super::view::{PageRenderer, called, optional, shown as value};
use super::workers::{placement, sandbox, tokens};
use crate::output::advice;
use crate::output::page::shorten;
use crate::output::style::Style;

/// Lines of the last message.
const MAX_LINES: usize = 6;
/// Tasks that are listed.
const MAX_TASKS: usize = 20;

/// Data of `worker.overview`, with what the command counts.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CountedOverview {
    /// The worker, as the daemon shows it.
    #[serde(flatten)]
    pub overview: WorkerOverview,
    /// The changes, if git can count them quickly.
    pub changes: Option<CountedChanges>,
    changes_unknown: Option<String>,
}

/// Number of changed files and lines.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct CountedChanges {
    /// Number of changed files.
    pub files: u64,
    /// Number of added lines.
    pub added: u64,
    /// Number of deleted lines.
    pub deleted: u64,
}

pub(super) fn shown(view: &mut PageRenderer, counted: &CountedOverview) {
    let overview = &counted.overview;
    let (worker, agent) = (&overview.shown.worker, &overview.shown.agent);
    let name = called(&worker.name, worker.worker_id.as_str());
    view.page.word(Style::Strong, name).plain("  ");
    view.state(worker.state.as_str());
    let since = view.ago(worker.updated_at);
    view.page.plain("  ").word(Style::Dim, &since);
    view.page.plain("  ").rest(Style::Plain, &worker.label).end();
    // The names of the facts take 12 columns.
    let room = view.width.saturating_sub(12);
    let fitting = |text: &str| shorten(text, room);
    let branch = worker.worktree.as_ref().map(|worktree| &worktree.branch);
    view.facts(&[
        ("doing", Style::Active, fitting(&optional(overview.doing.as_ref().map(doing)))),
        ("login", Style::Bad, if worker.login_wanted { login(&worker.launcher) } else { String::new() }),
        ("queue", Style::Attention, optional(worker.queue.as_ref().map(queue))),
        ("changed", Style::Plain, fitting(&changed(counted, name))),
        ("usage", Style::Plain, fitting(&usage(agent))),
        ("launcher", Style::Plain, fitting(&worker.launcher)),
        ("branch", Style::Plain, fitting(&optional(branch))),
        ("cwd", Style::Plain, fitting(&worker.cwd)),
        ("on", Style::Plain, fitting(&placement(worker))),
        ("sandbox", Style::Plain, fitting(&sandbox(worker))),
        ("session", Style::Plain, fitting(&worker.session_id)),
        ("last error", Style::Bad, optional(worker.last_error.as_ref())),
    ]);
    open(view, worker);
    if let Some(message) = &overview.last_message {
        view.page.end().prose(Style::Plain, "  | ", "  | ", &message.text, MAX_LINES);
    }
    tasks(view, &overview.tasks);
}

fn login(launcher: &str) -> String {
    format!("not logged in  {}", advice::login(launcher))
}

fn queue(queue: &QueueView) -> String {
    match (queue.length, queue.paused) {
        (0, _) => String::new(),
        (length, true) => format!("{length} waiting, paused ({})", optional(queue.reason)),
        (length, false) => format!("{length} waiting"),
    }
}

fn changed(counted: &CountedOverview, name: &str) -> String {
    let overview = &counted.overview;
    match &counted.changes {
        Some(CountedChanges { files: 0, .. }) => "nothing since its first turn".to_owned(),
        Some(CountedChanges { files, added, deleted }) => {
            let noun = if *files == 1 { "file" } else { "files" };
            format!("{files} {noun} +{added} -{deleted}  subagent diff {name}")
        }
        None if overview.base.is_none() && overview.last_message.is_none() => String::new(),
        None => {
            let reason = counted.changes_unknown.as_deref().unwrap_or_default();
            format!("not counted ({reason})  subagent diff {name}")
        }
    }
}

/// What the agent has reported of its use.
fn usage(agent: &AgentView) -> String {
    let mut parts = tokens(agent);
    if let Some(used) = agent.context_used {
        let size = optional(agent.context_size.map(|size| format!(" of {size}")));
        parts.push(format!("context {used}{size}"));
    }
    if let Some(cost) = &agent.cost {
        parts.push(format!("{} {}", value(&cost.amount.into()), cost.currency));
    }
    parts.join(" · ")
}

fn tasks(view: &mut PageRenderer, tasks: &[TaskView]) {
    if tasks.is_empty() {
        return;
    }
    view.page.end().word(Style::Dim, "tasks").end();
    for task in tasks.iter().take(MAX_TASKS) {
        view.page.plain("  ").word(Style::Strong, &task.name).plain("  ");
        view.task_state(task);
        view.page.plain("  ").word(Style::Dim, task.task_id.as_str()).end();
    }
    if let Some(left) = tasks.len().checked_sub(MAX_TASKS).filter(|left| *left > 0) {
        view.page.word(Style::Dim, &format!("  ... {left} more: subagent tree")).end();
    }
}

/// What an open turn is at, in a line.
#[must_use]
pub fn doing(doing: &Doing) -> String {
    let mut parts: Vec<String> = doing.tool.iter().cloned().collect();
    if let Some(step) = &doing.step {
        parts.push(format!("step {} of {}: {step}", doing.steps_completed + 1, doing.steps));
    }
    parts.join(" · ")
}
