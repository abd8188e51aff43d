//! Queued messages from outside: their order, pauses, changes by users, and
//! processes that die meanwhile.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{Gate, TestSandbox, assert_shape, executables, request, wait_until};

/// A worker whose turn waits at a gate.
fn busy(then: &str) -> (TestSandbox, String, Gate) {
    let (sandbox, worker) = TestSandbox::with_worker();
    let gate = sandbox.gate("turn");
    let _ = sandbox.send_no_wait(&worker, &format!("{}\n{then}", gate.directive()));
    (sandbox, worker, gate)
}

#[track_caller]
fn queue(sandbox: &TestSandbox, worker: &str, text: &str) -> String {
    let queued = sandbox.sending(worker, text).args(["--queue", "--no-wait"]).run().data_of("turn.queued");
    queued["turnId"].as_str().unwrap().to_owned()
}

/// Waits until no turn is open.
#[track_caller]
fn rest(sandbox: &TestSandbox, worker: &str) {
    sandbox
        .run(&["wait", "--worker-id", worker, "--all", "--timeout-seconds", "30"])
        .data_of("workers.waited");
}

/// Returns the started turns, in order.
fn begun(sandbox: &TestSandbox, worker: &str) -> Vec<String> {
    let events = sandbox.events(worker);
    let sent = events.iter().filter(|event| event["type"] == "message.sent");
    sent.map(|event| event["data"]["text"].as_str().unwrap().to_owned()).collect()
}

fn types(sandbox: &TestSandbox, worker: &str, begin: &str) -> Vec<String> {
    let events = sandbox.events(worker);
    let types = events.iter().map(|event| event["type"].as_str().unwrap().to_owned());
    types.filter(|word| word.starts_with(begin)).collect()
}

#[test]
fn what_waits_is_sent_in_its_order_and_each_send_waits_for_its_own_turn() {
    let (sandbox, worker, gate) = busy("first");
    let refused = sandbox.sending(&worker, "no").run().error("WORKER_BUSY");
    assert_eq!(refused["retryable"], false);
    let queued =
        sandbox.sending(&worker, "second").args(["--queue", "--no-wait"]).run().data_of("turn.queued");
    let shape = json!({
        "workerId": "w", "turnId": "turn", "state": "str", "eventId": "ev", "acceptedEventId": "ev", "position": 1,
    });
    assert_shape(&queued, &shape);
    assert_eq!((&queued["position"], &queued["state"]), (&json!(1), &json!("running")));
    let waiting = sandbox.sending(&worker, "third").args(["--if-busy", "queue"]).spawn();
    wait_until("both to wait", Duration::from_secs(10), || {
        (sandbox.show(&worker)["queue"]["length"] == 2).then_some(())
    });
    assert_eq!(sandbox.show(&worker)["queue"], json!({"length": 2, "paused": false}));
    gate.open();
    let waited = waiting.output().data_of("turn.waited");
    assert_eq!((&waited["assistantText"], &waited["position"]), (&json!("third"), &json!(2)));
    assert_eq!(waited["matchedEvent"]["turnId"], waited["turnId"]);
    assert_eq!(&begun(&sandbox, &worker)[1..], ["second", "third"]);
    assert_eq!(sandbox.show(&worker).get("queue"), None);
    assert!(types(&sandbox, &worker, "queue.").is_empty());
    sandbox.finish();
}

#[test]
fn an_idle_worker_gets_the_message_at_once_with_any_flag() {
    let (sandbox, worker) = TestSandbox::with_worker();
    for flags in [&["--queue"][..], &["--if-busy", "steer"], &["--if-busy", "reject"]] {
        let waited = sandbox.sending(&worker, "now").args(flags).run().data_of("turn.waited");
        assert_eq!((&waited["assistantText"], waited.get("position")), (&json!("now"), None));
    }
    let error = sandbox.sending(&worker, "x").args(["--if-busy", "hope"]).run().error("INVALID_ARGUMENT");
    assert_eq!(error["details"]["known"], json!(["reject", "queue", "steer"]));
    sandbox.finish();
}

#[test]
fn a_failure_pauses_the_queue_until_a_caller_resumes_it() {
    let (sandbox, worker, gate) = busy("!error -32603 no luck");
    let turns = ["a", "b"].map(|text| queue(&sandbox, &worker, text));
    let waiting = sandbox.sending(&worker, "c").args(["--queue"]).spawn();
    wait_until("all to wait", Duration::from_secs(10), || {
        (sandbox.show(&worker)["queue"]["length"] == 3).then_some(())
    });
    gate.open();
    let waited = waiting.output().data_of("turn.waited");
    assert_eq!(waited["matchedEvent"]["type"], "queue.paused");
    assert_eq!(waited["matchedEvent"]["data"]["reason"], "turn_failed");
    assert_eq!(sandbox.show(&worker)["queue"], json!({"length": 3, "paused": true, "reason": "turn_failed"}));
    assert_eq!(sandbox.show(&worker)["state"], "idle");
    let error = sandbox.sending(&worker, "no").run().error("QUEUE_PAUSED");
    assert_eq!((&error["details"]["length"], &error["details"]["workerId"]), (&json!(3), &json!(worker)));
    // It waits behind the others, and the command does not wait.
    let last = sandbox.sending(&worker, "d").args(["--queue"]).run().data_of("turn.queued");
    assert_eq!((&last["position"], &last["paused"]), (&json!(4), &json!(true)));
    let first = sandbox.sending(&worker, "e").args(["--if-busy", "steer"]).run().data_of("turn.waited");
    assert_eq!(first["assistantText"], "e");
    let dropped = sandbox.run(&["turn", "drop", &turns[0]]).data_of("turn.dropped");
    assert_eq!(dropped["queue"]["length"], 3);
    let resumed = sandbox.run(&["queue", "resume", "--worker-id", &worker]).data_of("queue.resumed");
    assert_eq!((&resumed["resumed"], &resumed["turnId"]), (&json!(true), &json!(turns[1])));
    rest(&sandbox, &worker);
    let again = sandbox.run(&["queue", "resume", "--worker-id", &worker]).data_of("queue.resumed");
    assert_eq!((&again["resumed"], &again["turnId"]), (&json!(false), &Value::Null));
    assert_eq!(&begun(&sandbox, &worker)[1..], ["e", "b", "c", "d"]);
    assert_eq!(types(&sandbox, &worker, "queue."), ["queue.paused", "queue.resumed"]);
    sandbox.finish();
}

#[test]
fn a_cancel_goes_on_with_the_next_and_answers_for_its_own_turn() {
    let (sandbox, worker, _gate) = busy("never");
    let turn = sandbox.show(&worker)["activeTurnId"].clone();
    let next = queue(&sandbox, &worker, "next");
    let canceled = sandbox.run(&["cancel", "--worker-id", &worker]).data_of("turn.canceled");
    assert_eq!(canceled["turnId"], turn);
    rest(&sandbox, &worker);
    let shown = sandbox.run(&["turn", "show", &next]).data_of("turn.shown");
    assert_eq!((&shown["status"], &shown["text"]), (&json!("completed"), &json!("next")));
    sandbox.finish();
}

#[test]
fn a_message_that_steers_ends_the_turn_and_is_next() {
    let (sandbox, worker, _gate) = busy("!ask execute it\nnever");
    queue(&sandbox, &worker, "later");
    let steered = sandbox.sending(&worker, "now").args(["--if-busy", "steer"]).run().data_of("turn.waited");
    assert_eq!((&steered["assistantText"], &steered["position"]), (&json!("now"), &json!(1)));
    rest(&sandbox, &worker);
    assert_eq!(&begun(&sandbox, &worker)[1..], ["now", "later"]);
    let events = sandbox.events(&worker);
    let canceled = events.iter().find(|event| event["type"] == "turn.canceled").unwrap();
    assert_eq!(canceled["data"]["reason"], "steered");
    sandbox.finish();
}

#[test]
fn turns_are_listed_shown_moved_and_sent_once_more() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let failed = sandbox.send_fails(&worker, "!error -32603 no luck", "BACKEND_RPC_ERROR");
    let failed = failed["turnId"].as_str().unwrap();
    let gate = sandbox.gate("turn");
    let open = sandbox.send_no_wait(&worker, &gate.directive());
    let long = "x".repeat(500);
    let turns = ["a", "b", &long].map(|text| queue(&sandbox, &worker, text));
    let listed = sandbox.run(&["turn", "list", "--worker-id", &worker]).data_of("turn.listed");
    let column = |key: &str| -> Vec<Value> {
        listed["items"].as_array().unwrap().iter().map(|turn| turn[key].clone()).collect()
    };
    assert_eq!(column("status"), ["failed", "open", "queued", "queued", "queued"]);
    assert_eq!(column("turnId")[0], failed);
    assert_eq!(column("position")[2..], [json!(1), json!(2), json!(3)]);
    assert_eq!(listed["items"][4]["textTruncated"], true);
    assert_shape(
        &listed["items"][2],
        &json!({
            "turnId": "turn", "status": "str", "position": 1, "text": "str", "queuedAt": "ts", "startedAt": null,
            "endedAt": null,
        }),
    );
    let shown = sandbox.run(&["turn", "show", &turns[2]]).data_of("turn.shown");
    assert_eq!((&shown["text"], &shown["dispatched"]), (&json!(long), &json!("no")));
    let moved = sandbox.run(&["turn", "move", &turns[2], "--first"]).data_of("turn.moved");
    assert_eq!(moved["position"], 1);
    let moved = sandbox.run(&["turn", "move", &turns[0], "--to", "99"]).data_of("turn.moved");
    assert_eq!(moved["position"], 3);
    let retried = sandbox.run(&["turn", "retry", failed]).data_of("turn.queued");
    assert_eq!(retried["position"], 4);
    assert_ne!(retried["turnId"], failed);
    let of_open = open["turnId"].as_str().unwrap();
    let error = sandbox.run(&["turn", "drop", of_open]).error("TURN_NOT_QUEUED");
    assert_eq!(error["details"]["status"], "open");
    let error = sandbox.run(&["turn", "retry", of_open]).error("TURN_NOT_RETRYABLE");
    assert_eq!(error["details"]["status"], "open");
    for command in [&["show"][..], &["drop"], &["retry"], &["move", "--last"]] {
        let args = [&["turn", command[0], "turn_0000000000"], &command[1..]].concat();
        sandbox.run(&args).error("TURN_NOT_FOUND");
    }
    gate.open();
    rest(&sandbox, &worker);
    let begun = begun(&sandbox, &worker);
    assert_eq!(begun[2..], [long.as_str(), "b", "a", "!error -32603 no luck"]);
    sandbox.finish();
}

#[test]
fn a_cancel_of_one_turn_leaves_another_open() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let gate = sandbox.gate("turn");
    let open = sandbox.send_no_wait(&worker, &gate.directive());
    let open = open["turnId"].as_str().unwrap();
    let queued = queue(&sandbox, &worker, "second");
    let socket = sandbox.daemon_info().unwrap().socket;
    let cancel = |turn: &str| {
        let line = format!("POST /v1/workers/{worker}/cancel HTTP/1.1");
        request(socket.as_ref(), &[&line], &json!({"turnId": turn}).to_string()).json()
    };
    let refused = cancel(&queued);
    assert_eq!(refused["error"]["code"], "TURN_NOT_OPEN", "{refused}");
    assert_eq!(refused["error"]["details"]["turnId"], json!(queued));
    assert_eq!(sandbox.run(&["turn", "show", open]).data_of("turn.shown")["status"], "open");
    let canceled = cancel(open);
    assert_eq!(canceled["data"]["turnId"], json!(open), "{canceled}");
    gate.open();
    rest(&sandbox, &worker);
    assert_eq!(cancel(open)["error"]["code"], "TURN_NOT_OPEN");
    sandbox.finish();
}

#[test]
fn no_more_wait_than_the_launcher_allows() {
    let mut sandbox = TestSandbox::new();
    let few = sandbox.demo_agent(&[]).key("queueLimit", json!(1));
    sandbox.launcher("few", few);
    sandbox.init();
    let worker = sandbox.start("few");
    let gate = sandbox.gate("turn");
    let _ = sandbox.send_no_wait(&worker, &gate.directive());
    queue(&sandbox, &worker, "a");
    let error = sandbox.sending(&worker, "b").args(["--queue"]).run().error("QUEUE_FULL");
    let details = json!({"limit": 1, "length": 1, "workerId": worker});
    assert_eq!(error["details"], details);
    let refused = sandbox.command("subagent").args(["send", &worker, "b", "--queue"]).run();
    let next = format!("Try: subagent turn list --worker-id {worker}");
    assert!(refused.stderr.contains("subagent turn drop") && refused.stderr.contains(&next), "{refused}");
    gate.open();
    rest(&sandbox, &worker);
    sandbox.finish();
}

#[test]
fn a_key_is_one_message_for_ever() {
    let (sandbox, worker, gate) = busy("first");
    let keyed =
        |text: &str| sandbox.sending(&worker, text).args(["--queue", "--no-wait", "--turn-id", "k"]).run();
    let queued = keyed("a").data_of("turn.queued");
    assert_eq!(keyed("a").data_of("turn.queued"), queued);
    keyed("b").error("IDEMPOTENCY_CONFLICT");
    gate.open();
    rest(&sandbox, &worker);
    assert_eq!(keyed("a").data_of("turn.queued"), queued);
    assert_eq!(&begun(&sandbox, &worker)[1..], ["a"]);
    sandbox.finish();
}

#[test]
fn a_stop_drops_what_waits_and_says_so() {
    let (sandbox, worker, _gate) = busy("never");
    let turns = ["a", "b"].map(|text| queue(&sandbox, &worker, text));
    let waiting = sandbox.sending(&worker, "c").args(["--queue"]).spawn();
    wait_until("all to wait", Duration::from_secs(10), || {
        (sandbox.show(&worker)["queue"]["length"] == 3).then_some(())
    });
    sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    let waited = waiting.output().data_of("turn.waited");
    assert_eq!(waited["matchedEvent"]["type"], "turn.dropped");
    assert_eq!(types(&sandbox, &worker, "turn.dropped").len(), 3);
    sandbox.run(&["turn", "show", &turns[0]]).error("TURN_NOT_FOUND");
    sandbox.sending(&worker, "d").args(["--queue"]).run().error("WORKER_STOPPED");
    sandbox.run(&["queue", "resume", "--worker-id", &worker]).error("WORKER_STOPPED");
    sandbox.finish();
}

#[test]
fn a_queue_goes_on_after_the_death_of_its_daemon_and_a_restart_of_its_worker() {
    let (sandbox, worker, gate) = busy("first");
    let file = |name: &str| sandbox.file_name(name);
    for name in ["a", "b", "c"] {
        queue(&sandbox, &worker, &format!("!touch {}", file(name)));
        sandbox.kill_daemon();
    }
    let _ = sandbox.show(&worker);
    // The daemon dies while turns end and begin; the next request starts another one.
    gate.open();
    sandbox.kill_daemon();
    rest(&sandbox, &worker);
    for name in ["a", "b", "c"] {
        assert_eq!(sandbox.touches(name), 1, "{name}");
    }
    let _ = sandbox.send_no_wait(&worker, "!sleep 60000");
    queue(&sandbox, &worker, &format!("!touch {}", file("d")));
    sandbox.run(&["worker", "restart", &worker, "--force"]).data_of("worker.restarted");
    rest(&sandbox, &worker);
    assert_eq!(sandbox.touches("d"), 1);
    sandbox.finish();
}

#[test]
fn a_runtime_that_dies_in_a_turn_pauses_the_queue() {
    let (sandbox, worker, _gate) = busy("never");
    queue(&sandbox, &worker, "next");
    sandbox.kill(&sandbox.runtime(&worker));
    wait_until("the loss to be noticed", Duration::from_secs(10), || {
        (sandbox.show(&worker)["queue"]["reason"] == "turn_lost").then_some(())
    });
    let resumed = sandbox.run(&["queue", "resume", "--worker-id", &worker]).data_of("queue.resumed");
    assert_eq!(resumed["state"], "running");
    rest(&sandbox, &worker);
    assert_eq!(&begun(&sandbox, &worker)[1..], ["next"]);
    sandbox.finish();
}

#[test]
fn the_example_of_a_queue_of_five_works() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned();
    let folder = sandbox.file("messages");
    fs::create_dir(&folder).unwrap();
    for (name, text) in [
        ("1", "one"),
        ("2", "two"),
        ("3", "!sleep 300\n!error -32603 no luck"),
        ("4", "four"),
        ("5", "five"),
        ("again", "three"),
    ] {
        fs::write(folder.join(format!("{name}.md")), text).unwrap();
    }
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", executables().folder().display());
    let script = root.join("examples/queue-of-five/queue.sh");
    let output = sandbox
        .command("bash")
        .args([script.as_os_str(), "demo".as_ref(), folder.as_os_str()])
        .env("PATH", path)
        .deadline(Duration::from_secs(60))
        .run();
    assert!(output.status.success() && output.stdout.contains(" failed; what waits"), "{output}");
    sandbox.finish();
}
