//! Tests of `launcher probe --handshake` and its output.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, assert_shape, wait_until};

use super::{hurried, impatient, nothing_left, phases, scripted};

const PROBE: [&str; 4] = ["launcher", "probe", "agent", "--handshake"];

/// The pattern of the data about the demo agent.
fn shape(raw: bool) -> Value {
    let mut shape = json!({
        "agent": {"name": "str", "title": "str?", "version": "str"},
        "protocolVersion": 1, "capabilities": "object", "authMethods": [],
        "modes": {"currentModeId": "=careful", "availableModes": ["object"]},
        "models": {"currentModelId": "=small", "availableModels": ["object"]},
        "configOptions": ["object"], "at": "ts", "error": null,
        "phases": [
            {"phase": "=spawn", "millis": "int"}, {"phase": "=initialize", "millis": "int"},
            {"phase": "=session", "millis": "int"}, {"phase": "=end", "millis": "int"},
        ],
    });
    if raw {
        shape["raw"] = json!({
            "initialize": "object", "session": {"sessionId": "str", "configOptions": ["object"]},
        });
    }
    shape
}

#[test]
fn the_agent_says_what_it_is_and_nothing_of_it_is_left() {
    let mut sandbox = TestSandbox::new();
    let agent = sandbox.test_agent("sdk-agent", &[]);
    sandbox.launcher("agent", agent);
    for (name, own_name) in [("agent", "sdk-agent"), ("demo", "demo-agent")] {
        let data = sandbox.run(&["launcher", "probe", name, "--handshake"]).data_of("launcher.probed");
        assert_eq!((&data["available"], &data["name"]), (&json!(true), &json!(name)));
        let handshake = &data["handshake"];
        assert_eq!(handshake["agent"]["name"], own_name, "{handshake}");
        assert_eq!(handshake["protocolVersion"], 1);
        assert_eq!(handshake["capabilities"]["loadSession"], true);
        assert_eq!(phases(handshake), ["spawn", "initialize", "session", "end"]);
        assert!(handshake["raw"]["session"]["sessionId"].is_string(), "{handshake}");
        assert!(handshake["raw"]["initialize"]["agentCapabilities"].is_object(), "{handshake}");
        nothing_left(&sandbox);
    }
    sandbox.finish();
}

#[test]
fn without_the_flag_nothing_is_started_and_nothing_is_reported() {
    let sandbox = scripted(&["--die", "initialize"]);
    let data = sandbox.run(&PROBE[..3]).data_of("launcher.probed");
    assert!(data.get("handshake").is_none(), "{data}");
    sandbox.finish();
}

#[test]
fn it_is_kept_until_the_launcher_changes() {
    let mut sandbox = TestSandbox::new();
    let listed = |sandbox: &TestSandbox| {
        let data = sandbox.run(&["launcher", "list"]).data_of("launcher.listed");
        data["items"][0]["handshake"].clone()
    };
    assert_eq!(listed(&sandbox), Value::Null);
    let mut probed = sandbox.run(&["launcher", "probe", "demo", "--handshake"]).data_of("launcher.probed");
    let file = sandbox.state_dir().join("launchers/demo.json");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    probed["handshake"].as_object_mut().unwrap().remove("raw");
    assert_eq!(listed(&sandbox), probed["handshake"]);
    let shown = sandbox.run(&["launcher", "show", "demo"]).data_of("launcher.shown");
    assert_eq!(shown["handshake"], probed["handshake"]);
    let report = sandbox.run(&["doctor"]).data_of("doctor.report");
    assert_eq!(report["counts"]["problem"], 0, "{report}");
    let changed = sandbox.demo_agent(&["--null-load"]);
    sandbox.launcher("demo", changed);
    assert_eq!(listed(&sandbox), Value::Null);
    sandbox.finish();
}

#[test]
fn modes_models_and_options_are_reported_in_one_form() {
    let session = json!({
        "sessionId": "s",
        "modes": {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}, {"id": "code", "name": "Code"}]},
        "configOptions": [
            {"id": "model", "name": "Model", "category": "model", "type": "select", "currentValue": "a",
             "options": [{"value": "a", "name": "A"}, {"value": "b", "name": "B", "description": "slow"}]},
            {"id": "web", "type": "boolean", "currentValue": true, "category": "_odd"},
            {"name": "no id"},
        ],
    });
    let sandbox = scripted(&["--answer", "session/new", &session.to_string()]);
    let handshake = sandbox.run(&PROBE).data_of("launcher.probed")["handshake"].take();
    let choice = |id: &str, name: &str, more: Value| json!({"id": id, "name": name, "description": more});
    let modes = json!({
        "currentModeId": "ask",
        "availableModes": [choice("ask", "Ask", Value::Null), choice("code", "Code", Value::Null)],
    });
    assert_eq!(handshake["modes"], modes);
    let options = json!([choice("a", "A", Value::Null), choice("b", "B", json!("slow"))]);
    assert_eq!(handshake["models"], json!({"currentModelId": "a", "availableModels": options}));
    let expected = json!([
        {"id": "model", "name": "Model", "description": null, "category": "model", "type": "select",
         "currentValue": "a", "options": options},
        {"id": "web", "name": null, "description": null, "category": "_odd", "type": "boolean",
         "currentValue": true, "options": []},
    ]);
    assert_eq!(handshake["configOptions"], expected);
    assert_eq!(handshake["raw"]["session"], session);
    let text = sandbox.command("subagent").args(PROBE).run();
    assert!(
        text.text().contains("\nmodes: ask, code\nmodels: a, b\nconfigOptions: model, web\nphases: spawn "),
        "{text}"
    );
    sandbox.finish();
}

#[test]
fn an_agent_that_wants_a_login_is_a_result_with_what_to_do() {
    let mut sandbox = TestSandbox::new();
    let agent = sandbox.demo_agent(&["--needs-auth"]);
    sandbox.launcher("agent", agent);
    let data = sandbox.run(&PROBE).data_of("launcher.probed");
    let error = &data["handshake"]["error"];
    assert_eq!(error["code"], "AUTH_REQUIRED");
    assert_eq!(error["details"]["recommendedCommand"], "subagent launcher login agent");
    let methods = json!([{
        "id": "demo-login", "name": "Demo login", "description": "Signs in without asking", "type": "agent",
    }]);
    assert_eq!((&error["details"]["authMethods"], &data["handshake"]["authMethods"]), (&methods, &methods));
    let text = sandbox.command("subagent").args(PROBE).run();
    assert!(text.text().contains("handshake: AUTH_REQUIRED\n"), "{text}");
    assert!(text.text().ends_with("recommendedCommand: subagent launcher login agent\n"), "{text}");
    sandbox.finish();
}

#[test]
fn an_agent_that_does_not_answer_is_ended_and_the_phase_is_named() {
    for (method, phase) in [("initialize", "initialize"), ("session/new", "session")] {
        let sandbox = impatient(&["--hang", method]);
        let error = sandbox.run(&PROBE).error("BACKEND_TIMEOUT");
        assert_eq!(
            (&error["details"]["phase"], &error["details"]["method"]),
            (&json!(phase), &json!(method))
        );
        assert_eq!(error["details"]["logTail"], "hostile-agent: last words\n");
        assert_eq!(error["details"]["launcher"], "agent");
        nothing_left(&sandbox);
        sandbox.finish();
    }
    let mut sandbox = TestSandbox::new();
    let agent = sandbox.demo_agent(&["--no-acp", "--ignore-term", "--ignore-stdin-eof"]);
    sandbox.launcher("agent", agent);
    let error = sandbox.run(&[&PROBE[..], &["--timeout-seconds", "0.5"]].concat()).error("BACKEND_TIMEOUT");
    assert_eq!(error["details"]["timeoutSeconds"], 0.5);
    assert!(error["details"]["stdoutHead"].as_str().unwrap().contains("demo-agent"), "{error}");
    nothing_left(&sandbox);
    sandbox.finish();
}

#[test]
fn an_agent_that_dies_or_is_no_agent_is_reported_with_its_last_words() {
    for method in ["initialize", "session/new"] {
        let sandbox = scripted(&["--die", method]);
        let error = sandbox.run(&PROBE).error("BACKEND_UNAVAILABLE");
        assert_eq!(error["details"]["exitCode"], 3, "{error}");
        assert_eq!(error["details"]["logTail"], "hostile-agent: last words\n");
        nothing_left(&sandbox);
        sandbox.finish();
    }
    let mut sandbox = TestSandbox::new();
    sandbox.launcher("agent", subagent_tests::harness::TestLauncher::new("no-such-program", ["x"]));
    sandbox.run(&PROBE).error("BACKEND_LAUNCHER");
    sandbox.run(&["launcher", "probe", "nope", "--handshake"]).error("LAUNCHER_NOT_FOUND");
    let demo = ["launcher", "probe", "demo", "--handshake"];
    sandbox.run(&[&demo[..], &["--cwd", "nowhere"]].concat()).error("INVALID_ARGUMENT");
    sandbox.run(&[&demo[..], &["--timeout-seconds", "0"]].concat()).error("INVALID_ARGUMENT");
    sandbox.finish();
}

#[test]
fn another_version_of_the_protocol_is_a_clear_error() {
    for version in ["0", "2", "\"2\""] {
        let sandbox = scripted(&["--answer", "initialize", &format!("{{\"protocolVersion\":{version}}}")]);
        let error = sandbox.run(&PROBE).error("BACKEND_PROTOCOL_ERROR");
        assert!(error["message"].as_str().unwrap().contains("this client speaks version 1"), "{error}");
        nothing_left(&sandbox);
        sandbox.finish();
    }
}

#[test]
fn garbage_and_endless_lines_are_passed_over() {
    for case in ["invalid-utf8", "truncated-json", "deep-nesting", "nuls", "unasked-response", "long-line"] {
        let flags = ["--bytes", "9000000", "--at-initialize", case, "--at-session-new", case];
        let sandbox = scripted(&flags);
        let data = sandbox.run(&PROBE).data_of("launcher.probed");
        assert_eq!(data["handshake"]["error"], Value::Null, "{case}");
        sandbox.finish();
    }
    let sandbox = scripted(&["--answer", "session/new", "{}"]);
    sandbox.run(&PROBE).error("BACKEND_PROTOCOL_ERROR");
    let mut odd = TestSandbox::new();
    let agent = hurried(odd.test_agent("hostile-agent", &["--answer", "initialize", "[[[]]]"]));
    odd.launcher("agent", agent);
    let data = odd.run(&PROBE).data_of("launcher.probed");
    assert_eq!(
        (&data["handshake"]["agent"], &data["handshake"]["protocolVersion"]),
        (&Value::Null, &Value::Null)
    );
    for sandbox in [sandbox, odd] {
        nothing_left(&sandbox);
        sandbox.finish();
    }
}

#[test]
fn a_folder_of_ones_own_stays() {
    let sandbox = TestSandbox::new();
    let data =
        sandbox.run(&["launcher", "probe", "demo", "--handshake", "--cwd", "."]).data_of("launcher.probed");
    assert_shape(&data["handshake"], &shape(true));
    assert!(sandbox.workspace().is_dir());
    let kept = sandbox.run(&["launcher", "show", "demo"]).data_of("launcher.shown");
    assert_shape(&kept["handshake"], &shape(false));
    let sessions = sandbox.run(&["session", "list", "--launcher", "demo"]).data_of("session.listed");
    assert_eq!(sessions["items"][0]["cwd"], sandbox.workspace().to_str().unwrap());
    sandbox.finish();
}

#[test]
fn nothing_is_left_of_a_probe_that_is_killed() {
    for method in ["initialize", "session/new"] {
        let sandbox = scripted(&["--hang", method]);
        for victim in ["subagent", "subagent-runtime"] {
            let running = sandbox.subagent(&PROBE).spawn();
            let agent = || {
                sandbox
                    .processes()
                    .into_iter()
                    .any(|process| process.command_line().contains("hostile-agent --hang"))
            };
            wait_until("the agent to run", Duration::from_secs(20), || agent().then_some(()));
            match victim {
                "subagent" => drop(running.kill()),
                _ => {
                    let runtime = sandbox
                        .processes()
                        .into_iter()
                        .find(|process| process.command_line().ends_with(" ask"));
                    runtime.unwrap().signal(Signal::SIGKILL);
                    let error = running.output().error("BACKEND_RUNTIME_ERROR");
                    assert_eq!(error["retryable"], false);
                }
            }
            wait_until("everything to be gone", Duration::from_secs(20), || {
                let tmp = fs::read_dir(sandbox.file("tmp")).unwrap().count();
                (tmp == 0 && sandbox.processes().is_empty()).then_some(())
            });
        }
        sandbox.finish();
    }
}
