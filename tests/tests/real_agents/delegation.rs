//! A real agent delegates to other real agents: with its tools, in the background, across the death
//! of the daemon. It is notified of each end once.

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, wait_until};
use subagent_tests::real_agent::RealAgent;

use super::crew::Crew;
use super::world::DEADLINE;

/// Parents and the agents they delegate to: across vendors, in both directions.
const FAMILIES: [(&str, [&str; 2]); 2] = [("claude", ["codex", "opencode"]), ("codex", ["claude", "gemini"])];

/// A family in its own sandbox, with a definition for each child.
fn family(parent: &str, children: [&'static str; 2]) -> Crew {
    let crew = Crew::new(&[parent, children[0], children[1]]);
    for child in children {
        crew.define(&format!("by-{child}"), &format!("launcher: {child}"));
    }
    crew
}

/// Makes the parent call the tool once. Returns the tool's output.
fn gives(sandbox: &TestSandbox, worker: &str, child: &str, prompt: &str) -> Value {
    let call = json!({
        "agent": format!("by-{child}"), "prompt": prompt, "description": format!("Told {child}"), "background": true,
    });
    let sending = sandbox.sending(worker, &format!("MCP: subagent/task {call}"));
    let mut waited =
        sending.args(["--wait-timeout-seconds", "120"]).deadline(DEADLINE).run().data_of("turn.waited");
    assert_eq!(waited["matchedEvent"]["type"], "turn.completed", "{waited}");
    waited["assistantText"].take()
}

fn delegates(parent: &str, children: [&'static str; 2]) {
    let crew = family(parent, children);
    let Crew { sandbox, models, .. } = &crew;
    let start = ["worker", "start", "--launcher", parent, "--delegate"];
    let started = sandbox.subagent(&start).deadline(DEADLINE).run().data_of("worker.started");
    let worker = started["workerId"].as_str().unwrap();
    let gate = sandbox.gate("both");
    for child in children {
        let said = gives(sandbox, worker, child, &format!("GATE: {}", gate.path().display()));
        assert!(said.as_str().unwrap().contains("DONE:"), "{said}");
    }
    let tasks = || sandbox.run(&["task", "list", "--parent", worker]).data_of("task.listed")["items"].take();
    let all = |status: &'static str| {
        move |items: &Value| {
            items.as_array().unwrap().iter().filter(|task| task["status"] == status).count() == 2
        }
    };
    wait_until("both tasks to run", DEADLINE, || Some(tasks()).filter(all("running")));
    sandbox.kill_daemon();
    gate.open();
    wait_until("both tasks to have ended", DEADLINE, || Some(tasks()).filter(all("completed")));
    // Each end is a separate prompt, which the model repeats.
    let reported = || {
        let mut events = sandbox.events(worker);
        events.retain(|event| event["type"] == "turn.completed");
        (events.len() == 4).then_some(())
    };
    wait_until("the parent to be notified of both", DEADLINE, reported);
    for task in tasks().as_array().unwrap() {
        let reported = format!(
            "[Subagent '{}' ({}) completed:",
            task["name"].as_str().unwrap(),
            task["taskId"].as_str().unwrap()
        );
        let heard = sandbox
            .events(worker)
            .iter()
            .filter(|event| {
                event["type"] == "message.sent"
                    && event["data"]["text"].as_str().unwrap_or_default().starts_with(&reported)
            })
            .count();
        assert_eq!(heard, 1, "{reported}");
        assert_eq!(
            models.prompts().iter().filter(|prompt| prompt.contains(&reported)).count(),
            1,
            "{reported}"
        );
    }
    sandbox.run(&["worker", "stop", worker]).data_of("worker.stopped");
    crew.finish();
}

#[test]
fn m8_a_parent_hears_of_two_tasks_of_other_agents_once_although_the_daemon_dies() {
    for (parent, children) in FAMILIES {
        if [parent].iter().chain(&children).all(|name| RealAgent::is_installed(name)) {
            delegates(parent, children);
        }
    }
}
