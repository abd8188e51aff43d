//! Events that a person reads as one sentence: what happens around the turns of a worker.

use serde::Deserialize;
use serde_json::Value;
use subagent_protocol::event::{NoData, SeenEvent};
use subagent_protocol::lenient::{self, Lenient};

use crate::failure::ErrorText;
use crate::output::human::usual::text;
use crate::output::human::view::{optional, shown};
use crate::output::human::worktrees::{landed_nothing, lines};
use crate::output::rule::describe_rule;
use crate::output::style::Style;

/// Returns the sentence of an event; `None` for a type that is unknown here. `worker` is typed in commands.
pub(in crate::output::human) fn sentence(worker: &str, event: &Value) -> Option<(Style, String)> {
    let SeenEvent { kind, .. } = SeenEvent::<NoData>::of(event);
    let (group, _) = kind.split_once('.')?;
    match group {
        "approval" | "elicitation" => of_request(kind, &SeenEvent::of(event).data),
        "turn" | "queue" => of_queue(kind, worker, &SeenEvent::of(event).data),
        "worker" => of_worker(kind, worker, &SeenEvent::of(event).data),
        "worktree" => of_worktree(kind, &SeenEvent::of(event).data),
        "budget" => of_budget(kind, &SeenEvent::of(event).data),
        "agent" => of_definition(kind, &SeenEvent::of(event).data),
        "policy" => of_policy(kind, &SeenEvent::<Value>::of(event).data),
        _ => of_others(kind, &SeenEvent::of(event).data),
    }
}

/// A word of an event; empty if it is missing.
type Word<'a> = Lenient<&'a str>;

fn word<'a>(word: Word<'a>) -> &'a str {
    word.0.unwrap_or_default()
}

/// What became of a question.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RequestNews<'a> {
    #[serde(borrow)]
    request_id: Word<'a>,
    note: Word<'a>,
    option_id: Word<'a>,
    action: Word<'a>,
    reason: Word<'a>,
}

/// What was decided, or is no longer asked.
fn of_request(kind: &str, news: &RequestNews<'_>) -> Option<(Style, String)> {
    let request = word(news.request_id);
    Some(match kind {
        "approval.decided" => {
            let note = news.note.0.map(|note| format!(" ({note})")).unwrap_or_default();
            (Style::Attention, format!("{request} answered with {}{note}", word(news.option_id)))
        }
        "elicitation.answered" => {
            (Style::Attention, format!("{request} answered with {}", word(news.action)))
        }
        "approval.canceled"
        | "approval.lost"
        | "approval.expired"
        | "elicitation.canceled"
        | "elicitation.lost" => {
            let (_, how) = kind.split_once('.')?;
            (Style::Bad, because(&format!("{request} {how} without an answer"), word(news.reason)))
        }
        _ => return None,
    })
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct QueueNews<'a> {
    #[serde(borrow)]
    turn_id: Word<'a>,
    position: Lenient<u64>,
    reason: Word<'a>,
}

/// Returns the sentence for an event of the queue.
fn of_queue(kind: &str, worker: &str, news: &QueueNews<'_>) -> Option<(Style, String)> {
    let turn = word(news.turn_id);
    Some(match kind {
        "turn.queued" | "turn.moved" => {
            (Style::Dim, format!("{turn} waits in place {}", optional(news.position.0)))
        }
        "turn.dropped" => (Style::Attention, because(&format!("{turn} is not sent"), word(news.reason))),
        "queue.paused" => {
            let reason = spaced(news.reason);
            let said = format!("the queue is paused ({reason}): subagent queue resume --worker-id {worker}");
            (Style::Attention, said)
        }
        "queue.resumed" => (Style::Dim, "queue resumed".to_owned()),
        _ => return None,
    })
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WorkerNews<'a> {
    #[serde(borrow)]
    context_lost_reason: Word<'a>,
    context_lost: Lenient<bool>,
    until: Word<'a>,
    reason: WorkerReason<'a>,
    request: Word<'a>,
}

/// A word or a sentence; of a worker that is not reached the error.
#[derive(Debug, Default, Deserialize)]
#[serde(untagged)]
enum WorkerReason<'a> {
    Words(&'a str),
    Error(#[serde(borrow)] ErrorText<'a>),
    #[default]
    None,
}

impl<'a> WorkerReason<'a> {
    fn text(&self) -> &'a str {
        match self {
            Self::Words(words) => words,
            Self::Error(error) => error.message,
            Self::None => "",
        }
    }
}

fn of_worker(kind: &str, worker: &str, news: &WorkerNews<'_>) -> Option<(Style, String)> {
    Some(match kind {
        "worker.restarted" if news.context_lost.0 == Some(true) => {
            let said = "the agent was started again and has forgotten the conversation";
            (Style::Bad, because(said, word(news.context_lost_reason)))
        }
        "worker.started" | "worker.restarted" | "worker.hibernated" | "worker.stopped" => {
            (Style::Dim, kind.replace('.', " "))
        }
        "worker.parked" => {
            let (until, reason) = (word(news.until), news.reason.text().replace('_', " "));
            let said = format!("parked until {until} ({reason}); go on now: subagent worker resume {worker}");
            (Style::Attention, said)
        }
        "worker.unparked" => (Style::Dim, "goes on, no longer parked".to_owned()),
        "worker.unreachable" => {
            let said = "the worker is unreachable; what it was doing may go on there";
            (Style::Bad, because(said, news.reason.text()))
        }
        "worker.reached" => (Style::Dim, "the worker is reached again".to_owned()),
        "worker.duplicate_accepted" => {
            (Style::Attention, "restarted although the old agent may go on at its place".to_owned())
        }
        "worker.given_up" => {
            (Style::Attention, "given up, although the agent may go on at its place".to_owned())
        }
        "worker.lost" => (Style::Bad, because("the runtime is lost", news.reason.text())),
        "worker.forbidden" => {
            let request = word(news.request);
            (Style::Bad, format!("a process of the worker asked for {request}: only the owner may"))
        }
        _ => return None,
    })
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WorktreeNews<'a> {
    #[serde(borrow)]
    path: Word<'a>,
    into: Word<'a>,
    branch: Word<'a>,
    identity_missing: Lenient<bool>,
    commit: Word<'a>,
    before: Word<'a>,
    files: Lenient<Vec<String>>,
    more_files: Lenient<u64>,
    refused: Lenient<Vec<String>>,
    more_refused: Lenient<u64>,
    added: Lenient<u64>,
    removed: Lenient<u64>,
    retired: Word<'a>,
}

fn of_worktree(kind: &str, news: &WorktreeNews<'_>) -> Option<(Style, String)> {
    let (path, into) = (word(news.path), word(news.into));
    let count = |list: &Lenient<Vec<String>>, more: Lenient<u64>| {
        list.0.as_ref().map_or(0, Vec::len) as u64 + more.0.unwrap_or(0)
    };
    Some(match kind {
        "worktree.created" => {
            let form = match word(news.branch) {
                "" => "a copy".to_owned(),
                branch => format!("branch {branch}"),
            };
            let said = format!("worktree {path} created, {form}");
            match news.identity_missing.0 == Some(true) {
                true => (Style::Attention, format!("{said}; git has no name for the commits of a landing")),
                false => (Style::Dim, said),
            }
        }
        "worktree.landed" => {
            let files = news.files.0.as_ref().map_or(0, Vec::len);
            match landed_nothing(news.commit == news.before, files) {
                true => (Style::Dim, format!("nothing to land on {into}")),
                false => {
                    let (added, removed) = (news.added.0.unwrap_or(0), news.removed.0.unwrap_or(0));
                    let changes = lines(files as u64, added, removed);
                    (Style::Good, format!("landed on {into}: {changes}"))
                }
            }
        }
        "worktree.merged" => {
            let refused = match count(&news.refused, news.more_refused) {
                0 => String::new(),
                refused => format!(", {refused} refused"),
            };
            let style = if refused.is_empty() { Style::Good } else { Style::Attention };
            (
                style,
                format!(
                    "merged {}{refused}",
                    match count(&news.files, news.more_files) {
                        1 => "1 file".to_owned(),
                        files => format!("{files} files"),
                    }
                ),
            )
        }
        "worktree.conflict" => {
            let more = news.more_files.0.map(|more| format!(" and {more} more")).unwrap_or_default();
            let files = news.files.0.as_deref().unwrap_or_default().join(", ");
            (Style::Attention, format!("not landed on {into}: conflicts in {files}{more}"))
        }
        "worktree.retired" => {
            (Style::Dim, format!("worktree {path} removed; {} keeps its contents", word(news.retired)))
        }
        "worktree.removed" => (Style::Dim, format!("worktree {path} removed")),
        _ => return None,
    })
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct BudgetNews<'a> {
    #[serde(borrow)]
    scope: Word<'a>,
    budget: Word<'a>,
    used: Value,
    limit: Value,
    unit: Word<'a>,
    action: Word<'a>,
    unreported: Lenient<u64>,
    limits: Value,
}

fn of_budget(kind: &str, news: &BudgetNews<'_>) -> Option<(Style, String)> {
    let (scope, budget, action) = (word(news.scope), word(news.budget), word(news.action));
    Some(match kind {
        "budget.exceeded" => {
            let (used, limit) = (shown(&news.used), shown(&news.limit));
            let unit = news.unit.0.map(|unit| format!(" {unit}")).unwrap_or_default();
            (Style::Bad, format!("the {scope} has used {used} of {limit}{unit} {budget} ({action})"))
        }
        "budget.unknown" => {
            let turns = optional(news.unreported.0);
            (Style::Attention, format!("the {budget} of {turns} turns of the {scope} are unknown ({action})"))
        }
        "budget.changed" => (Style::Dim, format!("limits of the {scope}: {}", text(&news.limits))),
        _ => return None,
    })
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DefinitionNews<'a> {
    #[serde(borrow)]
    agent: Word<'a>,
    level: Word<'a>,
    #[serde(deserialize_with = "lenient::or_default")]
    not_honoured: Vec<IgnoredKey<'a>>,
}

/// A key of a definition without effect.
#[derive(Debug, Deserialize)]
struct IgnoredKey<'a> {
    key: &'a str,
}

fn of_definition(kind: &str, news: &DefinitionNews<'_>) -> Option<(Style, String)> {
    let (agent, level) = (word(news.agent), word(news.level));
    let ignored: Vec<&str> = news.not_honoured.iter().map(|ignored| ignored.key).collect();
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

/// A call that a rule denies and that was made.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ViolationNews<'a> {
    #[serde(borrow)]
    kind: Word<'a>,
    subject: Word<'a>,
    evidence: Word<'a>,
}

fn of_policy(kind: &str, data: &Value) -> Option<(Style, String)> {
    if kind != "policy.violated" {
        return None;
    }
    let news: ViolationNews<'_> = lenient::read(data);
    let call = [spaced(news.kind), word(news.subject).to_owned()].join(" ");
    let (evidence, rule) = (word(news.evidence), describe_rule(data));
    Some((Style::Bad, format!("denied, but done: {} ({evidence}; {rule})", call.trim())))
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OtherNews<'a> {
    #[serde(borrow)]
    schedule: Word<'a>,
    trigger: Word<'a>,
    at: Word<'a>,
    left_out: Lenient<u64>,
    reason: Word<'a>,
    error: Lenient<ErrorText<'a>>,
    sink: Word<'a>,
    occasion: Word<'a>,
    attempts: Lenient<u64>,
    first_missing: Lenient<u64>,
    last_missing: Lenient<u64>,
}

fn of_others(kind: &str, news: &OtherNews<'_>) -> Option<(Style, String)> {
    let paused = |starter: &str, name: &str| {
        let (reason, error) = (spaced(news.reason), news.error.0.map_or("", |error| error.message));
        (Style::Attention, because(&format!("{starter} {name} paused ({reason})"), error))
    };
    Some(match kind {
        "schedule.fired" => {
            let left_out = match news.left_out.0 {
                None | Some(0) => String::new(),
                Some(count) => format!(", {count} missed before"),
            };
            let (schedule, at) = (word(news.schedule), word(news.at));
            (Style::Dim, format!("schedule {schedule} fired for {at}{left_out}"))
        }
        "trigger.fired" => (Style::Dim, format!("trigger {} fired", word(news.trigger))),
        "schedule.paused" => paused("schedule", word(news.schedule)),
        "trigger.paused" => paused("trigger", word(news.trigger)),
        "notification.failed" => {
            let (sink, occasion) = (word(news.sink), word(news.occasion));
            let tries = optional(news.attempts.0);
            let said = format!("{sink} did not get the notification of {occasion} in {tries} attempts");
            (Style::Attention, because(&said, word(news.reason)))
        }
        "journal.gap" => {
            let (first, last) = (optional(news.first_missing.0), optional(news.last_missing.0));
            (Style::Bad, format!("records {first} to {last} of the journal are missing"))
        }
        _ => return None,
    })
}

fn because(said: &str, reason: &str) -> String {
    if reason.is_empty() { said.to_owned() } else { format!("{said}: {reason}") }
}

/// A word of the protocol as words.
fn spaced(text: Word<'_>) -> String {
    word(text).replace('_', " ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use subagent_protocol::event::EventType;

    use super::*;
    use crate::output::human::conversation::event::write;
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
            (
                "worker.duplicate_accepted",
                json!({}),
                "restarted although the old agent may go on at its place",
            ),
            ("worker.given_up", json!({}), "given up, although the agent may go on at its place"),
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
