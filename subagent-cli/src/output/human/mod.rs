//! What a person sees on a terminal, made from the data of a result: one rendering for each type of report.
//!
//! A type that has none here is shown as the contract's lines. Nothing is decided here but how things look.

mod budgets;
mod checks;
mod content;
mod controllers;
mod doctor;
mod event;
mod failure;
mod hooks;
mod inbox;
mod installed;
mod overview;
mod questions;
mod registry;
mod removal;
mod schedules;
mod sentences;
mod story;
mod stream;
mod tasks;
mod triggers;
mod turns;
pub mod used;
mod usual;
mod view;
mod workers;
mod worktrees;

use serde_json::Value;
use subagent_protocol::api::StoryItem;

use super::page::wrap;
use super::style::Style;
use super::terminal::Terminal;
use subagent_protocol::clean::clean;
use view::PageRenderer;

pub use content::Detail;
pub use failure::failure;
pub use overview::{answer, doing};
pub use schedules::{when, work};
pub use stream::WatchPage;
pub use triggers::source;
pub use view::{named, now};

/// A result for this terminal. `text` is what it is elsewhere.
#[must_use]
pub fn report(kind: &str, data: &Value, text: &str, terminal: Terminal) -> String {
    let mut view = PageRenderer::new(terminal);
    match render(&mut view, kind, data) {
        Some(()) => view.page.take(),
        None => clean(text).into_owned(),
    }
}

/// Sentences, wrapped for this terminal. An indented line is a command to be typed, and stays whole.
#[must_use]
pub fn prose(text: &str, terminal: Terminal) -> String {
    let text = clean(text);
    let line = |line: &str| match line.starts_with(' ') {
        true => line.to_owned(),
        false => wrap(line, terminal.width).join("\n"),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn page_of(terminal: Terminal, write: impl FnOnce(&mut PageRenderer)) -> String {
    let mut view = PageRenderer::new(terminal);
    write(&mut view);
    view.page.take()
}

/// A question as it is asked in place, from the data of `approval.shown`.
#[must_use]
pub fn question(data: &Value, detail: Detail, terminal: Terminal) -> String {
    page_of(terminal, |view| inbox::in_place(view, data, detail))
}

/// Who answered a question, from the data of `approval.shown`.
#[must_use]
pub fn decided_by(data: &Value, terminal: Terminal) -> String {
    page_of(terminal, |view| inbox::answered_by(view, data))
}

/// An item of a worker's story.
#[must_use]
pub fn story_item(item: &StoryItem, terminal: Terminal) -> String {
    page_of(terminal, |view| story::item(&mut view.page, item))
}

/// The rule that an answer makes.
#[must_use]
pub fn rule_to_make(rule: &str, terminal: Terminal) -> String {
    page_of(terminal, |view| {
        view.page.plain("  allow  ").word(Style::Strong, rule);
        view.page.tail(Style::Plain, "  ", "for this worker").end();
    })
}

/// `None` for a type that is not known here, and for data that lack what is shown.
fn render(view: &mut PageRenderer, kind: &str, data: &Value) -> Option<()> {
    match kind {
        "worker.listed" | "workers.listed" => workers::listed(view, data),
        "workers.overview" => workers::overview(view, data),
        "status.shown" => doctor::status(view, data),
        "worker.overview" | "worker.overviews" => usual::blocks(view, data, overview::shown),
        "worker.shown" | "workers.shown" => usual::blocks(view, data, workers::shown),
        "worker.started" => workers::started(view, data),
        "worker.stopped" => workers::stopped(view, data),
        "workers.stopped" | "workers.restarted" | "worker.restarted" | "workers.resumed"
        | "worker.resumed" | "turns.canceled" => usual::each(view, data, workers::changed),
        "worker.continued" => workers::started(view, &data["worker"]),
        "worker.set" | "workers.set" => usual::each(view, data, workers::set),
        "workers.waited" => workers::waited(view, data),
        "worker.removed" | "workers.removed" => usual::each(view, data, removal::removed),
        "state.pruned" => removal::pruned(view, data),
        "tasks.pruned" => tasks::pruned(view, data),
        "task.waited" => tasks::waited(view, data),
        "worker.logs" => workers::logs(view, data),
        "worker.inspected" | "workers.inspected" => usual::blocks(view, data, workers::inspected),
        "controller.initialized" | "controller.attached" => controllers::granted(view, data),
        "worktree.listed" => worktrees::listed(view, data),
        "worktree.shown" | "worktree.ready" => worktrees::shown(view, data),
        "worktree.landed" => worktrees::landed(view, data),
        "worktrees.landed" => worktrees::all_landed(view, data),
        "worktree.removed" | "worktree.discarded" => worktrees::removed(view, data),
        "worktree.pruned" => worktrees::pruned(view, data),
        "hook.trusted" => hooks::trusted(view, data),
        "hook.tested" => hooks::tested(view, data),
        "schedule.listed" => schedules::listed(view, data),
        "schedule.added" | "schedule.shown" | "schedule.paused" | "schedule.resumed" => {
            schedules::shown(view, data)
        }
        "schedule.removed" | "trigger.removed" => schedules::removed(view, data),
        "schedule.log" | "trigger.log" => schedules::logged(view, data),
        "trigger.listed" => triggers::listed(view, data),
        "trigger.added" | "trigger.shown" | "trigger.paused" | "trigger.resumed" => {
            triggers::shown(view, data)
        }
        "init.done" => installed::initialized(view, data),
        "daemon.installed" | "daemon.uninstalled" => installed::unit(view, data),
        "budget.shown" => budgets::shown_budget(view, data),
        "budget.set" => budgets::set(view, data),
        "usage.shown" => used::shown(view, data),
        "controller.status" => controllers::status(view, data),
        "controller.recovered" => controllers::recovered(view, data),
        "doctor.report" => doctor::report(view, data),
        "launcher.listed" => registry::launchers(view, data),
        "launcher.shown" => registry::launcher(view, data),
        "launcher.probed" => registry::probed(view, data),
        "agent.shown" => checks::agent(view, data),
        "agent.validated" => checks::agents(view, data),
        "config.checked" => checks::config(view, data),
        "policy.tested" => checks::policy(view, data),
        "role.listed" => registry::roles(view, data),
        "role.shown" => registry::role(view, data),
        "turn.accepted" => turns::accepted(view, data),
        "turn.shown" => turns::shown_turn(view, data),
        "turn.waited" => turns::waited(view, data),
        "event.matched" => turns::matched(view, data),
        "inbox.listed" => inbox::listed(view, data),
        "approval.shown" => inbox::question(view, data),
        "approvals.decided" => inbox::all_decided(view, data),
        "approval.decided" => turns::decided(view, data),
        "elicitation.answered" => questions::answered(view, data),
        "turn.canceled" => turns::canceled(view, data),
        _ => usual::write(view, kind, data),
    }
}

#[cfg(test)]
mod tests;
