//! Schedules and triggers: when they fire, what they start, and why one is paused.

use std::path::Path;

use subagent_protocol::api::{Attendant, FiringView, ScheduleRemoved, ScheduleView, ScheduledWork};
use subagent_protocol::schedule::{SchedulePause, When};

use crate::output::human::view::{PageRenderer, failed, optional};
use crate::output::style::Style;
use crate::output::table::Table;

/// Shows the data of `schedule list`.
pub(in crate::output::human) fn listed(view: &mut PageRenderer, schedules: &[ScheduleView]) -> Option<()> {
    if schedules.is_empty() {
        return None;
    }
    let mut table = Table::new(&[
        "NAME",
        "STATE",
        "NEXT",
        "BY",
        "WHEN",
        "WHAT",
        "LAST",
        "ERROR",
        "TIMEZONE",
        "DECLARED IN",
    ]);
    for schedule in schedules {
        let (style, state) = state(schedule.paused);
        let last = schedule.last_firing.as_ref();
        table.row([
            (Style::Strong, schedule.name.as_str()),
            (style, &state),
            (Style::Plain, &next(view, schedule)),
            attendant(schedule.attendant),
            (Style::Plain, &when(&schedule.when)),
            (Style::Plain, &work(&schedule.work)),
            (status_style(last), &optional(last.map(status))),
            (Style::Bad, &failed(schedule.error.as_ref())),
            (Style::Dim, &schedule.timezone),
            (Style::Dim, &declared_in(schedule.declared_in.as_deref())),
        ]);
    }
    view.put(&table);
    Some(())
}

/// Writes the name and the state.
pub(in crate::output::human) fn heading(view: &mut PageRenderer, name: &str, paused: Option<SchedulePause>) {
    let (style, state) = state(paused);
    view.page.word(Style::Strong, name).plain("  ").word(style, &state).end();
}

/// `schedule show`, and what a change has made of it.
pub(in crate::output::human) fn shown(view: &mut PageRenderer, schedule: &ScheduleView) {
    heading(view, &schedule.name, schedule.paused);
    let (by, who) = attendant(schedule.attendant);
    view.facts(&[
        ("when", Style::Plain, format!("{} ({})", when(&schedule.when), schedule.timezone)),
        ("next", Style::Plain, next(view, schedule)),
        ("fired by", by, who.to_owned()),
        ("what", Style::Plain, work(&schedule.work)),
        ("if missed", Style::Plain, schedule.missed.as_str().replace('_', " ")),
        ("if it still runs", Style::Plain, schedule.overlap.as_str().replace('_', " ")),
        ("last", Style::Plain, last(view, schedule.last_firing.as_ref())),
        ("failures", Style::Plain, failures(schedule.failures, schedule.max_failures)),
        ("error", Style::Bad, failed(schedule.error.as_ref())),
        ("declared in", Style::Plain, declared_in(schedule.declared_in.as_deref())),
    ]);
    if schedule.paused.is_some() {
        view.next("Resume it:", &format!("subagent schedule resume {}", schedule.name));
    }
}

/// `schedule log` and `trigger log`.
pub(in crate::output::human) fn logged(view: &mut PageRenderer, firings: &[FiringView]) -> Option<()> {
    if firings.is_empty() {
        return None;
    }
    let mut table = Table::new(&["FIRED", "STATE", "WORKER", "ERROR", "FOR", "LEFT OUT", "TURN"]);
    for firing in firings {
        let occurrence = firing.occurrence.as_deref().unwrap_or_default();
        let left_out = Some(firing.left_out).filter(|count| *count > 0);
        table.row([
            (Style::Plain, view.ago(firing.at).as_str()),
            (status_style(Some(firing)), &firing.status.as_str().replace('_', " ")),
            (Style::Strong, &optional(firing.worker_id.as_ref())),
            (Style::Bad, &failed(firing.error.as_ref())),
            (Style::Plain, if firing.manual { "on request" } else { occurrence }),
            (Style::Plain, &optional(left_out)),
            (Style::Dim, &optional(firing.turn_id.as_ref())),
        ]);
    }
    view.put(&table);
    Some(())
}

/// `schedule rm` and `trigger rm`.
pub(in crate::output::human) fn removed(view: &mut PageRenderer, removed: &ScheduleRemoved) {
    view.page.word(Style::Strong, &removed.name).plain("  removed").end();
}

pub(in crate::output::human) fn state(paused: Option<SchedulePause>) -> (Style, String) {
    match paused {
        Some(reason) => (Style::Attention, format!("paused ({})", reason.as_str().replace('_', " "))),
        None => (Style::Good, "active".to_owned()),
    }
}

/// The status of a firing, and how many times before it were missed.
fn status(firing: &FiringView) -> String {
    let status = firing.status.as_str().replace('_', " ");
    match firing.left_out {
        0 => status,
        count => format!("{status} ({count} missed before)"),
    }
}

pub(super) fn status_style(firing: Option<&FiringView>) -> Style {
    Style::of_state(firing.map_or("", |firing| firing.status.as_str()))
}

/// The status of the newest firing with its time.
pub(in crate::output::human) fn last(view: &PageRenderer, firing: Option<&FiringView>) -> String {
    optional(firing.map(|firing| format!("{}  {}", status(firing), view.ago(firing.at))))
}

/// Failures in a row, and how many pause it.
pub(in crate::output::human) fn failures(failures: u32, max: u32) -> String {
    match max {
        0 => format!("{failures} (no limit)"),
        max => format!("{failures} of {max}"),
    }
}

/// Who is there at its next time.
pub(super) fn attendant(attendant: Option<Attendant>) -> (Style, &'static str) {
    match attendant {
        Some(Attendant::Unattended) => (Style::Attention, "no daemon"),
        who => (Style::Plain, who.map_or("", Attendant::as_str)),
    }
}

pub(super) fn declared_in(file: Option<&Path>) -> String {
    optional(file.map(Path::display))
}

fn next(view: &PageRenderer, schedule: &ScheduleView) -> String {
    optional(schedule.next_at.map(|next| format!("in {}", view.left(next))))
}

/// When a schedule fires.
#[must_use]
pub fn when(when: &When) -> String {
    match when {
        When::Cron(line) => format!("cron {line}"),
        When::EverySeconds(seconds) => format!("every {seconds}s"),
        When::At(time) => format!("at {time}"),
    }
}

/// What a schedule or a trigger starts or sends.
#[must_use]
pub fn work(work: &ScheduledWork) -> String {
    match work {
        ScheduledWork::Task(task) => {
            let launcher = task.manager.as_ref().and_then(|place| place.launcher.as_deref());
            let agent = task.agent.as_deref().or(launcher).unwrap_or("default");
            format!("task for {agent}: {}", task.prompt)
        }
        ScheduledWork::Send(message) => format!("to {}: {}", message.worker, message.text),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::output::human::{now, report};
    use crate::output::terminal::OutputTerminal;

    const PLAIN: OutputTerminal = OutputTerminal { width: 80, colour: false };

    #[test]
    fn a_schedule_says_when_it_fires_next_and_why_it_is_paused() {
        let mut next = now();
        next.0 += 7_205_000;
        let schedule = json!({
            "name": "nightly", "when": {"everySeconds": 60}, "timezone": "UTC", "nextAt": next,
            "work": {"send": {"worker": "codex-1", "text": "go on"}}, "failures": 0, "maxFailures": 3,
            "missed": "skip", "overlap": "queue", "paused": null, "error": null, "lastFiring": null,
            "controllerId": "ctl_1", "createdAt": "2020-01-01T00:00:00+00:00",
        });
        let text = report("schedule.shown", &schedule, "", PLAIN);
        assert!(text.starts_with("nightly  active\n  when "), "{text}");
        for part in ["every 60s (UTC)", "in 2h", "to codex-1: go on", "0 of 3"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let mut paused = schedule.clone();
        (paused["paused"], paused["nextAt"]) = ("worker_gone".into(), json!(null));
        let text = report("schedule.paused", &paused, "", PLAIN);
        assert!(
            text.contains("paused (worker gone)") && text.contains("subagent schedule resume nightly"),
            "{text}"
        );
        let text = report("schedule.listed", &json!({"items": [schedule, paused]}), "", PLAIN);
        assert!(text.starts_with("NAME ") && text.contains("in 2h") && !text.contains('{'), "{text}");
    }
}
