//! Tests of the command `worker rm`.

use std::thread;

use serde_json::{Value, json};
use subagent_tests::harness::{TestLauncher, TestSandbox, assert_shape, request, wait_until};

use super::{count, text, wait_until_deleted};

#[test]
fn a_removed_worker_is_nowhere_and_nothing_of_it_is_left() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let end = sandbox.send(&worker, "!ask execute it");
    let _ = sandbox.approve(&worker, &end["requestId"], "allow");
    let _ = sandbox.turn_end(&end);
    let last = sandbox.events(&worker).pop().unwrap();
    let handoff = sandbox.run(&["worker", "handoff", "--worker-id", &worker]).data_of("worker.handoff.ready");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    let removed = sandbox.run(&["worker", "rm", &worker]).data_of("worker.removed");
    let shape = json!({"workerId": format!("={worker}"), "controllerId": "ctl", "stoppedAt": "ts", "removedAt": "ts"});
    assert_shape(&removed, &shape);
    assert_eq!(sandbox.run(&["worker", "list"]).data_of("worker.listed")["items"], json!([]));
    let of = ["--worker-id", &worker];
    let from = [&of[..], &["--from-event-id", text(&last["eventId"])]].concat();
    let handed = ["--from-worker", &worker];
    for (command, args) in [
        ("worker show", &[worker.as_str()][..]),
        ("worker inspect", &[&worker]),
        ("worker logs", &[&worker]),
        ("worker stop", &[&worker]),
        ("worker restart", &[&worker]),
        ("worker rm", &[&worker]),
        ("worker rm --force", &[&worker]),
        ("worker handoff", &of),
        ("worker continue", &handed),
        ("watch", &of),
        ("watch --follow", &from),
        ("wait --include-history", &of),
        ("wait", &from),
        ("cancel", &of),
        ("send --text hello", &of),
        ("approve --decision allow --request ap_0123456789", &of),
    ] {
        let all: Vec<&str> = command.split(' ').chain(args.iter().copied()).collect();
        let details = &sandbox.run(&all).error("WORKER_NOT_FOUND")["details"];
        assert_eq!(details["workerId"], worker, "{command}");
    }
    wait_until_deleted(&sandbox, &worker);
    assert!(!std::path::Path::new(text(&handoff["handoffPath"])).exists());
    for table in ["workers", "events", "turns", "approvals", "handoffs"] {
        assert_eq!(count(&sandbox, &format!("SELECT count(*) FROM {table}")), 0, "{table}");
    }
    assert_eq!(count(&sandbox, "PRAGMA freelist_count"), 0, "the space must be released");
    // Neither its numbers nor its key are reused.
    let next = sandbox.start("demo");
    assert!(sandbox.events(&next).iter().all(|event| text(&event["eventId"]) > text(&last["eventId"])));
    assert_eq!(count(&sandbox, "SELECT id FROM workers"), 2);
    sandbox.finish();
}

#[test]
fn what_people_and_scripts_read() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let output = sandbox.command("subagent").args(["worker", "rm", &worker]).run();
    let said = &output.stderr;
    assert!(said.starts_with("INVALID_WORKER_STATE: the worker is idle"), "{said}");
    assert!(said.contains(&format!("Try: subagent worker stop {worker}")), "{said}");
    let output = sandbox.command("subagent").args(["worker", "rm", &worker, "--force"]).run();
    let lines: Vec<&str> = output.text().lines().collect();
    assert_eq!(lines[0], format!("workerId: {worker}"));
    assert!(lines.len() == 2 && lines[1].starts_with("removedAt: 20"), "{lines:?}");
    let unknown = sandbox.run(&["worker", "rm", "w_0123456789"]).error("WORKER_NOT_FOUND");
    assert_shape(
        &unknown["details"],
        &json!({"workerId": "w", "stateDbPath": "str", "recommendedAction": "str"}),
    );
    sandbox.finish();
}

#[test]
fn only_a_stopped_worker_is_removed_unless_it_is_forced() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let refused = |state: &str| {
        let error = sandbox.run(&["worker", "rm", &worker]).error("INVALID_WORKER_STATE");
        let details = json!({
            "workerId": format!("={worker}"), "state": format!("={state}"), "recommendedAction": "str",
            "recommendedCommand": format!("=subagent worker stop {worker}"),
        });
        assert_shape(&error["details"], &details);
        assert_eq!(error["retryable"], false);
    };
    refused("idle");
    let asked = sandbox.send(&worker, "!ask edit x");
    refused("waiting_approval");
    assert_eq!(sandbox.show(&worker)["activeTurnId"], asked["turnId"], "nothing was touched");
    sandbox.kill_daemon();
    refused("waiting_approval");
    let runtime = sandbox.runtime(&worker);
    let _ = sandbox.run(&["worker", "rm", &worker, "--force"]).data_of("worker.removed");
    assert!(
        !runtime.lives()
            && sandbox
                .processes()
                .iter()
                .all(|process| Some(process.pid) == sandbox.find_daemon().map(|d| d.pid))
    );
    wait_until_deleted(&sandbox, &worker);
    sandbox.finish();
}

#[test]
fn a_worker_whose_agent_never_started_is_removed_as_it_is() {
    let mut sandbox = TestSandbox::new();
    sandbox.launcher("broken", TestLauncher::new("/bin/false", [""; 0]));
    let _ = sandbox.init();
    let failed = sandbox.run(&["worker", "start", "--launcher", "broken"]).any_error();
    let worker = text(&failed["details"]["workerId"]).to_owned();
    assert_eq!(sandbox.show(&worker)["state"], "error");
    // Its runtime may still be ending.
    let removed = wait_until("the removal to be possible", super::SOON, || {
        let output = sandbox.run(&["worker", "rm", &worker]);
        output.status.success().then(|| output.data_of("worker.removed"))
    });
    assert_eq!(removed["workerId"], worker);
    wait_until_deleted(&sandbox, &worker);
    sandbox.finish();
}

/// Sends a `POST` with a key. Returns the envelope.
fn post(sandbox: &TestSandbox, path: &str, key: &str, body: &str) -> Value {
    let info = sandbox.daemon_info().unwrap();
    let head = [&format!("POST {path} HTTP/1.1"), &format!("Idempotency-Key: {key}")[..]];
    request(&info.socket, &head, body).json()
}

#[test]
fn the_same_key_gives_the_same_result() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let path = format!("/v1/workers/{worker}/remove");
    let words = ["worker", "rm", &worker].map(str::to_owned);
    sandbox.recorder().attempt(&words);
    assert_eq!(post(&sandbox, &path, "first", "")["error"]["code"], "INVALID_WORKER_STATE");
    let removed = post(&sandbox, &path, "second", r#"{"force":true}"#);
    assert_eq!(removed["type"], "worker.removed");
    sandbox.recorder().learn(&words, &removed.to_string());
    wait_until_deleted(&sandbox, &worker);
    assert_eq!(post(&sandbox, &path, "second", r#"{"force":true}"#), removed);
    assert_eq!(post(&sandbox, &path, "second", "{}")["error"]["code"], "IDEMPOTENCY_CONFLICT");
    assert_eq!(post(&sandbox, &path, "third", r#"{"force":true}"#)["error"]["code"], "WORKER_NOT_FOUND");
    assert_eq!(post(&sandbox, &path, "4", r#"{"force":1}"#)["error"]["code"], "INVALID_INPUT");
    sandbox.finish();
}

#[test]
fn only_its_owner_removes_a_worker_and_no_caller_below_one() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let program = sandbox.executable("subagent");
    for args in [
        format!("worker rm {worker} --force"),
        "prune --older-than 0".to_owned(),
        "prune --dry-run".to_owned(),
    ] {
        let said = sandbox.send(&worker, &format!("!shell '{program}' {args} --json"));
        assert!(
            text(&said["assistantText"]).contains("\"code\": \"FORBIDDEN_FROM_WORKER\""),
            "{args}: {said}"
        );
    }
    let first = sandbox.run(&["controller", "attach", "--takeover"]).data_of("controller.attached");
    let _ = sandbox.run(&["controller", "attach", "--takeover"]).data_of("controller.attached");
    let stale = |args: &[&str]| {
        let owner = &first["owner"];
        sandbox
            .subagent(args)
            .env("SUBAGENT_CTL_ID", text(&owner["controllerId"]))
            .env("SUBAGENT_CTL_EPOCH", owner["epoch"].to_string())
            .env("SUBAGENT_CTL_TOKEN", text(&owner["token"]))
            .run()
            .error("INVALID_CONTROLLER_HANDLE")
    };
    let _ = stale(&["worker", "rm", &worker, "--force"]);
    assert_eq!(sandbox.show(&worker)["state"], "idle", "it must not even be stopped");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    let _ = stale(&["worker", "rm", &worker]);
    let _ = stale(&["prune", "--older-than", "0"]);
    let _ = stale(&["prune", "--older-than", "0", "--dry-run"]);
    assert_eq!(sandbox.show(&worker)["state"], "stopped");
    let _ = sandbox.run(&["worker", "rm", &worker]).data_of("worker.removed");
    sandbox.finish();
}

#[test]
fn a_follower_ends_quietly_when_its_worker_is_removed() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "!chunks 1000 text");
    let follower = sandbox.follow(&worker);
    follower.wait_line("the end of the turn", |line| line.contains("turn.completed").then_some(()));
    let waiting = sandbox.subagent(&["wait", "--worker-id", &worker, "--until", "turn.failed"]).spawn();
    let _ = sandbox.run(&["worker", "rm", &worker, "--force"]).data_of("worker.removed");
    let followed = follower.output();
    assert!(followed.status.success(), "{followed}");
    assert!(followed.lines().iter().all(|line| line["eventId"].is_string()), "{followed}");
    // A wait reports why it cannot end.
    let waited = waiting.output().any_error();
    let code = text(&waited["code"]);
    assert!(["WORKER_STOPPED", "WORKER_NOT_FOUND", "WAIT_TIMEOUT"].contains(&code), "{waited}");
    sandbox.finish();
}

#[test]
fn fifty_removals_at_once_beside_a_running_turn() {
    let (sandbox, busy) = TestSandbox::with_worker();
    let gate = sandbox.gate("turn");
    let accepted = sandbox.send_no_wait(&busy, &format!("!chunks 500 a\n{}\n!say end", gate.directive()));
    let follower = sandbox.follow(&busy);
    let workers: Vec<String> = thread::scope(|scope| {
        let starts: Vec<_> = (0..10)
            .map(|_| {
                scope.spawn(|| {
                    (0..5)
                        .map(|_| sandbox.run(&["worker", "start", "--debug-mode"]).data_of("worker.started"))
                        .map(|started| text(&started["workerId"]).to_owned())
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        starts.into_iter().flat_map(|start| start.join().unwrap()).collect()
    });
    let removals: Vec<_> =
        workers.iter().map(|worker| sandbox.subagent(&["worker", "rm", worker, "--force"]).spawn()).collect();
    for removal in removals {
        let _ = removal.output().data_of("worker.removed");
    }
    gate.open();
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    follower.wait_line("the end of the turn", |line| line.contains("turn.completed").then_some(()));
    for worker in &workers {
        wait_until_deleted(&sandbox, worker);
    }
    let left = sandbox.run(&["worker", "list"]).data_of("worker.listed");
    assert_eq!((&left["count"], &left["items"][0]["workerId"]), (&json!(1), &json!(busy)));
    // Fifty requests for the same worker: one removes it, the others report that it is gone.
    let worker = sandbox.start("demo");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    let all: Vec<_> = (0..50).map(|_| sandbox.subagent(&["worker", "rm", &worker]).spawn()).collect();
    let done = all.into_iter().map(|one| one.output());
    let done: Vec<bool> = done
        .map(|output| output.status.success() || output.error("WORKER_NOT_FOUND")["retryable"] == true)
        .collect();
    assert_eq!(done.iter().filter(|done| **done).count(), 1);
    follower.kill();
    sandbox.finish();
}

#[test]
fn workers_of_an_earlier_version_are_removed_like_any_other() {
    let mut sandbox = TestSandbox::new();
    sandbox.set_env("SUBAGENT_RETENTION_DAYS", "never");
    let fixture = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/0.1.0/state");
    copy(&fixture, sandbox.state_dir());
    let items = sandbox.run(&["worker", "list"]).data_of("worker.listed")["items"].take();
    let items = items.as_array().unwrap();
    assert!(items.iter().any(|item| item["state"] == "stopped") && items.len() > 2);
    let seq = count(&sandbox, "SELECT max(seq) FROM events");
    let pruned = sandbox.run(&["prune", "--older-than", "0"]).data_of("state.pruned");
    assert!(pruned["count"].as_u64().unwrap() >= 1 && pruned["leftovers"] == json!([]), "{pruned}");
    for item in pruned["items"].as_array().unwrap() {
        wait_until_deleted(&sandbox, text(&item["workerId"]));
    }
    let left = sandbox.run(&["worker", "list"]).data_of("worker.listed");
    assert_eq!(left["count"].as_u64().unwrap() + pruned["count"].as_u64().unwrap(), items.len() as u64);
    for item in left["items"].as_array().unwrap() {
        let worker = text(&item["workerId"]);
        let _ = sandbox.run(&["worker", "rm", worker, "--force"]).data_of("worker.removed");
        wait_until_deleted(&sandbox, worker);
    }
    let rows = "SELECT (SELECT count(*) FROM workers) + (SELECT count(*) FROM events) + (SELECT count(*) FROM turns)";
    assert_eq!(count(&sandbox, rows), 0);
    let controllers = sandbox.run(&["controller", "recover"]).data_of("controller.recovered");
    let id = text(&controllers["items"][0]["controllerId"]).to_owned();
    let attach = ["controller", "attach", "--controller-id", &id, "--takeover"];
    let _ = sandbox.run(&attach).data_of("controller.attached");
    let next = ["worker", "start", "--controller-id", &id];
    let next = sandbox.run(&next).data_of("worker.started")["workerId"].take();
    let first = sandbox.events(text(&next)).remove(0);
    assert!(i64::from_str_radix(&text(&first["eventId"])[3..], 16).unwrap() > seq);
    sandbox.finish();
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to)
        } else {
            std::fs::copy(entry.path(), to).map(drop).unwrap()
        }
    }
}
