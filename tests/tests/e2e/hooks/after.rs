//! Hooks that run after events: their input, and that a bad one changes nothing else.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, wait_until};

use super::{command, define, fits_the_schema, own_config, project_hooks};

const LIMIT: Duration = Duration::from_secs(30);

/// A hook that appends its input to a file, as a line.
fn appends(file: &Path) -> String {
    // In one write: a daemon that dies must not leave half a line.
    format!("awk 1 >> {}", file.display())
}

/// Sets the hooks of the user's own config file.
fn own_hooks(sandbox: &TestSandbox, hooks: &Value) {
    own_config(sandbox, &format!("hooks: {hooks}\n"));
}

/// Returns the inputs of hooks, once there are `count` of them.
fn inputs(file: &Path, count: usize) -> Vec<Value> {
    wait_until("hooks", LIMIT, || {
        let text = fs::read_to_string(file).unwrap_or_default();
        let lines: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        lines.iter().for_each(fits_the_schema);
        (lines.len() >= count).then_some(lines)
    })
}

/// Returns the data of `hook.failed`, once there are `count` of them.
fn failures(sandbox: &TestSandbox, worker: &str, count: usize) -> Vec<Value> {
    wait_until("hook.failed", LIMIT, || {
        let events = sandbox.events(worker).into_iter();
        let failed: Vec<Value> = events
            .filter(|event| event["type"] == "hook.failed")
            .map(|event| event["data"].clone())
            .collect();
        (failed.len() >= count).then_some(failed)
    })
}

#[test]
fn hooks_read_what_happened() {
    let sandbox = TestSandbox::new();
    let file = sandbox.file("read");
    let all = || command(&appends(&file));
    own_hooks(
        &sandbox,
        &json!({
            "SessionStart": all(), "Stop": all(), "Notification": all(),
            "PostToolUse": [{"matcher": "Edit", "hooks": [{"type": "command", "command": appends(&file)}]}],
        }),
    );
    sandbox.init();
    let worker = sandbox.start("demo");
    let start = &inputs(&file, 1)[0];
    assert_eq!((&start["hook_event_name"], &start["source"]), (&json!("SessionStart"), &json!("startup")));
    let cwd = sandbox.workspace();
    assert_eq!((start["worker"].as_str(), start["cwd"].as_str()), (Some(&*worker), cwd.to_str()));
    assert!(start["session_id"].is_string() && start["eventId"].is_string(), "{start}");
    let _ = sandbox.send(&worker, "!tool execute make\n!tool edit a.rs\nall done");
    let read = inputs(&file, 3);
    let (tool, stop) = (&read[1], &read[2]);
    assert_eq!((&tool["hook_event_name"], &tool["tool_name"]), (&json!("PostToolUse"), &json!("Edit")));
    assert!(tool["tool_response"].to_string().contains("a.rs: done"), "{tool}");
    assert_eq!((&tool["turnId"], &tool["status"]), (&stop["turnId"], &json!("completed")));
    assert_eq!((&stop["hook_event_name"], &stop["status"]), (&json!("Stop"), &json!("completed")));
    assert_eq!(stop["last_assistant_message"], "all done");
    let events = sandbox.events(&worker);
    let of = |input: &Value| events.iter().find(|event| event["eventId"] == input["eventId"]).unwrap();
    assert_eq!(of(stop)["type"], "turn.completed");
    let asked = sandbox.send_no_wait(&worker, "!ask execute make");
    let question = &inputs(&file, 4)[3];
    assert_eq!(question["notification_type"], "permission_prompt", "{question}");
    let _ = sandbox.approve(&worker, &question["requestId"], "allow");
    let _ = sandbox.turn_end(&asked);
    assert_eq!(inputs(&file, 5)[4]["hook_event_name"], "Stop");
    sandbox.finish();
}

#[test]
fn the_hooks_of_a_worker_hear_of_its_tasks() {
    let mut sandbox = TestSandbox::new();
    let file = sandbox.file("read");
    own_hooks(
        &sandbox,
        &json!({"SubagentStart": command(&appends(&file)), "SubagentStop": command(&appends(&file))}),
    );
    let worker = sandbox.delegating(&json!(true), &[]);
    let task = sandbox.task_file("nested", "Kid", "foreground", "it works");
    let _ = sandbox.send(&worker, &sandbox.gives(&task));
    let read = inputs(&file, 2);
    assert_eq!(
        (&read[0]["hook_event_name"], &read[0]["agent_type"]),
        (&json!("SubagentStart"), &json!("nested"))
    );
    assert_eq!(
        (&read[1]["hook_event_name"], &read[1]["status"]),
        (&json!("SubagentStop"), &json!("completed"))
    );
    assert_eq!(read[1]["path"], json!(["Root", "Kid"]));
    let task = sandbox.run(&["task", "show", "Kid"]).data_of("task.shown")["taskId"].take();
    assert_eq!((&read[0]["agent_id"], &read[1]["agent_id"]), (&task, &task));
    assert!(read[1]["last_assistant_message"].as_str().unwrap().contains("it works"), "{}", read[1]);
    sandbox.finish();
}

#[test]
fn a_bad_hook_is_an_event_and_changes_nothing_else() {
    let sandbox = TestSandbox::new();
    let plain = sandbox.file("plain.sh");
    fs::write(&plain, "#!/bin/sh\n").unwrap();
    let (file, left) = (sandbox.file("read"), sandbox.file("left"));
    let hook = |line: &str, timeout: f64| json!({"type": "command", "command": line, "timeout": timeout});
    let hooks = [
        hook("echo no luck >&2; exit 1", 10.0),
        hook(plain.to_str().unwrap(), 10.0),
        hook("trap '' TERM; while :; do sleep 1; done", 0.5),
        hook("yes | head -c 100000000; exit 3", 10.0),
        hook(&format!("(setsid sh -c 'sleep 600; echo > {}' &) ; exit 4", left.display()), 10.0),
        hook(&appends(&file), 10.0),
    ];
    own_hooks(&sandbox, &json!({"Stop": [{"hooks": hooks}]}));
    sandbox.init();
    let worker = sandbox.start("demo");
    let _ = sandbox.send(&worker, "hello");
    let failed = failures(&sandbox, &worker, 5);
    for (failed, expected) in failed.iter().zip([
        "it exited with 1: no luck",
        "is not executable (chmod +x)",
        "it did not end within 0.5 s and was killed; raise its `timeout`",
        "it exited with 3",
        "it exited with 4",
    ]) {
        assert!(failed["reason"].as_str().unwrap().contains(expected), "{failed}");
        assert_eq!((&failed["event"], &failed["origin"]), (&json!("Stop"), &json!("user")));
    }
    assert_eq!(inputs(&file, 1).len(), 1, "hooks after a bad one must run");
    let _ = sandbox.send(&worker, "again");
    assert_eq!(inputs(&file, 2)[1]["hook_event_name"], "Stop");
    sandbox.finish();
}

#[test]
fn a_hook_that_hangs_holds_up_no_other_worker() {
    let sandbox = TestSandbox::new();
    let (file, gate) = (sandbox.file("read"), sandbox.file("gate"));
    own_hooks(&sandbox, &json!({"Stop": command(&appends(&file))}));
    sandbox.init();
    let free = sandbox.start("demo");
    let line = format!("until [ -e {} ]; do sleep 0.05; done; {}", gate.display(), appends(&file));
    own_hooks(&sandbox, &json!({"Stop": command(&line)}));
    let held = sandbox.start("demo");
    let _ = sandbox.send(&held, "hello");
    let _ = sandbox.send(&held, "the worker itself goes on");
    let _ = sandbox.send(&free, "hello");
    assert_eq!(inputs(&file, 1)[0]["worker"].as_str(), Some(&*free));
    fs::write(&gate, "").unwrap();
    let read = inputs(&file, 3);
    assert!(read[1..].iter().all(|input| input["worker"] == held.as_str()), "{read:?}");
    assert!(read[1]["eventId"].as_str() < read[2]["eventId"].as_str(), "in the order of the events");
    sandbox.finish();
}

/// A worker whose hook for the end of a turn runs until the second file exists; it appends its inputs to the first.
fn in_a_hook() -> (TestSandbox, String, PathBuf, PathBuf) {
    let sandbox = TestSandbox::new();
    let (file, gate) = (sandbox.file("read"), sandbox.file("gate"));
    let line = format!("{}; until [ -e {} ]; do sleep 0.05; done", appends(&file), gate.display());
    own_hooks(&sandbox, &json!({"Stop": command(&line)}));
    sandbox.init();
    let worker = sandbox.start("demo");
    let _ = sandbox.send(&worker, "hello");
    assert_eq!(inputs(&file, 1).len(), 1);
    (sandbox, worker, file, gate)
}

#[test]
fn a_hook_that_was_cut_off_by_the_daemons_death_runs_again_with_the_same_event() {
    let (sandbox, worker, file, gate) = in_a_hook();
    sandbox.kill_daemon();
    fs::write(&gate, "").unwrap();
    let _ = sandbox.show(&worker);
    let read = inputs(&file, 2);
    assert_eq!(read[0], read[1], "the same event");
    let _ = sandbox.send(&worker, "once more");
    let read = inputs(&file, 3);
    assert_ne!(read[2]["eventId"], read[1]["eventId"]);
    sandbox.finish();
}

#[test]
fn a_hook_of_a_stopped_worker_that_the_daemons_death_cut_off_runs_again() {
    let (sandbox, worker, file, gate) = in_a_hook();
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.kill_daemon();
    fs::write(&gate, "").unwrap();
    // No request names the worker.
    sandbox.run(&["notify", "list"]).data_of("notify.listed");
    let read = inputs(&file, 2);
    assert_eq!(read[0], read[1], "the same event");
    sandbox.finish();
}

#[test]
fn an_untrusted_hook_does_not_run_and_is_reported() {
    let sandbox = TestSandbox::new();
    let file = sandbox.file("read");
    project_hooks(&sandbox, &json!({"Stop": command(&appends(&file))}));
    define(
        &sandbox,
        "reviewer",
        &format!("hooks: {{Stop: [{{hooks: [{{type: command, command: '{}'}}]}}]}}\n", appends(&file)),
    );
    sandbox.init();
    let started = sandbox.run(&["worker", "start", "--launcher", "demo", "--agent", "reviewer"]);
    let worker = started.data_of("worker.started")["workerId"].as_str().unwrap().to_owned();
    let failed = failures(&sandbox, &worker, 2);
    let project = sandbox.config_file();
    let advice = format!("subagent hook trust {}", project.display());
    assert!(failed[0]["reason"].as_str().unwrap().contains(&advice), "{failed:?}");
    assert_eq!((&failed[0]["origin"], &failed[1]["origin"]), (&json!("project"), &json!("definition")));
    let _ = sandbox.send(&worker, "hello");
    let _ = sandbox.run(&["hook", "trust", project.to_str().unwrap(), "--yes"]).data_of("hook.trusted");
    let second = sandbox.send(&worker, "again");
    let of_second = wait_until("the hook of the second turn", LIMIT, || {
        let read = inputs(&file, 1).into_iter().filter(|input| input["turnId"] == second["turnId"]);
        Some(read.count()).filter(|count| *count > 0)
    });
    assert_eq!(of_second, 1, "only the hook of the trusted file");
    assert_eq!(failures(&sandbox, &worker, 2).len(), 2, "each file must be reported once");
    sandbox.finish();
}

#[test]
fn each_hook_runs_at_least_once_whenever_the_daemon_dies() {
    for point in ["after_hook.before_run", "after_hook.after_run", "after_hook.after_cursor"] {
        let mut sandbox = TestSandbox::new();
        let (file, once) = (sandbox.file("read"), sandbox.file("reached"));
        own_hooks(&sandbox, &json!({"Stop": command(&appends(&file))}));
        sandbox.init();
        let _ = sandbox.run(&["daemon", "stop"]).data();
        sandbox.set_env("SUBAGENT_FAILPOINTS", format!("{point}=abort@1"));
        sandbox.set_env("SUBAGENT_FAILPOINTS_ONCE", &once);
        let worker = sandbox.start("demo");
        let _ = sandbox.send(&worker, "hello");
        wait_until("the point to be reached", LIMIT, || once.exists().then_some(()));
        let _ = sandbox.show(&worker);
        let ran = inputs(&file, if point == "after_hook.after_run" { 2 } else { 1 });
        assert!(ran.iter().all(|input| input["eventId"] == ran[0]["eventId"]), "{point}: {ran:?}");
        let _ = sandbox.send(&worker, "once more");
        let again = inputs(&file, ran.len() + 1);
        assert_eq!(again.len(), ran.len() + 1, "{point}: {again:?}");
        sandbox.finish();
    }
}

#[test]
fn a_client_that_waits_for_a_failure_hears_of_it_at_once() {
    let sandbox = TestSandbox::new();
    own_hooks(&sandbox, &json!({"Stop": command("sleep 1; exit 3")}));
    sandbox.init();
    let worker = sandbox.start("demo");
    let end = sandbox.send(&worker, "hello");
    let wait = ["wait", "--worker-id", &worker, "--until", "hook.failed", "--timeout-seconds", "20"];
    let from = ["--from-event-id", end["matchedEvent"]["eventId"].as_str().unwrap()];
    let failed = sandbox.run(&[&wait[..], &from[..]].concat()).data_of("event.matched");
    assert_eq!(failed["data"]["event"], "Stop", "{failed}");
    sandbox.finish();
}
