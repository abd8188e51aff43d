//! Events that a person reads as one sentence: what happens around the turns of a worker.

use serde_json::Value;

use super::usual::text;
use super::view::{shown, word};
use super::worktrees::{landed_nothing, lines};
use crate::output::rule::describe_rule;
use crate::output::style::Style;

/// Returns the sentence of an event; `None` for a type that is unknown here. `worker` is typed in commands.
pub(super) fn sentence(worker: &str, event: &Value) -> Option<(Style, String)> {
    let data = &event["data"];
    let kind = word(event, "type");
    let (group, _) = kind.split_once('.')?;
    match group {
        "approval" | "elicitation" => of_request(kind, data),
        "turn" | "queue" => of_queue(kind, worker, data),
        "worker" => of_worker(kind, worker, data),
        "worktree" => of_worktree(kind, data),
        "budget" => of_budget(kind, data),
        "agent" => of_definition(kind, data),
        _ => of_others(kind, data),
    }
}

/// What was decided, or is no longer asked.
fn of_request(kind: &str, data: &Value) -> Option<(Style, String)> {
    let request = word(data, "requestId");
    Some(match kind {
        "approval.decided" => {
            let note = data["note"].as_str().map(|note| format!(" ({note})")).unwrap_or_default();
            (Style::Attention, format!("{request} answered with {}{note}", word(data, "optionId")))
        }
        "elicitation.answered" => {
            (Style::Attention, format!("{request} answered with {}", word(data, "action")))
        }
        "approval.canceled"
        | "approval.lost"
        | "approval.expired"
        | "elicitation.canceled"
        | "elicitation.lost" => {
            let (_, how) = kind.split_once('.')?;
            (Style::Bad, because(&format!("{request} {how} without an answer"), word(data, "reason")))
        }
        _ => return None,
    })
}

/// Returns the sentence for an event of the queue.
fn of_queue(kind: &str, worker: &str, data: &Value) -> Option<(Style, String)> {
    let turn = word(data, "turnId");
    Some(match kind {
        "turn.queued" | "turn.moved" => {
            (Style::Dim, format!("{turn} waits in place {}", shown(&data["position"])))
        }
        "turn.dropped" => (Style::Attention, because(&format!("{turn} is not sent"), word(data, "reason"))),
        "queue.paused" => {
            let reason = spaced(data, "reason");
            let said = format!("the queue is paused ({reason}): subagent queue resume --worker-id {worker}");
            (Style::Attention, said)
        }
        "queue.resumed" => (Style::Dim, "queue resumed".to_owned()),
        _ => return None,
    })
}

fn of_worker(kind: &str, worker: &str, data: &Value) -> Option<(Style, String)> {
    Some(match kind {
        "worker.restarted" if data["contextLost"] == true => {
            let said = "the agent was started again and has forgotten the conversation";
            (Style::Bad, because(said, word(data, "contextLostReason")))
        }
        "worker.started" | "worker.restarted" | "worker.hibernated" | "worker.stopped" => {
            (Style::Dim, kind.replace('.', " "))
        }
        "worker.parked" => {
            let (until, reason) = (word(data, "until"), spaced(data, "reason"));
            let said = format!("parked until {until} ({reason}); go on now: subagent worker resume {worker}");
            (Style::Attention, said)
        }
        "worker.unparked" => (Style::Dim, "goes on, no longer parked".to_owned()),
        "worker.unreachable" => {
            let said = "the worker is unreachable; what it was doing may go on there";
            (Style::Bad, because(said, word(&data["reason"], "message")))
        }
        "worker.reached" => (Style::Dim, "the worker is reached again".to_owned()),
        "worker.lost" => (Style::Bad, because("the runtime is lost", word(data, "reason"))),
        "worker.forbidden" => {
            let said =
                format!("a process of the worker asked for {}: only the owner may", word(data, "request"));
            (Style::Bad, said)
        }
        _ => return None,
    })
}

fn of_worktree(kind: &str, data: &Value) -> Option<(Style, String)> {
    let (path, into) = (word(data, "path"), word(data, "into"));
    Some(match kind {
        "worktree.created" => {
            let form = match word(data, "branch") {
                "" => "a copy".to_owned(),
                branch => format!("branch {branch}"),
            };
            let said = format!("worktree {path} created, {form}");
            match data["identityMissing"] == true {
                true => (Style::Attention, format!("{said}; git has no name for the commits of a landing")),
                false => (Style::Dim, said),
            }
        }
        "worktree.landed" => {
            let files = data["files"].as_array().map_or(0, Vec::len);
            let count = |key: &str| data[key].as_u64().unwrap_or(0);
            match landed_nothing(data["commit"] == data["before"], files) {
                true => (Style::Dim, format!("nothing to land on {into}")),
                false => {
                    let changes = lines(files as u64, count("added"), count("removed"));
                    (Style::Good, format!("landed on {into}: {changes}"))
                }
            }
        }
        "worktree.merged" => {
            let count = |key: &str, more: &str| {
                data[key].as_array().map_or(0, Vec::len) as u64 + data[more].as_u64().unwrap_or(0)
            };
            let refused = match count("refused", "moreRefused") {
                0 => String::new(),
                refused => format!(", {refused} refused"),
            };
            let style = if refused.is_empty() { Style::Good } else { Style::Attention };
            (
                style,
                format!(
                    "merged {}{refused}",
                    match count("files", "moreFiles") {
                        1 => "1 file".to_owned(),
                        files => format!("{files} files"),
                    }
                ),
            )
        }
        "worktree.conflict" => {
            let more = data["moreFiles"].as_u64().map(|more| format!(" and {more} more")).unwrap_or_default();
            (Style::Attention, format!("not landed on {into}: conflicts in {}{more}", text(&data["files"])))
        }
        "worktree.retired" => {
            (Style::Dim, format!("worktree {path} removed; {} keeps its contents", word(data, "retired")))
        }
        "worktree.removed" => (Style::Dim, format!("worktree {path} removed")),
        _ => return None,
    })
}

fn of_budget(kind: &str, data: &Value) -> Option<(Style, String)> {
    let (scope, budget) = (word(data, "scope"), word(data, "budget"));
    Some(match kind {
        "budget.exceeded" => {
            let (used, limit) = (shown(&data["used"]), shown(&data["limit"]));
            let unit = data["unit"].as_str().map(|unit| format!(" {unit}")).unwrap_or_default();
            let action = word(data, "action");
            (Style::Bad, format!("the {scope} has used {used} of {limit}{unit} {budget} ({action})"))
        }
        "budget.unknown" => {
            let (turns, action) = (shown(&data["unreported"]), word(data, "action"));
            (Style::Attention, format!("the {budget} of {turns} turns of the {scope} are unknown ({action})"))
        }
        "budget.changed" => (Style::Dim, format!("limits of the {scope}: {}", text(&data["limits"]))),
        _ => return None,
    })
}

fn of_definition(kind: &str, data: &Value) -> Option<(Style, String)> {
    let (agent, level) = (word(data, "agent"), word(data, "level"));
    let ignored = data["notHonoured"].as_array().into_iter().flatten();
    let ignored: Vec<&str> = ignored.map(|item| word(item, "key")).collect();
    let ignored = match ignored.is_empty() {
        true => String::new(),
        false => format!("; not honoured: {}", ignored.join(", ")),
    };
    Some(match kind {
        "agent.applied" => (Style::Dim, format!("definition {agent} ({level}) applies{ignored}")),
        "agent.changed" => (Style::Dim, format!("definition {agent} ({level}) from this turn on{ignored}")),
        _ => return None,
    })
}

fn of_others(kind: &str, data: &Value) -> Option<(Style, String)> {
    Some(match kind {
        "policy.violated" => {
            let call = [spaced(data, "kind"), word(data, "subject").to_owned()].join(" ");
            let (evidence, rule) = (word(data, "evidence"), describe_rule(data));
            (Style::Bad, format!("denied, but done: {} ({evidence}; {rule})", call.trim()))
        }
        "schedule.fired" => {
            let left_out = match data["leftOut"].as_u64() {
                None | Some(0) => String::new(),
                Some(count) => format!(", {count} missed before"),
            };
            let (schedule, at) = (word(data, "schedule"), word(data, "at"));
            (Style::Dim, format!("schedule {schedule} fired for {at}{left_out}"))
        }
        "trigger.fired" => (Style::Dim, format!("trigger {} fired", word(data, "trigger"))),
        "schedule.paused" | "trigger.paused" => {
            let starter = kind.strip_suffix(".paused").unwrap_or(kind);
            let (name, reason) = (word(data, starter), spaced(data, "reason"));
            let error = word(&data["error"], "message");
            (Style::Attention, because(&format!("{starter} {name} paused ({reason})"), error))
        }
        "notification.failed" => {
            let (sink, occasion) = (word(data, "sink"), word(data, "occasion"));
            let tries = shown(&data["attempts"]);
            let said = format!("{sink} did not get the notification of {occasion} in {tries} attempts");
            (Style::Attention, because(&said, word(data, "reason")))
        }
        "journal.gap" => {
            let (first, last) = (shown(&data["firstMissing"]), shown(&data["lastMissing"]));
            (Style::Bad, format!("records {first} to {last} of the journal are missing"))
        }
        _ => return None,
    })
}

fn because(said: &str, reason: &str) -> String {
    if reason.is_empty() { said.to_owned() } else { format!("{said}: {reason}") }
}

/// A word of the protocol as words.
fn spaced(data: &Value, key: &str) -> String {
    word(data, key).replace('_', " ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use subagent_protocol::event::EventType;

    use super::*;
    use crate::output::human::event::write;
    use crate::output::page::TextPage;

    #[test]
    fn every_known_event_is_readable_without_its_data() {
        for event_type in EventType::ALL.iter().map(|event_type| event_type.as_str()) {
            // Never shown, and never stored.
            if event_type.starts_with("runtime.") || event_type == "subagent.event" {
                continue;
            }
            let mut page = TextPage::new(false);
            let event = json!({"type": event_type, "data": {"unknownKey": 1}});
            write(&mut page, "w_1", &event);
            let text = page.take();
            assert!(!text.contains("unknownKey"), "{event_type}: {text}");
        }
    }

    #[test]
    fn events_around_turns_are_sentences() {
        let landed =
            json!({"into": "main", "commit": "b", "before": "a", "files": ["x"], "added": 3, "removed": 1});
        let same = json!({"into": "main", "commit": "a", "before": "a", "files": []});
        for (kind, data, said) in [
            (
                "worktree.created",
                json!({"path": "/ws/fix", "branch": "subagent/fix"}),
                "worktree /ws/fix created, branch subagent/fix",
            ),
            (
                "worktree.created",
                json!({"path": "/copies/a", "branch": ""}),
                "worktree /copies/a created, a copy",
            ),
            (
                "worktree.created",
                json!({"path": "/ws/fix", "branch": "fix", "identityMissing": true}),
                "worktree /ws/fix created, branch fix; git has no name for the commits of a landing",
            ),
            ("worktree.landed", landed, "landed on main: 1 file +3 -1"),
            (
                "worktree.landed",
                json!({"into": "/ws", "commit": "", "before": "", "files": ["x"]}),
                "landed on /ws: 1 file +0 -0",
            ),
            ("worktree.landed", same, "nothing to land on main"),
            (
                "worktree.conflict",
                json!({"into": "main", "files": ["a", "b"]}),
                "not landed on main: conflicts in a, b",
            ),
            (
                "worktree.retired",
                json!({"path": "/ws/fix", "retired": "refs/x"}),
                "worktree /ws/fix removed; refs/x keeps its contents",
            ),
            (
                "budget.exceeded",
                json!({"scope": "worker", "budget": "turns", "limit": 2, "used": 2, "unit": null, "action": "refuse"}),
                "the worker has used 2 of 2 turns (refuse)",
            ),
            (
                "budget.unknown",
                json!({"scope": "controller", "budget": "tokens", "unreported": 2, "action": "warn"}),
                "the tokens of 2 turns of the controller are unknown (warn)",
            ),
            (
                "budget.changed",
                json!({"scope": "worker", "limits": {"turns": 3}}),
                "limits of the worker: turns 3",
            ),
            (
                "agent.applied",
                json!({"agent": "tester", "level": "user", "notHonoured": [{"key": "model"}]}),
                "definition tester (user) applies; not honoured: model",
            ),
            (
                "agent.changed",
                json!({"agent": "tester", "level": "user", "notHonoured": []}),
                "definition tester (user) from this turn on",
            ),
            (
                "policy.violated",
                json!({"evidence": "its output", "kind": "execute", "subject": "rm x", "rule": "execute(rm*)", "layer": "user"}),
                "denied, but done: execute rm x (its output; user rule execute(rm*))",
            ),
            (
                "schedule.fired",
                json!({"schedule": "nightly", "at": "T", "leftOut": 2}),
                "schedule nightly fired for T, 2 missed before",
            ),
            (
                "schedule.paused",
                json!({"schedule": "nightly", "reason": "worker_gone"}),
                "schedule nightly paused (worker gone)",
            ),
            ("trigger.fired", json!({"trigger": "pushed"}), "trigger pushed fired"),
            (
                "trigger.paused",
                json!({"trigger": "pushed", "reason": "failures", "error": {"message": "it failed"}}),
                "trigger pushed paused (failures): it failed",
            ),
            ("worktree.merged", json!({"files": ["a"], "refused": []}), "merged 1 file"),
            ("worktree.merged", json!({"files": ["a", "b"], "refused": ["c"]}), "merged 2 files, 1 refused"),
            ("worktree.merged", json!({"files": ["a"], "moreFiles": 4, "refused": []}), "merged 5 files"),
            (
                "notification.failed",
                json!({"sink": "desk", "occasion": "done", "attempts": 3, "reason": "exit 1"}),
                "desk did not get the notification of done in 3 attempts: exit 1",
            ),
            (
                "journal.gap",
                json!({"firstMissing": 3, "lastMissing": 5}),
                "records 3 to 5 of the journal are missing",
            ),
            (
                "worker.unreachable",
                json!({"since": "T", "reason": {"code": "PLACEMENT_UNREACHABLE", "message": "no route"}}),
                "the worker is unreachable; what it was doing may go on there: no route",
            ),
            ("worker.reached", json!({}), "the worker is reached again"),
            ("worker.lost", json!({"reason": "killed"}), "the runtime is lost: killed"),
            (
                "worker.forbidden",
                json!({"request": "worker stop"}),
                "a process of the worker asked for worker stop: only the owner may",
            ),
        ] {
            let event = json!({"type": kind, "data": data});
            assert_eq!(sentence("w_1", &event).map(|(_, said)| said).as_deref(), Some(said));
        }
        assert_eq!(sentence("w_1", &json!({"type": "brand.new"})), None);
    }
}
