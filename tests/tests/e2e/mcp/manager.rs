//! `subagent mcp` as a manager: it starts workers, gets their questions, answers,
//! and reads their changes.

use serde_json::{Value, json};
use subagent_tests::harness::TestSandbox;

use super::{McpClient, OF_TASKS, sandbox, scout};
use crate::look::git;

/// Returns the names of the tools.
fn names(client: &mut McpClient) -> Vec<String> {
    let listed = client.ask("tools/list", json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// Returns the result of a tool as JSON.
#[track_caller]
fn called(client: &mut McpClient, tool: &str, arguments: Value) -> Value {
    let (text, is_error) = client.called(tool, arguments);
    assert!(!is_error, "{text}");
    serde_json::from_str(&text).unwrap()
}

/// Returns the code of an error.
#[track_caller]
fn refused(client: &mut McpClient, tool: &str, arguments: Value) -> String {
    let (text, is_error) = client.called(tool, arguments);
    assert!(is_error, "{text}");
    text.split(':').next().unwrap().to_owned()
}

/// Starts a worker from a client.
fn started(client: &mut McpClient) -> String {
    let worker = called(client, "start_worker", json!({"launcher": "demo", "label": "Fix"}));
    assert_eq!((&worker["label"], &worker["state"]), (&json!("Fix"), &json!("idle")), "{worker}");
    worker["worker_id"].as_str().unwrap().to_owned()
}

fn wait(client: &mut McpClient, worker: &str) -> Value {
    let waited = called(client, "wait_for", json!({"worker_ids": [worker], "timeout_seconds": 30}));
    assert_eq!(waited["timed_out"], false, "{waited}");
    waited["workers"][0].clone()
}

#[test]
fn a_manager_starts_a_worker_answers_its_question_and_reads_its_answer() {
    let sandbox = sandbox();
    let mut client = McpClient::new(&sandbox);
    let worker = started(&mut client);
    let listed = called(&mut client, "list_workers", json!({}));
    assert_eq!(listed["workers"][0]["worker_id"], worker, "{listed}");
    let message = json!({"worker_id": worker, "message": "before\n!ask execute make all\nafter"});
    let sent = called(&mut client, "send_message", message.clone());
    let waited = wait(&mut client, &worker);
    let question = &waited["question"];
    assert_eq!(
        (&question["subject"], &question["worker_id"]),
        (&json!("make all"), &json!(worker)),
        "{waited}"
    );
    let open = called(&mut client, "list_questions", json!({}));
    assert_eq!(open["questions"][0]["request_id"], question["request_id"], "{open}");
    assert_eq!(refused(&mut client, "send_message", message), "WORKER_BUSY");
    let again = json!({"worker_id": worker, "message": "!elicit {\"mode\": \"form\", \"message\": \"Which?\", \
        \"requestedSchema\": {\"type\": \"object\", \"properties\": {\"name\": {\"type\": \"string\"}}}}", "queue": true});
    assert_eq!(called(&mut client, "send_message", again)["queue_position"], 1);
    let answer = json!({"request_id": question["request_id"], "decision": "allow", "note": "as agreed"});
    assert_eq!(called(&mut client, "answer_question", answer.clone())["worker_id"], *worker);
    assert_eq!(refused(&mut client, "answer_question", answer), "APPROVAL_NOT_PENDING");

    let turn = sandbox.run(&["turn", "show", sent["turn_id"].as_str().unwrap()]);
    let _ = turn.data_of("turn.shown");
    let form = wait(&mut client, &worker)["question"].clone();
    assert_eq!(form["kind"], "elicitation", "{form}");
    let content = json!({"request_id": form["request_id"], "decision": "accept", "content": {"name": "a"}});
    called(&mut client, "answer_question", content);
    let ended = wait(&mut client, &worker);
    assert_eq!(
        (&ended["ended"], &ended["stop_reason"]),
        (&json!("completed"), &json!("end_turn")),
        "{ended}"
    );
    assert!(ended["message"].as_str().unwrap().contains("\"name\":\"a\""), "{ended}");

    let mut events: Vec<Value> = Vec::new();
    let mut cursor = Value::Null;
    loop {
        let page =
            called(&mut client, "get_events", json!({"worker_id": worker, "cursor": cursor, "limit": 3}));
        let found = page["events"].as_array().unwrap();
        if found.is_empty() {
            break;
        }
        assert!(found.len() <= 3);
        events.extend(found.clone());
        cursor = page["next_cursor"].clone();
    }
    assert_eq!(events, sandbox.events(&worker));
    assert_eq!(called(&mut client, "stop_worker", json!({"worker_id": worker}))["state"], "stopped");
    assert_eq!(called(&mut client, "list_workers", json!({}))["workers"], json!([]));
    assert_eq!(called(&mut client, "list_workers", json!({"all": true}))["workers"][0]["state"], "stopped");
    client.end();
    sandbox.finish();
}

#[test]
fn a_wait_ends_in_time_and_with_the_question_of_a_task() {
    let sandbox = sandbox();
    let mut client = McpClient::new(&sandbox);
    let worker = started(&mut client);
    let gate = sandbox.gate("turn");
    called(&mut client, "send_message", json!({"worker_id": worker, "message": gate.directive()}));
    let waited = called(&mut client, "wait_for", json!({"worker_ids": [worker], "timeout_seconds": 0}));
    assert_eq!(
        (&waited["timed_out"], &waited["workers"][0]["state"]),
        (&json!(true), &json!("running")),
        "{waited}"
    );
    gate.open();
    assert_eq!(wait(&mut client, &worker)["ended"], "completed");
    // The client's own task waits for an answer from another call.
    let task = client.call("task", scout("!ask execute make all\nbuilt"));
    let question = loop {
        let open = called(&mut client, "list_questions", json!({}));
        if let Some(question) = open["questions"].as_array().unwrap().first() {
            break question.clone();
        }
    };
    assert_eq!(question["path"], json!(["Look around"]), "{question}");
    let asked = called(&mut client, "wait_for", json!({"worker_ids": [question["worker_id"]]}));
    assert_eq!(asked["workers"][0]["question"]["request_id"], question["request_id"], "{asked}");
    called(
        &mut client,
        "answer_question",
        json!({"request_id": question["request_id"], "decision": "allow-once"}),
    );
    assert!(client.text(task).0.contains("built"));
    client.end();
    sandbox.finish();
}

#[test]
fn the_message_of_a_turn_is_reported_after_any_other_events() {
    let sandbox = sandbox();
    let mut client = McpClient::new(&sandbox);
    let worker = started(&mut client);
    let gate = sandbox.gate("turn");
    let send = |client: &mut McpClient, text: &str, queue: bool| {
        called(client, "send_message", json!({"worker_id": worker, "message": text, "queue": queue}))
    };
    send(&mut client, &format!("{}\n!error -32603 no luck", gate.directive()), false);
    send(&mut client, "from the queue", true);
    gate.open();
    let failed = wait(&mut client, &worker);
    assert_eq!((&failed["ended"], &failed["error"]["code"]), (&json!("failed"), &json!("BACKEND_RPC_ERROR")));
    // This had paused the queue.
    sandbox.run(&["queue", "resume", "--worker-id", &worker]).data_of("queue.resumed");
    let ended = wait(&mut client, &worker);
    assert_eq!(
        (&ended["ended"], &ended["message"]),
        (&json!("completed"), &json!("from the queue")),
        "{ended}"
    );
    client.end();
    sandbox.finish();
}

#[test]
fn what_a_manager_gets_wrong_is_a_result_that_a_model_can_read() {
    let sandbox = sandbox();
    let mut client = McpClient::new(&sandbox);
    let worker = started(&mut client);
    for (tool, arguments, code) in [
        ("wait_for", json!({"worker_ids": ["w_0000000000"]}), "WORKER_NOT_FOUND"),
        ("send_message", json!({"worker_id": "w_0000000000", "message": "x"}), "WORKER_NOT_FOUND"),
        ("stop_worker", json!({"worker_id": "w_0000000000"}), "WORKER_NOT_FOUND"),
        ("get_events", json!({"worker_id": worker, "cursor": "ev_00000000zzzz"}), "EVENT_NOT_FOUND"),
        ("answer_question", json!({"request_id": "ap_0", "decision": "allow"}), "APPROVAL_NOT_FOUND"),
        ("start_worker", json!({"launcher": "absent"}), "LAUNCHER_NOT_FOUND"),
        ("start_worker", json!({"env": {"A": "b"}}), "start_worker"),
        ("wait_for", json!({"worker_ids": [worker], "timeout_seconds": 3600}), "wait_for"),
    ] {
        assert_eq!(refused(&mut client, tool, arguments), code, "{tool}");
    }
    client.end();
    sandbox.finish();
}

#[test]
fn a_client_chooses_tools_and_the_agent_of_a_worker_has_no_tools_of_a_manager() {
    let sandbox = sandbox();
    let mut client = McpClient::with(&sandbox, &["mcp", "--tools", "task,list_workers,wait_for", "--prefix"]);
    assert_eq!(names(&mut client), ["subagent_task", "subagent_list_workers", "subagent_wait_for"]);
    let unknown = client.ask("tools/call", json!({"name": "subagent_stop_worker", "arguments": {}}));
    assert!(unknown["error"]["message"].as_str().unwrap().contains("there is no tool"), "{unknown}");
    client.end();
    let output = sandbox.command("subagent").args(["mcp", "--tools", "task,land_ship"]).run();
    assert!(!output.status.success() && output.stderr.contains("land_ship is not a tool"), "{output}");
    below_a_worker(&sandbox);
    sandbox.finish();
}

/// Checks the list of a worker's own server, and that it refuses a manager's tool.
fn below_a_worker(sandbox: &TestSandbox) {
    sandbox.init();
    let start = ["worker", "start", "--launcher", "demo", "--delegate"];
    let worker = sandbox.run(&start).data_of("worker.started")["workerId"].as_str().unwrap().to_owned();
    let mut client = McpClient::with_token(sandbox, &sandbox.task_token(&worker));
    assert!(names(&mut client).iter().all(|name| OF_TASKS.contains(&name.as_str())));
    let refused = client.ask("tools/call", json!({"name": "list_workers", "arguments": {}}));
    assert!(refused["error"]["message"].as_str().unwrap().contains("there is no tool"), "{refused}");
}

#[test]
fn ends_in_the_background_are_reported_and_are_in_a_resource_although_the_daemon_dies() {
    let sandbox = sandbox();
    let mut client = McpClient::new(&sandbox);
    let tasks = json!({"uri": "subagent://tasks"});
    client.ask("resources/subscribe", tasks.clone());
    let gate = sandbox.gate("end");
    let give = |name: &str, prompt: &str| json!({"agent": "scout", "prompt": prompt, "description": name, "name": name, "background": true});
    let (_, is_error) = client.called("task", give("fine", &format!("{}\n!say found", gate.directive())));
    assert!(!is_error);
    sandbox.kill_daemon();
    gate.open();
    let reported = client.next("notifications/message")["params"].clone();
    let data = &reported["data"];
    assert_eq!(
        (&reported["level"], &data["name"], &data["status"], &data["error"]),
        (&json!("info"), &json!("fine"), &json!("completed"), &Value::Null),
        "{reported}"
    );
    assert_eq!(client.next("notifications/resources/updated")["params"], tasks);
    let _ = client.called("task", give("broken", "!crash"));
    let reported = client.next("notifications/message")["params"].clone();
    assert_eq!(
        (&reported["level"], &reported["data"]["status"]),
        (&json!("warning"), &json!("failed")),
        "{reported}"
    );
    let read = client.ask("resources/read", tasks);
    let text = read["result"]["contents"][0]["text"].as_str().unwrap();
    let listed: Value = serde_json::from_str(text).unwrap();
    let statuses: Vec<&Value> = listed.as_array().unwrap().iter().map(|task| &task["status"]).collect();
    assert_eq!(statuses, ["completed", "failed"], "{listed}");
    client.end();
    sandbox.finish();
}

#[test]
fn a_wait_for_several_ends_with_the_first_that_has_something() {
    let sandbox = sandbox();
    let mut client = McpClient::new(&sandbox);
    let (busy, asking) = (started(&mut client), started(&mut client));
    let gate = sandbox.gate("turn");
    called(&mut client, "send_message", json!({"worker_id": busy, "message": gate.directive()}));
    called(&mut client, "send_message", json!({"worker_id": asking, "message": "!ask execute make"}));
    let both = json!({"worker_ids": [busy, asking], "timeout_seconds": 30});
    let waited = called(&mut client, "wait_for", both);
    assert_eq!(waited["timed_out"], false, "{waited}");
    let of = |worker: &str| {
        let workers = waited["workers"].as_array().unwrap();
        workers.iter().find(|one| one["worker_id"] == worker).cloned()
    };
    let question = of(&asking).unwrap()["question"].take();
    assert_eq!(question["subject"], "make", "{waited}");
    assert!(of(&busy).is_none_or(|one| one["question"].is_null() && one["ended"].is_null()), "{waited}");
    gate.open();
    assert_eq!(wait(&mut client, &busy)["ended"], "completed");
    let answer = json!({"request_id": question["request_id"], "decision": "allow"});
    called(&mut client, "answer_question", answer);
    client.end();
    sandbox.finish();
}

#[test]
fn a_client_below_a_worker_has_no_resource_of_tasks() {
    let sandbox = sandbox();
    sandbox.init();
    let worker = sandbox.start("demo");
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "resources/list"});
    let file = sandbox.file("lines");
    std::fs::write(&file, format!("{hello}\n{list}\n")).unwrap();
    let begun = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}";
    let script = format!(
        "!shell (sed -n 1p {0}; echo '{begun}'; sed -n 2p {0}; sleep 1) | {1} mcp",
        file.display(),
        sandbox.executable("subagent")
    );
    let text = sandbox.send(&worker, &script)["assistantText"].as_str().unwrap().to_owned();
    assert!(text.contains("\"id\":2") && !text.contains("subagent://tasks"), "{text}");
    sandbox.finish();
}

#[test]
fn what_an_agent_asks_and_a_page_of_events_have_a_limit_in_bytes() {
    let sandbox = sandbox();
    let mut client = McpClient::new(&sandbox);
    let worker = started(&mut client);
    let long = format!("!ask execute {}", "x".repeat(20_000));
    called(&mut client, "send_message", json!({"worker_id": worker, "message": long}));
    let question = wait(&mut client, &worker)["question"].clone();
    let request = &question["request"];
    assert_eq!(request["truncated"], true, "{question}");
    assert!(request.to_string().len() <= 8 * 1024);
    assert!(question.to_string().len() <= 20 * 1024, "{question}");
    let answer = json!({"request_id": question["request_id"], "decision": "allow"});
    called(&mut client, "answer_question", answer);
    assert_eq!(wait(&mut client, &worker)["ended"], "completed");
    called(&mut client, "send_message", json!({"worker_id": worker, "message": "!flood 20 10000"}));
    assert_eq!(wait(&mut client, &worker)["ended"], "completed");
    let (mut ids, mut cursor, mut pages) = (Vec::new(), Value::Null, 0);
    loop {
        let arguments = json!({"worker_id": worker, "cursor": cursor, "limit": 200});
        let page = called(&mut client, "get_events", arguments);
        assert!(page.to_string().len() <= 65 * 1024, "{}", page.to_string().len());
        let found = page["events"].as_array().unwrap();
        if found.is_empty() {
            break;
        }
        pages += 1;
        ids.extend(found.iter().map(|event| event["eventId"].clone()));
        cursor = page["next_cursor"].clone();
    }
    let all: Vec<Value> = sandbox.events(&worker).iter().map(|event| event["eventId"].clone()).collect();
    assert_eq!(ids, all);
    assert!(pages > 2, "{pages}");
    client.end();
    sandbox.finish();
}

#[test]
fn a_manager_reads_the_changes_of_a_worktree_and_lands_them() {
    let sandbox = sandbox();
    for args in [
        &["init", "-q", "-b", "main", "."][..],
        &["config", "user.name", "me"],
        &["config", "user.email", "me@example.com"],
        &["add", ".agents"],
        &["commit", "-qm", "first"],
    ] {
        git(&sandbox, args);
    }
    let mut client = McpClient::new(&sandbox);
    let worker = called(&mut client, "start_worker", json!({"launcher": "demo", "worktree": true}));
    let worker = worker["worker_id"].as_str().unwrap();
    let message = json!({"worker_id": worker, "message": "!edit create a.txt one"});
    called(&mut client, "send_message", message);
    assert_eq!(wait(&mut client, worker)["ended"], "completed");
    let diff = called(&mut client, "get_diff", json!({"worker_id": worker}));
    assert_eq!((&diff["file_count"], &diff["files"][0]["path"]), (&json!(1), &json!("a.txt")), "{diff}");
    assert!(diff["files"][0]["patch"].as_str().unwrap().contains("+one"), "{diff}");
    assert!(!sandbox.workspace().join("a.txt").exists());

    let land = json!({"worker_id": worker, "message": "Add a"});
    let landed = called(&mut client, "land", land.clone());
    assert_eq!((&landed["into"], &landed["files"]), (&json!("main"), &json!(["a.txt"])), "{landed}");
    assert!(git(&sandbox, &["log", "-1", "--format=%B"]).starts_with("Add a\n"));
    let again = called(&mut client, "land", land);
    assert_eq!((&again["files"], &again["commit"]), (&json!([]), &landed["commit"]), "nothing lands twice");

    // A conflict with later changes is reported with the conflicting files.
    std::fs::write(sandbox.workspace().join("a.txt"), "two\n").unwrap();
    git(&sandbox, &["commit", "-qam", "second"]);
    let message = json!({"worker_id": worker, "message": "!edit create a.txt three"});
    called(&mut client, "send_message", message);
    assert_eq!(wait(&mut client, worker)["ended"], "completed");
    let (text, is_error) = client.called("land", json!({"worker_id": worker}));
    assert!(is_error && text.starts_with("LAND_CONFLICT") && text.contains("a.txt"), "{text}");
    let main = started(&mut client);
    let land = json!({"worker_id": main});
    assert_eq!(refused(&mut client, "land", land), "WORKTREE_NOT_FOUND");
    client.end();
    sandbox.finish();
}
