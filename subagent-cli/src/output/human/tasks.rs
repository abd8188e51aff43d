//! Tasks: the end of a wait, and what a prune removed.

use subagent_protocol::api::{PrunedTasks, TaskShown};

use super::removal::{bytes, counted};
use super::view::{PageRenderer, failed};
use crate::output::style::{Style, state_word};
use crate::output::table::Table;

/// A longer result is cut: `task result` has all of it.
const MAX_LINES: usize = 40;

/// `task wait`: how the task ended and its result, or how it is at a question.
pub(super) fn waited(view: &mut PageRenderer, shown: &TaskShown) {
    let task = &shown.task;
    view.page.word(Style::Strong, &task.name).plain("  ");
    view.task_state(task);
    view.page.plain("  ").word(Style::Dim, task.agent.as_deref().unwrap_or_default()).end();
    view.facts(&[
        ("error", Style::Bad, failed(task.error.as_ref())),
        ("tool calls", Style::Plain, task.tool_calls.to_string()),
        ("task", Style::Dim, task.task_id.to_string()),
    ]);
    if let Some(result) = shown.result.as_deref().filter(|text| !text.trim().is_empty()) {
        view.page.prose(Style::Plain, "  | ", "  | ", result, MAX_LINES);
    }
}

/// Shows the data of `task prune`.
pub(super) fn pruned(view: &mut PageRenderer, pruned: &PrunedTasks) {
    let mut table = Table::new(&["TASK", "STATE", "EVENTS", "SIZE", "ARCHIVED", "ID"]);
    for task in &pruned.items {
        let state = task.status.as_str();
        table.row([
            (Style::Strong, task.name.as_str()),
            (Style::of_state(state), &state_word(state)),
            (Style::Plain, &task.events.to_string()),
            (Style::Plain, &bytes(task.bytes)),
            (Style::Dim, &view.ago(task.archived_at)),
            (Style::Dim, task.task_id.as_str()),
        ]);
    }
    if !pruned.items.is_empty() {
        view.put(&table);
        view.page.end();
    }
    for task in &pruned.kept {
        view.page.word(Style::Strong, &task.name).plain("  ").word(Style::Attention, "kept").end();
        view.page.prose(Style::Plain, "  ", "  ", &task.reason, MAX_LINES);
        if let Some(command) = &task.recommended_command {
            view.next("  Try:", command);
        }
    }
    if pruned.items.is_empty() {
        let said = if pruned.dry_run { "Nothing would be removed." } else { "Nothing was removed." };
        view.page.plain(said).end();
        return;
    }
    let verb = if pruned.dry_run { "Would remove" } else { "Removed" };
    let (tasks, events) = (counted(pruned.items.len() as u64, "task"), counted(pruned.events, "event"));
    let said = format!("{verb} {tasks} with {events} ({}).", bytes(pruned.bytes));
    view.page.sentence(Style::Plain, "", "", &said).end();
}
