//! Tasks: the end of a wait, and what a prune removed.

use serde_json::Value;

use super::removal::{bytes, counted};
use super::view::{PageRenderer, items, shown, word};
use crate::output::style::{Style, state_word};
use crate::output::table::Table;

/// A longer result is cut: `task result` has all of it.
const MAX_LINES: usize = 40;

/// `task wait`: how the task ended and its result, or how it is at a question.
pub(super) fn waited(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let name = data["name"].as_str()?;
    view.page.word(Style::Strong, name).plain("  ");
    view.state(word(data, "status"));
    view.page.plain("  ").word(Style::Dim, word(data, "agent")).end();
    let error = match word(&data["error"], "message") {
        "" => String::new(),
        message => format!("{} {message}", word(&data["error"], "code")),
    };
    view.facts(&[
        ("error", Style::Bad, error),
        ("tool calls", Style::Plain, shown(&data["toolCalls"])),
        ("task", Style::Dim, shown(&data["taskId"])),
    ]);
    if let Some(result) = data["result"].as_str().filter(|text| !text.trim().is_empty()) {
        view.page.prose(Style::Plain, "  | ", "  | ", result, MAX_LINES);
    }
    Some(())
}

/// Shows the data of `task prune`.
pub(super) fn pruned(view: &mut PageRenderer, data: &Value) -> Option<()> {
    let (tasks, kept) = (items(data)?, data["kept"].as_array()?);
    let mut table = Table::new(&["TASK", "STATE", "EVENTS", "SIZE", "ARCHIVED", "ID"]);
    for task in tasks {
        let (events, size) = (task["events"].to_string(), bytes(&task["bytes"]));
        let archived = view.ago(&task["archivedAt"]);
        let state = word(task, "status");
        table.row([
            (Style::Strong, word(task, "name")),
            (Style::of_state(state), &state_word(state)),
            (Style::Plain, &events),
            (Style::Plain, &size),
            (Style::Dim, &archived),
            (Style::Dim, word(task, "taskId")),
        ]);
    }
    if !tasks.is_empty() {
        view.put(&table);
        view.page.end();
    }
    for task in kept {
        view.page.word(Style::Strong, word(task, "name")).plain("  ").word(Style::Attention, "kept").end();
        view.page.prose(Style::Plain, "  ", "  ", word(task, "reason"), MAX_LINES);
        if let Some(command) = task["recommendedCommand"].as_str() {
            view.next("  Try:", command);
        }
    }
    if tasks.is_empty() {
        let said = if data["dryRun"] == true { "Nothing would be removed." } else { "Nothing was removed." };
        view.page.plain(said).end();
        return Some(());
    }
    let verb = if data["dryRun"] == true { "Would remove" } else { "Removed" };
    let (tasks, events) = (counted(tasks.len() as u64, "task"), counted(data["events"].as_u64()?, "event"));
    let said = format!("{verb} {tasks} with {events} ({}).", bytes(&data["bytes"]));
    view.page.sentence(Style::Plain, "", "", &said).end();
    Some(())
}
