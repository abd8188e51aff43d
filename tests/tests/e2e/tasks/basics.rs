//! Tasks from outside: managers and agents submit them, wait for them, and are notified of their
//! ends, in spite of any dying process.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{Response, TestSandbox, assert_shape, request, wait_until};

/// Time limit for asynchronous results.
const SOON: Duration = Duration::from_secs(30);

struct TaskBasicsFixture {
    sandbox: TestSandbox,
    root: String,
}

/// A worker that can delegate, with this in the config.
fn world(delegation: &Value) -> TaskBasicsFixture {
    let sandbox = TestSandbox::new();
    started(sandbox, delegation)
}

fn started(mut sandbox: TestSandbox, delegation: &Value) -> TaskBasicsFixture {
    let root = sandbox.delegating(delegation, &[]);
    TaskBasicsFixture { sandbox, root }
}

impl TaskBasicsFixture {
    /// Creates a file with a task, for any submitter.
    fn task(&self, name: &str, mode: &str, prompt: &str) -> PathBuf {
        self.sandbox.task_file("nested", name, mode, prompt)
    }

    /// Returns the directive by which an agent submits the task in a file, and waits
    /// for a foreground task.
    fn gives(&self, file: &Path) -> String {
        self.sandbox.gives(file)
    }

    fn ask(&self, line: &str, body: &Value) -> Response {
        // A command starts the daemon if it was killed.
        self.sandbox.run(&["worker", "list"]).data_of("worker.listed");
        let socket = self.sandbox.daemon_info().unwrap().socket;
        request(&socket, &[&format!("{line} HTTP/1.1")], &body.to_string())
    }

    /// Returns the daemon's response to an owner.
    #[track_caller]
    fn get(&self, path: &str) -> Value {
        let answer = self.ask(&format!("GET {path}"), &json!({})).json();
        assert_eq!(answer["ok"], true, "{answer}");
        answer["data"].clone()
    }

    #[track_caller]
    fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self.ask(&format!("POST {path}"), body).json();
        assert_eq!(answer["ok"], true, "{answer}");
        answer["data"].clone()
    }

    #[track_caller]
    fn error(&self, path: &str, body: &Value, code: &str) -> Value {
        let answer = self.ask(&format!("POST {path}"), body).json();
        assert_eq!(answer["error"]["code"], code, "{answer}");
        answer["error"].clone()
    }

    /// Submits a manager's task.
    fn managed(&self, name: &str, prompt: &str) -> Value {
        let workspace = self.sandbox.workspace().canonicalize().unwrap();
        let env: Vec<Value> = ["PATH", "HOME", "XDG_RUNTIME_DIR", "TMPDIR", "TEST_SANDBOX_ID"]
            .iter()
            .filter_map(|name| {
                let value = self.sandbox.subagent(&[]).process().get_envs().find_map(|(known, value)| {
                    (known.to_str() == Some(name)).then(|| value.unwrap().to_str().unwrap().to_owned())
                })?;
                Some(json!([base64(name), base64(&value)]))
            })
            .collect();
        json!({
            "prompt": prompt, "name": name,
            "manager": {
                "workspaceKey": workspace, "workspace": workspace, "cwd": workspace, "launcher": "demo", "env": env,
                "umask": 18,
            },
        })
    }

    /// Returns the messages to a worker about the ends of tasks.
    fn end_messages(&self, worker: &str) -> Vec<Value> {
        let events = self.sandbox.events(worker).into_iter();
        let sent = events.filter(|event| event["type"] == "message.sent");
        sent.map(|event| event["data"].clone()).filter(|data| !data["subagent"].is_null()).collect()
    }

    /// Waits for this many messages and the end of every turn.
    fn wait_for_end_messages(&self, count: usize) -> Vec<Value> {
        wait_until("the ends of tasks to be reported", SOON, || {
            let end_messages = self.end_messages(&self.root);
            let idle = self.sandbox.show(&self.root)["state"] == "idle";
            (end_messages.len() >= count && idle).then_some(end_messages)
        })
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// Encodes text for JSON.
fn base64(text: &str) -> Value {
    serde_json::to_value(subagent_protocol::bytes64::Bytes64(text.as_bytes().to_vec())).unwrap()
}

#[test]
fn a_managers_task_runs_ends_and_can_be_resumed_and_canceled() {
    let world = world(&json!(true));
    let task = world.post("/v1/tasks", &world.managed("Scout", "!tool read look\n!say found it"));
    let id = task["taskId"].as_str().unwrap();
    assert_eq!(
        (&task["parent"], &task["depth"], &task["path"]),
        (&Value::Null, &json!(1), &json!(["Scout"]))
    );
    let waited = world.post("/v1/tasks/scout/wait", &json!({}));
    assert_eq!((&waited["status"], &waited["result"]), (&json!("completed"), &json!("found it")));
    assert_shape(
        &waited,
        &json!({
            "taskId": "str", "name": "=Scout", "path": ["str"], "agent": null, "description": "str", "prompt": "str",
            "mode": "=foreground", "status": "=completed", "parent": null, "parentTurnId": null, "root": null, "depth": 1, "launcher": "=demo",
            "model": "=small", "steps": "int", "toolCalls": "int", "cost": null, "tokens": null, "runs": 1, "error": null,
            "metadata": {}, "createdAt": "str", "updatedAt": "str", "startedAt": "str", "completedAt": "str", "result": "str", "resultMaxTokens": "int",
        }),
    );
    let end_messages: Vec<Value> = world.sandbox.events(id);
    let end_messages: Vec<&str> = end_messages
        .iter()
        .filter_map(|event| event["type"].as_str())
        .filter(|word| word.starts_with("subagent."))
        .collect();
    assert_eq!(end_messages, ["subagent.spawned", "subagent.progress", "subagent.completed"]);
    // Its process ends, and a message brings it back.
    wait_until("its agent to end", SOON, || world.sandbox.show(id)["runtimePid"].is_null().then_some(()));
    let again = world.post("/v1/tasks/Scout/messages", &json!({"message": "!say once more"}));
    assert_eq!((&again["message"], &again["runs"]), (&json!("resumed"), &json!(2)));
    let waited = world.post("/v1/tasks/Scout/wait", &json!({}));
    assert_eq!((&waited["status"], &waited["result"]), (&json!("completed"), &json!("once more")));
    // Also one that ends at this moment: its process still ends afterwards.
    world.post("/v1/tasks/Scout/messages", &json!({"message": "!say at once"}));
    let waited = world.post("/v1/tasks/Scout/wait", &json!({}));
    assert_eq!((&waited["status"], &waited["result"]), (&json!("completed"), &json!("at once")));
    wait_until("its agent to end", SOON, || world.sandbox.show(id)["runtimePid"].is_null().then_some(()));
    let gate = world.sandbox.gate("never");
    world.post("/v1/tasks/Scout/messages", &json!({"message": gate.directive()}));
    let known = json!({"known": {"status": "queued", "steps": 0}});
    let _ = world.post("/v1/tasks/Scout/wait", &known);
    let nothing = json!({"message": " ", "cancel": true});
    world.error("/v1/tasks/Scout/messages", &nothing, "INVALID_ARGUMENT");
    world.post("/v1/tasks/Scout/cancel", &json!({"reason": "enough"}));
    let waited = world.post("/v1/tasks/Scout/wait", &json!({}));
    assert_eq!(waited["status"], "cancelled");
    // People read the word of turns, and may type it.
    let list = ["task", "list", "--status", "canceled"];
    let items = world.sandbox.run(&list).data_of("task.listed")["items"].clone();
    assert_eq!((&items[0]["name"], &items[0]["status"]), (&json!("Scout"), &json!("cancelled")), "{items}");
    let screen = world.sandbox.command("subagent").args(list).on_screen().text();
    assert!(screen.contains("canceled") && !screen.contains("cancelled"), "{screen}");
    world.error("/v1/tasks", &world.managed("scout", "x"), "TASK_NAME_TAKEN");
    let nothing = json!({});
    world.error("/v1/tasks/absent/wait", &nothing, "TASK_NOT_FOUND");
    world.sandbox.finish();
}

#[test]
fn m7_parents_that_wait_in_the_foreground_hold_no_place() {
    let world = world(&json!({"maxActive": 2, "maxDepth": 3}));
    // Two at each level wait for two below.
    let deep = |name: &str| world.task(name, "foreground", "!say deep");
    let middle = |name: &str| {
        let (one, two) = (deep(&format!("{name}1")), deep(&format!("{name}2")));
        world.task(name, "foreground", &format!("{}\n{}\n!say middle", world.gives(&one), world.gives(&two)))
    };
    let top = |name: &str| {
        let (one, two) = (middle(&format!("{name}1")), middle(&format!("{name}2")));
        world.task(name, "foreground", &format!("{}\n{}\n!say top", world.gives(&one), world.gives(&two)))
    };
    let prompt = format!("{}\n{}", world.gives(&top("a")), world.gives(&top("b")));
    let waited = world.sandbox.send(&world.root, &prompt);
    let said = text(&waited["assistantText"]);
    assert!(said.contains("a completed") && said.contains("b completed"), "{said}");
    assert_eq!((said.matches("deep").count(), said.matches("top").count()), (8, 2), "{said}");
    let all = world.get(&format!("/v1/tasks?root={}", world.root));
    assert_eq!(all["count"], 14);
    for task in all["items"].as_array().unwrap() {
        assert_eq!(task["status"], "completed", "{task}");
        let below = task["path"].as_array().unwrap().len() - 1;
        assert_eq!(task["depth"], below, "{task}");
    }
    // A task below the last level is refused, with an explanation for the agent.
    let mut file = world.task("below", "foreground", "x");
    for name in ["d3", "d2", "d1"] {
        file = world.task(name, "foreground", &world.gives(&file));
    }
    let waited = world.sandbox.send(&world.root, &world.gives(&file));
    assert!(text(&waited["assistantText"]).contains("d1 completed"), "{waited}");
    let d3 = world.get("/v1/tasks/d3");
    assert!(text(&d3["result"]).contains("TASK_DEPTH_LIMIT"), "{d3}");
    world.sandbox.finish();
}

#[test]
fn m7_tasks_beyond_the_places_wait_and_the_oldest_goes_first() {
    let world = world(&json!({"maxActive": 1, "maxTasks": 4}));
    let gate = world.sandbox.gate("first");
    let tasks = [
        world.task("one", "background", &gate.directive()),
        world.task("two", "background", "!say two"),
        world.task("three", "background", "!say three"),
    ];
    let prompt: Vec<String> = tasks.iter().map(|file| world.gives(file)).collect();
    let _ = world.sandbox.send(&world.root, &prompt.join("\n"));
    let status = |name: &str| world.get(&format!("/v1/tasks/{name}"))["status"].clone();
    wait_until("the first to run", SOON, || (status("one") == "running").then_some(()));
    assert_eq!((status("two"), status("three")), (json!("queued"), json!("queued")));
    world.sandbox.kill_daemon();
    assert_eq!((status("two"), status("three")), (json!("queued"), json!("queued")));
    gate.open();
    let end_messages = world.wait_for_end_messages(3);
    let names: Vec<&str> = end_messages.iter().filter_map(|data| data["subagent"]["name"].as_str()).collect();
    assert_eq!(names, ["one", "two", "three"], "in the order in which they were given");
    let started =
        |name: &str| world.get(&format!("/v1/tasks/{name}"))["startedAt"].as_str().unwrap().to_owned();
    assert!(started("two") <= started("three"));
    let four = world.gives(&world.task("four", "background", "!say four"));
    let _ = world.sandbox.send(&world.root, &four);
    // Its end is reported in a turn, which a message would find open.
    let _ = world.wait_for_end_messages(4);
    let five = world.task("five", "background", "x");
    let refused = world.sandbox.send(&world.root, &world.gives(&five));
    assert!(text(&refused["assistantText"]).contains("TASK_LIMIT"), "{refused}");
    world.sandbox.finish();
}

#[test]
fn a_task_that_would_have_forgotten_all_goes_on_only_if_that_is_allowed() {
    let mut sandbox = TestSandbox::new();
    let forgetful = sandbox.demo_agent(&["--no-capabilities"]);
    sandbox.launcher("forgetful", forgetful);
    let world = started(sandbox, &json!(true));
    let mut task = world.managed("Amnesiac", "!say once");
    task["manager"]["launcher"] = "forgetful".into();
    world.post("/v1/tasks", &task);
    let waited = world.post("/v1/tasks/Amnesiac/wait", &json!({}));
    let id = text(&waited["taskId"]);
    wait_until("its agent to end", SOON, || world.sandbox.show(id)["runtimePid"].is_null().then_some(()));
    let mut message = json!({"message": "!say again"});
    let error = world.error("/v1/tasks/Amnesiac/messages", &message, "CONTEXT_LOST");
    assert_shape(&error["details"], &json!({"task": "str", "recommendedAction": "str"}));
    message["allowFresh"] = true.into();
    assert_eq!(world.post("/v1/tasks/Amnesiac/messages", &message)["message"], "resumed");
    let waited = world.post("/v1/tasks/Amnesiac/wait", &json!({}));
    assert_eq!((&waited["status"], &waited["result"]), (&json!("completed"), &json!("again")));
    world.sandbox.finish();
}

/// A background task of a worker whose daemon dies at this point.
fn reported_once_although_the_daemon_dies_at(point: &str) {
    let mut sandbox = TestSandbox::new();
    let once = sandbox.file("reached");
    sandbox.set_env("SUBAGENT_FAILPOINTS", format!("{point}=abort@1"));
    sandbox.set_env("SUBAGENT_FAILPOINTS_ONCE", &once);
    let world = started(sandbox, &json!(true));
    let task = world.task("Runner", "background", "!say all green");
    // The agent's own request may cause the daemon's death: then it was stored or not.
    let _ = world.sandbox.send_no_wait(&world.root, &world.gives(&task));
    wait_until("the point to be reached", SOON, || {
        let _ = world.sandbox.subagent(&["worker", "list"]).run();
        once.exists().then_some(())
    });
    let end_messages = world.wait_for_end_messages(1);
    assert_eq!(end_messages.len(), 1, "{point}: {end_messages:?}");
    let id = end_messages[0]["subagent"]["subagentId"].as_str().unwrap();
    assert_eq!(
        end_messages[0]["text"],
        format!("[Subagent 'Runner' ({id}) completed: all green]"),
        "{point}"
    );
    assert_eq!(end_messages[0]["subagent"]["status"], "completed");
    world.sandbox.finish();
}

#[test]
fn m8_an_end_is_reported_once_whenever_the_daemon_dies() {
    for point in [
        "task_spawn.after_commit",
        "task_end.before_commit",
        "task_end.after_commit",
        "task_delivery.before_commit",
        "task_delivery.after_commit",
    ] {
        reported_once_although_the_daemon_dies_at(point);
    }
}

#[test]
fn m8_a_busy_parent_gets_it_next_and_a_lost_task_is_reported_as_lost() {
    let world = world(&json!(true));
    let gate = world.sandbox.gate("busy");
    let (lost, hangs) = (world.sandbox.gate("lost"), world.sandbox.gate("hangs"));
    let quick = world.task("quick", "background", "!say done");
    let dies = world.task("dies", "background", &format!("{}\n{}", lost.directive(), hangs.directive()));
    let prompt = format!("{}\n{}\n{}", world.gives(&quick), world.gives(&dies), gate.directive());
    let accepted = world.sandbox.send_no_wait(&world.root, &prompt);
    wait_until("the task to end", SOON, || {
        let tasks = world.get("/v1/tasks?status=completed");
        (tasks["count"] == 1).then_some(())
    });
    let dies = wait_until("the other to run", SOON, || {
        let running = world.get("/v1/tasks?status=running");
        running["items"].as_array().unwrap().iter().find(|task| task["name"] == "dies").cloned()
    });
    let dies = dies["taskId"].as_str().unwrap();
    world.sandbox.kill(&world.sandbox.runtime(dies));
    let waited = world.post("/v1/tasks/dies/wait", &json!({}));
    assert_eq!((&waited["status"], &waited["error"]["code"]), (&json!("lost"), &json!("RUNTIME_LOST")));
    assert_eq!(world.end_messages(&world.root).len(), 0, "the parent is busy");
    gate.open();
    let _ = world.sandbox.turn_end(&accepted);
    let end_messages = world.wait_for_end_messages(2);
    assert_eq!(end_messages[0]["subagent"]["name"], "quick");
    let expected = format!("[Subagent 'dies' ({dies}) lost: RUNTIME_LOST: ");
    assert!(text(&end_messages[1]["text"]).starts_with(&expected), "{end_messages:?}");
    world.sandbox.finish();
}

#[test]
fn m8_a_parent_whose_runtime_was_lost_is_notified_by_the_next_one() {
    let world = world(&json!(true));
    let gate = world.sandbox.gate("task");
    let task = world.task("slow", "background", &format!("{}\n!say done", gate.directive()));
    let _ = world.sandbox.send(&world.root, &world.gives(&task));
    world.sandbox.kill(&world.sandbox.runtime(&world.root));
    gate.open();
    let end_messages = world.wait_for_end_messages(1);
    assert_eq!((end_messages.len(), &end_messages[0]["subagent"]["status"]), (1, &json!("completed")));
    world.sandbox.finish();
}

#[test]
fn a_caller_below_a_worker_needs_the_token_for_tasks() {
    let world = world(&json!(false));
    let plain = world.sandbox.start("demo");
    let task = world.task("mine", "foreground", "!say mine");
    let refused = world.sandbox.send(&plain, &world.gives(&task));
    assert!(text(&refused["assistantText"]).contains("FORBIDDEN_FROM_WORKER"), "{refused}");
    assert_eq!(world.get("/v1/tasks")["count"], 0);
    world.sandbox.finish();
}
