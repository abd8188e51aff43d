//! The reason for a task's early end, everywhere a caller looks: in the task, in its result and
//! in its parent's message.

use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, wait_until};

use crate::schedules::{firings, wait_for_firings};

/// Time limit for asynchronous results.
const SOON: Duration = Duration::from_secs(30);

struct TaskCauseFixture {
    sandbox: TestSandbox,
    root: String,
}

/// A worker with these flags that can delegate.
fn world(flags: &[&str]) -> TaskCauseFixture {
    let mut sandbox = TestSandbox::new();
    let root = sandbox.delegating(&json!(true), flags);
    TaskCauseFixture { sandbox, root }
}

impl TaskCauseFixture {
    /// Submits a background task.
    fn give(&self, name: &str, prompt: &str) {
        let gives = self.sandbox.gives(&self.sandbox.task_file("nested", name, "background", prompt));
        let waited = self.sandbox.send(&self.root, &gives);
        assert_eq!(waited["matchedEvent"]["type"], "turn.completed", "{waited}");
    }

    fn shown(&self, name: &str) -> Value {
        self.sandbox.run(&["task", "show", name]).data_of("task.shown")
    }

    fn until(&self, name: &str, status: &str) -> Value {
        wait_until(&format!("{name} to be {status}"), SOON, || {
            Some(self.shown(name)).filter(|shown| shown["status"] == status)
        })
    }

    fn events(&self, worker: &str, event_type: &str) -> Vec<Value> {
        let events = self.sandbox.events(worker).into_iter();
        events.filter(|event| event["type"] == event_type).map(|event| event["data"].clone()).collect()
    }

    /// Returns the parent's message about an end.
    fn end_message(&self) -> Value {
        wait_until("the end to be reported", SOON, || {
            let mut sent = self.events(&self.root, "message.sent").into_iter();
            sent.rfind(|data| !data["subagent"].is_null())
        })
    }
}

/// Returns the error of a task in one line.
fn why(task: &Value) -> String {
    let error = &task["error"];
    format!("{}: {}", error["code"].as_str().unwrap(), error["message"].as_str().unwrap())
}

#[track_caller]
fn begins(text: &Value, beginning: &str) {
    let text = text.as_str().unwrap();
    assert!(text.starts_with(beginning), "{text}");
}

/// Returns the update by which an agent reports a command that it has run.
fn ran(command: &str) -> String {
    let update = json!({
        "sessionUpdate": "tool_call", "toolCallId": command, "title": command, "kind": "execute",
        "status": "completed", "rawInput": {"command": command},
        "content": [{"type": "content", "content": {"type": "text", "text": "done"}}],
    });
    let params = json!({"sessionId": "SESSION", "update": update});
    json!({"jsonrpc": "2.0", "method": "session/update", "params": params}).to_string()
}

#[test]
fn a_task_that_was_canceled_for_a_violation_says_so_to_its_caller() {
    let world = world(&["--deny", "execute(rm *)"]);
    world.give("Cleaner", "so far\n!tool execute rm -rf x\n!sleep 600000");
    let shown = world.until("Cleaner", "cancelled");
    let id = shown["taskId"].as_str().unwrap();
    let why = why(&shown);
    assert!(why.starts_with("POLICY_VIOLATION: "), "{why}");
    assert!(why.contains("execute(rm *)") && why.contains("rm -rf x"), "{why}");
    let end_message = world.end_message();
    let expected = format!("[Subagent 'Cleaner' ({id}) cancelled: {why}]");
    assert_eq!(
        (&end_message["text"], &end_message["subagent"]["status"]),
        (&json!(expected), &json!("cancelled"))
    );
    let canceled = world.events(id, "subagent.cancelled");
    assert_eq!((canceled.len(), &canceled[0]["error"]), (1, &shown["error"]));
    let printed = world.sandbox.command("subagent").args(["task", "show", "Cleaner"]).run();
    assert!(printed.text().contains("POLICY_VIOLATION"), "{printed}");
    world.sandbox.finish();
}

#[test]
fn a_violation_that_is_noticed_after_the_turn_fails_the_task() {
    let world = world(&["--deny", "execute(rm *)"]);
    // The next daemon reads turn and call together: there is nothing left to cancel.
    let gate = world.sandbox.gate("turn");
    world.give("Fast", &format!("{}\n!raw {}\n!say cleaned", gate.directive(), ran("rm -rf x")));
    let id = world.until("Fast", "running")["taskId"].as_str().unwrap().to_owned();
    world.sandbox.kill_daemon();
    gate.open();
    let shown = world.until("Fast", "failed");
    assert!(why(&shown).starts_with("POLICY_VIOLATION: "), "{shown}");
    assert_eq!(shown["result"], "cleaned");
    assert_eq!(world.events(&id, "turn.completed").len(), 1);
    begins(&world.end_message()["text"], &format!("[Subagent 'Fast' ({id}) failed: POLICY_VIOLATION: "));

    // The call is reported after the response to the prompt.
    world.give("Late", &format!("!late {}\n!say cleaned", ran("rm -rf y")));
    let shown = world.until("Late", "failed");
    let id = shown["taskId"].as_str().unwrap();
    assert!(why(&shown).starts_with("POLICY_VIOLATION: "), "{shown}");
    assert_eq!(shown["result"], "cleaned");
    let failed = world.events(id, "subagent.failed");
    assert_eq!((failed.len(), &failed[0]["error"]), (1, &shown["error"]));
    // The next run is not affected.
    world.sandbox.run(&["task", "message", "Late", "--text", "!say again"]).data_of("task.messaged");
    let again = world.until("Late", "completed");
    assert_eq!((&again["runs"], &again["error"]), (&json!(2), &Value::Null), "{again}");
    world.sandbox.finish();
}

#[test]
fn a_task_that_was_canceled_says_by_whom_or_for_what() {
    let world = world(&["--approval-timeout", "1s", "--on-approval-timeout", "cancel"]);
    world.give("Asker", "!ask execute make");
    let shown = world.until("Asker", "cancelled");
    assert_eq!(shown["error"]["code"], "APPROVAL_TIMEOUT", "{shown}");
    let id = shown["taskId"].as_str().unwrap();
    let end_message = world.end_message();
    begins(
        &end_message["text"],
        &format!("[Subagent 'Asker' ({id}) cancelled: APPROVAL_TIMEOUT: a question"),
    );

    world.give("Long", "!sleep 600000");
    world.until("Long", "running");
    world.sandbox.run(&["task", "cancel", "Long", "--reason", "enough"]).data_of("task.cancelled");
    let error = world.until("Long", "cancelled")["error"].take();
    assert_eq!((&error["code"], &error["message"]), (&json!("CANCELLED"), &json!("enough")));
    world.sandbox.finish();
}

#[test]
fn a_task_shows_the_turn_that_gave_it_and_when_it_last_changed() {
    let world = world(&[]);
    world.give("Scout", "!tool read a\n!say found");
    let shown = world.until("Scout", "completed");
    let id = shown["taskId"].as_str().unwrap();
    let given = world.events(&world.root, "turn.started").remove(0)["turnId"].take();
    assert_eq!(shown["parentTurnId"], given, "{shown}");
    for event_type in ["subagent.spawned", "subagent.completed"] {
        assert_eq!(world.events(id, event_type)[0]["parentTurnId"], given, "{event_type}");
    }
    wait_until("the time of the newest event", SOON, || {
        let updated = world.shown("Scout")["updatedAt"].take();
        (world.sandbox.events(id).pop()?["ts"] == updated).then_some(())
    });
    let printed = world.sandbox.command("subagent").args(["task", "show", "Scout"]).run();
    let line = format!("parentTurnId: {}", given.as_str().unwrap());
    assert!(printed.text().lines().any(|printed| printed == line), "{printed}");
    assert!(printed.text().contains("\nupdatedAt: "), "{printed}");
    // Another client continues it: it no longer belongs to the parent's turn.
    world.sandbox.run(&["task", "message", "Scout", "--text", "!say again"]).data_of("task.messaged");
    let again = wait_until("the second run", SOON, || {
        Some(world.shown("Scout")).filter(|shown| shown["runs"] == 2 && shown["status"] == "completed")
    });
    assert_eq!(again["parentTurnId"], Value::Null);
    assert!(again["updatedAt"].as_str() >= shown["updatedAt"].as_str(), "{again}");
    world.sandbox.finish();
}

#[test]
fn a_task_that_fails_for_a_late_violation_has_ended_once_for_triggers() {
    let world = world(&["--deny", "execute(rm *)"]);
    let gate = world.sandbox.gate("turn");
    world.give("Late", &format!("{}\n!late {}\n!say cleaned", gate.directive(), ran("rm -rf y")));
    for (name, status) in [("any", &[][..]), ("bad", &["--status", "failed"])] {
        let add = ["trigger", "add", name, "--after", "Late", "demo", "!say fired"];
        world.sandbox.run(&[&add, status].concat()).data_of("trigger.added");
    }
    gate.open();
    let id = world.until("Late", "failed")["taskId"].as_str().unwrap().to_owned();
    wait_for_firings(&world.sandbox, "trigger", "bad", "completed", 1);
    // The end of another run shows that nothing of the first one is due.
    world.sandbox.run(&["task", "message", "Late", "--text", "!say again"]).data_of("task.messaged");
    world.until("Late", "completed");
    wait_for_firings(&world.sandbox, "trigger", "any", "completed", 2);
    let counts = ["any", "bad"].map(|name| firings(&world.sandbox, "trigger", name).len());
    assert_eq!(counts, [2, 1], "{:?}", world.events(&id, "subagent.completed"));
    world.sandbox.finish();
}
