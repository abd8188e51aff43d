//! The commands `watch` and `wait`.

use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, assert_shape, wait_until};

/// The types that `--until` knows, including additions.
const KNOWN: &[&str] = &[
    "agent.applied",
    "agent.changed",
    "approval.canceled",
    "approval.decided",
    "approval.expired",
    "approval.lost",
    "approval.requested",
    "budget.changed",
    "budget.exceeded",
    "budget.unknown",
    "elicitation.answered",
    "elicitation.canceled",
    "elicitation.lost",
    "elicitation.requested",
    "hook.failed",
    "journal.gap",
    "message.sent",
    "notification.failed",
    "policy.violated",
    "progress.message",
    "progress.update",
    "queue.paused",
    "queue.resumed",
    "schedule.fired",
    "schedule.paused",
    "subagent.cancelled",
    "subagent.completed",
    "subagent.failed",
    "subagent.progress",
    "subagent.spawned",
    "trigger.fired",
    "trigger.paused",
    "turn.canceled",
    "turn.completed",
    "turn.dropped",
    "turn.failed",
    "turn.moved",
    "turn.queued",
    "turn.started",
    "worker.duplicate_accepted",
    "worker.forbidden",
    "worker.given_up",
    "worker.hibernated",
    "worker.lost",
    "worker.parked",
    "worker.reached",
    "worker.restarted",
    "worker.started",
    "worker.stopped",
    "worker.unparked",
    "worker.unreachable",
    "worktree.conflict",
    "worktree.created",
    "worktree.landed",
    "worktree.merged",
    "worktree.removed",
    "worktree.retired",
];

/// A worker that has completed a turn, and its events.
fn after_a_turn() -> (TestSandbox, String, Vec<Value>) {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "hello");
    let events = sandbox.events(&worker);
    (sandbox, worker, events)
}

fn event_of<'a>(events: &'a [Value], event_type: &str) -> &'a Value {
    events
        .iter()
        .find(|event| event["type"] == event_type)
        .unwrap_or_else(|| panic!("{event_type} in {events:#?}"))
}

fn id(event: &Value) -> &str {
    event["eventId"].as_str().unwrap()
}

/// The pattern of a normalized event without `raw`.
fn normalized() -> Value {
    json!({
        "schemaVersion": "=v1", "eventId": "ev", "ts": "ts", "workerId": "w", "type": "str", "data": "object",
        "turnId!": "turn",
    })
}

fn brief() -> Value {
    json!({"eventId": "ev", "type": "str", "turnId": "turn?", "ts": "ts"})
}

#[test]
fn watch_prints_one_normalized_event_per_line_without_an_envelope() {
    let (sandbox, worker, events) = after_a_turn();
    for event in &events {
        assert_shape(event, &normalized());
        assert_eq!(event["workerId"], worker);
    }
    let ids: Vec<&str> = events.iter().map(id).collect();
    assert!(ids.is_sorted() && ids.windows(2).all(|two| two[0] != two[1]), "{ids:?}");
    let plain = sandbox.command("subagent").args(["watch", "--worker-id", &worker]).run();
    let ndjson = sandbox.command("subagent").args(["watch", "--worker-id", &worker, "--ndjson"]).run();
    assert_eq!(plain.text(), ndjson.text());
    assert!(plain.text().starts_with("{\"data\": {"), "keys are sorted: {plain}");
    sandbox.finish();
}

#[test]
fn only_raw_adds_what_an_event_was_derived_from() {
    let (sandbox, worker, _) = after_a_turn();
    let raw = sandbox.command("subagent").args(["watch", "--worker-id", &worker, "--raw"]).run();
    let mut pattern = normalized();
    pattern["raw"] = "object".into();
    raw.lines().iter().for_each(|event| assert_shape(event, &pattern));
    sandbox.finish();
}

#[test]
fn watch_json_is_one_document_with_all_events() {
    let (sandbox, worker, events) = after_a_turn();
    let data = sandbox.run(&["watch", "--worker-id", &worker]).data_of("events.watched");
    assert_shape(&data, &json!({"workerId": "w", "count": "int", "items": [normalized()]}));
    assert_eq!((&data["items"], &data["count"]), (&json!(events), &json!(events.len())));
    sandbox.finish();
}

#[test]
fn ndjson_and_json_exclude_each_other() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let error = sandbox.run(&["watch", "--worker-id", &worker, "--ndjson"]).error("INVALID_ARGUMENT");
    assert_eq!(error["retryable"], false);
    sandbox.finish();
}

#[test]
fn a_cursor_gives_what_is_after_it_and_the_last_one_nothing() {
    let (sandbox, worker, events) = after_a_turn();
    let after = |cursor: &str| {
        let args = ["watch", "--worker-id", &worker, "--from-event-id", cursor];
        sandbox.run(&args).data_of("events.watched")["items"].as_array().unwrap().clone()
    };
    assert_eq!(after(id(&events[1])), events[2..]);
    assert_eq!(after(id(events.last().unwrap())), Vec::<Value>::new());
    sandbox.finish();
}

#[test]
fn a_cursor_that_is_no_event_of_the_worker_is_not_found() {
    let (sandbox, worker, _) = after_a_turn();
    let other = sandbox.start("demo");
    let others = sandbox.events(&other);
    for cursor in ["ev_ffffffffffff", "nonsense", id(&others[0])] {
        for command in ["watch", "wait"] {
            let error = sandbox
                .run(&[command, "--worker-id", &worker, "--from-event-id", cursor])
                .error("EVENT_NOT_FOUND");
            assert_shape(&error["details"], &json!({"workerId": "w", "eventId": "str"}));
            assert_eq!(
                (&error["details"]["workerId"], &error["details"]["eventId"]),
                (&json!(worker), &json!(cursor))
            );
        }
    }
    sandbox.finish();
}

#[test]
fn an_unknown_worker_is_not_found_in_every_mode() {
    let sandbox = TestSandbox::new();
    for args in [
        &["watch"][..],
        &["watch", "--follow"],
        &["wait"],
        &["wait", "--include-history"],
        &["wait", "--from-event-id", "ev_000000000001"],
    ] {
        let error =
            sandbox.subagent(args).args(["--worker-id", "w_0000000000"]).run().error("WORKER_NOT_FOUND");
        assert_shape(
            &error["details"],
            &json!({"workerId": "=w_0000000000", "stateDbPath": "str", "recommendedAction!": "str"}),
        );
    }
    sandbox.finish();
}

#[test]
fn follow_prints_each_line_before_its_window_is_over() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let gate = sandbox.gate("turn");
    let args = ["watch", "--worker-id", &worker, "--follow", "--timeout-seconds", "50"];
    let follower = sandbox.command("subagent").args(args).spawn();
    let accepted = sandbox.send_no_wait(&worker, &format!("early\n{}\nlate", gate.directive()));
    let wait_text = |wanted: &str| {
        follower.wait_line(wanted, |line| {
            let event: Value = serde_json::from_str(line).unwrap();
            (event["type"] == "progress.message" && event["data"]["text"] == wanted).then_some(())
        });
    };
    wait_text("early");
    gate.open();
    wait_text("late");
    let _ = sandbox.turn_end(&accepted);
    follower.kill();
    sandbox.finish();
}

#[test]
fn follow_ends_with_its_window_or_after_a_second() {
    let (sandbox, worker, events) = after_a_turn();
    for (flags, at_least) in [(&[][..], 1.0), (&["--timeout-seconds", "0.1"], 0.1)] {
        let output = sandbox.subagent(&["watch", "--worker-id", &worker, "--follow"]).args(flags).run();
        assert_eq!(output.data_of("events.watched")["count"], events.len());
        assert!(output.elapsed >= Duration::from_secs_f64(at_least), "{output}");
    }
    let short = ["watch", "--worker-id", &worker, "--follow", "--timeout-seconds", "0.05"];
    assert_eq!(sandbox.command("subagent").args(short).run().status.code(), Some(2));
    sandbox.finish();
}

#[test]
fn follow_of_a_stopped_worker_ends_when_nothing_can_come_any_more() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let follower = sandbox.follow(&worker);
    follower.wait_line("worker.started", |line| line.contains("worker.started").then_some(()));
    sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    let output = follower.output();
    assert_eq!(output.status.code(), Some(0), "{output}");
    assert_eq!(output.lines().last().unwrap()["type"], "worker.stopped");
    let again = ["watch", "--worker-id", &worker, "--follow", "--timeout-seconds", "50"];
    let again = sandbox.command("subagent").args(again).run();
    assert_eq!(again.lines(), output.lines());
    assert!(again.elapsed < Duration::from_secs(40), "{again}");
    sandbox.finish();
}

#[test]
fn a_reader_that_has_enough_ends_watch_quietly() {
    let (sandbox, worker, _) = after_a_turn();
    for follow in [&[][..], &["--follow", "--timeout-seconds", "50"]] {
        let shell = format!(
            "set -o pipefail; {} watch --worker-id {worker} {} | head -n 1",
            sandbox.executable("subagent"),
            follow.join(" ")
        );
        let output = sandbox.command("bash").args(["-c", &shell]).run();
        assert_eq!((output.status.code(), output.stderr.as_str()), (Some(0), ""), "{output}");
        assert_eq!(output.lines().len(), 1);
        assert!(output.elapsed < Duration::from_secs(40), "{output}");
    }
    sandbox.finish();
}

#[test]
fn wait_gives_the_event_itself_and_in_text_its_id_and_type() {
    let (sandbox, worker, events) = after_a_turn();
    let args = ["wait", "--worker-id", &worker, "--include-history", "--until", "turn.completed"];
    let event = sandbox.run(&args).data_of("event.matched");
    assert_shape(&event, &normalized());
    assert_eq!(&event, event_of(&events, "turn.completed"));
    let text = sandbox.command("subagent").args(args).run();
    assert_eq!(text.text(), format!("{}\tturn.completed\n", id(&event)));
    sandbox.finish();
}

#[test]
fn history_counts_only_when_it_is_asked_for_and_gives_the_oldest_match() {
    let (sandbox, worker, events) = after_a_turn();
    let _ = sandbox.send(&worker, "again");
    let wait = ["wait", "--worker-id", &worker, "--until", "turn.completed", "--timeout-seconds", "0.2"];
    for default in [&[][..], &["--after-latest"]] {
        sandbox.subagent(&wait).args(default).run().error("WAIT_TIMEOUT");
    }
    let oldest = sandbox.subagent(&wait).args(["--include-history"]).run().data_of("event.matched");
    assert_eq!(&oldest, event_of(&events, "turn.completed"));
    sandbox.finish();
}

#[test]
fn a_cursor_wins_over_both_ways_to_count_history() {
    let (sandbox, worker, events) = after_a_turn();
    let first_end = id(event_of(&events, "turn.completed"));
    let _ = sandbox.send(&worker, "again");
    let second = sandbox.events(&worker);
    for flag in ["--after-latest", "--include-history"] {
        let args =
            ["wait", "--worker-id", &worker, "--until", "turn.completed", "--from-event-id", first_end, flag];
        let event = sandbox.run(&args).data_of("event.matched");
        assert_eq!(&event, event_of(&second[events.len()..], "turn.completed"), "{flag}");
    }
    sandbox.finish();
}

#[test]
fn a_wait_from_now_on_sees_what_comes_after_its_call() {
    let (sandbox, worker, events) = after_a_turn();
    let last = id(events.last().unwrap()).to_owned();
    let wait = ["wait", "--worker-id", &worker, "--until", "turn.started"];
    let mut waiting = sandbox.subagent(&wait).spawn();
    // The wait's start cannot be observed: the test sends turns until one was after it.
    wait_until("the wait to see a turn", Duration::from_secs(60), || {
        let _ = sandbox.send(&worker, "next");
        (!waiting.runs()).then_some(())
    });
    let event = waiting.output().data_of("event.matched");
    assert!(event["type"] == "turn.started" && id(&event) > last.as_str(), "{event}");
    sandbox.finish();
}

#[test]
fn any_star_and_nothing_match_the_next_event_of_any_type() {
    let (sandbox, worker, events) = after_a_turn();
    for until in ["any", "*", "", " , ,", "turn.failed,any"] {
        let args = ["wait", "--worker-id", &worker, "--include-history", "--until", until];
        assert_eq!(sandbox.run(&args).data_of("event.matched"), events[0], "{until:?}");
    }
    sandbox.finish();
}

#[test]
fn turn_end_is_the_default_and_stands_for_ends_and_questions() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let turns = [
        ("hello", "turn.completed"),
        ("!error -32000 no", "turn.failed"),
        ("!ask execute make", "approval.requested"),
    ];
    for (prompt, expected) in turns {
        let accepted = sandbox.send_no_wait(&worker, prompt);
        let cursor = accepted["acceptedEventId"].as_str().unwrap();
        for until in [&[][..], &["--until", "turn_end"], &["--until", " turn_end , worker.lost"]] {
            let args = ["wait", "--worker-id", &worker, "--from-event-id", cursor];
            let event = sandbox.subagent(&args).args(until).run().data_of("event.matched");
            assert_eq!(event["type"], expected, "{prompt} {until:?}");
        }
    }
    let newest = sandbox.events(&worker).pop().unwrap();
    sandbox.run(&["cancel", "--worker-id", &worker]).data_of("turn.canceled");
    let event = sandbox.wait_after(&worker, &newest["eventId"], "turn_end");
    assert_eq!(event["type"], "turn.canceled");
    sandbox.finish();
}

#[test]
fn unknown_types_are_refused_at_once_with_what_is_known() {
    let sandbox = TestSandbox::new();
    let until = "turn.over, turn.failed,nope";
    let args = ["wait", "--worker-id", "w_0000000000", "--timeout-seconds", "0", "--until", until];
    let error = sandbox.run(&args).error("INVALID_ARGUMENT");
    assert_shape(
        &error["details"],
        &json!({"unknown": ["=nope", "=turn.over"], "aliases": ["str"], "knownEventTypes": ["str"]}),
    );
    assert_eq!(error["details"]["knownEventTypes"], json!(KNOWN));
    assert_eq!(error["details"]["aliases"], json!(["turn_end"]), "{error}");
    assert_eq!(error["retryable"], false);
    sandbox.finish();
}

#[test]
fn kinds_narrow_progress_updates() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "!think hm\n!plan a | b");
    let args = ["wait", "--worker-id", &worker, "--include-history", "--until", "progress.update:plan"];
    let event = sandbox.run(&args).data_of("event.matched");
    assert_eq!((&event["type"], &event["data"]["kind"]), (&json!("progress.update"), &json!("plan")));
    sandbox.finish();
}

#[test]
fn a_timeout_says_where_the_worker_stands() {
    let (sandbox, worker, events) = after_a_turn();
    let args = ["wait", "--worker-id", &worker, "--until", "turn.failed", "--timeout-seconds", "0.2"];
    let error = sandbox.run(&args).error("WAIT_TIMEOUT");
    assert_eq!(error["retryable"], true);
    let details = &error["details"];
    let mut pattern = json!({
        "workerId": "w", "until": "=turn.failed", "timeoutSeconds": "float", "noProgressTimeoutSeconds": "float",
        "workerState": "=idle", "latestEvent": brief(), "lastMeaningfulEvent": null, "diagnosis": "str",
        "recommendedCommand": "str",
    });
    assert_shape(details, &pattern);
    assert_eq!(
        (&details["timeoutSeconds"], &details["noProgressTimeoutSeconds"]),
        (&json!(0.2), &json!(0.0))
    );
    let latest = id(events.last().unwrap());
    assert_eq!(details["latestEvent"]["eventId"], *latest);
    let go_on = format!("subagent wait --worker-id {worker} --until turn.failed --from-event-id {latest}");
    assert_eq!(details["recommendedCommand"], go_on);
    assert!(details["diagnosis"].as_str().unwrap().contains("--from-event-id"), "{details}");
    // A meaningful event is one after the cursor that is not progress.
    let args = [&args[..], &["--from-event-id", id(&events[0])]].concat();
    let error = sandbox.run(&args).error("WAIT_TIMEOUT");
    pattern["lastMeaningfulEvent"] = brief();
    assert_shape(&error["details"], &pattern);
    assert_eq!(error["details"]["lastMeaningfulEvent"]["type"], "turn.completed");
    let output = sandbox.command("subagent").args(args).run();
    assert!(output.stderr.contains("\nHint: the worker is idle: no turn is open"), "{output}");
    assert!(output.stderr.contains(&format!("\nTry: {go_on}\n")), "{output}");
    sandbox.finish();
}

#[test]
fn a_quiet_worker_ends_a_guarded_wait_before_its_timeout() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let gate = sandbox.gate("turn");
    let accepted = sandbox.send_no_wait(&worker, &format!("some text\n{}", gate.directive()));
    let cursor = accepted["acceptedEventId"].as_str().unwrap();
    let wait = ["wait", "--worker-id", &worker, "--from-event-id", cursor, "--timeout-seconds", "50"];
    let args = [&wait[..], &["--no-progress-timeout-seconds", "0.3"]].concat();
    let error = sandbox.run(&args).error("WAIT_NO_PROGRESS");
    assert_eq!(error["retryable"], true);
    let details = &error["details"];
    assert_shape(
        details,
        &json!({
            "workerId": "w", "until": "=turn.completed,turn.failed,turn.canceled,approval.requested", "noProgressTimeoutSeconds": "float", "workerState": "=running",
            "latestEvent": brief(), "lastMeaningfulEvent": null, "diagnosis": "str", "turnId": "turn",
            "recommendedCommand": "str",
        }),
    );
    assert_eq!(
        (&details["noProgressTimeoutSeconds"], &details["turnId"]),
        (&json!(0.3), &accepted["turnId"])
    );
    assert_eq!(details["latestEvent"]["type"], "progress.message");
    // It takes precedence if both times are over.
    let both = ["--timeout-seconds", "0.2", "--no-progress-timeout-seconds", "0.2"];
    sandbox.subagent(&wait[..5]).args(both).run().error("WAIT_NO_PROGRESS");
    gate.open();
    let _ = sandbox.turn_end(&accepted);
    sandbox.finish();
}

#[test]
fn progress_counts_as_progress() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let steps = "!sleep 250\nstep\n".repeat(8);
    let accepted = sandbox.send_no_wait(&worker, &steps);
    let cursor = accepted["acceptedEventId"].as_str().unwrap();
    let args =
        ["wait", "--worker-id", &worker, "--from-event-id", cursor, "--no-progress-timeout-seconds", "1.5"];
    assert_eq!(sandbox.run(&args).data_of("event.matched")["type"], "turn.completed");
    sandbox.finish();
}

#[test]
fn a_wait_for_a_stopped_worker_ends_at_once() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let waiting = sandbox.subagent(&["wait", "--worker-id", &worker, "--timeout-seconds", "50"]).spawn();
    sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    let ended = waiting.output();
    let error = ended.error("WORKER_STOPPED");
    assert_shape(
        &error["details"],
        &json!({"workerId": "w", "latestEvent": brief(), "recommendedAction": "str", "recommendedCommand": "str"}),
    );
    assert_eq!(error["details"]["latestEvent"]["type"], "worker.stopped");
    assert!(ended.elapsed < Duration::from_secs(40), "{ended}");
    let args = ["wait", "--worker-id", &worker, "--include-history", "--until", "worker.stopped"];
    assert_eq!(sandbox.run(&args).data_of("event.matched")["type"], "worker.stopped");
    sandbox.finish();
}

#[test]
fn no_timeout_is_zero_seconds_and_below_zero_is_wrong_usage() {
    let (sandbox, worker, _) = after_a_turn();
    let wait = ["wait", "--worker-id", &worker, "--include-history", "--timeout-seconds"];
    sandbox.run(&[&wait[..], &["0"]].concat()).data_of("event.matched");
    for wrong in ["-1", "nan", "soon"] {
        let output = sandbox.command("subagent").args(wait).args([wrong]).run();
        assert_eq!((output.status.code(), output.stdout.as_str()), (Some(2), ""), "{output}");
    }
    sandbox.finish();
}

#[test]
fn what_wait_reads_from_json_is_what_its_flags_say() {
    let (sandbox, worker, events) = after_a_turn();
    let input =
        json!({"workerId": worker, "until": "turn.started", "afterLatest": false, "timeoutSeconds": 5});
    let event =
        sandbox.subagent(&["wait", "--input", "-"]).stdin(input.to_string()).run().data_of("event.matched");
    assert_eq!(&event, event_of(&events, "turn.started"));
    let input = json!({"workerId": worker, "fromEventId": id(&event), "until": "any"});
    let next =
        sandbox.subagent(&["wait", "--input", "-"]).stdin(input.to_string()).run().data_of("event.matched");
    assert_eq!(&next, event_of(&events, "message.sent"));
    sandbox.finish();
}
