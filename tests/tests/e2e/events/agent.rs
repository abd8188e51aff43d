//! The agent in the output of `worker show`.

use serde_json::{Value, json};

use super::played::{PlayedScript, updates};
use super::schema;

fn info() -> Value {
    json!({"agentInfo": {"name": "played", "version": "1.2"}, "agentCapabilities": {"loadSession": true}})
}

fn options(model: &str) -> Value {
    json!([{"id": "m", "name": "Model", "category": "model", "type": "select", "currentValue": model, "options": []}])
}

fn text(text: &str) -> Value {
    json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}})
}

#[test]
fn what_an_agent_never_reports_is_unknown_and_never_zero() {
    let script = PlayedScript::new(json!({}), json!({})).prompted().answers(json!({}));
    let (sandbox, worker) = script.started();
    let _ = sandbox.send(&worker, "go");
    let mut agent = sandbox.show(&worker)["agent"].take();
    assert!(agent["memoryBytes"].take().as_u64().unwrap() > 100_000);
    assert!(agent["lastActivityAt"].take().is_string());
    let unknown = json!({
        "name": null, "version": null, "model": null, "mode": null, "configOptions": null, "title": null,
        "contextUsed": null, "contextSize": null, "cost": null, "tokens": null, "lastActivityAt": null, "restarts": 0,
        "memoryBytes": null,
    });
    assert_eq!(agent, unknown);
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    assert_eq!(sandbox.show(&worker)["agent"]["memoryBytes"], Value::Null);
    sandbox.finish();
}

#[test]
fn an_agent_is_shown_as_it_reports_of_itself_also_by_another_daemon_and_after_a_restart() {
    let session =
        json!({"modes": {"currentModeId": "ask", "availableModes": []}, "configOptions": options("big")});
    let usage = json!({"sessionUpdate": "usage_update", "used": 12, "size": 100, "cost": {"amount": 0.5, "currency": "USD"}});
    let tokens = json!({"inputTokens": 3, "outputTokens": 4});
    let script = PlayedScript::new(info(), session)
        .prompted()
        .says(usage)
        .says(json!({"sessionUpdate": "current_mode_update", "currentModeId": "plan"}))
        .says(json!({"sessionUpdate": "config_option_update", "configOptions": options("small")}))
        .says(json!({"sessionUpdate": "session_info_update", "title": "A title"}))
        .answers(json!({"usage": tokens}))
        .loaded(info(), json!({"configOptions": options("big")}))
        .says(text("before"))
        .prompted()
        .says(text("after"))
        .answers(json!({}));
    let (sandbox, worker) = script.started();
    let shown = || {
        let mut agent = sandbox.show(&worker)["agent"].take();
        assert!(agent["memoryBytes"].take().is_u64() && agent["lastActivityAt"].take().is_string());
        agent
    };
    let before = shown();
    let names = ["name", "version", "mode", "model"].map(|name| before[name].clone());
    assert_eq!(json!(names), json!(["played", "1.2", "ask", "big"]));
    let _ = sandbox.send(&worker, "go");
    let option =
        |model: &str| json!([{"id": "m", "name": "Model", "category": "model", "currentValue": model}]);
    let mut expected = json!({
        "name": "played", "version": "1.2", "model": "small", "mode": "plan", "configOptions": option("small"),
        "title": "A title", "contextUsed": 12, "contextSize": 100, "cost": {"amount": 0.5, "currency": "USD"},
        "tokens": tokens, "lastActivityAt": null, "restarts": 0, "memoryBytes": null,
    });
    assert_eq!(shown(), expected);
    sandbox.kill_daemon();
    assert_eq!(shown(), expected);
    // The same session in another process: values that it does not report are unknown.
    let _ = sandbox.run(&["worker", "restart", &worker]).data_of("worker.restarted");
    expected["restarts"] = 1.into();
    expected["mode"] = Value::Null;
    (expected["model"], expected["configOptions"]) = (json!("big"), option("big"));
    assert_eq!(shown(), expected);
    // Replayed output is kept apart from new output.
    assert_eq!(sandbox.send(&worker, "go on")["assistantText"], "after");
    let events = sandbox.events(&worker);
    schema::check(&events);
    let replayed = json!({"method": "session/update", "kind": "replayed", "update": {"kind": "message", "text": "before"}});
    assert_eq!(updates(&events, &["replayed"]), [replayed]);
    let lines = sandbox.command("subagent").args(["worker", "show", &worker]).run();
    let reported = lines.text().lines().find_map(|line| line.strip_prefix("agent: ")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(reported).unwrap()["name"], "played");
    sandbox.finish();
}
