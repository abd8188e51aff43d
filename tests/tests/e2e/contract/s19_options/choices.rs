//! Chosen options apply now, to the next agent, and after every loss.

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, assert_shape};

use super::{offering, options_set, says, set, started};

fn shape() -> Value {
    json!({
        "workerId": "str", "applied": true, "chosen": {"mode!": "str", "model!": "str", "configOptions!": "object"},
        "current": {"mode": "str?", "model": "str?", "configOptions": "object"},
    })
}

#[test]
fn a_worker_is_ready_when_what_was_chosen_is_set_the_model_first() {
    let sandbox = offering("config", |agent| agent);
    let flags = ["--mode", "plan", "--set", "effort=high", "--set", "fast=true", "--model", "large"];
    let worker = started(&sandbox, &flags);
    assert_eq!(says(&sandbox, &worker), "plan/large/high/true");
    let expected = [
        ("model", json!("large")),
        ("mode", json!("plan")),
        ("effort", json!("high")),
        ("fast", json!("true")),
    ];
    assert_eq!(options_set(&sandbox, &worker), expected.map(|(option, value)| (option.to_owned(), value)));
    let events = sandbox.events(&worker);
    let types: Vec<&Value> = events.iter().map(|event| &event["type"]).collect();
    let ready = types.iter().position(|kind| **kind == "worker.started").unwrap();
    let last = events.iter().rposition(|event| event["data"]["applied"].is_boolean()).unwrap();
    assert!(last < ready, "{types:?}");
    let mode = events.iter().find(|event| event["data"]["kind"] == "mode").unwrap();
    assert_eq!(mode["data"]["currentModeId"], "plan");
    assert_eq!(mode["data"]["method"], "session/set_config_option", "{mode}");
    sandbox.finish();
}

#[test]
fn options_that_were_not_chosen_are_not_touched() {
    let sandbox = offering("config", |agent| agent);
    let worker = started(&sandbox, &[]);
    assert_eq!(says(&sandbox, &worker), "ask/small/low/false");
    assert_eq!(options_set(&sandbox, &worker), []);
    sandbox.finish();
}

#[test]
fn the_launcher_chooses_and_flags_and_input_win() {
    let sandbox = offering("config", |agent| {
        let options = json!({"fast": true, "effort": "high"});
        agent.key("mode", json!("plan")).key("model", json!("large")).key("configOptions", options)
    });
    assert_eq!(says(&sandbox, &started(&sandbox, &[])), "plan/large/high/true");
    assert_eq!(
        says(&sandbox, &started(&sandbox, &["--mode", "ask", "--set", "effort="])),
        "ask/large/low/true"
    );
    let input = json!({"launcher": "sdk", "mode": "ask", "configOptions": {"fast": false, "effort": null}});
    let start = sandbox.subagent(&["worker", "start", "--input", "-"]).stdin(input.to_string()).run();
    let worker = start.data_of("worker.started")["workerId"].as_str().unwrap().to_owned();
    assert_eq!(says(&sandbox, &worker), "ask/large/low/false");
    let shown = sandbox.run(&["launcher", "show", "sdk"]).data_of("launcher.shown");
    assert_eq!((&shown["mode"], &shown["configOptions"]["effort"]), (&json!("plan"), &json!("high")));
    sandbox.finish();
}

#[test]
fn a_living_agent_is_notified_at_once_and_its_successors_too() {
    let sandbox = offering("config", |agent| agent);
    let worker = started(&sandbox, &["--set", "fast=true"]);
    let data = set(&sandbox, &worker, &["--model", "large", "--mode", "plan"]);
    assert_shape(&data, &shape());
    assert_eq!(data["chosen"], json!({"mode": "plan", "model": "large", "configOptions": {"fast": "true"}}));
    assert_eq!((&data["current"]["mode"], &data["current"]["model"]), (&json!("plan"), &json!("large")));
    let config = json!({"access": "plan", "llm": "large", "fast": true, "effort": "low"});
    assert_eq!(data["current"]["configOptions"], config);
    assert_eq!(says(&sandbox, &worker), "plan/large/low/true");
    // An option that only the new model has, given as JSON.
    let input = json!({"workerId": worker, "configOptions": {"effort": "high", "fast": false}}).to_string();
    let data = sandbox.subagent(&["worker", "set", "--input", "-"]).stdin(input).run().data_of("worker.set");
    assert_eq!(data["chosen"]["configOptions"], json!({"effort": "high", "fast": false}));
    sandbox.kill(&sandbox.runtime(&worker));
    assert_eq!(says(&sandbox, &worker), "plan/large/high/false", "the next agent must get the same options");
    sandbox.kill_daemon();
    sandbox.run(&["worker", "restart", &worker]).data_of("worker.restarted");
    assert_eq!(says(&sandbox, &worker), "plan/large/high/false", "the same with the next daemon");
    sandbox.finish();
}

#[test]
fn what_is_set_is_what_is_shown() {
    // The demo agent reports it only in its response.
    let (sandbox, worker) = TestSandbox::with_worker();
    let shown = |worker: &str| {
        let agent = sandbox.show(worker)["agent"].clone();
        let verbose = agent["configOptions"][2]["currentValue"].clone();
        (agent["mode"].clone(), agent["model"].clone(), verbose)
    };
    set(&sandbox, &worker, &["--mode", "bold", "--set", "verbose=true"]);
    assert_eq!(shown(&worker), (json!("bold"), json!("small"), json!(true)));
    let flags = ["worker", "start", "--launcher", "demo", "--model", "large"];
    let other = sandbox.run(&flags).data_of("worker.started")["workerId"].as_str().unwrap().to_owned();
    assert_eq!(shown(&other), (json!("careful"), json!("large"), json!(false)));
    sandbox.finish();
}

#[test]
fn options_are_set_while_a_turn_is_open() {
    let sandbox = offering("config", |agent| agent);
    let worker = started(&sandbox, &[]);
    let accepted = sandbox.send_no_wait(&worker, "wait");
    let _ = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "progress.message");
    let data = set(&sandbox, &worker, &["--mode", "plan"]);
    assert_eq!((&data["applied"], &data["current"]["mode"]), (&json!(true), &json!("plan")));
    assert_eq!(sandbox.show(&worker)["state"], "running");
    sandbox.run(&["cancel", "--worker-id", &worker]).data_of("turn.canceled");
    assert_eq!(says(&sandbox, &worker), "plan/small/low/false");
    sandbox.finish();
}

#[test]
fn without_an_agent_they_are_kept_for_the_next_start() {
    let sandbox = offering("config", |agent| agent);
    let worker = started(&sandbox, &["--debug-mode", "--set", "fast=true"]);
    let data = set(&sandbox, &worker, &["--mode", "plan", "--set", "fast="]);
    let chosen = json!({"mode": "plan"});
    assert_eq!(data, json!({"workerId": worker, "applied": false, "chosen": chosen, "current": null}));
    assert_eq!(says(&sandbox, &worker), "plan/small/low/false");
    let text =
        sandbox.command("subagent").args(["worker", "set", "--worker-id", &worker, "--mode", "ask"]).run();
    let keys: Vec<&str> = text.text().lines().filter_map(|line| line.split(": ").next()).collect();
    assert_eq!(keys, ["workerId", "applied", "chosen", "current"]);
    sandbox.finish();
}

#[test]
fn what_is_taken_back_is_the_next_agents_own_business_again() {
    let sandbox = offering("config", |agent| agent);
    let worker = started(&sandbox, &["--set", "fast=true"]);
    let data = set(&sandbox, &worker, &["--set", "fast="]);
    assert_eq!((&data["applied"], &data["chosen"]), (&json!(false), &json!({})));
    assert_eq!(says(&sandbox, &worker), "ask/small/low/true", "the live agent must not be affected");
    sandbox.run(&["worker", "restart", &worker]).data_of("worker.restarted");
    assert_eq!(says(&sandbox, &worker), "ask/small/low/false");
    sandbox.finish();
}

#[test]
fn an_agent_with_modes_alone_is_set_by_the_older_method() {
    let sandbox = offering("modes", |agent| agent);
    let worker = started(&sandbox, &["--mode", "plan"]);
    assert_eq!(says(&sandbox, &worker), "plan/small/low/false");
    let data = set(&sandbox, &worker, &["--mode", "ask"]);
    assert_eq!(data["current"], json!({"mode": "ask", "model": null, "configOptions": {}}));
    assert_eq!(sandbox.show(&worker)["agent"]["mode"], "ask", "the response suffices without an update");
    let events = sandbox.events(&worker);
    assert!(events.iter().any(|event| event["data"]["method"] == "session/set_mode"), "{events:?}");
    sandbox.finish();
}

#[test]
fn the_demo_agent_has_options_to_try_it_with() {
    let (sandbox, worker) = TestSandbox::with_worker();
    set(&sandbox, &worker, &["--mode", "bold", "--set", "verbose=true"]);
    assert_eq!(sandbox.send(&worker, "!options")["assistantText"], "mode=bold model=small verbose=true");
    sandbox.finish();
}

#[test]
fn what_is_forgotten_stays_chosen_when_the_rest_is_refused() {
    let sandbox = offering("config", |agent| agent);
    let worker = started(&sandbox, &["--model", "large", "--set", "effort=high"]);
    let args = ["worker", "set", "--worker-id", &worker, "--set", "effort=", "--mode", "none"];
    sandbox.run(&args).error("OPTION_NOT_AVAILABLE");
    let data = set(&sandbox, &worker, &["--set", "fast=true"]);
    assert_eq!(data["chosen"]["configOptions"], json!({"effort": "high", "fast": "true"}));
    let data = set(&sandbox, &worker, &["--set", "effort=", "--mode", "plan"]);
    assert_eq!(
        (&data["applied"], &data["chosen"]["configOptions"]),
        (&json!(true), &json!({"fast": "true"}))
    );
    // It also applies to the next agent.
    let _ = sandbox.run(&["worker", "restart", &worker]).data_of("worker.restarted");
    let data = set(&sandbox, &worker, &["--set", "fast=false"]);
    assert_eq!(data["chosen"]["configOptions"], json!({"fast": "false"}));
    sandbox.finish();
}
