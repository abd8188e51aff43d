//! Budgets from outside: what is counted, what is refused or canceled once they are used up,
//! and what is reported.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use subagent_tests::harness::{Gate, TestSandbox, assert_shape, wait_until};

fn with(flags: &[&str]) -> (TestSandbox, String) {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let worker = start(&sandbox, flags);
    (sandbox, worker)
}

fn start(sandbox: &TestSandbox, flags: &[&str]) -> String {
    let started = sandbox.subagent(&["worker", "start", "--launcher", "demo"]).args(flags).run();
    started.data_of("worker.started")["workerId"].as_str().unwrap().to_owned()
}

fn data_of_type(sandbox: &TestSandbox, worker: &str, event_type: &str) -> Vec<Value> {
    let events = sandbox.events(worker).into_iter().filter(|event| event["type"] == event_type);
    events.map(|event| event["data"].clone()).collect()
}

fn shown(sandbox: &TestSandbox, worker: &str) -> Value {
    sandbox.run(&["budget", "show", "--worker-id", worker]).data_of("budget.shown")
}

fn of_controller(sandbox: &TestSandbox) -> Value {
    sandbox.run(&["budget", "show"]).data_of("budget.shown")["controller"].take()
}

/// Returns the directive by which the agent reports the cost of its session.
fn costs(cost: &Value) -> String {
    let update = json!({"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": cost});
    let params = json!({"sessionId": "SESSION", "update": update});
    format!("!raw {}", json!({"jsonrpc": "2.0", "method": "session/update", "params": params}))
}

fn usd(amount: f64) -> String {
    costs(&json!({"amount": amount, "currency": "USD"}))
}

fn tokens(count: u64) -> String {
    format!("!tokens {}", json!({"totalTokens": count}))
}

#[test]
fn turns_that_are_used_up_refuse_the_next_until_the_owner_raises_the_limit() {
    let (sandbox, worker) = with(&["--max-turns", "2"]);
    let _ = sandbox.send(&worker, "one");
    assert_eq!(data_of_type(&sandbox, &worker, "budget.exceeded"), Vec::<Value>::new());
    let _ = sandbox.send(&worker, "two");
    let error = sandbox.sending(&worker, "three").run().error("BUDGET_EXCEEDED");
    assert_shape(
        &error["details"],
        &json!({
            "scope": "=worker", "budget": "=turns", "limit": 2, "used": 2, "unit": "=turns", "recommendedAction": "str",
        }),
    );
    let exceeded_once = data_of_type(&sandbox, &worker, "budget.exceeded");
    let data = json!({"scope": "worker", "budget": "turns", "limit": 2, "used": 2, "unit": "turns", "action": "refuse"});
    assert_eq!(exceeded_once, [data]);
    sandbox.kill_daemon();
    sandbox.sending(&worker, "three").run().error("BUDGET_EXCEEDED");
    let set =
        sandbox.run(&["worker", "set", "--worker-id", &worker, "--max-turns", "3"]).data_of("worker.set");
    assert_eq!(set["budget"]["turns"], json!({"used": 2, "limit": 3, "unit": "turns", "unreported": 0}));
    let changed = data_of_type(&sandbox, &worker, "budget.changed");
    assert_eq!(changed, [json!({"scope": "worker", "limits": {"turns": 3}})]);
    let _ = sandbox.send(&worker, "three");
    sandbox.sending(&worker, "four").run().error("BUDGET_EXCEEDED");
    assert_eq!(data_of_type(&sandbox, &worker, "budget.exceeded").len(), 2, "it is another limit");
    sandbox.run(&["worker", "set", "--worker-id", &worker, "--max-turns", "none"]).data_of("worker.set");
    let _ = sandbox.send(&worker, "four");
    sandbox.finish();
}

/// A limited worker whose turn waits at a gate, with queued messages.
fn queued(flags: &[&str], first: &str, waiting: &[&str]) -> (TestSandbox, String, Gate) {
    let (sandbox, worker) = with(flags);
    let gate = sandbox.gate("turn");
    let _ = sandbox.send_no_wait(&worker, &format!("{}\n{first}", gate.directive()));
    for text in waiting {
        sandbox.sending(&worker, text).args(["--queue", "--no-wait"]).run().data_of("turn.queued");
    }
    (sandbox, worker, gate)
}

fn queue_of(sandbox: &TestSandbox, worker: &str) -> Value {
    sandbox.show(worker).get("queue").cloned().unwrap_or_default()
}

#[track_caller]
fn rest(sandbox: &TestSandbox, worker: &str) {
    let wait = ["wait", "--worker-id", worker, "--all", "--timeout-seconds", "30"];
    sandbox.run(&wait).data_of("workers.waited");
}

fn sent(sandbox: &TestSandbox, worker: &str) -> Vec<String> {
    let sent = data_of_type(sandbox, worker, "message.sent").into_iter();
    sent.map(|data| data["text"].as_str().unwrap().lines().last().unwrap().to_owned()).collect()
}

#[test]
fn what_waits_is_sent_as_far_as_the_turns_go_and_waits_on_until_the_owner_raises_the_limit() {
    let (sandbox, worker, gate) = queued(&["--max-turns", "2"], "one", &["two", "three", "four"]);
    gate.open();
    let paused = json!({"length": 2, "paused": true, "reason": "budget"});
    wait_until("the queue to be paused", Duration::from_secs(10), || {
        (queue_of(&sandbox, &worker) == paused).then_some(())
    });
    assert_eq!(sent(&sandbox, &worker), ["one", "two"]);
    assert!(sandbox.show(&worker)["lastError"].as_str().unwrap().starts_with("BUDGET_EXCEEDED: "));
    sandbox.kill_daemon();
    assert_eq!(queue_of(&sandbox, &worker), paused);
    let resume = ["queue", "resume", "--worker-id", &worker];
    // The budget was not raised.
    sandbox.run(&resume).error("BUDGET_EXCEEDED");
    sandbox.sending(&worker, "now").args(["--if-busy", "steer"]).run().error("BUDGET_EXCEEDED");
    sandbox.run(&["worker", "set", "--worker-id", &worker, "--max-turns", "4"]).data_of("worker.set");
    assert_eq!(queue_of(&sandbox, &worker), paused);
    assert_ne!(sandbox.run(&resume).data_of("queue.resumed")["turnId"], Value::Null);
    rest(&sandbox, &worker);
    assert_eq!(sent(&sandbox, &worker), ["one", "two", "three", "four"]);
    sandbox.finish();
}

#[test]
fn tokens_reported_at_the_end_of_a_turn_hold_back_what_waits_behind_it() {
    let (sandbox, worker, gate) = queued(&["--max-tokens", "100"], &tokens(120), &["next"]);
    gate.open();
    wait_until("the queue to be paused", Duration::from_secs(10), || {
        (queue_of(&sandbox, &worker)["reason"] == "budget").then_some(())
    });
    assert_eq!(data_of_type(&sandbox, &worker, "turn.started").len(), 1);
    sandbox.finish();
}

#[test]
fn a_message_that_would_end_the_last_turn_for_nothing_is_refused() {
    let (sandbox, worker, gate) = queued(&["--max-turns", "1"], "the last", &[]);
    sandbox.sending(&worker, "now").args(["--if-busy", "steer"]).run().error("BUDGET_EXCEEDED");
    gate.open();
    rest(&sandbox, &worker);
    assert_eq!(data_of_type(&sandbox, &worker, "turn.completed").len(), 1);
    sandbox.finish();
}

#[test]
fn a_limit_that_is_set_while_messages_wait_holds_all_of_them_back() {
    let (sandbox, worker) = with(&[]);
    let gate = sandbox.gate("turn");
    let _ = sandbox.send_no_wait(&worker, &format!("{}\n{}", usd(2.0), gate.directive()));
    for text in ["two", "three"] {
        sandbox.sending(&worker, text).args(["--queue", "--no-wait"]).run().data_of("turn.queued");
    }
    wait_until("the cost to be known", Duration::from_secs(10), || {
        (shown(&sandbox, &worker)["cost"]["used"] == 2.0).then_some(())
    });
    let set = ["worker", "set", "--worker-id", &worker, "--max-cost", "1", "--on-budget", "cancel"];
    sandbox.run(&set).data_of("worker.set");
    let paused = json!({"length": 2, "paused": true, "reason": "budget"});
    wait_until("the queue to be paused", Duration::from_secs(20), || {
        (queue_of(&sandbox, &worker) == paused).then_some(())
    });
    assert_eq!(data_of_type(&sandbox, &worker, "turn.started").len(), 1);
    gate.open();
    sandbox.finish();
}

#[test]
fn a_wait_for_all_turns_of_a_limited_worker_is_not_over_between_two_of_them() {
    let (sandbox, worker, gate) = queued(&["--max-turns", "10"], "one", &["two", "three", "four"]);
    let wait = ["wait", "--worker-id", &worker, "--all", "--timeout-seconds", "30"];
    let waiting = sandbox.subagent(&wait).spawn();
    gate.open();
    waiting.output().data_of("workers.waited");
    assert_eq!(sent(&sandbox, &worker), ["one", "two", "three", "four"]);
    sandbox.finish();
}

#[test]
fn a_limited_worker_goes_through_its_queue_also_when_its_daemon_dies() {
    let (sandbox, worker, gate) = queued(&["--max-turns", "10"], "one", &["two", "three"]);
    sandbox.kill_daemon();
    gate.open();
    // The next daemon receives the end, and has not checked the budgets by then.
    rest(&sandbox, &worker);
    assert_eq!(sent(&sandbox, &worker), ["one", "two", "three"]);
    assert_eq!(data_of_type(&sandbox, &worker, "queue.paused"), Vec::<Value>::new());
    sandbox.finish();
}

#[test]
fn tokens_are_summed_and_a_warning_refuses_nothing() {
    let (sandbox, worker) = with(&["--max-tokens", "100", "--on-budget", "warn"]);
    let _ = sandbox.send(&worker, &tokens(60));
    assert_eq!(data_of_type(&sandbox, &worker, "budget.exceeded"), Vec::<Value>::new());
    let _ = sandbox.send(&worker, "!tokens {\"inputTokens\": 50, \"outputTokens\": 10}");
    let data = json!({"scope": "worker", "budget": "tokens", "limit": 100, "used": 120, "unit": "tokens", "action": "warn"});
    assert_eq!(data_of_type(&sandbox, &worker, "budget.exceeded"), [data]);
    let _ = sandbox.send(&worker, &tokens(1));
    assert_eq!(data_of_type(&sandbox, &worker, "budget.exceeded").len(), 1, "once");
    let used = |used: Value, limit: Value, unit: &str, unreported: Value| json!({"used": used, "limit": limit, "unit": unit, "unreported": unreported});
    assert_shape(
        &shown(&sandbox, &worker),
        &json!({
            "workerId": "w", "label": "=worker", "onLimit": "=warn", "onUnknown": "=warn",
            "turns": used(json!(3), json!(null), "=turns", json!(0)),
            "wallTime": used(json!("float"), json!(null), "=seconds", json!(0)),
            "tokens": used(json!(121), json!(100), "=tokens", json!(0)),
            "cost": {"used": null, "limit": null, "unit": null, "unreported": 3},
        }),
    );
    sandbox.finish();
}

#[test]
fn a_cost_that_passes_the_limit_cancels_the_turn_where_it_is_reported() {
    let (sandbox, worker) = with(&["--max-cost", "1.5", "--on-budget", "cancel"]);
    let waited = sandbox.send(&worker, &usd(1.0));
    assert_eq!(waited["matchedEvent"]["type"], "turn.completed");
    let waited = sandbox.send(&worker, &format!("{}\n!sleep 60000", usd(1.6)));
    let end = &waited["matchedEvent"];
    assert_eq!(end["type"], "turn.canceled", "{waited}");
    let reason = end["data"]["reason"].as_str().unwrap();
    assert_eq!(reason, "BUDGET_EXCEEDED: the worker has used 1.6 USD; the limit is 1.5");
    let data = json!({"scope": "worker", "budget": "cost", "limit": 1.5, "used": 1.6, "unit": "USD", "action": "cancel"});
    assert_eq!(data_of_type(&sandbox, &worker, "budget.exceeded"), [data]);
    assert!(sandbox.show(&worker)["lastError"].as_str().unwrap().starts_with("BUDGET_EXCEEDED: "));
    sandbox.sending(&worker, "more").run().error("BUDGET_EXCEEDED");
    sandbox.finish();
}

#[test]
fn an_agent_that_reports_nothing_is_unknown() {
    let (sandbox, worker) = with(&["--max-tokens", "100", "--max-cost", "1"]);
    let _ = sandbox.send(&worker, "one");
    let budget = shown(&sandbox, &worker);
    for what in ["tokens", "cost"] {
        assert_eq!((&budget[what]["used"], &budget[what]["unreported"]), (&json!(null), &json!(1)), "{what}");
    }
    let _ = sandbox.send(&worker, "two");
    let _ = sandbox.send(&worker, "three");
    let unknown = data_of_type(&sandbox, &worker, "budget.unknown");
    let data = |budget: &str| json!({"scope": "worker", "budget": budget, "unreported": 1, "action": "warn"});
    assert_eq!(unknown, [data("tokens"), data("cost")], "once each");
    sandbox.run(&["worker", "set", "--worker-id", &worker, "--on-unknown", "refuse"]).data_of("worker.set");
    let error = sandbox.sending(&worker, "four").run().error("BUDGET_UNKNOWN");
    assert_shape(
        &error["details"],
        &json!({"scope": "=worker", "budget": "=tokens", "unreported": 3, "recommendedAction": "str"}),
    );
    sandbox.run(&["worker", "set", "--worker-id", &worker, "--max-tokens", "none"]).data_of("worker.set");
    let error = sandbox.sending(&worker, "four").run().error("BUDGET_UNKNOWN");
    assert_eq!(error["details"]["budget"], "cost");
    sandbox.finish();
}

#[test]
fn any_report_of_an_agent_is_a_bounded_number_or_unknown() {
    let (sandbox, worker) = with(&["--max-cost", "1000000000"]);
    for cost in [
        json!({"amount": -5, "currency": "USD"}),
        json!({"amount": "12", "currency": "USD"}),
        json!({"amount": null, "currency": "USD"}),
        json!({"amount": 1, "currency": "\u{1b}[31m"}),
        json!({"amount": 1, "currency": "x".repeat(10_000)}),
        json!([1, 2]),
        json!("free"),
    ] {
        let _ = sandbox.send(&worker, &format!("{}\n!tokens {{\"totalTokens\": -7}}", costs(&cost)));
    }
    let nan = costs(&json!({"amount": 0, "currency": "USD"})).replace(":0,", ":NaN,");
    let _ = sandbox.send(&worker, &format!("{nan}\n!tokens [\"many\"]"));
    let budget = shown(&sandbox, &worker);
    for what in ["tokens", "cost"] {
        assert_eq!((&budget[what]["used"], &budget[what]["unreported"]), (&json!(null), &json!(8)), "{what}");
    }
    let _ = sandbox.send(&worker, &format!("{}\n{}\n{}", usd(3.0), usd(2.0), usd(2.5)));
    let cost = &shown(&sandbox, &worker)["cost"];
    assert_eq!((&cost["used"], &cost["unreported"]), (&json!(5.5), &json!(0)), "one that counts anew");
    let huge = costs(&json!({"amount": 1e308, "currency": "USD"}));
    let _ = sandbox.send(&worker, &format!("{huge}\n!tokens {{\"totalTokens\": 1e308}}"));
    let budget = shown(&sandbox, &worker);
    assert_eq!(budget["tokens"]["used"], json!(1_000_000_000_000_000_u64));
    sandbox.sending(&worker, "more").run().error("BUDGET_EXCEEDED");
    sandbox.finish();
}

#[test]
fn time_runs_out_by_itself_and_not_while_an_answer_is_awaited() {
    let (sandbox, worker) = with(&["--max-wall-time", "3s", "--on-budget", "cancel"]);
    let waited = sandbox.send(&worker, "!ask execute it\n!sleep 60000");
    assert_eq!(waited["matchedEvent"]["type"], "approval.requested");
    let before = shown(&sandbox, &worker)["wallTime"]["used"].as_f64().unwrap();
    // Waiting longer than the budget allows uses none of it.
    let (end, cursor) = ("turn.canceled,turn.completed", waited["matchedEvent"]["eventId"].as_str().unwrap());
    let wait = [
        "wait",
        "--worker-id",
        &worker,
        "--from-event-id",
        cursor,
        "--until",
        end,
        "--timeout-seconds",
        "3.3",
    ];
    sandbox.run(&wait).error("WAIT_TIMEOUT");
    assert_eq!(shown(&sandbox, &worker)["wallTime"]["used"].as_f64().unwrap(), before);
    sandbox.approve(&worker, &waited["requestId"], "allow").data_of("approval.decided");
    let end = sandbox.turn_end(&waited);
    assert_eq!(end["type"], "turn.canceled");
    assert!(end["data"]["reason"].as_str().unwrap().starts_with("BUDGET_EXCEEDED: "), "{end}");
    assert_eq!(data_of_type(&sandbox, &worker, "budget.exceeded")[0]["budget"], "wallTime");
    sandbox.sending(&worker, "more").run().error("BUDGET_EXCEEDED");
    sandbox.finish();
}

#[test]
fn the_time_of_an_open_turn_survives_the_daemon() {
    let (sandbox, worker) = with(&["--max-wall-time", "3s", "--on-budget", "cancel"]);
    let accepted = sandbox.send_no_wait(&worker, "said\n!sleep 60000");
    let _ = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "progress.message");
    sandbox.kill_daemon();
    let end = sandbox.turn_end(&accepted);
    assert_eq!(end["type"], "turn.canceled");
    assert!(end["data"]["reason"].as_str().unwrap().starts_with("BUDGET_EXCEEDED: "), "{end}");
    let used = shown(&sandbox, &worker)["wallTime"]["used"].as_f64().unwrap();
    assert!((3.0..30.0).contains(&used), "{used}");
    assert_eq!(data_of_type(&sandbox, &worker, "budget.exceeded").len(), 1);
    sandbox.finish();
}

#[test]
fn two_workers_share_the_budget_of_their_controller_and_what_was_removed_stays_used() {
    let (sandbox, first) = with(&[]);
    let second = start(&sandbox, &[]);
    let set = sandbox.run(&["budget", "set", "--max-tokens", "100", "--on-budget", "cancel"]);
    assert_eq!(set.data_of("budget.set")["controller"]["tokens"]["limit"], 100);
    for worker in [&first, &second] {
        wait_until("the event of the change", Duration::from_secs(10), || {
            let changed = data_of_type(&sandbox, worker, "budget.changed");
            (changed == [json!({"scope": "controller", "limits": {"tokens": 100, "onLimit": "cancel"}})])
                .then_some(())
        });
    }
    let open = sandbox.send_no_wait(&second, "said\n!sleep 60000");
    let _ = sandbox.send(&first, &tokens(60));
    sandbox.run(&["worker", "stop", &first]).data_of("worker.stopped");
    sandbox.run(&["worker", "rm", &first]).data_of("worker.removed");
    let third = start(&sandbox, &[]);
    let _ = sandbox.send(&third, &tokens(50));
    assert_eq!(data_of_type(&sandbox, &third, "budget.exceeded")[0]["scope"], "controller");
    let end = sandbox.turn_end(&open);
    assert_eq!(
        end["data"]["reason"].as_str().unwrap(),
        "BUDGET_EXCEEDED: the workers of the controller together have used 110 tokens; the limit is 100"
    );
    for worker in [&second, &third] {
        let error = sandbox.sending(worker, "more").run().error("BUDGET_EXCEEDED");
        assert_eq!(
            (&error["details"]["scope"], &error["details"]["used"]),
            (&json!("controller"), &json!(110))
        );
    }
    let exceeded = |worker: &str| data_of_type(&sandbox, worker, "budget.exceeded").len();
    assert_eq!(exceeded(&second) + exceeded(&third), 1, "once for all of them");
    let controller = of_controller(&sandbox);
    assert_eq!((&controller["turns"]["used"], &controller["tokens"]["unreported"]), (&json!(3), &json!(1)));
    sandbox.run(&["budget", "set", "--max-tokens", "1000"]).data_of("budget.set");
    let _ = sandbox.send(&third, "more");
    sandbox.finish();
}

#[test]
fn of_two_at_once_only_as_many_are_accepted_as_there_are_turns_left() {
    let (sandbox, first) = with(&[]);
    let second = start(&sandbox, &[]);
    sandbox.run(&["budget", "set", "--max-turns", "1"]).data_of("budget.set");
    let both = [&first, &second].map(|worker| sandbox.sending(worker, "go").args(["--no-wait"]).spawn());
    let accepted = both.into_iter().map(|running| running.output()).filter(|output| output.status.success());
    assert_eq!(accepted.count(), 1);
    assert_eq!(of_controller(&sandbox)["turns"]["used"], 1);
    sandbox.finish();
}

#[test]
fn the_config_says_what_new_workers_and_a_new_controller_may_use() {
    let sandbox = TestSandbox::new();
    let launchers = fs::read_to_string(sandbox.config_file()).unwrap();
    let budgets = "budgets:\n  worker:\n    turns: 5\n    onLimit: warn\n  controller:\n    cost: 2.5\n    wallTimeSeconds: 3600\n";
    fs::write(sandbox.config_file(), format!("{launchers}\n{budgets}")).unwrap();
    sandbox.init();
    let controller = of_controller(&sandbox);
    assert_eq!((&controller["cost"]["limit"], &controller["wallTime"]["limit"]), (&json!(2.5), &json!(3600)));
    let worker = start(&sandbox, &["--max-tokens", "7"]);
    let budget = shown(&sandbox, &worker);
    assert_eq!(
        (&budget["turns"]["limit"], &budget["tokens"]["limit"], &budget["onLimit"]),
        (&json!(5), &json!(7), &json!("warn"))
    );
    // Existing workers keep their budgets.
    fs::write(sandbox.config_file(), format!("{launchers}\nbudgets:\n  controller: {{cost: 9}}\n")).unwrap();
    assert_eq!(of_controller(&sandbox)["cost"]["limit"], 2.5);
    fs::write(sandbox.config_file(), format!("{launchers}\nbudgets:\n  worker:\n    token: 9\n")).unwrap();
    let error = sandbox.run(&["worker", "start", "--launcher", "demo"]).error("CONFIG_PARSE_ERROR");
    assert!(error["message"].as_str().unwrap().contains("token"), "{error}");
    sandbox.finish();
}

#[test]
fn what_is_no_limit_is_refused() {
    let (sandbox, worker) = with(&[]);
    for body in [r#"{"turns": 0}"#, r#"{"cost": -1}"#, r#"{"tokens": 9000000000000000000}"#] {
        let input = format!(r#"{{"workerId": "{worker}", "budget": {body}}}"#);
        let output = sandbox.subagent(&["worker", "set", "--input", "-"]).stdin(input).run();
        output.error("INVALID_ARGUMENT");
    }
    for body in [r#"{"turn": 5}"#, r#"{"turns": "5"}"#, r#"{"onLimit": "stop"}"#] {
        let input = format!(r#"{{"workerId": "{worker}", "budget": {body}}}"#);
        let output = sandbox.subagent(&["worker", "set", "--input", "-"]).stdin(input).run();
        output.error("INVALID_INPUT");
    }
    sandbox.run(&["budget", "set"]).error("INVALID_INPUT");
    sandbox.run(&["budget", "show", "--worker-id", "w_0000000000"]).error("WORKER_NOT_FOUND");
    sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.run(&["worker", "set", "--worker-id", &worker, "--max-turns", "5"]).error("WORKER_STOPPED");
    sandbox.finish();
}

#[test]
fn a_clock_that_is_set_back_in_a_turn_does_not_lengthen_its_time() {
    let mut sandbox = TestSandbox::new();
    let earlier = sandbox.file("an-hour-earlier");
    sandbox.set_env("LD_PRELOAD", sandbox.executable("libsubagent_fault_fs.so"));
    sandbox.set_env("FAULT_CLOCK", &earlier);
    sandbox.init();
    let worker = start(&sandbox, &["--max-wall-time", "5s", "--on-budget", "cancel"]);
    let begun = Instant::now();
    let prompt = format!("!say begun\n{}", sandbox.gate("never").directive());
    let accepted = sandbox.send_no_wait(&worker, &prompt);
    let _ = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "progress.message");
    fs::write(&earlier, "").unwrap();
    let end = sandbox.turn_end(&accepted);
    let took = begun.elapsed();
    assert_eq!(end["type"], "turn.canceled", "{end}");
    assert!(took >= Duration::from_secs(5) && took < Duration::from_secs(30), "{took:?}");
    let sent = sandbox.events(&worker).into_iter().find(|event| event["type"] == "message.sent").unwrap();
    assert!(end["ts"].as_str().unwrap() < sent["ts"].as_str().unwrap(), "the clock was not set back: {end}");
    fs::remove_file(&earlier).unwrap();
    sandbox.finish();
}
