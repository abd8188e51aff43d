//! The events for which a sink is notified about a worker, and the content.

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, wait_until};

use super::server::{SinkServer, WebhookResponse};
use super::{SOON, configure, log, settled, world};

fn webhook(server: &SinkServer, keys: &str) -> String {
    format!("  - {{to: webhook, url: '{}', {keys}}}", server.url())
}

/// Starts one more worker with these flags.
fn start(sandbox: &TestSandbox, flags: &[&str]) -> String {
    let started = sandbox.run(&[&["worker", "start", "--launcher", "demo"], flags].concat());
    started.data_of("worker.started")["workerId"].as_str().unwrap().to_owned()
}

/// Returns what a server has received: types and reasons.
fn notifications(server: &SinkServer, count: usize) -> Vec<(Value, Value)> {
    let requests = server.wait_for(count);
    let of = |document: Value| (document["type"].clone(), document["data"]["reason"].clone());
    requests.iter().map(|request| of(request.json())).collect()
}

#[test]
fn a_question_of_a_task_reaches_the_sinks_for_the_workers_above_it() {
    let (reviews, others) = (SinkServer::https(), SinkServer::https());
    let mut sandbox = TestSandbox::new();
    sandbox.set_env("SSL_CERT_FILE", SinkServer::ca());
    let of = |server, tag: &str| webhook(server, &format!("on: [question], where: {{tag: {tag}}}"));
    configure(&sandbox, &format!("{}\n{}", of(&reviews, "job=review"), of(&others, "job=other")));
    let root = sandbox.delegating(&json!(true), &["--tag", "job=review"]);
    let below = sandbox.task_file("nested", "Deep", "foreground", "!ask execute make");
    let kid = sandbox.task_file("nested", "Kid", "foreground", &sandbox.gives(&below));
    let _ = sandbox.send(&root, &sandbox.gives(&kid));
    let question = reviews.wait_for(1).remove(0).json()["data"]["questions"][0].take();
    assert_eq!(question["worker"]["path"], json!(["Root", "Kid", "Deep"]), "{question}");
    settled(&sandbox, "delivered");
    assert_eq!((log(&sandbox).len(), others.requests().len()), (1, 0));
    sandbox.finish();
}

/// The agent's update about a command that it ran without permission.
fn ran(command: &str) -> String {
    let update = json!({
        "sessionUpdate": "tool_call", "toolCallId": command, "title": command, "kind": "execute",
        "status": "completed", "rawInput": {"command": command},
    });
    let params = json!({"sessionId": "SESSION", "update": update});
    json!({"jsonrpc": "2.0", "method": "session/update", "params": params}).to_string()
}

/// The agent's update about the cost of its session.
fn cost() -> String {
    let cost = json!({"amount": 2, "currency": "USD"});
    let update = json!({"sessionUpdate": "usage_update", "used": 1, "size": 10, "cost": cost});
    let params = json!({"sessionId": "SESSION", "update": update});
    json!({"jsonrpc": "2.0", "method": "session/update", "params": params}).to_string()
}

#[test]
fn a_turn_that_the_daemon_cancels_has_failed_and_one_that_the_owner_cancels_has_not() {
    let server = SinkServer::https();
    let (sandbox, quiet) = world(&webhook(&server, "on: [done, failed]"));
    let failed = |code: &str| (json!("failed"), json!(code));
    let done = (json!("done"), Value::Null);
    let ruled = start(&sandbox, &["--deny", "execute(rm *)"]);
    let twice = format!("!raw {}\n!raw {}\n!sleep 60000", ran("rm a"), ran("rm b"));
    assert_eq!(sandbox.send(&ruled, &twice)["matchedEvent"]["type"], "turn.canceled");
    assert_eq!(notifications(&server, 1), [failed("POLICY_VIOLATION")]);
    // The call is reported after the response to the prompt.
    let late = sandbox.send(&ruled, &format!("!late {}\n!say cleaned", ran("rm c")));
    assert_eq!(late["matchedEvent"]["type"], "turn.completed", "{late}");
    assert_eq!(notifications(&server, 3)[1..], [done.clone(), failed("POLICY_VIOLATION")]);
    let asked = start(&sandbox, &["--approval-timeout", "1s", "--on-approval-timeout", "cancel"]);
    let _ = sandbox.send_no_wait(&asked, "!ask execute make");
    assert_eq!(notifications(&server, 4)[3..], [failed("APPROVAL_TIMEOUT")]);
    let limited = start(&sandbox, &["--max-cost", "1", "--on-budget", "cancel"]);
    let _ = sandbox.send_no_wait(&limited, &format!("!raw {}\n!sleep 60000", cost()));
    assert_eq!(notifications(&server, 5)[4..], [failed("BUDGET_EXCEEDED")]);
    let sent = sandbox.send_no_wait(&quiet, "!sleep 60000");
    let _ = sandbox.run(&["cancel", "--worker-id", &quiet]).data();
    assert_eq!(sandbox.turn_end(&sent)["type"], "turn.canceled");
    let _ = sandbox.send(&quiet, "well");
    assert_eq!(notifications(&server, 6)[5..], [done]);
    settled(&sandbox, "delivered");
    assert_eq!(log(&sandbox).len(), 6);
    sandbox.finish();
}

#[test]
fn a_budget_a_paused_queue_and_a_lost_worker_are_reported() {
    let server = SinkServer::https();
    let (sandbox, worker) = world(&webhook(&server, "on: [budget, queue_paused, lost]"));
    let limited = start(&sandbox, &["--max-turns", "1"]);
    let _ = sandbox.send(&limited, "one");
    let _ = sandbox.sending(&limited, "two").run().error("BUDGET_EXCEEDED");
    let budget = server.wait_for(1).remove(0).json();
    assert_eq!((&budget["type"], &budget["data"]["worker"]["id"]), (&json!("budget"), &json!(limited)));
    assert!(budget["data"]["command"].as_str().unwrap().contains("budget show --worker-id"), "{budget}");

    let gate = sandbox.gate("turn");
    let _ = sandbox.send_no_wait(&worker, &format!("{}\n!error -32603 no luck", gate.directive()));
    let _ = sandbox.sending(&worker, "next").args(["--queue", "--no-wait"]).run().data_of("turn.queued");
    gate.open();
    let paused = server.wait_for(2).remove(1).json();
    assert_eq!((&paused["type"], &paused["data"]["reason"]), (&json!("queue_paused"), &json!("turn_failed")));
    // The suggested command resumes it.
    let command = paused["data"]["command"].as_str().unwrap();
    let line = command.replacen("subagent ", &format!("{} ", sandbox.executable("subagent")), 1);
    assert!(sandbox.command("sh").args(["-c", &line]).cwd("/").run().status.success(), "{command}");

    sandbox.kill(&sandbox.runtime(&limited));
    let lost = server.wait_for(3).remove(2).json();
    assert_eq!((&lost["type"], &lost["data"]["worker"]["id"]), (&json!("lost"), &json!(limited)), "{lost}");
    sandbox.finish();
}

#[test]
fn full_detail_is_in_the_data_and_formats_are_as_they_are_called() {
    let (full, text, slack) = (SinkServer::https(), SinkServer::https(), SinkServer::https());
    let (sandbox, worker) = world(&format!(
        "{}\n{}\n{}",
        webhook(&full, "on: [question, failed], detail: full"),
        webhook(&text, "on: [failed], format: text"),
        webhook(&slack, "on: [failed], format: slack"),
    ));
    let _ = sandbox.send_fails(&worker, "!error -32000 no <disk>", "BACKEND_RPC_ERROR");
    let data = full.wait_for(1).remove(0).json()["data"].take();
    assert!(data["detail"].as_str().unwrap().contains("no <disk>"), "{data}");
    assert_eq!(data["reason"], "BACKEND_RPC_ERROR", "{data}");
    let plain = text.wait_for(1).remove(0);
    assert_eq!(plain.header("content-type"), "text/plain; charset=utf-8");
    assert!(plain.body.starts_with("Build failed\nBACKEND_RPC_ERROR\nat "), "{}", plain.body);
    assert!(!plain.body.contains("disk"), "an error's message must count as detail: {}", plain.body);
    let message = slack.wait_for(1).remove(0);
    assert_eq!(message.header("content-type"), "application/json");
    assert!(message.json()["text"].as_str().unwrap().starts_with("*Build failed*\nBACKEND"), "{message:?}");
    let _ = sandbox.send(&worker, "!ask execute make all");
    let question = full.wait_for(2).remove(1).json()["data"]["questions"][0].take();
    assert_eq!(question["subject"], "make all", "{question}");
    let call: Value = serde_json::from_str(question["detail"].as_str().unwrap()).unwrap();
    assert_eq!((&call["title"], &call["toolKind"]), (&json!("make all"), &json!("execute")), "{call}");
    sandbox.finish();
}

#[test]
fn an_answer_that_comes_late_is_an_answer() {
    let (late, other) = (SinkServer::https(), SinkServer::https());
    let (sandbox, worker) =
        world(&format!("{}\n{}", webhook(&late, "on: [done]"), webhook(&other, "on: [done]")));
    late.answers([WebhookResponse::Late]);
    let _ = sandbox.send(&worker, "first");
    let delivered = || {
        let delivered = |item: &&Value| item["status"] == "delivered" && item["attempts"] == 1;
        log(&sandbox).iter().filter(delivered).count()
    };
    late.wait_for(1);
    wait_until("the other delivery", SOON, || (delivered() == 1).then_some(()));
    late.let_go();
    wait_until("both deliveries", SOON, || (delivered() == 2).then_some(()));
    assert_eq!(late.requests().len(), 1, "it is not repeated");
    sandbox.finish();
}

#[test]
fn the_pause_of_a_schedule_is_reported_unless_its_owner_wanted_it() {
    let server = SinkServer::https();
    let (sandbox, _) = world(&webhook(&server, "on: [schedule_paused]"));
    let add = ["schedule", "add", "calm", "--every", "20m", "demo", "!say well"];
    sandbox.run(&add).data_of("schedule.added");
    let fired = sandbox.run(&["schedule", "run", "calm"]).data_of("schedule.fired");
    let worker = fired["workerId"].as_str().unwrap();
    sandbox.run(&["schedule", "pause", "calm"]).data_of("schedule.paused");
    assert!(sandbox.events(worker).iter().any(|event| event["type"] == "schedule.paused"));
    let error = "!error -32603 no luck";
    let add = ["schedule", "add", "bad", "--every", "20m", "--max-failures", "1", "demo", error];
    sandbox.run(&add).data_of("schedule.added");
    let fired = sandbox.run(&["schedule", "run", "bad"]).data_of("schedule.fired");
    let notified = server.wait_for(1).remove(0).json();
    assert_eq!(
        (&notified["type"], &notified["data"]["worker"]["id"]),
        (&json!("schedule_paused"), &fired["workerId"])
    );
    settled(&sandbox, "delivered");
    assert_eq!(log(&sandbox).len(), 1);
    sandbox.finish();
}

#[test]
fn a_parked_worker_is_notified_and_the_suggested_command_resumes_it() {
    let server = SinkServer::https();
    let (sandbox, worker) = world(&webhook(&server, "on: [parked]"));
    let _ = sandbox.send_fails(&worker, "!rate-limit 3600000", "BACKEND_RPC_ERROR");
    let parked = sandbox.show(&worker)["parked"].take();
    let sent = server.wait_for(1).remove(0).json();
    let reason = format!("rate limit, until {}", parked["until"].as_str().unwrap());
    assert_eq!((&sent["type"], &sent["data"]["reason"]), (&json!("parked"), &json!(reason)), "{sent}");
    assert_eq!(sent["data"]["worker"]["id"], json!(worker), "{sent}");
    let command = sent["data"]["command"].as_str().unwrap();
    let line = command.replacen("subagent ", &format!("{} ", sandbox.executable("subagent")), 1);
    assert!(sandbox.command("sh").args(["-c", &line]).cwd("/").run().status.success(), "{command}");
    assert!(sandbox.show(&worker)["parked"].is_null(), "the suggested command ends it");
    settled(&sandbox, "delivered");
    assert_eq!(log(&sandbox).len(), 1, "the failed turn and the end of the parking are not notified");
    sandbox.finish();
}
