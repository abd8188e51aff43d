//! `--input`: one JSON object instead of flags, for send, wait, approve and worker start.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{Output, TestSandbox};

/// The commands that accept it, each with its other requirements.
const COMMANDS: [&[&str]; 4] = [&["send"], &["wait"], &["approve"], &["worker", "start"]];

/// Runs the command with this on its standard input.
#[track_caller]
fn given(sandbox: &TestSandbox, command: &[&str], input: impl Into<Vec<u8>>) -> Output {
    sandbox.subagent(command).args(["--input", "-"]).stdin(input).deadline(Duration::from_secs(120)).run()
}

#[track_caller]
fn refused(sandbox: &TestSandbox, command: &[&str], input: &str) -> Value {
    let output = given(sandbox, command, input);
    let error = output.error("INVALID_INPUT");
    assert_eq!((&error["retryable"], output.stderr.as_str()), (&json!(false), ""), "{output}");
    error
}

#[test]
fn what_is_no_object_is_refused() {
    let sandbox = TestSandbox::new();
    for command in COMMANDS {
        for text in ["", "{", "{} {}", "{'text': 1}", r#"{"a": NaN}"#, r#"{"text": "\ud800"}"#] {
            let error = refused(&sandbox, command, text);
            assert_eq!(
                error["details"].as_object().unwrap().keys().collect::<Vec<_>>(),
                ["error"],
                "{error}"
            );
        }
        for text in ["[]", "1", "null", "true", "\"x\""] {
            assert_eq!(refused(&sandbox, command, text).get("details"), None);
        }
    }
    sandbox.finish();
}

#[test]
fn a_key_whose_flag_was_typed_is_refused_even_if_it_is_null() {
    let sandbox = TestSandbox::new();
    for (command, key, flag, typed) in [
        (&["send"][..], "workerId", "worker_id", &["--worker-id", "w"][..]),
        (&["send"], "text", "text", &["--text", ""]),
        (&["send"], "blocks", "blocks_json", &["--blocks", "[]"]),
        (&["send"], "wait", "wait_for_match", &["--wait"]),
        (&["send"], "wait", "wait_for_match", &["--no-wait"]),
        (&["send"], "waitUntil", "wait_until", &["--wait-until", "any"]),
        (&["send"], "waitTimeoutSeconds", "wait_timeout_seconds", &["--wait-timeout-seconds", "60"]),
        (
            &["send"],
            "waitNoProgressTimeoutSeconds",
            "wait_no_progress_timeout_seconds",
            &["--wait-no-progress-timeout-seconds", "0"],
        ),
        (&["wait"], "workerId", "worker_id", &["--worker-id", "w"]),
        (&["wait"], "until", "until", &["--until", "any"]),
        (&["wait"], "fromEventId", "from_event_id", &["--from-event-id", "e"]),
        (&["wait"], "afterLatest", "after_latest", &["--after-latest"]),
        (&["wait"], "afterLatest", "after_latest", &["--include-history"]),
        (&["wait"], "timeoutSeconds", "timeout_seconds", &["--timeout-seconds", "1"]),
        (
            &["wait"],
            "noProgressTimeoutSeconds",
            "no_progress_timeout_seconds",
            &["--no-progress-timeout-seconds", "1"],
        ),
        (&["approve"], "workerId", "worker_id", &["--worker-id", "w"]),
        (&["approve"], "requestId", "request_id", &["--request", "r"]),
        (&["approve"], "decision", "decision", &["--decision", "d"]),
        (&["approve"], "optionId", "option_id", &["--option-id", "o"]),
        (&["approve"], "alias", "alias", &["--alias", "a"]),
        (&["approve"], "note", "note", &["--note", "n"]),
        (&["worker", "start"], "launcher", "launcher", &["--launcher", "l"]),
        (&["worker", "start"], "role", "role", &["--role", "r"]),
        (&["worker", "start"], "cwd", "cwd", &["--cwd", "."]),
        (&["worker", "start"], "label", "label", &["--label", "l"]),
        (&["worker", "start"], "controllerId", "controller_id", &["--controller-id", "c"]),
    ] {
        let error = refused(&sandbox, &[command, typed].concat(), &json!({key: null}).to_string());
        assert_eq!(error["details"], json!({"field": key, "flag": flag}), "{command:?}");
    }
    sandbox.finish();
}

#[test]
fn wrong_types_are_refused_without_details() {
    let sandbox = TestSandbox::new();
    let wrong_text = || vec![json!(1), json!(true), json!([]), json!({})];
    let wrong_bool = || vec![json!(null), json!(1), json!("true")];
    let wrong_number = || vec![json!(-1), json!(-0.5), json!(true), json!(false), json!("5"), json!([])];
    let mut cases: Vec<(&[&str], &str, Vec<Value>)> = vec![
        (&["send"], "wait", wrong_bool()),
        (&["wait"], "afterLatest", wrong_bool()),
        (&["send"], "blocks", vec![json!(null), json!({}), json!([1]), json!([{}, []]), json!("[]")]),
        (&["send"], "waitTimeoutSeconds", wrong_number()),
        (&["send"], "waitNoProgressTimeoutSeconds", wrong_number()),
        (&["wait"], "timeoutSeconds", wrong_number()),
        (&["wait"], "noProgressTimeoutSeconds", wrong_number()),
    ];
    for (command, keys) in [
        (&["send"][..], &["workerId", "text", "waitUntil"][..]),
        (&["wait"], &["workerId", "until", "fromEventId"]),
        (&["approve"], &["workerId", "requestId", "decision", "optionId", "alias", "note"]),
        (&["worker", "start"], &["launcher", "role", "cwd", "label", "controllerId"]),
    ] {
        cases.extend(keys.iter().map(|key| (command, *key, wrong_text())));
    }
    for (command, key, values) in cases {
        for value in values {
            let error = refused(&sandbox, command, &json!({key: value}).to_string());
            assert_eq!(error.get("details"), None, "{command:?} {key}: {value}");
            assert!(error["message"].as_str().unwrap().contains(key), "{error}");
        }
    }
    for number in ["1e999", "NaN", "Infinity", "-Infinity"] {
        refused(&sandbox, &["wait"], &format!("{{\"timeoutSeconds\": {number}}}"));
    }
    sandbox.finish();
}

#[test]
fn unknown_keys_are_refused() {
    let sandbox = TestSandbox::new();
    for command in COMMANDS {
        let error = refused(&sandbox, command, r#"{"lable": 1, "Text": "x"}"#);
        assert_eq!(error["details"]["unknown"], json!(["lable", "Text"]));
        let known = error["details"]["known"].as_array().unwrap();
        assert!(known.len() >= 6 && error["message"].as_str().unwrap().contains("lable"), "{error}");
    }
    sandbox.finish();
}

#[test]
fn a_key_that_is_there_twice_is_refused() {
    let sandbox = TestSandbox::new();
    for command in COMMANDS {
        let key = if command.len() == 1 { "workerId" } else { "role" };
        let error = refused(&sandbox, command, &format!(r#"{{"{key}": "a", "{key}": "a"}}"#));
        assert_eq!(error["details"], json!({"field": key}));
        assert!(error["message"].as_str().unwrap().contains("twice"), "{error}");
    }
    sandbox.finish();
}

#[test]
fn the_key_worker_is_not_supported_even_beside_the_right_one() {
    let sandbox = TestSandbox::new();
    for command in ["send", "wait", "approve"] {
        for text in [r#"{"worker": "w"}"#, r#"{"workerId": "w", "worker": null}"#] {
            let error = refused(&sandbox, &[command], text);
            assert!(error["message"].as_str().unwrap().contains("not supported"), "{error}");
            assert_eq!(error.get("details"), None);
        }
    }
    sandbox.finish();
}

#[test]
fn null_and_empty_text_are_absent_but_for_the_message() {
    let (sandbox, worker) = TestSandbox::with_worker();
    for key in ["null", "\"\""] {
        let error = refused(&sandbox, &["send"], &format!("{{\"workerId\": {key}, \"text\": \"x\"}}"));
        assert!(error["message"].as_str().unwrap().contains("no worker"), "{error}");
        refused(&sandbox, &["approve", "--worker-id", &worker], &format!("{{\"requestId\": {key}}}"));
    }
    let input = json!({"text": null, "waitUntil": null, "waitTimeoutSeconds": null}).to_string();
    let absent = given(&sandbox, &["send", "--worker-id", &worker, "--text-file", "/dev/null"], input);
    // The file's text is the only one; its emptiness is a separate error.
    assert!(absent.error("INVALID_INPUT")["message"].as_str().unwrap().contains("empty"), "{absent}");
    let two =
        refused(&sandbox, &["send", "--worker-id", &worker, "--text-file", "/dev/null"], r#"{"text": ""}"#);
    assert!(two["message"].as_str().unwrap().contains("exactly one"), "{two}");
    let blocks = json!({"text": "", "blocks": [{"type": "text", "text": "only blocks"}]}).to_string();
    given(&sandbox, &["send", "--worker-id", &worker], blocks).data_of("turn.waited");
    let started = given(&sandbox, &["worker", "start"], r#"{"label": "", "role": null, "launcher": ""}"#);
    let started = started.data_of("worker.started");
    assert_eq!((&started["label"], &started["role"]), (&json!("worker"), &json!("default")));
    sandbox.finish();
}

#[test]
fn everything_can_be_given_in_the_object() {
    let sandbox = TestSandbox::new();
    let controller = sandbox.init()["controllerId"].clone();
    fs::create_dir(sandbox.file("ws/sub")).unwrap();
    let input = json!({
        "launcher": "demo", "role": "any role", "cwd": "sub", "label": "of the input", "controllerId": controller,
    });
    let started = given(&sandbox, &["worker", "start"], input.to_string()).data_of("worker.started");
    assert_eq!(started["cwd"], sandbox.file_name("ws/sub"));
    for key in ["launcher", "role", "label", "controllerId"] {
        assert_eq!(started[key], input[key]);
    }
    let worker = &started["workerId"];
    let input =
        json!({"workerId": worker, "text": "!ask execute rm", "wait": false, "blocks": []}).to_string();
    let accepted = given(&sandbox, &["send"], input).data_of("turn.accepted");
    let input = json!({
        "workerId": worker, "until": "approval.requested", "fromEventId": accepted["acceptedEventId"],
        "timeoutSeconds": 30, "noProgressTimeoutSeconds": 30.5,
    });
    let asked = given(&sandbox, &["wait"], input.to_string()).data_of("event.matched");
    let input = json!({"workerId": worker, "requestId": asked["data"]["requestId"], "decision": "deny", "note": "no"});
    let decided = given(&sandbox, &["approve"], input.to_string()).data_of("approval.decided");
    assert_eq!(decided["decision"], "deny");
    let input = json!({"workerId": worker, "afterLatest": false, "until": "turn_end"}).to_string();
    assert_eq!(given(&sandbox, &["wait"], input).data_of("event.matched")["type"], "approval.requested");
    let _ = sandbox.turn_end(&accepted);
    let input = json!({
        "workerId": worker, "text": "!sleep 60000", "waitUntil": "turn.completed",
        "waitTimeoutSeconds": 0.2, "waitNoProgressTimeoutSeconds": 0,
    });
    let timeout = given(&sandbox, &["send"], input.to_string()).error("WAIT_TIMEOUT");
    assert_eq!(timeout["details"]["timeoutSeconds"], 0.2, "{timeout}");
    sandbox.finish();
}

#[test]
fn every_key_of_send_and_wait_arrives() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let input = json!({
        "workerId": worker, "text": "!say hi", "wait": true, "waitUntil": "turn.completed,turn.failed",
        "waitTimeoutSeconds": 7.5, "waitNoProgressTimeoutSeconds": 6.5, "debugMode": false,
        "blocks": [{"type": "text", "text": "one more"}],
    });
    let waited = given(&sandbox, &["send"], input.to_string()).data_of("turn.waited");
    for key in ["waitUntil", "waitTimeoutSeconds", "waitNoProgressTimeoutSeconds", "workerId"] {
        assert_eq!(waited[key], input[key], "{key}");
    }
    let watch = ["watch", "--worker-id", &worker, "--raw"];
    let sent = sandbox.run(&watch).data_of("events.watched")["items"].as_array().unwrap().clone();
    let sent = sent.iter().find(|event| event["type"] == "message.sent").unwrap();
    assert_eq!((&sent["data"]["text"], &sent["data"]["blocks"]), (&input["text"], &input["blocks"]));
    let input = json!({"workerId": worker, "text": "!say not said", "debugMode": true}).to_string();
    let simulated = given(&sandbox, &["send"], input).data_of("turn.waited");
    assert_ne!(simulated["assistantText"], "not said", "no agent may be involved");

    let accepted = sandbox.send_no_wait(&worker, "!sleep 60000");
    let input = json!({
        "workerId": worker, "until": "turn.failed", "fromEventId": accepted["acceptedEventId"],
        "timeoutSeconds": 30.5, "noProgressTimeoutSeconds": 0.1,
    });
    let error = given(&sandbox, &["wait"], input.to_string()).error("WAIT_NO_PROGRESS");
    assert_eq!(error["details"]["noProgressTimeoutSeconds"], 0.1, "{error}");
    let after =
        json!({"workerId": worker, "afterLatest": true, "timeoutSeconds": 0.1, "until": "any"}).to_string();
    let error = given(&sandbox, &["wait"], after).error("WAIT_TIMEOUT");
    assert_eq!(error["details"]["timeoutSeconds"], 0.1, "{error}");
    let history = json!({"workerId": worker, "afterLatest": false, "until": "any"}).to_string();
    given(&sandbox, &["wait"], history).data_of("event.matched");
    let input = json!({"debugMode": true, "launcher": "demo"}).to_string();
    let started = given(&sandbox, &["worker", "start"], input).data_of("worker.started");
    assert_eq!(started["runtimePid"], Value::Null);
    sandbox.finish();
}

#[test]
fn every_key_of_approve_arrives() {
    let (sandbox, worker) = TestSandbox::with_worker();
    for (key, value, chosen) in [
        ("optionId", "reject-once", "reject-once"),
        ("alias", "allow-always", "allow-always"),
        ("decision", "deny", "reject-once"),
    ] {
        let asked = sandbox.send(&worker, "!ask execute something");
        let note = format!("by {key}");
        let input = json!({"workerId": worker, "requestId": asked["requestId"], key: value, "note": note});
        let decided = given(&sandbox, &["approve"], input.to_string()).data_of("approval.decided");
        assert_eq!((&decided["requestId"], &decided["optionId"]), (&asked["requestId"], &json!(chosen)));
        let event =
            sandbox.events(&worker).into_iter().rfind(|event| event["type"] == "approval.decided").unwrap();
        assert_eq!((&event["data"]["optionId"], &event["data"]["note"]), (&json!(chosen), &json!(note)));
        let _ = sandbox.turn_end(&asked);
    }
    sandbox.finish();
}

#[test]
fn the_folder_in_the_object_selects_the_workspace() {
    let sandbox = TestSandbox::new();
    let other = sandbox.file_name("other");
    fs::create_dir(&other).unwrap();
    let input = json!({"cwd": other, "launcher": "none"}).to_string();
    let error = given(&sandbox, &["worker", "start"], input).error("CONTROLLER_NOT_FOUND");
    assert_eq!(error["details"]["workspaceKey"], other, "{error}");
    assert_eq!(error["details"]["stateDbPath"], format!("{other}/.subagent/state/state.db"), "{error}");
    let stopped = sandbox.command("subagentd").args(["stop"]).cwd(&other).run();
    assert!(stopped.status.success(), "{stopped}");
    sandbox.finish();
}

#[test]
fn a_file_and_a_byte_order_mark_are_taken() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let text = format!("\u{feff}{}\r\n", json!({"workerId": worker, "text": "früh \u{1f600}"}));
    fs::write(sandbox.file("ws/in.json"), text).unwrap();
    let waited = sandbox.run(&["send", "--input", "in.json"]).data_of("turn.waited");
    assert_eq!(waited["assistantText"], "früh \u{1f600}");
    sandbox.finish();
}

#[test]
fn what_cannot_be_read_is_named() {
    let sandbox = TestSandbox::new();
    fs::write(sandbox.file("ws/latin"), b"{\"text\": \"\xe9\"}").unwrap();
    for command in COMMANDS {
        for path in ["none.json", "/", "latin", "/proc/self/mem"] {
            let error = sandbox.subagent(command).args(["--input", path]).run().error("INVALID_INPUT");
            assert_eq!(error["details"]["path"], path);
            assert_eq!(error["details"].as_object().unwrap().len(), 2, "{error}");
            assert!(error["details"]["error"].is_string());
        }
        let error = given(&sandbox, command, b"\xff".to_vec()).error("INVALID_INPUT");
        assert_eq!(error["details"]["path"], "-");
    }
    for (flag, path) in [("--text-file", "latin"), ("--text-file", "/"), ("--text-file", "none")] {
        let error = sandbox.run(&["send", "--worker-id", "w", flag, path]).error("INVALID_INPUT");
        assert_eq!(error["details"]["path"], path);
    }
    let odd = sandbox.subagent(&["send", "--worker-id", "w", "--text-stdin"]).stdin(b"a\xff".to_vec()).run();
    assert_eq!(odd.error("INVALID_INPUT")["details"]["path"], "-");
    sandbox.finish();
}

#[test]
fn stdin_is_read_by_one_flag_only() {
    let sandbox = TestSandbox::new();
    refused(&sandbox, &["send", "--worker-id", "w", "--text-stdin"], "{}");
    sandbox.finish();
}

#[test]
fn ten_mebibytes_are_sent() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let text = format!("{}\n!say got it", "x".repeat(10 * 1024 * 1024));
    let input = json!({"workerId": worker, "text": text, "waitTimeoutSeconds": 100}).to_string();
    let waited = given(&sandbox, &["send"], input).data_of("turn.waited");
    assert_eq!(waited["lastAssistantChunk"], "got it");
    let events = sandbox.events(&worker);
    let sent = events.iter().find(|event| event["type"] == "message.sent").unwrap();
    assert_eq!(sent["data"]["text"], text);
    sandbox.finish();
}

#[test]
fn a_hundred_mebibytes_are_refused_and_so_is_what_has_no_end() {
    let sandbox = TestSandbox::new();
    let input = json!({"workerId": "w_0123456789", "text": "x".repeat(100 * 1024 * 1024)}).to_string();
    fs::write(sandbox.file("ws/large.json"), input).unwrap();
    for args in [
        &["send", "--input", "large.json"][..],
        &["send", "--input", "/dev/zero"],
        &["send", "--worker-id", "w", "--text-file", "/dev/zero"],
    ] {
        let error = sandbox.run(args).error("PAYLOAD_TOO_LARGE");
        assert_eq!(error["details"]["limitBytes"], 64 * 1024 * 1024);
        assert!(error["details"]["path"].is_string() && error["details"]["recommendedAction"].is_string());
    }
    sandbox.finish();
}

#[test]
fn depth_has_an_end_that_leaves_everything_readable() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let nested = |levels: usize| {
        let inner = format!("{}{}", "[".repeat(levels - 1), "]".repeat(levels - 1));
        format!(
            r#"{{"workerId": "{worker}", "text": "x", "blocks": [{{"type": "text", "text": "", "_meta": {inner}}}]}}"#
        )
    };
    for levels in [65, 100, 125, 126, 1000, 1_000_000] {
        refused(&sandbox, &["send"], &nested(levels));
    }
    given(&sandbox, &["send"], nested(64)).data_of("turn.waited");
    let wait = ["wait", "--worker-id", &worker, "--include-history", "--until", "message.sent"];
    sandbox.run(&wait).data_of("event.matched");
    sandbox.run(&["watch", "--worker-id", &worker, "--raw"]).data_of("events.watched");
    sandbox.finish();
}
