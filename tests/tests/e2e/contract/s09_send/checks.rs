//! The checks before a message is sent, in order, and the warning about shells.

use std::fs;

use serde_json::{Value, json};
use subagent_tests::harness::{Output, TestSandbox, assert_shape};

use super::with_debug_worker;

/// Runs `send` with these flags and this standard input.
fn send(sandbox: &TestSandbox, flags: &[&str], stdin: &str) -> Output {
    sandbox.subagent(&["send"]).args(flags).stdin(stdin).run()
}

fn refused(output: &Output, code: &str, words: &str) -> Value {
    let error = output.error(code);
    assert!(error["message"].as_str().unwrap().contains(words), "{error}");
    error["details"].clone()
}

#[test]
fn a_worker_and_exactly_one_text_are_needed() {
    let (sandbox, worker) = with_debug_worker();
    let file = sandbox.file_name("text");
    fs::write(&file, "from a file").unwrap();
    let of = ["--worker-id", worker.as_str(), "--debug-mode"];
    let both = |more: &[&str], stdin: &str| send(&sandbox, &[&of[..], more].concat(), stdin);
    refused(&send(&sandbox, &["--text", "x"], ""), "INVALID_INPUT", "worker");
    refused(&both(&[], ""), "INVALID_INPUT", "text");
    for more in [
        &["--text", "", "--text-stdin"] as &[&str],
        &["--text", "x", "--text-file", &file],
        &["--text-stdin", "--text-file", &file],
    ] {
        assert_eq!(refused(&both(more, "y"), "INVALID_INPUT", "exactly one"), Value::Null);
    }
    let with_text = both(&["--input", "-", "--text-file", &file], r#"{"text": "x"}"#);
    refused(&with_text, "INVALID_INPUT", "exactly one");
    let missing = sandbox.file_name("none");
    let details = refused(&both(&["--text-file", &missing], ""), "INVALID_INPUT", "none");
    assert_shape(&details, &json!({"path": format!("={missing}"), "error": "str"}));
    // Each of the four suffices and is taken verbatim.
    let texts: [(&[&str], &str, &str); 4] = [
        (&["--text", " a b "], "", " a b "),
        (&["--text-file", &file], "", "from a file"),
        (&["--text-stdin"], "from\nstdin\n", "from\nstdin\n"),
        (&["--input", "-"], r#"{"text": "from input"}"#, "from input"),
    ];
    for (flags, stdin, text) in texts {
        let turn = both(flags, stdin).data_of("turn.waited")["turnId"].clone();
        let events = sandbox.events(&worker);
        let sent = events.iter().find(|event| event["turnId"] == turn && event["type"] == "message.sent");
        assert_eq!(sent.unwrap()["data"]["text"], text);
    }
    sandbox.finish();
}

#[test]
fn blocks_are_a_list_of_objects_given_once() {
    let (sandbox, worker) = with_debug_worker();
    let of = ["--worker-id", worker.as_str(), "--text", "x", "--debug-mode"];
    let with = |blocks: &str| send(&sandbox, &[&of[..], &["--blocks", blocks]].concat(), "");
    assert_shape(&with("[").error("INVALID_INPUT")["details"], &json!({"error": "str"}));
    for wrong in ["{}", "[1]", "null", "[{}, \"x\"]"] {
        assert_eq!(with(wrong).error("INVALID_INPUT")["details"], Value::Null, "{wrong}");
    }
    let twice = [&of[..], &["--blocks", "[]", "--input", "-"]].concat();
    let twice = send(&sandbox, &twice, r#"{"blocks": []}"#).error("INVALID_INPUT");
    assert_eq!(twice["details"], json!({"field": "blocks", "flag": "blocks_json"}));
    let turn = with(r#"[{"type": "text", "text": "more"}]"#).data_of("turn.waited")["turnId"].clone();
    let events = sandbox.events(&worker);
    let of_turn: Vec<&Value> = events.iter().filter(|event| event["turnId"] == turn).collect();
    assert_eq!(of_turn[0]["data"]["input"], json!({"text": "x", "blocksCount": 1}));
    assert_eq!(of_turn[1]["data"], json!({"text": "x", "blocks": [{"type": "text", "text": "more"}]}));
    sandbox.finish();
}

#[test]
fn the_checks_come_in_their_order() {
    let (sandbox, worker) = with_debug_worker();
    let mut command: Vec<String> =
        ["send", "--input", "-", "--blocks", "[", "--json"].map(str::to_owned).to_vec();
    fs::write(sandbox.file("broken.yaml"), "launchers: [").unwrap();
    command.extend(["--config".to_owned(), sandbox.file_name("broken.yaml")]);
    let run = |command: &[String], stdin: &str| sandbox.command("subagent").args(command).stdin(stdin).run();
    // Everything is wrong; each step fixes the reported error.
    refused(&run(&command, "{"), "INVALID_INPUT", "JSON");
    refused(&run(&command, r#"{"worker": "w"}"#), "INVALID_INPUT", "not supported");
    refused(&run(&command, "{}"), "INVALID_INPUT", "worker");
    refused(&run(&command, r#"{"workerId": "w_0000000000"}"#), "INVALID_INPUT", "text");
    let input = r#"{"workerId": "w_0000000000", "text": "x"}"#;
    run(&command, input).error("CONFIG_PARSE_ERROR");
    fs::write(sandbox.file("broken.yaml"), "launchers: {}").unwrap();
    refused(&run(&command, input), "INVALID_INPUT", "--blocks");
    command[4] = "[]".to_owned();
    let unknown = run(&command, input).error("WORKER_NOT_FOUND");
    let db = sandbox.state_dir().join("state.db").display().to_string();
    assert_shape(
        &unknown["details"],
        &json!({"workerId": "=w_0000000000", "stateDbPath": format!("={db}"), "recommendedAction": "str"}),
    );
    let input = json!({"workerId": worker, "text": "x", "debugMode": true}).to_string();
    run(&command, &input).data_of("turn.waited");
    sandbox.finish();
}

#[test]
fn a_wait_that_cannot_be_begins_no_turn() {
    let (sandbox, worker) = with_debug_worker();
    let of = ["--worker-id", worker.as_str(), "--text", "x", "--debug-mode"];
    let wrong = send(&sandbox, &[&of[..], &["--wait-until", "turn.completed,turn.over"]].concat(), "");
    let details = wrong.error("INVALID_ARGUMENT")["details"].clone();
    assert_shape(&details, &json!({"unknown": ["str"], "aliases": ["str"], "knownEventTypes": ["str"]}));
    assert_eq!(details["unknown"], json!(["turn.over"]));
    // Also without waiting: the words are wrong anyway.
    send(&sandbox, &[&of[..], &["--wait-until", "x", "--no-wait"]].concat(), "").error("INVALID_ARGUMENT");
    for flag in ["--wait-timeout-seconds", "--wait-no-progress-timeout-seconds"] {
        for wrong in ["-1", "x", "nan"] {
            let output = send(&sandbox, &[&of[..], &[flag, wrong]].concat(), "");
            assert_eq!(output.status.code(), Some(2), "{output}");
        }
    }
    assert_eq!(sandbox.events(&worker), Vec::<Value>::new());
    sandbox.finish();
}

#[test]
fn what_a_shell_may_have_changed_is_warned_of() {
    let (sandbox, worker) = with_debug_worker();
    let of = ["--worker-id", worker.as_str(), "--debug-mode"];
    let risky = "`a` $(b) ${c} | ; && || > <";
    let all = json!([
        "backticks",
        "commandSubstitution",
        "parameterExpansion",
        "pipeline",
        "commandSeparator",
        "andOperator",
        "orOperator",
        "redirectOut",
        "redirectIn",
    ]);
    let shape = json!([{"code": "=TEXT_SHELL_PITFALL", "message": "str", "riskCodes": ["str"]}]);
    for (more, kind) in [(&["--wait"], "turn.waited"), (&["--no-wait"], "turn.accepted")] {
        let output = send(&sandbox, &[&of[..], &["--text", risky], &more[..]].concat(), "");
        let data = output.data_of(kind);
        assert_shape(&data["warnings"], &shape);
        assert_eq!(data["warnings"][0]["riskCodes"], all);
        assert_eq!(output.stderr, "", "with --json it is in the document");
    }
    let harmless = send(&sandbox, &[&of[..], &["--text", "a 'b' $C & d"]].concat(), "");
    assert_eq!(harmless.data().get("warnings"), None);
    // No shell has seen a text from elsewhere than the command line.
    fs::write(sandbox.file("text"), risky).unwrap();
    let file = sandbox.file_name("text");
    let input = json!({"text": risky}).to_string();
    for (more, stdin) in [
        (&["--text-file", file.as_str()] as &[&str], ""),
        (&["--text-stdin"], risky),
        (&["--input", "-"], &input),
    ] {
        assert_eq!(send(&sandbox, &[&of[..], more].concat(), stdin).data().get("warnings"), None);
    }
    // As text: on stderr, before it is sent.
    let text = sandbox.command("subagent").args(["send"]).args(of).args(["--text", "a | b > c"]).run();
    let _ = text.text();
    let lines: Vec<&str> = text.stderr.lines().collect();
    assert!(lines[0].starts_with("Warning: ") && lines[1] == "Risk codes: pipeline, redirectOut", "{text}");
    sandbox.finish();
}

#[test]
fn the_warning_is_not_lost_when_sending_fails() {
    let (sandbox, worker) = with_debug_worker();
    let risky = ["--text", "a | b"];
    let unknown = send(&sandbox, &[&["--worker-id", "w_0000000000"], &risky[..]].concat(), "");
    let later =
        send(&sandbox, &[&["--worker-id", worker.as_str(), "--blocks", "["], &risky[..]].concat(), "");
    for error in [unknown.error("WORKER_NOT_FOUND"), later.error("INVALID_INPUT")] {
        assert_eq!(error["details"]["warnings"][0]["riskCodes"], json!(["pipeline"]), "{error}");
    }
    let timeout = ["--wait-until", "turn.started", "--wait-timeout-seconds", "0.1", "--debug-mode"];
    let timeout = send(&sandbox, &[&["--worker-id", worker.as_str()], &risky[..], &timeout[..]].concat(), "");
    assert_eq!(timeout.error("WAIT_TIMEOUT")["details"]["warnings"][0]["code"], "TEXT_SHELL_PITFALL");
    let text = sandbox.command("subagent").args(["send", "--worker-id", "w_0000000000"]).args(risky).run();
    assert_eq!(text.status.code(), Some(1), "{text}");
    let (warning, error) =
        text.stderr.split_once("Risk codes: pipeline\n").expect("the warning must come first");
    assert!(warning.starts_with("Warning: ") && error.starts_with("WORKER_NOT_FOUND: "), "{text}");
    sandbox.finish();
}
