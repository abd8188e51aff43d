//! Definitions of agents from outside: which are found, what their workers may do, and how the
//! prompt reaches the agent.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, assert_shape};

/// Writes a definition of the project.
fn define(sandbox: &TestSandbox, name: &str, text: &str) -> PathBuf {
    let folder = sandbox.workspace().join(".agents/agents");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join(format!("{name}.md"));
    fs::write(&file, text).unwrap();
    file
}

fn with_agent(text: &str) -> TestSandbox {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let _ = define(&sandbox, "reviewer", text);
    sandbox
}

fn start(sandbox: &TestSandbox, flags: &[&str]) -> String {
    let started = sandbox.subagent(&["worker", "start", "--agent", "reviewer"]).args(flags).run();
    let started = started.data_of("worker.started");
    assert_eq!(started["agentDefinition"], "reviewer");
    started["workerId"].as_str().unwrap().to_owned()
}

fn of_type(sandbox: &TestSandbox, worker: &str, event_type: &str) -> Vec<Value> {
    sandbox.events(worker).into_iter().filter(|event| event["type"] == event_type).collect()
}

/// Returns the agent's output in a turn.
fn said(sandbox: &TestSandbox, worker: &str, prompt: &str) -> String {
    sandbox.send(worker, prompt)["assistantText"].as_str().unwrap().to_owned()
}

const REVIEWER: &str = "\
---
description: Reads a change
launcher: demo
model: large
permissionMode: bold
maxSteps: 3
permission:
  execute: {\"*\": ask, \"ls *\": allow, \"rm *\": deny}
---
Read with fresh eyes.
";

#[test]
fn definitions_are_listed_shown_and_validated_without_a_daemon() {
    let sandbox = TestSandbox::new();
    let file = define(&sandbox, "reviewer", REVIEWER);
    let _ = define(&sandbox, "broken", "---\ndescription: d\nmode: boss\n---\n");
    let listed = sandbox.run(&["agent", "list"]).data_of("agent.listed");
    let names: Vec<&str> =
        listed["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["explore", "general", "plan", "reviewer", "summary", "title", "worker"]);
    assert_shape(
        &listed["items"][3],
        &json!({
            "name": "=reviewer", "description": "=Reads a change", "mode": "=all", "level": "=project", "source": "str",
            "launcher": "=demo", "model": "=large", "startable": true, "hides": [],
        }),
    );
    let shown = sandbox.run(&["agent", "show", "REVIEWER"]).data_of("agent.shown");
    assert_eq!(shown["source"], file.to_str().unwrap());
    assert_eq!(shown["prompt"], "Read with fresh eyes.");
    assert_eq!(
        shown["permission"][3],
        json!({"rule": "execute(rm *)", "action": "deny", "line": 8, "column": 38})
    );
    let error = sandbox.run(&["agent", "show", "absent"]).error("AGENT_NOT_FOUND");
    assert_eq!(error["details"]["agent"], "absent");
    assert_eq!(error["details"]["available"], json!(names));
    let error = sandbox.run(&["agent", "show", "broken"]).error("AGENT_NOT_USABLE");
    assert_eq!((&error["details"]["line"], &error["details"]["key"]), (&json!(3), &json!("mode")));

    let validated = sandbox.subagent(&["agent", "validate"]).run();
    assert_eq!(validated.status.code(), Some(1), "{validated}");
    let data = &validated.document()["data"];
    assert_eq!((&data["valid"], &data["errors"]), (&json!(false), &json!(1)));
    assert_shape(
        &data["problems"][0],
        &json!({
            "severity": "=error", "agent": "=broken", "level": "=project", "source": "str", "line": 3, "column": 1,
            "key": "=mode", "message": "str",
        }),
    );
    let text = sandbox.command("subagent").args(["agent", "validate"]).run();
    assert!(text.stdout.contains("broken.md:3:1: error: "), "{text}");
    let alone = sandbox.subagent(&["agent", "validate", file.to_str().unwrap()]).run();
    assert_eq!(alone.data_of("agent.validated")["valid"], true);
    let none = sandbox.subagent(&["agent", "validate", "none.md"]).run();
    assert_eq!(none.status.code(), Some(2), "{none}");
    assert!(sandbox.find_daemon().is_none());
    sandbox.finish();
}

#[test]
fn an_agent_that_cannot_be_started_is_not() {
    let mut sandbox = with_agent("---\ndescription: d\ndisallowed_tools: Bash\n---\n");
    let serving = sandbox.demo_agent(&[]).key("mcpServers", json!({"docs": {"command": "true"}}));
    sandbox.launcher("serving", serving);
    let _ = define(&sandbox, "helper", "---\ndescription: d\nmode: subagent\n---\n");
    let _ = define(&sandbox, "served", "---\ndescription: d\nmcpServers: [none]\n---\n");
    let _ = define(
        &sandbox,
        "clashing",
        "---\ndescription: d\nlauncher: serving\nmcpServers: [{docs: {command: other}}]\n---\n",
    );
    let _ = define(&sandbox, "skilled", "---\ndescription: d\nskills: none\n---\n");
    let validated = sandbox.subagent(&["agent", "validate"]).run();
    assert!(validated.stdout.contains("there is no skill `none`"), "{validated}");
    let starts = |name: &str| sandbox.run(&["worker", "start", "--agent", name]);
    let error = starts("reviewer").error("AGENT_NOT_USABLE");
    assert_eq!(
        (&error["details"]["key"], &error["details"]["line"]),
        (&json!("disallowed_tools"), &json!(3)),
        "{error}"
    );
    assert_eq!(starts("helper").error("AGENT_NOT_PRIMARY")["details"]["agent"], "helper");
    assert_eq!(starts("served").error("AGENT_NOT_USABLE")["details"]["mcpServer"], "none");
    assert_eq!(starts("clashing").error("AGENT_NOT_USABLE")["details"]["mcpServer"], "docs");
    assert_eq!(starts("skilled").error("AGENT_NOT_USABLE")["details"]["key"], "skills");
    let error = starts("absent").error("AGENT_NOT_FOUND");
    assert!(error["details"]["available"].as_array().unwrap().contains(&json!("explore")), "{error}");
    assert_eq!(sandbox.run(&["worker", "list"]).data_of("worker.listed")["count"], 0);
    sandbox.finish();
}

#[test]
fn m1_a_deny_of_the_definition_is_final_and_what_it_asks_may_be_allowed() {
    let sandbox = with_agent(REVIEWER);
    let worker = start(&sandbox, &["--allow", "execute"]);
    assert!(said(&sandbox, &worker, "!ask execute rm -rf x").ends_with("permission: reject-once"));
    assert_eq!(said(&sandbox, &worker, "!ask execute make"), "permission: allow-once");
    let decided = of_type(&sandbox, &worker, "approval.decided");
    assert_eq!(decided[0]["data"]["policy"]["layer"], "definition");
    assert_eq!(decided[0]["data"]["policy"]["line"], 8);
    assert_eq!(decided[1]["data"]["policy"]["layer"], "owner");
    sandbox.finish();
}

#[test]
fn m1_a_tool_that_is_not_listed_is_denied_and_to_be_listed_allows_nothing() {
    let sandbox = with_agent("---\ndescription: d\ntools: Read, Bash(ls *)\ndisallowedTools: fetch\n---\n");
    let worker = start(&sandbox, &["--allow", "edit"]);
    assert_eq!(said(&sandbox, &worker, "!ask edit x"), "permission: reject-once");
    assert_eq!(said(&sandbox, &worker, "!ask execute rm x"), "permission: reject-once");
    let decided = of_type(&sandbox, &worker, "approval.decided");
    assert_eq!(decided[0]["data"]["policy"]["rule"], "tools");
    let waited = sandbox.send(&worker, "!ask execute ls x");
    assert_eq!(waited["matchedEvent"]["type"], "approval.requested", "{waited}");
    sandbox.approve(&worker, &waited["requestId"], "allow").data_of("approval.decided");
    let _ = sandbox.turn_end(&waited);
    sandbox.finish();
}

#[test]
fn m4_a_task_is_denied_unless_the_definition_allows_it() {
    let asks = |sandbox: &TestSandbox, worker: &str| {
        let call = json!({"toolCallId": "c", "title": "t", "kind": "think", "_meta": {"x": {"toolName": "Task"}},
                          "rawInput": {"subagent_type": "explore"}});
        let options = json!([{"optionId": "y", "name": "Yes", "kind": "allow_once"},
                             {"optionId": "n", "name": "No", "kind": "reject_once"}]);
        let params = json!({"sessionId": "SESSION", "toolCall": call, "options": options});
        let ask =
            json!({"jsonrpc": "2.0", "id": 77, "method": "session/request_permission", "params": params});
        let _ = sandbox.send(worker, &format!("!raw {ask}"));
        of_type(sandbox, worker, "approval.decided").pop().unwrap()["data"]["optionId"].clone()
    };
    let sandbox = with_agent("---\ndescription: d\n---\n");
    let worker = start(&sandbox, &["--allow", "task"]);
    assert_eq!(asks(&sandbox, &worker), "n", "also where its owner allows it");
    let _ = define(&sandbox, "reviewer", "---\ndescription: d\npermission: {task: {explore: allow}}\n---\n");
    let worker = start(&sandbox, &[]);
    assert_eq!(asks(&sandbox, &worker), "y");
    sandbox.finish();
}

#[test]
fn m5_a_change_of_the_file_changes_nothing_of_what_runs() {
    let sandbox = with_agent(REVIEWER);
    let worker = start(&sandbox, &[]);
    let before = sandbox.run(&["worker", "inspect", &worker]).data_of("worker.inspected");
    let _ = define(&sandbox, "reviewer", "---\ndescription: d\npermission: full\n---\nDo what you like.\n");
    sandbox.kill_daemon();
    sandbox.run(&["worker", "restart", &worker]).data_of("worker.restarted");
    let after = sandbox.run(&["worker", "inspect", &worker]).data_of("worker.inspected");
    assert_eq!((&before["policy"], &before["agent"]), (&after["policy"], &after["agent"]));
    let said = said(&sandbox, &worker, "!ask execute rm x\n!options");
    assert!(said.contains("Read with fresh eyes.") && said.contains("reject-once"), "{said}");
    assert!(said.contains("mode=bold model=large"), "{said}");
    sandbox.finish();
}

#[test]
fn a_prompt_goes_before_the_first_message_and_again_when_the_context_was_lost() {
    let mut sandbox = with_agent(REVIEWER);
    let state = sandbox.file_name("sessions");
    let demo = sandbox.demo_agent(&["--state", &state]);
    sandbox.launcher("demo", demo);
    let worker = start(&sandbox, &[]);
    let applied = of_type(&sandbox, &worker, "agent.applied");
    assert_shape(
        &applied[0]["data"],
        &json!({
            "agent": "=reviewer", "level": "=project", "source": "str", "prompt": "=first_prompt",
            "notHonoured": [{"key": "=maxSteps", "value": 3, "reason": "str"}],
        }),
    );
    let has_instructions =
        |said: String| said.contains("<agent_instructions agent=\"reviewer\">Read with fresh eyes.");
    // An end after which the agent may not keep the prompt.
    assert!(has_instructions(said(&sandbox, &worker, "!say a\n!stop refusal")));
    assert!(
        has_instructions(said(&sandbox, &worker, "!say b")),
        "the first prompt was refused and must not be in the session"
    );
    assert!(!has_instructions(said(&sandbox, &worker, "!say c")));
    let sent = of_type(&sandbox, &worker, "message.sent");
    assert_eq!(sent[0]["data"]["text"], "!say a\n!stop refusal", "it must not count as the user's text");
    sandbox.kill_daemon();
    sandbox.run(&["worker", "restart", &worker]).data_of("worker.restarted");
    assert!(
        !has_instructions(said(&sandbox, &worker, "!say d")),
        "the session must be resumed with its context"
    );
    fs::remove_dir_all(&state).unwrap();
    sandbox.run(&["worker", "restart", &worker]).data_of("worker.restarted");
    assert_eq!(of_type(&sandbox, &worker, "worker.restarted").pop().unwrap()["data"]["contextLost"], true);
    assert!(has_instructions(said(&sandbox, &worker, "!say e")));
    assert!(!has_instructions(said(&sandbox, &worker, "!say f")));
    assert_eq!(of_type(&sandbox, &worker, "agent.applied").len(), 3);
    sandbox.finish();
}

#[test]
fn an_agent_that_takes_system_prompts_gets_the_prompt_as_one() {
    let mut sandbox = with_agent(REVIEWER);
    let state = sandbox.file_name("sessions");
    let demo = sandbox.demo_agent(&["--system-prompt", "--state", &state]);
    sandbox.launcher("demo", demo);
    let skill = sandbox.workspace().join(".agents/skills/rust");
    fs::create_dir_all(&skill).unwrap();
    fs::write(skill.join("SKILL.md"), "Use cargo.").unwrap();
    let _ = define(&sandbox, "reviewer", "---\ndescription: d\nskills: rust\ncaller: agent\n---\nRead.\n");
    let worker = start(&sandbox, &[]);
    assert_eq!(of_type(&sandbox, &worker, "agent.applied")[0]["data"]["prompt"], "system_prompt");
    let folder = skill.to_str().unwrap();
    let wanted = format!(
        "Read.\n\nYour caller is another agent; return structured output.\n\n<skill name=\"rust\" folder=\"{folder}\">\nUse cargo.\n</skill>"
    );
    assert_eq!(said(&sandbox, &worker, "!system-prompt"), wanted);
    sandbox.run(&["worker", "restart", &worker]).data_of("worker.restarted");
    assert_eq!(said(&sandbox, &worker, "!system-prompt"), wanted, "it is repeated with the session");
    sandbox.finish();
}

#[test]
fn a_model_is_a_tier_of_the_launcher_or_what_the_agent_has_and_else_it_is_reported() {
    let mut sandbox = with_agent("---\ndescription: d\nmodel: opus\n---\n");
    let tiered =
        sandbox.demo_agent(&[]).key("tiers", json!({"strong": "large"})).key("model", json!("small"));
    sandbox.launcher("tiered", tiered);
    let options = |worker: &str| said(&sandbox, worker, "!options");
    let not_honoured =
        |worker: &str| of_type(&sandbox, worker, "agent.applied")[0]["data"]["notHonoured"].clone();
    let worker = start(&sandbox, &["--launcher", "tiered"]);
    assert!(options(&worker).contains("model=large"));
    assert_eq!(not_honoured(&worker), json!([]));
    let worker = start(&sandbox, &["--launcher", "tiered", "--model", "small"]);
    assert!(options(&worker).contains("model=small"), "an explicit choice takes precedence");
    let worker = start(&sandbox, &["--launcher", "demo"]);
    assert!(options(&worker).contains("model=small"), "the agent must work without it");
    assert_eq!(
        (&not_honoured(&worker)[0]["key"], &not_honoured(&worker)[0]["value"]),
        (&json!("model"), &json!("opus"))
    );
    let _ = define(
        &sandbox,
        "reviewer",
        "---\ndescription: d\nmodel: LAR\ntemperature: 0.2\nmaxOutputTokens: 500\n---\n",
    );
    let worker = start(&sandbox, &["--launcher", "demo"]);
    assert!(options(&worker).contains("model=large"), "a name that matches exactly one model");
    let not_honoured = not_honoured(&worker);
    assert_eq!(
        (&not_honoured[0]["key"], &not_honoured[1]["key"]),
        (&json!("temperature"), &json!("maxOutputTokens"))
    );
    assert_eq!(not_honoured[1]["value"], 500);
    sandbox.finish();
}

#[test]
fn worker_continue_keeps_the_definition_of_the_worker_before() {
    let sandbox = with_agent(REVIEWER);
    let worker = start(&sandbox, &[]);
    let _ = define(&sandbox, "reviewer", "---\ndescription: d\npermission: full\n---\nOther.\n");
    let continued =
        sandbox.run(&["worker", "continue", "--from-worker", &worker]).data_of("worker.continued");
    let other = continued["worker"]["workerId"].as_str().unwrap();
    let inspect = |worker: &str| sandbox.run(&["worker", "inspect", worker]).data_of("worker.inspected");
    let (before, after) = (inspect(&worker), inspect(other));
    assert_eq!(before["agent"], after["agent"]);
    assert_eq!(before["policy"]["layers"][0], after["policy"]["layers"][0]);
    sandbox.finish();
}

#[test]
fn an_agent_that_is_not_logged_in_says_so_at_its_start() {
    let mut sandbox = TestSandbox::new();
    let agent = sandbox.demo_agent(&["--late-auth"]);
    sandbox.launcher("agent", agent);
    let command = "subagent launcher login agent";
    let start = ["worker", "start", "agent"];
    let started = sandbox.run(&start).data_of("worker.started");
    assert_eq!(started["loginWanted"], true, "{started}");
    let worker = started["workerId"].as_str().unwrap();
    let said = sandbox.command("subagent").args(start).run();
    assert!(said.status.success(), "{said}");
    assert!(said.stderr.contains(command), "{said}");
    let said = sandbox.command("subagent").args(["run", "-d", "agent", "hello"]).run();
    assert!(said.stderr.contains(command), "{said}");
    // The first message fails with the same command.
    assert_eq!(sandbox.send_fails(worker, "hello", "BACKEND_RPC_ERROR")["recommendedCommand"], command);
    for form in [&["send", worker, "hello"][..], &["wait", worker], &["result", worker]] {
        let said = sandbox.command("subagent").args(form).run();
        assert_eq!(said.status.code(), Some(10), "{said}");
        assert!(said.stderr.contains(&format!("Try: {command}\n")), "{said}");
        let screen = sandbox.command("subagent").args(form).on_screen().text();
        assert!(screen.contains("Hint: ") && screen.contains(&format!("Try: {command}\n")), "{screen}");
    }
    let run = || sandbox.command("subagent").args(["run", "agent", "hello"]);
    let said = run().run();
    assert_eq!(
        (said.status.code(), said.stderr.matches(&format!("Try: {command}\n")).count()),
        (Some(10), 1)
    );
    let screen = run().on_screen().text();
    assert_eq!(screen.matches(&format!("Try: {command}\n")).count(), 1, "{screen}");
    let _ = sandbox.run(&["launcher", "login", "agent"]).data_of("launcher.login");
    assert_eq!(sandbox.send(worker, "hello")["assistantText"], "hello");
    let shown = sandbox.show(worker);
    assert_eq!((&shown["agent"]["authStatus"]["kind"], shown.get("loginWanted")), (&json!("account"), None));
    assert!(sandbox.run(&start).data_of("worker.started").get("loginWanted").is_none());
    sandbox.finish();
}
