//! `usage` from outside: the sums match the events, and unknown values stay unknown.

use std::fs;

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, request};

use super::config_layers::USER;

/// Returns the directive by which the agent reports the cost of its session in USD.
fn usd(amount: f64) -> String {
    let cost = json!({"amount": amount, "currency": "USD"});
    let update = json!({"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": cost});
    let params = json!({"sessionId": "SESSION", "update": update});
    format!("!raw {}", json!({"jsonrpc": "2.0", "method": "session/update", "params": params}))
}

fn tokens(counts: &Value) -> String {
    format!("!tokens {counts}")
}

fn usage(sandbox: &TestSandbox, flags: &[&str]) -> Value {
    sandbox.subagent(&["usage"]).args(flags).run().data_of("usage.shown")
}

fn item<'a>(shown: &'a Value, key: &Value) -> &'a Value {
    shown["items"].as_array().unwrap().iter().find(|item| item["key"] == *key).unwrap()
}

/// Returns tokens and millionths of a USD reported by the events of a worker.
fn reported(sandbox: &TestSandbox, worker: &str) -> (u64, i64) {
    let (mut tokens, mut micros, mut session) = (0, 0, 0);
    for event in sandbox.events(worker) {
        let data = &event["data"];
        match event["type"].as_str().unwrap() {
            "turn.completed" => tokens += data["usage"]["totalTokens"].as_u64().unwrap_or(0),
            "progress.update" => {
                if let Some(amount) = data["cost"]["amount"].as_f64() {
                    let now = millionths(amount);
                    micros += now - session;
                    session = now;
                }
            }
            _ => {}
        }
    }
    (tokens, micros)
}

fn millionths(amount: f64) -> i64 {
    #[allow(clippy::cast_possible_truncation, reason = "the amounts of this test are small")]
    let whole = (amount * 1e6).round() as i64;
    whole
}

fn micros(cost: &Value) -> i64 {
    let amounts = cost["used"].as_array().map(Vec::as_slice).unwrap_or_default();
    amounts.iter().map(|amount| millionths(amount["amount"].as_f64().unwrap())).sum()
}

#[test]
fn the_sums_are_those_of_the_events_to_the_millionth_and_what_is_unknown_stays_unknown() {
    let (sandbox, first) = TestSandbox::with_worker();
    let second = sandbox.start("demo");
    for (cost, count) in [(0.1, 120), (0.3, 80), (0.3001, 1)] {
        let text = format!("{}\n{}", usd(cost), tokens(&json!({"totalTokens": count})));
        let _ = sandbox.send(&first, &text);
    }
    let _ = sandbox.send(&first, "says nothing of itself");
    // Its cost arrives with the next turn; its tokens are never known.
    let _ = sandbox.send(&second, "one");
    let _ = sandbox.send(&second, &usd(1.25));
    let _ = sandbox.send_fails(&second, "!error -32603 no luck", "BACKEND_RPC_ERROR");
    let third = sandbox.start("demo");
    let _ = sandbox.send(&third, "nothing is reported");

    let before = usage(&sandbox, &[]);
    assert_eq!(before["by"], "worker");
    for worker in [&first, &second, &third] {
        let (tokens, cost) = reported(&sandbox, worker);
        let shown = item(&before, &json!(worker));
        assert_eq!(shown["tokens"]["used"].as_u64().unwrap_or(0), tokens, "{shown}");
        assert_eq!(micros(&shown["cost"]), cost, "{shown}");
        let budget = sandbox.run(&["budget", "show", "--worker-id", worker]).data_of("budget.shown");
        for what in ["tokens", "cost"] {
            assert_eq!(shown[what]["unreported"], budget[what]["unreported"], "{what} {shown} {budget}");
        }
        assert_eq!(shown["turns"], budget["turns"]["used"]);
        assert!(shown["name"].as_str().unwrap().starts_with("demo-"), "{shown}");
    }
    let unknown = json!({"used": null, "unreported": 1});
    let nothing = item(&before, &json!(third));
    assert_eq!((&nothing["tokens"], &nothing["cost"]), (&unknown, &unknown));
    let usd = |amount: f64| json!([{"currency": "USD", "amount": amount, "computed": 0.0}]);
    assert_eq!(before["total"]["tokens"], json!({"used": 201, "unreported": 5}));
    assert_eq!(before["total"]["cost"], json!({"used": usd(1.5501), "unreported": 3}));

    // The sum is the same in every grouping, also for a later daemon.
    sandbox.kill_daemon();
    for by in ["agent", "model", "day"] {
        let shown = usage(&sandbox, &["--by", by]);
        assert_eq!(shown["total"], before["total"], "{by}");
        assert_eq!(shown["items"].as_array().unwrap().len(), 1, "{shown}");
        let (key, mut of) = (shown["items"][0]["key"].clone(), shown["items"][0].clone());
        of.as_object_mut().unwrap().remove("key");
        assert_eq!(of, before["total"], "{by}");
        match by {
            "agent" => assert_eq!(key, "demo"),
            "model" => assert_eq!(key, "small"),
            _ => assert_eq!(key.as_str().unwrap().len(), "2026-11-26".len(), "{key}"),
        }
    }
    assert_eq!(usage(&sandbox, &["--since", "1h"])["total"], before["total"]);
    let none =
        json!({"turns": 0, "tokens": {"used": 0, "unreported": 0}, "cost": {"used": [], "unreported": 0}});
    let socket = sandbox.daemon_info().unwrap().socket;
    let later = request(&socket, &["GET /v1/usage?since=2200-01-01 HTTP/1.1"], "").json();
    assert_eq!(later["data"]["total"], none);
    let text = sandbox.command("subagent").args(["usage", "--by", "agent"]).run();
    let line = "demo\tturns 8\ttokens 201 (5 unreported)\tcost 1.55 USD (3 unreported)\n";
    assert_eq!(text.text(), line);
    sandbox.finish();
}

#[test]
fn a_cost_is_computed_from_the_prices_of_the_user_where_an_agent_reports_tokens_alone() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    fs::create_dir_all(sandbox.file(USER).parent().unwrap()).unwrap();
    fs::write(sandbox.file(USER), "prices:\n  small: {input: 3, output: 15, cachedRead: 0.3}\n").unwrap();
    let worker = sandbox.start("demo");
    let counts = json!({"inputTokens": 1000, "outputTokens": 200, "cachedReadTokens": 10});
    let _ = sandbox.send(&worker, &tokens(&counts));
    let _ = sandbox.send(&worker, "unknown");
    let cost = usage(&sandbox, &[])["total"]["cost"].take();
    let computed = |amount: f64| json!([{"currency": "USD", "amount": amount, "computed": 0.006_003}]);
    assert_eq!(cost, json!({"used": computed(0.006_003), "unreported": 1}));
    // A later report covers all turns of the session: nothing is computed in addition.
    let _ = sandbox.send(&worker, &usd(0.5));
    let cost = usage(&sandbox, &["--by", "model"])["total"]["cost"].take();
    assert_eq!(cost["used"], json!([{"currency": "USD", "amount": 0.5, "computed": 0.0}]));
    fs::write(sandbox.file(USER), "prices: {small: {input: 3}}\n").unwrap();
    let error = sandbox.run(&["usage"]).error("CONFIG_PARSE_ERROR");
    assert!(error["message"].as_str().unwrap().contains("prices.small.output"), "{error}");
    fs::remove_file(sandbox.file(USER)).unwrap();
    let asked = |query: &str| {
        let socket = sandbox.daemon_info().unwrap().socket;
        request(&socket, &[&format!("GET /v1/usage{query} HTTP/1.1")], "").json()
    };
    assert_eq!(asked("?by=week")["error"]["code"], "INVALID_ARGUMENT");
    assert_eq!(asked("?since=yesterday")["error"]["code"], "INVALID_ARGUMENT");
    assert_eq!(asked("")["type"], "usage.shown");
    sandbox.finish();
}
