//! Renderings that are easier to see here than through a terminal.

use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::*;

const PLAIN: OutputTerminal = OutputTerminal { width: 80, colour: false };

fn shown(kind: &str, data: Value) -> String {
    report(kind, &data, "the contract's lines", PLAIN)
}

/// What `watch` shows of these updates of one worker.
fn watched(events: &[Value]) -> String {
    let mut stream = WatchPage::in_zone(Some(PLAIN), TimeZone::UTC);
    let text = stream.write(events);
    text + &stream.finish()
}

fn update(data: Value) -> Value {
    json!({"type": "progress.update", "workerId": "w_1", "ts": "2026-11-21T20:29:42+00:00", "data": data})
}

const T: &str = "2020-01-01T00:00:00+00:00";
const WORKER: &str = "w_0123456789";
const REQUEST: &str = "ap_0123456789";
const EVENT: &str = "ev_000000000001";

/// The object with further members, which replace its own.
fn with(mut object: Value, more: Value) -> Value {
    for (key, value) in more.as_object().unwrap() {
        object[key] = value.clone();
    }
    object
}

/// A worker with these members; the members that a view would show are empty.
fn worker(more: Value) -> Value {
    let worker = json!({
        "workerId": WORKER, "controllerId": "ctl_1", "label": "l", "launcher": "", "role": "", "state": "idle",
        "cwd": "", "sessionId": "", "createdAt": T, "updatedAt": T, "recoveryState": "",
        "agent": {"restarts": 0}, "baseFolder": "", "tasks": [],
    });
    with(worker, more)
}

fn message(text: &str) -> Value {
    json!({"type": "progress.message", "ts": "2026-11-21T20:29:42+00:00", "data": {"text": text}})
}

#[test]
fn what_has_no_rendering_is_shown_as_elsewhere_but_harmless() {
    let text = "a: b\u{1b}[2J";
    assert_eq!(report("brand.new", &json!({}), text, PLAIN), "a: b");
    assert_eq!(report("worker.listed", &json!({"items": 7}), text, PLAIN), "a: b");
}

#[test]
fn an_empty_list_says_what_to_do() {
    assert_eq!(
        shown("worker.listed", json!({"items": []})),
        "No workers.\nStart one:  subagent worker start --launcher NAME\n"
    );
    let none = json!({"items": [], "configPath": "/c.yaml", "configLoaded": false});
    assert_eq!(
        shown("launcher.listed", none.clone()),
        "No launchers: there is no config file /c.yaml.\nMake one:  subagent config init\n"
    );
    assert_eq!(shown("role.listed", none).lines().next(), Some("No roles: there is no config file /c.yaml."));
}

#[test]
fn a_unit_without_a_manager_comes_with_the_commands_to_type() {
    let data = json!({
        "unit": "subagentd-1.service", "unitPath": "/u/subagentd-1.service", "stateDir": "/ws/.subagent",
        "enabled": false, "problem": "no bus", "commands": ["systemctl --user daemon-reload"],
    });
    assert_eq!(
        shown("daemon.installed", data),
        "subagentd-1.service\n\
         \x20 enabled    no\n\
         \x20 file       /u/subagentd-1.service\n\
         \x20 state dir  /ws/.subagent\n\
         \x20 systemd    no bus\n\
         Type:  systemctl --user daemon-reload\n"
    );
    let data =
        json!({"unit": "u.service", "removed": true, "disabled": true, "problem": null, "commands": []});
    assert_eq!(shown("daemon.uninstalled", data), "u.service\n  removed   yes\n  disabled  yes\n");
}

#[test]
fn controllers_to_recover_come_with_the_command() {
    let data = json!({"count": 1, "workspaceFilter": null, "items": [{
        "controllerId": "ctl_1", "label": "m", "workspaceKey": "/ws", "requireHandle": false, "state": "orphaned",
        "activeOwner": {"instanceId": "ci_0123456789ab", "epoch": 2, "pid": 42, "createdAt": T, "alive": false},
        "suggestedAction": "subagent controller attach --takeover",
    }]});
    assert_eq!(
        shown("controller.recovered", data),
        "CONTROLLER  STATE     LABEL  OWNER   WORKSPACE\n\
         ctl_1       orphaned  m      pid 42  /ws\n\
         Take over:  subagent controller attach --takeover\n"
    );
}

#[test]
fn an_inspection_has_the_worker_its_questions_and_its_events() {
    let data = json!({
        "worker": worker(json!({"state": "waiting_approval", "cwd": "/ws"})),
        "pendingApprovals": [{
            "requestId": REQUEST, "kind": "tool.call", "message": "May I?", "status": "pending", "createdAt": T,
            "options": [{"id": "a", "alias": "a", "label": "Yes"}],
        }],
        "latestHandoff": {
            "snapshotId": "hs_0123456789", "handoffPath": "/h.md", "checkpointPath": "/h.json",
            "upToEventId": EVENT, "createdAt": T,
        },
        "events": [message("hello")],
    });
    assert_eq!(
        shown("worker.inspected", data),
        "w_0123456789  waiting approval  l\n  \
         cwd         /ws\n  controller  ctl_1\n  created     2020-01-01\n  changed     2020-01-01\n  \
         handoff  /h.md\n\n\
         ? May I?  ap_0123456789\n    Yes  subagent approve ap_0123456789 --option-id=a\n\n\
         The last 1 events\nhello\n"
    );
}

#[test]
fn the_commands_of_a_form_stand_below_each_other() {
    let asked = json!({
        "requestId": REQUEST, "workerId": WORKER, "label": "l", "controllerId": "ctl_1", "kind": "elicitation",
        "subject": "Which port?", "message": "Which port?", "status": "pending", "createdAt": T, "cwd": "/ws",
        "options": [], "request": {"schema": {"properties": {"port": {"type": "integer"}}}}, "answers": [],
    });
    assert!(shown("approval.shown", asked).contains(
        "    accept   subagent answer ap_0123456789 --accept --set port=VALUE\n    \
             decline  subagent answer ap_0123456789 --decline\n"
    ));
}

#[test]
fn an_option_of_an_agent_cannot_become_a_command() {
    let data = json!({
        "workerId": WORKER, "state": "waiting_approval", "assistantText": null,
        "matchedEvent": {"type": "approval.requested", "data": {
            "requestId": "ap_1", "message": "m\nx", "options": [{"id": "x; rm -rf ~\n", "label": "L"}],
        }},
    });
    let expected = "? m x  ap_1\n    L  subagent approve ap_1 --option-id=$'x; rm -rf ~\\x0a'\n";
    assert_eq!(shown("turn.waited", data), expected);
}

#[test]
fn a_turn_ends_with_its_outcome() {
    let waited = |event: Value| {
        let data =
            json!({"workerId": WORKER, "state": "idle", "assistantText": "done\n", "matchedEvent": event});
        shown("turn.waited", data)
    };
    let end = |event_type: &str, data: Value| json!({"type": event_type, "data": data});
    for (event, expected) in [
        (end("turn.completed", json!({"outcome": "completed", "stopReason": "end_turn"})), "completed"),
        (
            end("turn.completed", json!({"outcome": "completed", "stopReason": "max_tokens"})),
            "completed (max tokens)",
        ),
        (end("turn.canceled", json!({"reason": "no"})), "canceled  no"),
        (end("turn.failed", json!({"error": {"code": "C", "message": "m"}})), "failed  C: m"),
        (
            end(
                "turn.failed",
                json!({"error": {"code": "C", "message": "m", "details": {"recommendedAction": "log in",
                       "recommendedCommand": "subagent launcher login demo"}}}),
            ),
            "failed  C: m\nHint: log in\nTry: subagent launcher login demo",
        ),
    ] {
        assert_eq!(waited(event), format!("done\n\n{expected}\nworker w_0123456789 is idle\n"));
    }
}

#[test]
fn pieces_of_a_text_flow_together_and_a_thought_stands_apart() {
    let thought = |text: &str| update(json!({"kind": "thought", "text": text}));
    let text = watched(&[message("ab"), message("c\nd"), thought("h"), thought("m"), message("e")]);
    assert_eq!(text, "abc\nd\nhm\ne\n");
}

#[test]
fn what_an_agent_asks_of_its_client_is_one_line() {
    let text = watched(&[
        update(
            json!({"method": "fs/read_text_file", "kind": "fs", "status": "completed", "path": "/w/a", "bytes": 1}),
        ),
        update(
            json!({"method": "terminal/create", "kind": "terminal", "status": "requested", "command": "ls"}),
        ),
        update(json!({
            "method": "terminal.exited", "kind": "terminal", "status": "exited", "terminalId": "term_1_1",
            "exitStatus": {"exitCode": 1, "signal": null}, "tail": "x",
        })),
        update(json!({
            "method": "fs/read_text_file", "kind": "fs", "status": "failed", "path": "/x",
            "error": {"code": -32602, "message": "it is outside"},
        })),
    ]);
    let lines = [
        "fs/read_text_file /w/a  completed",
        "terminal/create ls  requested",
        "terminal.exited term_1_1  exited 1",
        "fs/read_text_file /x  it is outside",
    ];
    let shown: Vec<&str> = text.lines().skip(1).filter_map(|line| Some(line.split_once(' ')?.1)).collect();
    assert_eq!(shown, lines, "behind the day, each with its time");
}

#[test]
fn a_tool_call_shows_its_command_and_its_diff() {
    let call = json!({
        "kind": "tool_call", "toolCallId": "1", "title": "Edit a.rs", "toolKind": "edit", "status": "pending",
        "rawInput": {"command": ["cargo", "fmt all"]},
    });
    let old: String = (1..=9).map(|n| format!("{n}\n")).collect();
    let progress = json!({
        "kind": "tool_call_update", "toolCallId": "1", "status": "completed", "content": [
            {"type": "diff", "path": "a.rs", "oldText": old, "newText": old.replace("8", "eight")},
            {"type": "diff", "path": "b.rs", "oldText": null, "newText": "n\u{1b}[31mew\n"},
            {"type": "content", "content": {"type": "text", "text": "ok\nwell"}},
        ],
    });
    let same = json!({"kind": "tool_call_update", "toolCallId": "1", "status": "completed"});
    let expected = "\
-- 2026-11-21 --
20:29:42 * edit Edit a.rs  pending
  $ cargo 'fmt all'
20:29:42 * edit Edit a.rs  completed
  a.rs
    5
    6
    7
  - 8
  + eight
    9
  b.rs (new)
  + new
  | ok
  | well
";
    assert_eq!(watched(&[update(call), update(progress), update(same)]), expected);
}

#[test]
fn a_long_diff_says_how_much_is_left_out() {
    let new = "x\n".repeat(1000);
    let text = watched(&[update(json!({
        "kind": "tool_call", "toolCallId": "1", "content": [{"type": "diff", "path": "a", "newText": new}],
    }))]);
    assert!(text.ends_with("  + x\n    ... 920 more lines\n"), "{text}");
}

#[test]
fn a_login_that_is_missing_stands_with_its_command() {
    let worker = |wanted: bool| worker(json!({"launcher": "codex", "loginWanted": wanted}));
    assert!(shown("worker.overview", worker(true)).contains("not logged in  subagent launcher login codex"));
    assert!(!shown("worker.overview", worker(false)).contains("login"));
}

#[test]
fn of_an_agent_is_shown_what_it_reports() {
    let with = |agent: Value| shown("worker.shown", worker(json!({"agent": agent})));
    let text = with(json!({
        "name": "gem", "version": "1.2", "model": "big", "mode": null, "title": "A title", "contextUsed": 12, "contextSize": 100,
        "cost": {"amount": 0.5, "currency": "USD"}, "tokens": {"inputTokens": 3}, "restarts": 2, "memoryBytes": 2_500_000,
    }));
    for line in ["gem 1.2", "big", "A title", "12 of 100 tokens", "0.5 USD", "inputTokens 3", "2.5 MB"] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!text.contains("mode "), "{text}");
    let nothing = with(json!({"name": null, "contextUsed": null, "restarts": 0, "memoryBytes": null}));
    for word in ["agent", "context", "restarts", "memory", "tokens"] {
        assert!(!nothing.contains(word), "{word}: {nothing}");
    }
}

#[test]
fn any_message_of_an_agent_is_shown() {
    for data in
        [json!(null), json!([]), json!("x"), json!({"kind": 7}), json!({"kind": "tool_call", "content": {}})]
    {
        let _ = watched(&[update(data.clone()), json!({"type": "progress.message", "data": data.clone()})]);
        for kind in [
            "worker.listed",
            "worker.shown",
            "turn.waited",
            "event.matched",
            "worker.inspected",
            "role.shown",
        ] {
            let _ = shown(kind, data.clone());
        }
    }
    assert_eq!(watched(&[json!({"type": "brand.new", "data": {"a": 1}})]), "brand.new  {\"a\": 1}\n");
}

#[test]
fn no_text_of_anybody_brings_a_code_to_the_terminal() {
    const EVIL: &str = "x\u{1b}[2J\u{9b}31m\u{1b}]0;t\u{7}\u{202e}y";
    let keys = [
        "workerId",
        "controllerId",
        "label",
        "launcher",
        "role",
        "cwd",
        "sessionId",
        "lastError",
        "state",
        "command",
        "name",
        "workspaceKey",
        "delegationHint",
        "problem",
        "effectiveCommand",
        "turnId",
        "requestId",
        "optionId",
        "assistantText",
        "message",
        "text",
        "title",
        "toolKind",
        "status",
        "path",
        "newText",
        "reason",
        "kind",
        "id",
        "suggestedAction",
        "content",
        "configPath",
        "type",
        "eventId",
        "handoffPath",
        "note",
        "code",
        "stopReason",
        "recoveryState",
        "checkpointPath",
        "decision",
        "delivery",
        "origin",
        "backendKind",
    ];
    let evil: serde_json::Map<String, Value> =
        keys.iter().map(|key| ((*key).to_owned(), EVIL.into())).collect();
    let with = |more: Value| with(evil.clone().into(), more);
    let blocks = json!([
        with(json!({"type": "diff"})),
        with(json!({})),
        with(json!({"type": "content", "content": with(json!({}))}))
    ]);
    let option = with(json!({"alias": EVIL}));
    let inner = with(
        json!({"options": [option], "entries": [with(json!({}))], "content": blocks, "error": with(json!({}))}),
    );
    let event = |event_type: &str, kind: &str| {
        let mut event = with(json!({"type": event_type, "data": inner.clone()}));
        event["data"]["kind"] = kind.into();
        event
    };
    let mut events = vec![event("progress.message", ""), event("brand.new", "")];
    events.extend(
        ["thought", "tool_call", "tool_call_update", "plan", "usage", "fs", "terminal", "new"]
            .map(|kind| event("progress.update", kind)),
    );
    let types = ["turn.started", "message.sent", "approval.requested", "approval.decided", "approval.lost"];
    events.extend(types.map(|event_type| event(event_type, "")));
    events.extend(["turn.completed", "turn.failed", "turn.canceled"].map(|event_type| event(event_type, "")));
    // The members that no agent and no user writes.
    let own = json!({
        "workerId": WORKER, "controllerId": "ctl_1", "turnId": "turn_0123456789", "requestId": REQUEST,
        "eventId": EVENT, "acceptedEventId": EVENT, "upToEventId": EVENT, "snapshotId": "hs_0123456789",
        "createdAt": T, "updatedAt": T, "stoppedAt": T, "state": "idle", "status": "pending",
        "requireHandle": false, "agent": {"restarts": 0}, "configLoaded": false, "recommendedSkills": [EVIL],
    });
    let known = |data: Value| self::with(data, own.clone());
    let mut data = with(json!({
        "items": [known(with(json!({})))], "available": true, "env": evil.clone(), "args": [EVIL], "matchedEvent": events[2],
        "worker": known(with(json!({}))), "events": events, "pendingApprovals": [known(inner)],
        "latestHandoff": known(with(json!({}))), "envHandle": {}, "backend": {"kind": EVIL}, "effectiveArgs": [EVIL],
        "envKeys": [EVIL],
    }));
    let items = data["items"].take();
    let mut shown = watched(&events);
    for kind in [
        "worker.listed",
        "worker.shown",
        "worker.started",
        "worker.stopped",
        "worker.inspected",
        "controller.status",
        "controller.recovered",
        "launcher.listed",
        "launcher.shown",
        "launcher.probed",
        "role.listed",
        "role.shown",
        "turn.accepted",
        "turn.waited",
        "event.matched",
        "approval.decided",
        "turn.canceled",
        "brand.new",
    ] {
        let mut data = known(data.clone());
        match kind {
            "controller.recovered" => {
                data["items"] = json!([self::with(items[0].clone(), json!({"state": "active"}))])
            }
            _ if kind.ends_with(".listed") => data["items"] = items.clone(),
            _ => _ = data.as_object_mut().unwrap().remove("items"),
        }
        // The text of a type without a view.
        let text = report(kind, &data, if kind == "brand.new" { EVIL } else { "" }, PLAIN);
        assert!(text.contains("xy"), "{kind}: {text}");
        shown.push_str(&text);
    }
    shown.push_str(&failure(&crate::failure::Failure::input(EVIL).recommend(EVIL), PLAIN));
    let bad = shown.chars().find(|c| (c.is_control() && *c != '\n' && *c != '\t') || *c == '\u{202e}');
    assert_eq!(bad, None, "{shown:?}");
}

#[test]
fn events_of_tasks_are_a_line_each() {
    let reported = |kind: &str, mut data: Value| {
        (data["id"], data["name"]) = ("w_2".into(), "Test\u{1b}[2J Runner".into());
        let event = json!({"type": kind, "workerId": "w_2", "ts": "2026-11-21T20:29:42+00:00", "data": data});
        watched(&[event]).lines().skip(1).map(|line| format!("{line}\n")).collect::<String>()
    };
    let spawned = json!({"agent": "tester", "mode": "background", "task": "run all"});
    for (kind, data, line) in [
        ("subagent.spawned", spawned, "tester, background  run all"),
        ("subagent.progress", json!({"steps": 3, "tool": "cargo test"}), "step 3  cargo test"),
        ("subagent.completed", json!({"summary": "all\nwell"}), "completed\n  all\n  well"),
        ("subagent.failed", json!({"status": "timed_out", "error": null}), "timed out  "),
        ("subagent.cancelled", json!({"reason": "enough"}), "canceled  enough"),
    ] {
        assert_eq!(reported(kind, data), format!("20:29:42 task Test Runner  {line}\n"));
    }
}

#[test]
fn a_worker_in_a_sandbox_says_what_it_may_reach_and_what_enforces_it() {
    let sandbox =
        json!({"name": "review", "filesystem": "shared_ro", "network": "none", "layers": {"landlock": 6}});
    for kind in ["worker.shown", "worker.overview"] {
        let text = shown(kind, worker(json!({"sandbox": sandbox})));
        assert!(text.contains("review: shared_ro, network none (landlock)"), "{kind}: {text}");
    }
    let text = shown("worker.shown", worker(json!({})));
    assert!(text.contains("ctl_1") && !text.contains("sandbox"), "{text}");
    let on = json!({"kind": "ssh", "name": "gpu1", "host": "me@gpu"});
    let text = shown("worker.shown", worker(json!({"placement": on})));
    assert!(text.contains("gpu1 (ssh me@gpu)"), "{text}");
}
