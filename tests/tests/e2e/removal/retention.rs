//! Old data is removed automatically, and outdated cursors are refused.

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, assert_shape, wait_until};

use super::{SOON, count, database, days_earlier, stop_daemon, text, wait_until_deleted};

/// Returns events without their times, which the test has changed.
fn untimed(events: &[Value]) -> Vec<Value> {
    let untimed = |event: &Value| {
        let mut event = event.clone();
        event.as_object_mut().unwrap().remove("ts");
        event
    };
    events.iter().map(untimed).collect()
}

/// Starts the daemon and waits until it has marked old data. Returns the events shown from then on,
/// whether the others are deleted already or not.
fn kept(sandbox: &TestSandbox, worker: &str) -> Vec<Value> {
    let _ = sandbox.run(&["worker", "list"]).data_of("worker.listed");
    let mark = format!("SELECT expired_seq FROM workers WHERE worker_id = '{worker}'");
    wait_until("old events to be marked", SOON, || (count(sandbox, &mark) > 0).then_some(()));
    sandbox.events(worker)
}

/// A worker with turns of 40 days ago, and its output.
fn aged(sandbox: &TestSandbox) -> (String, Vec<Value>) {
    let worker = sandbox.start("demo");
    for number in 0..3 {
        let _ = sandbox.send(&worker, &format!("!chunks 200 old{number}"));
    }
    let events = sandbox.events(&worker);
    stop_daemon(sandbox);
    days_earlier(sandbox, 40);
    (worker, events)
}

#[test]
fn a_worker_that_was_stopped_long_ago_is_removed_when_the_daemon_starts() {
    let mut sandbox = TestSandbox::new();
    sandbox.set_env("SUBAGENT_RETENTION_DAYS", "never");
    let _ = sandbox.init();
    let [old, young] = [(), ()].map(|()| sandbox.start("demo"));
    let _ = sandbox.send(&old, "hello");
    let _ = sandbox.run(&["worker", "stop", &old]).data_of("worker.stopped");
    stop_daemon(&sandbox);
    days_earlier(&sandbox, 40);
    let _ = sandbox.run(&["worker", "stop", &young]).data_of("worker.stopped");
    assert_eq!(sandbox.show(&old)["state"], "stopped", "never is never");
    stop_daemon(&sandbox);
    sandbox.set_env("SUBAGENT_RETENTION_DAYS", "41");
    assert_eq!(sandbox.show(&old)["state"], "stopped", "not yet");
    stop_daemon(&sandbox);
    let keys = count(&sandbox, "SELECT count(*) FROM requests");
    sandbox.remove_env("SUBAGENT_RETENTION_DAYS");
    let _ = sandbox.run(&["worker", "list"]).data_of("worker.listed");
    wait_until_deleted(&sandbox, &old);
    let _ = sandbox.run(&["worker", "show", &old]).error("WORKER_NOT_FOUND");
    assert_eq!(sandbox.show(&young)["state"], "stopped");
    // Data of its time is gone: its stop, and its messages.
    wait_until("old keys to be forgotten", SOON, || {
        (count(&sandbox, "SELECT count(*) FROM requests") < keys - 2).then_some(())
    });
    sandbox.finish();
}

#[test]
fn a_worker_that_is_never_stopped_does_not_grow_for_ever() {
    let sandbox = TestSandbox::new();
    let _ = sandbox.init();
    let (worker, before) = aged(&sandbox);
    // Everything is old, but the latest turn stays.
    let kept = kept(&sandbox, &worker);
    let start = before.iter().find(|event| event["type"] == "worker.started").unwrap();
    assert_eq!(kept[0]["eventId"], start["eventId"]);
    assert_eq!(kept[1]["type"], "turn.started");
    let latest = before.iter().position(|event| event["eventId"] == kept[1]["eventId"]).unwrap();
    assert_eq!(untimed(&before[latest..]), untimed(&kept[1..]), "the latest turn must be complete");
    let rows = format!(
        "SELECT count(*) FROM turns t JOIN workers w ON w.id = t.worker WHERE w.worker_id = '{worker}'"
    );
    wait_until("rows of old turns to be deleted", SOON, || (count(&sandbox, &rows) == 2).then_some(()));
    // Cursors from that time.
    let mark = &before[latest - 1];
    for cursor in [&before[0], &before[1], &before[latest / 2], mark] {
        let cursor = text(&cursor["eventId"]);
        let of = ["--worker-id", &worker, "--from-event-id", cursor];
        for command in
            [&["watch"][..], &["watch", "--follow"], &["wait"], &["wait", "--until", "turn.failed"]]
        {
            let error = sandbox.run(&[command, &of].concat()).error("CURSOR_EXPIRED");
            let details = json!({
                "workerId": format!("={worker}"), "eventId": format!("={cursor}"),
                "oldestEventId": kept[1]["eventId"].as_str().map(|id| format!("={id}")),
                "recommendedAction": "str", "recommendedCommand": format!("=subagent watch --worker-id {worker}"),
            });
            assert_shape(&error["details"], &details);
            assert_eq!(error["retryable"], false);
        }
    }
    let first = text(&kept[1]["eventId"]);
    let after =
        sandbox.command("subagent").args(["watch", "--worker-id", &worker, "--from-event-id", first]).run();
    assert_eq!(after.lines().len(), kept.len() - 2);
    // Not an event of any worker: unknown instead of expired.
    for unknown in ["ev_000000000000", "ev_0000000fffff", "nothing"] {
        let _ = sandbox
            .run(&["watch", "--worker-id", &worker, "--from-event-id", unknown])
            .error("EVENT_NOT_FOUND");
    }
    let found = sandbox.run(&["wait", "--worker-id", &worker, "--include-history"]).data_of("event.matched");
    assert_eq!(found["turnId"], kept[1]["turnId"]);
    // It continues on the same session, and can be handed over.
    assert_eq!(sandbox.send(&worker, "and on")["assistantText"], "and on");
    let handoff = sandbox.run(&["worker", "handoff", "--worker-id", &worker]).data_of("worker.handoff.ready");
    let document = std::fs::read_to_string(text(&handoff["handoffPath"])).unwrap();
    assert!(document.contains("4 instructions"), "{document}");
    sandbox.check();
    sandbox.finish();
}

#[test]
fn what_is_open_stays_however_old_it_is() {
    let sandbox = TestSandbox::new();
    let _ = sandbox.init();
    let worker = sandbox.start("demo");
    let _ = sandbox.send(&worker, "!chunks 50 old");
    let asked = sandbox.send(&worker, "before\n!ask execute it\n!say after");
    let before = sandbox.events(&worker);
    stop_daemon(&sandbox);
    days_earlier(&sandbox, 400);
    let kept = kept(&sandbox, &worker);
    let begin = before.iter().position(|event| event["turnId"] == asked["turnId"]).unwrap();
    assert_eq!(untimed(&before[begin..]), untimed(&kept[1..]));
    let _ = sandbox.approve(&worker, &asked["requestId"], "allow");
    assert_eq!(sandbox.turn_end(&asked)["type"], "turn.completed");
    sandbox.finish();
}

#[test]
fn a_deletion_that_was_cut_short_goes_on() {
    let mut sandbox = TestSandbox::new();
    let once = sandbox.file("aborted");
    let _ = sandbox.init();
    let (worker, before) = aged(&sandbox);
    sandbox.set_env("SUBAGENT_FAILPOINTS", "expire.after_mark=abort");
    sandbox.set_env("SUBAGENT_FAILPOINTS_ONCE", &once);
    let _ = sandbox.persist(&["worker", "list"]);
    wait_until("the daemon to abort", SOON, || once.exists().then_some(()));
    // Marked but not deleted: already invisible.
    let old = text(&before[5]["eventId"]);
    let _ =
        sandbox.persist(&["watch", "--worker-id", &worker, "--from-event-id", old]).error("CURSOR_EXPIRED");
    let below =
        format!("SELECT count(*) FROM events WHERE seq <= {} AND type <> 'worker.started'", number(old));
    wait_until("what is below the mark to be deleted", SOON, || (count(&sandbox, &below) == 0).then_some(()));
    sandbox.finish();
}

fn number(event_id: &str) -> i64 {
    i64::from_str_radix(event_id.trim_start_matches("ev_"), 16).unwrap()
}

#[test]
fn the_time_is_a_number_of_days_or_never() {
    let mut sandbox = TestSandbox::new();
    let _ = sandbox.init();
    stop_daemon(&sandbox);
    sandbox.set_env("SUBAGENT_RETENTION_DAYS", "soon");
    let error = sandbox.run(&["worker", "list"]).error("INVALID_ARGUMENT");
    assert_eq!(error["details"]["variable"], "SUBAGENT_RETENTION_DAYS");
    let error = sandbox.command("subagentd").args(["run", "--json"]).run().error("INVALID_ARGUMENT");
    assert_eq!(error["details"]["variable"], "SUBAGENT_RETENTION_DAYS");
    // The flag takes precedence.
    let daemon = sandbox.command("subagentd").args(["run", "--retention-days", "never", "--json"]).spawn();
    daemon.wait_line("its start", |line| line.contains("\"pid\"").then_some(()));
    assert!(database(&sandbox).is_autocommit());
    stop_daemon(&sandbox);
    assert!(daemon.output().status.success());
    sandbox.remove_env("SUBAGENT_RETENTION_DAYS");
    let output = sandbox.command("subagentd").args(["run", "--retention-days", "x"]).run();
    assert_eq!(output.status.code(), Some(2), "{output}");
    sandbox.finish();
}
