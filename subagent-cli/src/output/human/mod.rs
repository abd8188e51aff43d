//! What a person sees on a terminal, made from the data of a result: one rendering for each type of
//! report. A type without one, and data of another shape, are shown as the contract's lines. Nothing
//! is decided here but how things look.

mod automation;
mod budgets;
mod controllers;
mod conversation;
mod failure;
mod overview;
mod removal;
mod setup;
mod tasks;
pub mod used;
mod usual;
mod view;
mod workers;
mod worktrees;

use serde::de::DeserializeOwned;
use serde_json::Value;
use subagent_protocol::api::{ApprovalShown, StoryItem};

use super::page::wrap;
use super::style::Style;
use super::terminal::OutputTerminal;
use automation::{hooks, schedules, triggers};
use conversation::{inbox, questions, story, turns};
use setup::{checks, doctor, installed, registry};
use subagent_protocol::clean::clean;
use view::PageRenderer;

pub use automation::schedules::{when, work};
pub use automation::triggers::source;
pub use conversation::content::Detail;
pub use conversation::questions::{FormFieldView, FormSchema, answer};
pub use conversation::stream::WatchPage;
pub use failure::failure;
pub use overview::{CountedChanges, CountedOverview, doing};
pub use view::{called, named, now};

/// A result for this terminal. `text` is what it is elsewhere.
#[must_use]
pub fn report(kind: &str, data: &Value, text: &str, terminal: OutputTerminal) -> String {
    let mut view = PageRenderer::new(terminal);
    match render(&mut view, kind, data) {
        Some(()) => view.page.take(),
        None => clean(text).into_owned(),
    }
}

/// Sentences, wrapped for this terminal. An indented line is a command to be typed, and stays whole.
#[must_use]
pub fn prose(text: &str, terminal: OutputTerminal) -> String {
    let text = clean(text);
    let line = |line: &str| match line.starts_with(' ') {
        true => line.to_owned(),
        false => wrap(line, terminal.width).join("\n"),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

fn page_of(terminal: OutputTerminal, write: impl FnOnce(&mut PageRenderer)) -> String {
    let mut view = PageRenderer::new(terminal);
    write(&mut view);
    view.page.take()
}

/// A question as it is asked in place.
#[must_use]
pub fn question(shown: &ApprovalShown, detail: Detail, terminal: OutputTerminal) -> String {
    page_of(terminal, |view| inbox::in_place(view, shown, detail))
}

/// Who answered a question.
#[must_use]
pub fn decided_by(shown: &ApprovalShown, terminal: OutputTerminal) -> String {
    page_of(terminal, |view| inbox::answered_by(view, shown))
}

/// An item of a worker's story.
#[must_use]
pub fn story_item(item: &StoryItem, terminal: OutputTerminal) -> String {
    page_of(terminal, |view| story::item(&mut view.page, item))
}

/// The rule that an answer makes.
#[must_use]
pub fn rule_to_make(rule: &str, terminal: OutputTerminal) -> String {
    page_of(terminal, |view| {
        view.page.plain("  allow  ").word(Style::Strong, rule);
        view.page.tail(Style::Plain, "  ", "for this worker").end();
    })
}

/// `None` for a type that is not known here, and for data that lack what is shown.
fn render(view: &mut PageRenderer, kind: &str, data: &Value) -> Option<()> {
    match kind {
        "worker.listed" | "workers.listed" => workers::listed(view, &items(data)?),
        "workers.overview" => workers::overview(view, &of(data)?),
        "status.shown" => doctor::status(view, &of(data)?),
        "worker.overview" | "worker.overviews" => blocks(view, data, overview::shown)?,
        "worker.shown" | "workers.shown" => blocks(view, data, workers::shown)?,
        "worker.started" => workers::started(view, &of(data)?),
        "worker.stopped" => workers::stopped(view, &of(data)?),
        "workers.stopped" | "workers.restarted" | "worker.restarted" | "workers.resumed"
        | "worker.resumed" | "turns.canceled" => each(view, data, workers::changed)?,
        "worker.continued" => workers::continued(view, &of(data)?),
        "worker.set" | "workers.set" => each(view, data, workers::set)?,
        "workers.waited" => workers::waited(view, &items(data)?),
        "worker.removed" | "workers.removed" => each(view, data, removal::removed)?,
        "state.pruned" => removal::pruned(view, &of(data)?),
        "tasks.pruned" => tasks::pruned(view, &of(data)?),
        "task.waited" => tasks::waited(view, &of(data)?),
        "worker.logs" => workers::logs(view, &of(data)?)?,
        "worker.inspected" | "workers.inspected" => blocks(view, data, workers::inspected)?,
        "controller.initialized" | "controller.attached" => controllers::granted(view, &of(data)?),
        "worktree.listed" => worktrees::listed(view, &items(data)?),
        "worktree.shown" | "worktree.ready" => worktrees::shown(view, &of(data)?),
        "worktree.landed" => worktrees::landed(view, &of(data)?),
        "worktrees.landed" => each(view, data, worktrees::one_landed)?,
        "worktree.removed" | "worktree.discarded" => worktrees::removed(view, &of(data)?),
        "worktree.pruned" => worktrees::pruned(view, &of(data)?),
        "hook.trusted" => hooks::trusted(view, &of(data)?),
        "hook.tested" => hooks::tested(view, &of(data)?),
        "schedule.listed" => schedules::listed(view, &items(data)?)?,
        "schedule.added" | "schedule.shown" | "schedule.paused" | "schedule.resumed" => {
            schedules::shown(view, &of(data)?)
        }
        "schedule.removed" | "trigger.removed" => schedules::removed(view, &of(data)?),
        "schedule.log" | "trigger.log" => schedules::logged(view, &items(data)?)?,
        "trigger.listed" => triggers::listed(view, &items(data)?)?,
        "trigger.added" | "trigger.shown" | "trigger.paused" | "trigger.resumed" => {
            triggers::shown(view, &of(data)?)
        }
        "init.done" => installed::initialized(view, &of(data)?),
        "daemon.installed" | "daemon.uninstalled" => installed::unit(view, data)?,
        "budget.shown" => budgets::shown(view, &of(data)?),
        "budget.set" => budgets::set(view, &of(data)?),
        "usage.shown" => used::shown(view, &of(data)?),
        "controller.status" => controllers::status(view, &of(data)?),
        "controller.recovered" => controllers::recovered(view, &items(data)?),
        "doctor.report" => doctor::report(view, &of(data)?),
        "launcher.listed" => registry::launchers(view, &of(data)?),
        "launcher.shown" => registry::launcher(view, &of(data)?),
        "launcher.probed" => registry::probed(view, &of(data)?),
        "agent.shown" => checks::agent(view, data)?,
        "agent.validated" => checks::agents(view, &of(data)?),
        "config.checked" => checks::config(view, &of(data)?),
        "policy.tested" => checks::policy(view, &of(data)?),
        "role.listed" => registry::roles(view, &of(data)?),
        "role.shown" => registry::role(view, &of(data)?),
        "turn.accepted" => turns::accepted(view, &of(data)?),
        "turn.shown" => turns::shown(view, &of(data)?),
        "turn.waited" => turns::waited(view, &of(data)?),
        "event.matched" => turns::matched(view, data)?,
        "inbox.listed" => inbox::listed(view, &items(data)?),
        "approval.shown" => inbox::question(view, &of(data)?),
        "approvals.decided" => inbox::all_decided(view, &items(data)?)?,
        "approval.decided" => turns::decided(view, &of(data)?),
        "elicitation.answered" => questions::answered(view, &of(data)?),
        "turn.canceled" => turns::canceled(view, &of(data)?),
        _ => usual::write(view, kind, data)?,
    }
    Some(())
}

/// The data as the type that a view shows.
fn of<T: DeserializeOwned>(data: &Value) -> Option<T> {
    T::deserialize(data).ok()
}

fn items<T: DeserializeOwned>(data: &Value) -> Option<Vec<T>> {
    of(data.get("items")?)
}

/// The result, or each of several.
fn several<T: DeserializeOwned>(data: &Value) -> Option<Vec<T>> {
    if data.get("items").is_some() { items(data) } else { Some(vec![of(data)?]) }
}

/// Shows a result, or each of several.
fn each<T: DeserializeOwned>(
    view: &mut PageRenderer,
    data: &Value,
    show: fn(&mut PageRenderer, &T),
) -> Option<()> {
    several(data)?.iter().for_each(|result| show(view, result));
    Some(())
}

/// Shows a result, or each of several with an empty line before the next.
fn blocks<T: DeserializeOwned>(
    view: &mut PageRenderer,
    data: &Value,
    show: fn(&mut PageRenderer, &T),
) -> Option<()> {
    for (number, result) in several(data)?.iter().enumerate() {
        if number > 0 {
            view.page.end();
        }
        show(view, result);
    }
    Some(())
}

#[cfg(test)]
mod tests;
