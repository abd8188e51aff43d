//! M10: task events reach every watcher of a worker above the task, once and in order; with
//! `--tree` also all other events.

use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{On, TestSandbox, assert_shape, wait_until};

/// A worker that can delegate.
fn root() -> (TestSandbox, String) {
    let mut sandbox = TestSandbox::new();
    let root = sandbox.delegating(&json!(true), &[]);
    (sandbox, root)
}

/// Returns the directive by which an agent submits a task, and waits for a foreground one.
fn gives(sandbox: &TestSandbox, name: &str, mode: &str, prompt: &str) -> String {
    sandbox.gives(&sandbox.task_file("nested", name, mode, prompt))
}

fn parsed(stdout: &str) -> Vec<Value> {
    stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn is_milestone(event: &Value) -> bool {
    event["type"].as_str().unwrap().starts_with("subagent.") && event["type"] != "subagent.event"
}

/// Returns the task events: type and task.
fn milestones(events: &[Value]) -> Vec<(&str, &str)> {
    let milestones = events.iter().filter(|event| is_milestone(event));
    milestones
        .map(|event| (event["type"].as_str().unwrap(), event["data"]["name"].as_str().unwrap()))
        .collect()
}

fn ids(events: &[Value]) -> Vec<i64> {
    let id = |event: &Value| event["eventId"].as_str().unwrap().parse::<subagent_protocol::ids::EventId>();
    events.iter().map(|event| id(event).unwrap().0).collect()
}

fn watch(sandbox: &TestSandbox, worker: &str, flags: &[&str]) -> Vec<Value> {
    let output = sandbox.command("subagent").args(["watch", "--worker-id", worker]).args(flags).run();
    let _ = output.text();
    output.lines()
}

/// Matches a line of this type, of the task with this name.
fn of<'a>(kind: &'a str, name: &'a str) -> impl FnMut(&str) -> Option<Value> + 'a {
    move |line| {
        let event: Value = serde_json::from_str(line).ok()?;
        (event["type"] == kind && event["data"]["name"] == name).then_some(event)
    }
}

#[test]
fn m10_events_of_tasks_below_are_seen_once_and_in_order_also_across_the_end_of_the_daemon() {
    let (sandbox, root) = root();
    let (deep, child) = (sandbox.gate("deep"), sandbox.gate("child"));
    let prompt = format!("!tool read leaf\n{}\n!say from the deep", deep.directive());
    let prompt = format!(
        "!tool read first\n!tool read second\n{}\n{}\n!say done",
        gives(&sandbox, "Deep", "background", &prompt),
        child.directive()
    );
    let following = sandbox.follow(&root);
    following.wait_line("the start", |line| line.contains("worker.started").then_some(()));
    let _ = sandbox.send(&root, &gives(&sandbox, "Child", "background", &prompt));
    following.wait_line("the step of the lowest", of("subagent.progress", "Deep"));
    sandbox.kill_daemon();
    let _ = sandbox.run(&["worker", "list"]);
    deep.open();
    following.wait_line("the end of the lowest", of("subagent.completed", "Deep"));
    let begun = following.wait_line("the other", of("subagent.spawned", "Child"));
    let task = begun["workerId"].as_str().unwrap();
    wait_until("the end of the lowest task to be reported", Duration::from_secs(30), || {
        let queued = sandbox.events(task).into_iter().filter(|event| event["type"] == "turn.queued");
        (queued.count() == 2).then_some(())
    });
    child.open();
    following.wait_line("the end of the other", of("subagent.completed", "Child"));
    // It is idle again after it was notified.
    wait_until("the end to be reported", Duration::from_secs(30), || {
        let is_milestone = |event: &Value| event["data"]["subagent"]["name"] == "Child";
        let milestones = sandbox.events(&root).iter().any(is_milestone);
        (milestones && sandbox.show(&root)["state"] == "idle").then_some(())
    });
    sandbox.run(&["worker", "stop", &root]).data_of("worker.stopped");
    let followed = parsed(&following.output().stdout);
    let seen = milestones(&followed);
    let of_task = |name: &str| {
        let of = seen.iter().filter(|(_, of)| *of == name);
        of.map(|(kind, _)| kind.strip_prefix("subagent.").unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(of_task("Child"), ["spawned", "progress", "progress", "completed"]);
    assert_eq!(of_task("Deep"), ["spawned", "progress", "completed"]);
    assert_eq!((seen.len(), seen[0].1, seen[6].1), (7, "Child", "Child"), "{seen:?}");
    assert!(ids(&followed).is_sorted_by(|one, next| one < next));
    assert_eq!(watch(&sandbox, &root, &[]), followed, "stored and printed events must be equal");
    let task = |name: &str| {
        let mut milestones = followed.iter().filter(|event| is_milestone(event));
        milestones.find(|event| event["data"]["name"] == name).unwrap()["workerId"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    // Every printed event is a cursor, of any worker.
    for (at, event) in followed.iter().enumerate().filter(|(_, event)| is_milestone(event)) {
        let rest = watch(&sandbox, &root, &["--from-event-id", event["eventId"].as_str().unwrap()]);
        assert_eq!(rest, followed[at + 1..]);
    }
    let of_child = watch(&sandbox, &task("Child"), &[]);
    assert_eq!(milestones(&of_child), seen);
    assert!(milestones(&watch(&sandbox, &task("Deep"), &[])).iter().all(|(_, name)| *name == "Deep"));
    // A cursor of a worker above is not valid below.
    let first = followed[0]["eventId"].as_str().unwrap();
    let above = sandbox.run(&["watch", "--worker-id", &task("Deep"), "--from-event-id", first]);
    above.error("EVENT_NOT_FOUND");
    sandbox.finish();
}

#[test]
fn m10_a_step_is_reported_with_its_number_and_a_harmless_name() {
    let (sandbox, root) = root();
    let title = "x".repeat(1000);
    let prompt = format!("!tool read one\n!tool execute {title}\n!say done");
    let _ = sandbox.send(&root, &gives(&sandbox, "Child", "foreground", &prompt));
    let events = watch(&sandbox, &root, &[]);
    let steps: Vec<&Value> = events.iter().filter(|event| event["type"] == "subagent.progress").collect();
    let shape = json!({
        "schemaVersion": "=v1", "eventId": "str", "ts": "ts", "workerId": "str", "type": "=subagent.progress",
        "data": {"id": "str", "name": "=Child", "steps": "int", "tool": "str"},
    });
    for (step, tool) in [(1, "one"), (2, &title[..256])] {
        assert_shape(steps[step - 1], &shape);
        assert_eq!(steps[step - 1]["data"]["steps"], step);
        assert_eq!(steps[step - 1]["data"]["tool"], tool);
        assert_eq!(steps[step - 1]["data"]["id"], steps[step - 1]["workerId"]);
    }
    assert_eq!(steps.len(), 2);
    sandbox.finish();
}

#[test]
fn m10_with_tree_every_other_event_below_is_wrapped_with_its_path() {
    let (sandbox, root) = root();
    let _ = sandbox.send(&root, &gives(&sandbox, "Child", "foreground", "!tool read one\n!say hello"));
    let plain = watch(&sandbox, &root, &[]);
    let child =
        plain.iter().find(|event| is_milestone(event)).unwrap()["workerId"].as_str().unwrap().to_owned();
    // Its agent ends some time after its task.
    wait_until("the agent of the task to end", Duration::from_secs(30), || {
        sandbox.events(&child).iter().any(|event| event["type"] == "worker.hibernated").then_some(())
    });
    for flags in [&["--tree"][..], &["--tree", "--raw"]] {
        let (joined, own) = (watch(&sandbox, &root, flags), watch(&sandbox, &child, &flags[1..]));
        assert!(ids(&joined).is_sorted_by(|one, next| one < next));
        let (wrapped, rest): (Vec<Value>, Vec<Value>) =
            joined.into_iter().partition(|event| event["type"] == "subagent.event");
        assert_eq!(
            rest,
            watch(&sandbox, &root, &flags[1..]),
            "the other events must be the same as without it"
        );
        let inside: Vec<Value> = own.into_iter().filter(|event| !is_milestone(event)).collect();
        assert!(inside.iter().any(|event| event["data"]["text"] == "hello"), "{inside:?}");
        let expected: Vec<Value> = inside
            .into_iter()
            .map(|event| {
                json!({
                    "schemaVersion": "v1", "eventId": event["eventId"], "ts": event["ts"], "workerId": root,
                    "type": "subagent.event",
                    "data": {"path": ["Root", "Child"], "workerId": child, "agent": "nested", "event": event},
                })
            })
            .collect();
        assert_eq!(wrapped, expected);
        // One of them is a cursor too.
        let cursor = wrapped[0]["eventId"].as_str().unwrap();
        let after = watch(&sandbox, &root, &["--from-event-id", cursor]);
        assert_eq!(
            ids(&after),
            ids(&plain).into_iter().filter(|id| *id > ids(&wrapped)[0]).collect::<Vec<_>>()
        );
    }
    let document = sandbox.run(&["watch", "--worker-id", &root, "--tree"]).data_of("events.watched");
    assert!(document["items"].as_array().unwrap().iter().any(|event| event["type"] == "subagent.event"));
    let refused = sandbox.run(&["watch", "--all", "--tree"]).error("INVALID_ARGUMENT");
    assert!(refused["message"].as_str().unwrap().contains("--worker-id"), "{refused}");
    sandbox.finish();
}

#[test]
fn m10_a_worker_that_gives_its_first_task_while_it_is_followed_is_joined_and_the_stream_ends_with_the_last_task()
 {
    let (sandbox, root) = root();
    for flags in [&["--tree"][..], &[]] {
        let args = ["watch", "--worker-id", &root, "--follow", "--timeout-seconds", "0"];
        let following = sandbox.command("subagent").args(args).args(flags).spawn();
        following.wait_line("the start", |line| line.contains("worker.started").then_some(()));
        let name = if flags.is_empty() { "Second" } else { "First" };
        let _ = sandbox.send(&root, &gives(&sandbox, name, "foreground", "!tool read one\n!say hello"));
        following.wait_line("the end of the task", of("subagent.completed", name));
        drop(following.kill());
    }
    let gate = sandbox.gate("never");
    let _ = sandbox.send(&root, &gives(&sandbox, "Third", "background", &gate.directive()));
    let following = sandbox.follow(&root);
    sandbox.run(&["worker", "stop", &root]).data_of("worker.stopped");
    let followed = parsed(&following.output().stdout);
    let milestones = milestones(&followed);
    assert_eq!(milestones.last(), Some(&("subagent.cancelled", "Third")), "{milestones:?}");
    assert!(followed.iter().any(|event| event["type"] == "worker.stopped"));
    sandbox.finish();
}

#[test]
fn m10_a_flood_of_a_task_does_not_reach_who_watches_the_worker_above() {
    let (sandbox, root) = root();
    let _ = sandbox.send(&root, &gives(&sandbox, "Child", "foreground", "!stream 3000\n!say done"));
    let events = watch(&sandbox, &root, &[]);
    let below: Vec<Value> =
        events.iter().filter(|event| event["workerId"] != root.as_str()).cloned().collect();
    assert_eq!(milestones(&below), [("subagent.spawned", "Child"), ("subagent.completed", "Child")]);
    assert_eq!(below.len(), 2, "{below:?}");
    let all = watch(&sandbox, &root, &["--tree"]);
    assert!(all.len() > 3000 && ids(&all).is_sorted_by(|one, next| one < next), "{}", all.len());
    sandbox.finish();
}

#[test]
fn m10_from_below_a_worker_only_its_own_events_are_seen() {
    let (sandbox, root) = root();
    let _ = sandbox.send(&root, &gives(&sandbox, "Child", "foreground", "!say hello"));
    let program = sandbox.executable("subagent");
    let looks = |flags: &str| {
        let _ = sandbox.send(&root, &format!("!shell {program} watch --worker-id {root} {flags} 2>&1"));
        let events = sandbox.events(&root).into_iter().rev();
        let mut said = events.filter(|event| event["type"] == "progress.message");
        said.next().unwrap()["data"]["text"].as_str().unwrap().to_owned()
    };
    let plain = looks("");
    assert!(plain.contains("worker.started") && !plain.contains("subagent.spawned"), "{plain}");
    let tree = looks("--tree");
    assert!(tree.contains("FORBIDDEN_FROM_WORKER") && !tree.contains("worker.started"), "{tree}");
    sandbox.finish();
}

#[test]
fn m10_a_tree_that_is_followed_is_shown_again_when_it_has_changed_until_nothing_in_it_is_open() {
    let (sandbox, root) = root();
    let gate = sandbox.gate("child");
    let prompt = format!("!tool read one\n{}\n!tool read two\n!say done", gate.directive());
    let _ = sandbox.send_no_wait(&root, &gives(&sandbox, "Child", "foreground", &prompt));
    let child = |line: &str| line.contains("Child  running").then_some(());
    let follow = |args: &[&str]| sandbox.command("subagent").args(["tree", "--follow"]).args(args).spawn();
    let texts = follow(&[root.as_str()]);
    texts.wait_line("the task", child);
    let documents = follow(&[root.as_str(), "--json"]);
    documents.wait_line("the task", |line| line.contains("Child").then_some(()));
    let screen = sandbox.command("subagent").args(["tree", "--follow"]).at_terminal(100, On::Both);
    screen.wait_for("Child  running");
    gate.open();
    let texts = texts.output().stdout;
    let trees: Vec<&str> = texts.trim_end().split("\n\n").collect();
    assert!(trees.len() > 1 && trees.iter().all(|tree| tree.starts_with("Root  ")), "{texts}");
    let last = trees.last().unwrap();
    assert!(last.starts_with("Root  idle") && last.contains("Child  completed  nested"), "{last}");
    assert!(last.contains("2 tool calls"), "{last}");
    let documents = parsed(&documents.output().stdout);
    assert!(documents.len() > 1 && documents.iter().all(|document| document["type"] == "tree.shown"));
    assert!(documents.windows(2).all(|pair| pair[0] != pair[1]), "{documents:?}");
    let last = &documents.last().unwrap()["data"]["items"][0];
    assert_eq!((&last["state"], &last["tasks"][0]["status"]), (&json!("idle"), &json!("completed")));
    let drawn = screen.screen().bytes;
    let (before, last) = drawn.rsplit_once("\u{1b}[J").unwrap();
    assert!(before.ends_with("\u{1b}[2F") && last.lines().count() == 2, "{drawn:?}");
    assert!(last.starts_with("Root  idle") && last.contains("Child  completed"), "{drawn:?}");
    sandbox.finish();
}

#[test]
fn sessions_that_an_agent_runs_below_its_own_stand_in_the_tree() {
    let (sandbox, root) = root();
    let title_of = |id: &str| {
        let update = json!({"sessionUpdate": "subagent_update", "sessionId": id, "title": "Look", "state": {"state": "idle"}});
        let update = json!({"sessionId": "SESSION", "update": update});
        format!("!raw {}", json!({"jsonrpc": "2.0", "method": "session/update", "params": update}))
    };
    let given = gives(&sandbox, "Child", "foreground", &format!("{}\n!say done", title_of("inner")));
    let _ = sandbox.send(&root, &format!("{}\n{given}", title_of("outer")));
    let tree = sandbox.command("subagent").args(["tree"]).run();
    let lines: Vec<&str> = tree.text().lines().collect();
    assert!(lines[0].starts_with("Root  idle") && lines[1].starts_with("├─ Child  completed"), "{lines:?}");
    assert_eq!(lines[2..], ["│  └─ Look  idle  session  inner", "└─ Look  idle  session  outer"]);
    let data = sandbox.run(&["tree", &root]).data_of("tree.shown");
    assert_eq!(data["items"][0]["childSessions"][0]["sessionId"], "outer", "{data}");
    assert_eq!(data["items"][0]["tasks"][0]["childSessions"][0]["sessionId"], "inner", "{data}");
    sandbox.finish();
}
