//! Renderings that are easier to see here than through a terminal.

use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::*;

const PLAIN: Terminal = Terminal { width: 80, colour: false };

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
        "controllerId": "ctl_1", "label": "m", "workspaceKey": "/ws", "state": "orphaned",
        "activeOwner": {"instanceId": "ci_1", "epoch": 2, "pid": 42, "createdAt": null, "alive": false},
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
        "worker": {"workerId": "w_1", "state": "waiting_approval", "label": "l", "cwd": "/ws"},
        "pendingApprovals": [{"requestId": "ap_1", "message": "May I?", "options": [{"id": "a", "label": "Yes"}]}],
        "latestHandoff": {"handoffPath": "/h.md"},
        "events": [message("hello")],
    });
    assert_eq!(
        shown("worker.inspected", data),
        "w_1  waiting approval  l\n  cwd  /ws\n  handoff  /h.md\n\n\
         ? May I?  ap_1\n    Yes  subagent approve ap_1 --option-id=a\n\n\
         The last 1 events\nhello\n"
    );
}

#[test]
fn the_commands_of_a_form_stand_below_each_other() {
    let asked = json!({
        "requestId": "ap_1", "kind": "elicitation", "message": "Which port?", "status": "pending", "workerId": "w_1",
        "request": {"schema": {"properties": {"port": {"type": "integer"}}}},
    });
    assert!(
        shown("approval.shown", asked).contains(
            "    accept   subagent answer ap_1 --accept --set port=VALUE\n    decline  subagent answer ap_1 --decline\n"
        )
    );
}

#[test]
fn an_option_of_an_agent_cannot_become_a_command() {
    let data = json!({
        "workerId": "w_1", "state": "waiting_approval", "assistantText": null,
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
            json!({"workerId": "w_1", "state": "idle", "assistantText": "done\n", "matchedEvent": event});
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
        assert_eq!(waited(event), format!("done\n\n{expected}\nworker w_1 is idle\n"));
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
    let worker = |wanted: bool| json!({"workerId": "w_1", "name": "codex-1", "state": "idle", "launcher": "codex", "loginWanted": wanted});
    assert!(shown("worker.overview", worker(true)).contains("not logged in  subagent launcher login codex"));
    assert!(!shown("worker.overview", worker(false)).contains("login"));
}

#[test]
fn of_an_agent_is_shown_what_it_reports() {
    let worker = json!({"workerId": "w_1", "state": "idle", "label": "x"});
    let with = |agent: Value| {
        let mut data = worker.clone();
        data["agent"] = agent;
        shown("worker.shown", data)
    };
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
    ];
    let evil: serde_json::Map<String, Value> =
        keys.iter().map(|key| ((*key).to_owned(), EVIL.into())).collect();
    let with = |more: Value| {
        let mut data = evil.clone();
        data.extend(more.as_object().cloned().unwrap_or_default());
        Value::Object(data)
    };
    let blocks = json!([
        with(json!({"type": "diff"})),
        with(json!({})),
        with(json!({"type": "content", "content": with(json!({}))}))
    ]);
    let inner = with(
        json!({"options": [with(json!({}))], "entries": [with(json!({}))], "content": blocks, "error": with(json!({}))}),
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
    let data = with(json!({
        "items": [with(json!({}))], "available": true, "env": evil.clone(), "args": [EVIL], "matchedEvent": events[2],
        "worker": with(json!({})), "events": events, "pendingApprovals": [inner], "latestHandoff": with(json!({})),
    }));
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
        let text = report(kind, &data, EVIL, PLAIN);
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
    let worker = json!({"workerId": "w_1", "state": "idle", "label": "worker", "sandbox": sandbox});
    for kind in ["worker.shown", "worker.overview"] {
        let text = shown(kind, worker.clone());
        assert!(text.contains("review: shared_ro, network none (landlock)"), "{kind}: {text}");
    }
    assert!(!shown("worker.shown", json!({"workerId": "w_1", "state": "idle"})).contains("sandbox"));
}
