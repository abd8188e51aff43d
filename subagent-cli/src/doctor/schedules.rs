//! Schedules and triggers: whether they fire, and whether a daemon is there when they do.

use std::path::Path;

use subagent_protocol::api::{Attendant, DeclarationProblem, ScheduleView, TriggerView};
use subagent_protocol::schedule::SchedulePause;
use subagent_protocol::{Code, Error};

use super::facts::DoctorFacts;
use super::finding::{CheckedPart, Finding};

const GROUP: CheckedPart = CheckedPart::Config;
const ID: &str = "config.schedules";

pub(super) fn look(facts: &DoctorFacts) -> Vec<Finding> {
    // Without a daemon nothing is known of them.
    let schedules = facts.schedules.iter().flat_map(|all| &all.items);
    let triggers = facts.triggers.iter().flat_map(|all| &all.items);
    let count = schedules.clone().count() + triggers.clone().count();
    let mut found: Vec<Finding> = schedules.filter_map(schedule).collect();
    found.extend(triggers.filter_map(trigger));
    let problems = facts.schedules.iter().flat_map(|all| &all.problems);
    // A file that cannot be used is named by both.
    let of_triggers = facts.triggers.iter().flat_map(|all| &all.problems).filter(|one| one.name.is_some());
    found.extend(problems.chain(of_triggers).map(not_in_effect));
    if found.is_empty() && count > 0 {
        found.push(Finding::ok(GROUP, ID, format!("{count} schedules and triggers can fire")));
    }
    found
}

fn schedule(schedule: &ScheduleView) -> Option<Finding> {
    let ScheduleView { name, paused, error, next_at, attendant, declared_in, .. } = schedule;
    let at = next_at.map(|at| at.to_string()).unwrap_or_default();
    does_not_fire("schedule", name, *paused, error.as_ref(), declared_in.as_deref()).or_else(|| {
        (*attendant == Some(Attendant::Unattended)).then(|| {
            let seen = format!("the schedule {name} fires next at {at}, and no daemon stays until then");
            Finding::warning(GROUP, ID, seen)
                .advise("run `subagent daemon install`, or keep `subagentd run` running")
        })
    })
}

fn trigger(trigger: &TriggerView) -> Option<Finding> {
    let TriggerView { name, paused, error, declared_in, .. } = trigger;
    does_not_fire("trigger", name, *paused, error.as_ref(), declared_in.as_deref())
}

/// An entry of the config file that the daemon could not take.
fn not_in_effect(problem: &DeclarationProblem) -> Finding {
    let DeclarationProblem { name, file, line, error } = problem;
    let line = line.map(|line| format!(":{line}")).unwrap_or_default();
    let (file, message) = (file.display(), &error.message);
    let seen = match name {
        Some(name) => format!("{name} is not in effect as {file}{line} declares it: {message}"),
        None => format!("schedules and triggers of {file} stay as they were: {message}"),
    };
    Finding::warning(GROUP, ID, seen).advise(error.facts().recommended_action.0.unwrap_or("correct the file"))
}

/// What keeps one from firing, unless its owner wanted that.
fn does_not_fire(
    kind: &str,
    name: &str,
    paused: Option<SchedulePause>,
    error: Option<&Error>,
    declared_in: Option<&Path>,
) -> Option<Finding> {
    let correct = declared_in.map(|file| format!("correct its entry in {}", file.display()));
    let why = error.map(|error| format!(": {}", error.message)).unwrap_or_default();
    let (seen, advice) = match (paused, error) {
        (Some(SchedulePause::User), _) | (None, None) => return None,
        (Some(reason), _) => (
            format!("the {kind} {name} is paused ({reason}){why}"),
            format!(
                "see `subagent {kind} log {name}`; then `subagent {kind} resume {name}`, or {}",
                correct.as_deref().unwrap_or("remove it")
            ),
        ),
        (None, Some(error)) if error.code == Code::QueuePaused => (
            format!("the {kind} {name} goes on later{why}"),
            error.facts().recommended_action.0.unwrap_or_default().to_owned(),
        ),
        (None, Some(_)) => (
            format!("the {kind} {name} cannot fire{why}"),
            correct.unwrap_or_else(|| {
                format!("remove it with `subagent {kind} rm {name}`, or add it again for another worker")
            }),
        ),
    };
    Some(Finding::warning(GROUP, ID, seen).advise(advice))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schedule_without_a_daemon_that_stays_is_a_warning() {
        let with = |attendant: &str| -> ScheduleView {
            let view = json!({
                "name": "nightly", "controllerId": "ctl_0123456789", "when": {"cron": "@daily"},
                "timezone": "UTC", "missed": "once", "overlap": "queue", "maxFailures": 3,
                "work": {"send": {"worker": "w_1", "text": "x"}}, "nextAt": "2026-12-01T00:00:00+00:00",
                "attendant": attendant, "failures": 0, "createdAt": "2026-11-01T00:00:00+00:00",
            });
            serde_json::from_value(view).unwrap()
        };
        let found = schedule(&with("unattended")).unwrap();
        assert!(found.seen.contains("2026-12-01T00:00:00") && !found.is_well(), "{found:?}");
        assert!(found.action.unwrap().contains("daemon install"));
        assert_eq!(schedule(&with("service")), None);
        // `schedule rm` is refused for an entry of a config file.
        let mut declared = with("service");
        declared.error = Some(Error::new(Code::WorkerStopped, "x"));
        assert!(schedule(&declared).unwrap().action.unwrap().contains("schedule rm nightly"));
        declared.declared_in = Some("/c.yaml".into());
        assert_eq!(schedule(&declared).unwrap().action.unwrap(), "correct its entry in /c.yaml");
    }
}
