//! `send --agent`: another definition for the same session, starting with that message's turn, even
//! if a process dies.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{Command, TestSandbox, assert_shape, wait_until};

/// Time limit for reaching a failpoint.
const SOON: Duration = Duration::from_secs(30);

const PLANNER: &str = "\
---
description: Plans
permissionMode: bold
model: large
permission: {\"*\": ask, read: allow, execute: {\"*\": ask, \"rm *\": deny}}
---
Plan first.
";

const BUILDER: &str = "\
---
description: Builds
permission: {\"*\": ask, execute: {\"*\": ask, \"rm *\": allow, \"make *\": allow}}
---
Now build.
";

fn define(sandbox: &TestSandbox, name: &str, text: &str) {
    let folder = sandbox.workspace().join(".agents/agents");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(format!("{name}.md")), text).unwrap();
}

/// A worker without a definition, whose agent keeps its sessions.
fn world(flags: &[&str]) -> (TestSandbox, String) {
    let mut sandbox = TestSandbox::new();
    let state = sandbox.file_name("sessions");
    let demo = sandbox.demo_agent(&["--state", &state]);
    sandbox.launcher("demo", demo);
    define(&sandbox, "planner", PLANNER);
    define(&sandbox, "builder", BUILDER);
    sandbox.init();
    let started = sandbox.subagent(&["worker", "start", "--launcher", "demo"]).args(flags).run();
    let worker = started.data_of("worker.started")["workerId"].as_str().unwrap().to_owned();
    (sandbox, worker)
}

fn as_agent(sandbox: &TestSandbox, worker: &str, agent: &str, prompt: &str) -> Command {
    sandbox.sending(worker, prompt).args(["--agent", agent])
}

/// Returns the agent's output in the first turn with this definition.
#[track_caller]
fn said_as(sandbox: &TestSandbox, worker: &str, agent: &str, prompt: &str) -> String {
    let waited = as_agent(sandbox, worker, agent, prompt).run().data_of("turn.waited");
    assert_eq!(waited["matchedEvent"]["type"], "turn.completed", "{waited}");
    assert_eq!(waited["agentDefinition"], agent);
    waited["assistantText"].as_str().unwrap().to_owned()
}

#[track_caller]
fn said(sandbox: &TestSandbox, worker: &str, prompt: &str) -> String {
    let waited = sandbox.send(worker, prompt);
    assert_eq!(waited["matchedEvent"]["type"], "turn.completed", "{waited}");
    waited["assistantText"].as_str().unwrap().to_owned()
}

fn of_type(sandbox: &TestSandbox, worker: &str, event_type: &str) -> Vec<Value> {
    sandbox.events(worker).into_iter().filter(|event| event["type"] == event_type).collect()
}

fn instructions(agent: &str, prompt: &str) -> String {
    format!("<agent_instructions agent=\"{agent}\">{prompt}")
}

#[test]
fn a_plan_is_made_and_then_built_in_one_session() {
    let (sandbox, worker) = world(&["--deny", "execute(git push*)"]);
    let session = sandbox.show(&worker)["sessionId"].clone();
    let plan = said_as(&sandbox, &worker, "planner", "!options\n!ask execute rm x\n!ask execute git push");
    assert!(plan.contains("mode=bold model=large"), "{plan}");
    assert!(plan.contains(&instructions("planner", "Plan first.")), "{plan}");
    assert_eq!(plan.matches("reject-once").count(), 2, "its own rule and that of the owner: {plan}");
    assert_eq!(sandbox.show(&worker)["agentDefinition"], "planner");
    let on = said(&sandbox, &worker, "!options\n!ask execute rm x");
    assert!(on.contains("mode=bold") && on.contains("reject-once"), "until it is changed: {on}");
    assert!(!on.contains("agent_instructions"), "{on}");

    let build = said_as(&sandbox, &worker, "builder", "!options\n!ask execute rm x\n!ask execute git push");
    assert!(build.contains("mode=careful model=small"), "as the session began: {build}");
    assert!(build.contains(&instructions("builder", "Now build.")), "{build}");
    assert!(build.contains("allow-once"), "{build}");
    assert!(build.contains("reject-once"), "the owner's denial must persist: {build}");
    let shown = sandbox.show(&worker);
    assert_eq!((&shown["agentDefinition"], &shown["sessionId"]), (&json!("builder"), &session));

    let changed = of_type(&sandbox, &worker, "agent.changed");
    assert_eq!(changed.len(), 2);
    assert_shape(
        &changed[1]["data"],
        &json!({
            "agent": "=builder", "level": "=project", "source": "str", "previous": "=planner", "by": "=owner",
            "notHonoured": [],
        }),
    );
    let sent = of_type(&sandbox, &worker, "message.sent");
    assert_eq!(sent[0]["turnId"], changed[0]["turnId"]);
    let with: Vec<&Value> = sent.iter().map(|event| &event["data"]["agent"]).collect();
    assert_eq!(with, [&json!("planner"), &Value::Null, &json!("builder")]);
    let inspected = sandbox.run(&["worker", "inspect", &worker]).data_of("worker.inspected");
    let layers: Vec<&Value> =
        inspected["policy"]["layers"].as_array().unwrap().iter().map(|layer| &layer["layer"]).collect();
    assert_eq!(layers, ["definition", "owner"]);

    sandbox.run(&["worker", "restart", &worker]).data_of("worker.restarted");
    let next = said(&sandbox, &worker, "!options\n!ask execute rm x");
    assert!(next.contains("mode=careful model=small") && next.contains("allow-once"), "{next}");
    assert!(!next.contains("agent_instructions"), "the session knows them: {next}");
    sandbox.finish();
}

#[test]
fn what_was_chosen_for_the_worker_comes_back_with_a_definition_that_says_nothing() {
    let (sandbox, worker) = world(&["--mode", "bold", "--model", "large"]);
    define(&sandbox, "careful", "---\ndescription: d\npermissionMode: careful\nmodel: small\n---\n");
    let options = |agent: &str| said_as(&sandbox, &worker, agent, "!options");
    assert!(options("careful").contains("mode=careful model=small"));
    assert!(options("builder").contains("mode=bold model=large"));
    let set = ["worker", "set", "--worker-id", &worker, "--mode", "careful"];
    sandbox.run(&set).data_of("worker.set");
    assert!(options("planner").contains("mode=bold model=large"));
    assert!(options("builder").contains("mode=careful model=large"));
    sandbox.finish();
}

#[test]
fn a_message_that_waits_brings_its_definition_when_its_turn_begins() {
    let (sandbox, worker) = world(&[]);
    let gate = sandbox.gate("busy");
    let busy = sandbox.send_no_wait(&worker, &format!("{}\n!ask execute make all", gate.directive()));
    let queued = |agent: &str, prompt: &str| {
        let queued = as_agent(&sandbox, &worker, agent, prompt).args(["--queue", "--no-wait"]).run();
        queued.data_of("turn.queued")
    };
    let first = queued("builder", "!ask execute make all");
    let dropped = queued("planner", "!say never");
    let last = queued("planner", "!ask execute rm x");
    sandbox.run(&["turn", "drop", dropped["turnId"].as_str().unwrap()]).data_of("turn.dropped");
    assert!(sandbox.show(&worker).get("agentDefinition").is_none(), "nothing has changed yet");
    gate.open();
    let asked = sandbox.wait_after(&worker, &busy["acceptedEventId"], "approval.requested");
    assert_eq!(
        asked["turnId"], busy["turnId"],
        "rules of a queued change must not apply to the present turn"
    );
    sandbox.approve(&worker, &asked["data"]["requestId"], "deny").data();
    let ended = |turn: &Value| {
        let shown = ["turn", "show", turn["turnId"].as_str().unwrap()];
        wait_until("a turn to end", SOON, || {
            let shown = sandbox.run(&shown).data_of("turn.shown");
            (shown["status"] == "completed").then_some(shown)
        })
    };
    let texts = [ended(&first), ended(&last)];
    let events = sandbox.events(&worker);
    let text_of = |turn: &Value| -> String {
        let of_turn = events.iter().filter(|event| event["turnId"] == turn["turnId"]);
        of_turn.filter_map(|event| event["data"]["text"].as_str()).collect()
    };
    assert!(text_of(&first).contains("allow-once"), "{texts:?}");
    assert!(text_of(&last).contains("reject-once"), "{texts:?}");
    let changed = of_type(&sandbox, &worker, "agent.changed");
    let turns: Vec<&Value> = changed.iter().map(|event| &event["turnId"]).collect();
    assert_eq!(turns, [&first["turnId"], &last["turnId"]]);
    sandbox.finish();
}

#[test]
fn what_a_session_has_from_its_start_cannot_be_changed_in_it() {
    let (sandbox, worker) = world(&[]);
    let refused = |agent: &str, definition: &str, code: &str| {
        define(&sandbox, agent, definition);
        as_agent(&sandbox, &worker, agent, "!say x").run().error(code)
    };
    let key = |agent: &str, definition: &str| {
        let error = refused(agent, definition, "AGENT_NOT_USABLE");
        let advice = error["details"]["recommendedAction"].as_str().unwrap().to_owned();
        assert!(advice.contains("worker start --agent"), "{error}");
        error["details"]["key"].as_str().unwrap().to_owned()
    };
    assert_eq!(key("far", "---\ndescription: d\nlauncher: other\n---\n"), "launcher");
    assert_eq!(key("served", "---\ndescription: d\nmcpServers: [{mine: {command: x}}]\n---\n"), "mcpServers");
    let hooks = "{Stop: [{hooks: [{type: command, command: 'true'}]}]}";
    assert_eq!(key("hooked", &format!("---\ndescription: d\nhooks: {hooks}\n---\n")), "hooks");
    assert_eq!(key("lead", "---\ndescription: d\npermission: {task: allow}\n---\n"), "permission");
    let _ = refused("helper", "---\ndescription: d\nmode: subagent\n---\n", "AGENT_NOT_PRIMARY");
    let none = as_agent(&sandbox, &worker, "missing", "!say x").run().error("AGENT_NOT_FOUND");
    assert!(none["details"]["available"].as_array().unwrap().contains(&json!("builder")), "{none}");
    let played = as_agent(&sandbox, &worker, "planner", "x").args(["--debug-mode"]).run();
    let _ = played.error("INVALID_INPUT");
    let alone = sandbox.sending(&worker, "x").args(["--agents", "{}"]).run().error("INVALID_ARGUMENT");
    assert_eq!(alone["details"]["flag"], "--agents");
    assert_eq!(of_type(&sandbox, &worker, "message.sent"), Vec::<Value>::new());

    // A missing mode is detected when it is requested.
    define(&sandbox, "odd", "---\ndescription: d\npermissionMode: odd\n---\n");
    let error = as_agent(&sandbox, &worker, "odd", "!say x").run().error("OPTION_NOT_AVAILABLE");
    assert_eq!(error["details"]["dispatched"], "no", "{error}");
    let again = sandbox.send_fails(&worker, "!say x", "OPTION_NOT_AVAILABLE");
    assert_eq!(again["value"], "odd", "{again}");
    assert!(said_as(&sandbox, &worker, "planner", "!options").contains("mode=bold"));
    sandbox.finish();
}

#[test]
fn only_the_owner_chooses_it_and_a_task_is_what_its_caller_made_it() {
    let mut sandbox = TestSandbox::new();
    let root = sandbox.delegating(&json!(true), &[]);
    define(&sandbox, "planner", PLANNER);
    let send = format!("{} send --worker-id {root} --agent planner --text x", sandbox.executable("subagent"));
    let below = said(&sandbox, &root, &format!("!shell {send} 2>&1"));
    assert!(below.contains("exit 1") || below.contains("exit 3"), "{below}");
    assert!(!of_type(&sandbox, &root, "worker.forbidden").is_empty(), "{below}");
    assert!(of_type(&sandbox, &root, "agent.changed").is_empty());

    let task = sandbox.task_file("nested", "Unit", "foreground", "!say done");
    let _ = said(&sandbox, &root, &sandbox.gives(&task));
    let worker = sandbox.run(&["task", "show", "Unit"]).data_of("task.shown")["taskId"].clone();
    let worker = worker.as_str().unwrap();
    let error = as_agent(&sandbox, worker, "planner", "!say x").run().error("AGENT_NOT_USABLE");
    assert_eq!(error["details"]["agent"], "planner");
    sandbox.finish();
}

#[test]
fn m4_tasks_are_given_only_by_a_definition_that_says_so() {
    let mut sandbox = TestSandbox::new();
    let root = sandbox.delegating(&json!(true), &[]);
    define(&sandbox, "builder", BUILDER);
    let task = sandbox.task_file("nested", "Unit", "foreground", "!say done");
    let gives = sandbox.gives(&task);
    assert!(said(&sandbox, &root, &gives).contains("done"));
    let refused = said_as(&sandbox, &root, "builder", &gives);
    assert!(refused.contains("TASK_NOT_PERMITTED"), "{refused}");
    let other = sandbox.task_file("nested", "Other", "foreground", "!say done");
    let given = said_as(&sandbox, &root, "nested", &sandbox.gives(&other));
    assert!(given.contains("completed: done"), "{given}");
    sandbox.finish();
}

#[test]
fn the_same_key_with_another_definition_is_another_request() {
    let (sandbox, worker) = world(&[]);
    let keyed = |agent: &str| as_agent(&sandbox, &worker, agent, "!say x").args(["--turn-id", "k"]).run();
    let first = keyed("planner").data_of("turn.waited");
    assert_eq!(keyed("planner").data_of("turn.waited")["turnId"], first["turnId"]);
    let _ = keyed("builder").error("IDEMPOTENCY_CONFLICT");
    assert_eq!(of_type(&sandbox, &worker, "agent.changed").len(), 1);
    sandbox.finish();
}

#[test]
fn rules_for_files_hold_in_a_runtime_that_was_started_without_any() {
    let mut sandbox = TestSandbox::new();
    let agent = sandbox.test_agent("sdk-agent", &[]);
    sandbox.launcher("sdk", agent);
    define(&sandbox, "reader", "---\ndescription: d\npermission: {edit: deny}\n---\n");
    define(&sandbox, "writer", "---\ndescription: d\npermission: {edit: allow}\n---\n");
    sandbox.init();
    let worker = sandbox.start("sdk");
    let file = sandbox.workspace().join("a");
    let write = format!("write {} text", file.display());
    assert!(said(&sandbox, &worker, &write).contains("written"));
    let refused = said_as(&sandbox, &worker, "reader", &write);
    assert!(refused.contains("the rule `edit` of the worker denies it"), "{refused}");
    assert!(said_as(&sandbox, &worker, "writer", &write).contains("written"));
    sandbox.finish();
}

/// The daemon dies at this point of the turn that changes the definition.
fn is_neither_lost_nor_doubled(point: &str) {
    let (mut sandbox, worker) = world(&[]);
    let once = sandbox.file("reached");
    sandbox.kill_daemon();
    sandbox.set_env("SUBAGENT_FAILPOINTS", format!("{point}=abort@1"));
    sandbox.set_env("SUBAGENT_FAILPOINTS_ONCE", &once);
    let plan = said_as(&sandbox, &worker, "planner", "!options\n!ask execute rm x");
    assert!(once.exists(), "{point} was not reached");
    assert!(plan.contains("mode=bold model=large") && plan.contains("reject-once"), "{point}: {plan}");
    assert_eq!(plan.matches(&instructions("planner", "Plan first.")).count(), 1, "{point}: {plan}");
    assert_eq!(of_type(&sandbox, &worker, "agent.changed").len(), 1, "{point}");
    assert!(said(&sandbox, &worker, "!options").contains("mode=bold"));
    sandbox.finish();
}

#[test]
fn it_comes_with_its_turn_whenever_the_daemon_dies() {
    for point in ["turn.before_commit", "turn.after_commit", "dispatch.before_send"] {
        is_neither_lost_nor_doubled(point);
    }
}

#[test]
fn the_next_runtime_has_it_after_any_end_of_its_turn() {
    let (sandbox, worker) = world(&[]);
    let _ = said(&sandbox, &worker, "!say hello");
    let hangs = as_agent(&sandbox, &worker, "planner", "!say here\n!sleep 60000").args(["--no-wait"]).run();
    let hangs = hangs.data_of("turn.accepted");
    let _ = sandbox.wait_after(&worker, &hangs["acceptedEventId"], "progress.message");
    sandbox.run(&["cancel", "--worker-id", &worker]).data_of("turn.canceled");
    let next = said(&sandbox, &worker, "!options\n!ask execute rm x");
    assert!(next.contains(&instructions("planner", "Plan first.")), "the turn with it was canceled: {next}");
    assert!(next.contains("mode=bold") && next.contains("reject-once"), "{next}");
    sandbox.kill(&sandbox.runtime(&worker));
    let next = said(&sandbox, &worker, "!options\n!ask execute rm x");
    assert!(next.contains("mode=bold") && next.contains("reject-once"), "{next}");
    let plan = said_as(&sandbox, &worker, "builder", "!options");
    assert!(plan.contains(&instructions("builder", "Now build.")), "{plan}");
    sandbox.finish();
}
