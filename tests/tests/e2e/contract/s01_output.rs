//! Output: one JSON document, envelopes, exit codes, texts, ids. General rules are checked for
//! every command in `--help`, so that no new one is forgotten.

mod bytes;
mod commands;
mod refusals;
mod state_dir;

use serde_json::{Value, json};
use subagent_tests::harness::{Output, TestSandbox, assert_shape};

use commands::{Leaf, leaves};

/// Checks the form of every error on stderr.
#[track_caller]
fn assert_plain_error(output: &Output, code: &Value) {
    assert_eq!((output.status.code(), output.stdout.as_str()), (Some(1), ""), "{output}");
    let code = code.as_str().unwrap();
    assert!(output.stderr.starts_with(&format!("{code}: ")), "{output}");
}

#[test]
fn every_command_prints_one_document_and_every_error_has_an_envelope() {
    let mut sandbox = TestSandbox::new();
    sandbox.set_env("SUBAGENT_NO_AUTOSTART", "1");
    let mut failed = 0;
    for Leaf { path, required, .. } in leaves(&sandbox) {
        let run = |flags: &[&str]| {
            sandbox.command("subagent").args(&path).args(&required).args(flags).cwd(sandbox.file("tmp")).run()
        };
        let output = run(&["--json"]);
        let document = output.document();
        if output.status.code() == Some(2) {
            // Other commands of the contract accept any value; this one accepts one of three words.
            assert_eq!(path, ["completions"], "{output}");
            continue;
        }
        assert_eq!(output.stderr, "", "{output}");
        if output.status.success() {
            let pattern = json!({"schemaVersion": "=v1", "ok": true, "type": "str", "data": "object"});
            assert_shape(&document, &pattern);
            continue;
        }
        failed += 1;
        let error = json!({"code": "str", "message": "str", "retryable": "bool", "details!": "object"});
        let pattern = json!({"schemaVersion": "=v1", "ok": false, "type": "=error", "error": error});
        assert_shape(&document, &pattern);
        let _ = output.any_error();
        assert_plain_error(&run(&[]), &document["error"]["code"]);
    }
    assert!(failed > 10, "without a workspace, most commands fail: {failed}");
    assert!(sandbox.processes().is_empty());
    sandbox.finish();
}

#[test]
fn every_success_has_its_type_and_a_text() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let waited = sandbox.send(&worker, "!ask execute rm");
    let request = waited["requestId"].as_str().unwrap();
    let worker = worker.as_str();
    let text_of = |args: &[&str]| {
        let output = sandbox.command("subagent").args(args).run();
        assert_eq!(output.stderr, "", "{output}");
        assert!(!output.text().is_empty() && output.stdout.ends_with('\n'), "{output}");
    };
    for (args, kind) in [
        (&["config", "init", "--force"][..], "config.initialized"),
        (&["launcher", "list"], "launcher.listed"),
        (&["launcher", "show", "demo"], "launcher.shown"),
        (&["launcher", "probe", "demo"], "launcher.probed"),
        (&["role", "list"], "role.listed"),
        (&["agent", "list"], "agent.listed"),
        (&["agent", "show", "explore"], "agent.shown"),
        (&["prompt", "render"], "prompt.rendered"),
        (&["controller", "status"], "controller.status"),
        (&["worker", "list"], "worker.listed"),
        (&["worker", "show", worker], "worker.shown"),
        (&["worker", "start"], "worker.started"),
        (&["watch", "--worker-id", worker], "events.watched"),
        (&["wait", "--worker-id", worker, "--include-history"], "event.matched"),
    ] {
        let output = sandbox.run(args);
        let _ = output.data_of(kind);
        assert_eq!(output.stderr, "", "{output}");
        text_of(args);
    }
    let approve = ["approve", "--worker-id", worker, "--request", request, "--decision", "allow"];
    sandbox.run(&approve).data_of("approval.decided");
    let _ = sandbox.turn_end(&waited);
    for kind in ["turn.waited", "turn.accepted"] {
        let flags: &[&str] = if kind == "turn.waited" { &[] } else { &["--no-wait"] };
        let accepted = sandbox.sending(worker, "!sleep 10").args(flags).run().data_of(kind);
        let from = accepted["acceptedEventId"].as_str().unwrap();
        sandbox
            .run(&["wait", "--worker-id", worker, "--from-event-id", from, "--until", "turn.completed"])
            .data();
    }
    sandbox.sending(worker, "!sleep 60000").args(["--no-wait"]).run().data_of("turn.accepted");
    sandbox.run(&["cancel", "--worker-id", worker]).data_of("turn.canceled");
    sandbox.run(&["worker", "logs", worker]).data_of("worker.logs");
    sandbox.run(&["worker", "stop", worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn wrong_usage_exits_with_2_and_with_json_has_an_envelope() {
    let sandbox = TestSandbox::new();
    let wrong = |args: &[&str]| {
        let plain = sandbox.command("subagent").args(args).run();
        assert_eq!((plain.status.code(), plain.stdout.as_str()), (Some(2), ""), "{plain}");
        assert!(plain.stderr.contains("Usage: subagent"), "{plain}");
        let json = sandbox.subagent(args).run();
        assert_eq!(json.status.code(), Some(2), "{json}");
        let document = json.document();
        assert_eq!((&document["ok"], &document["type"]), (&json!(false), &json!("error")), "{json}");
        assert_eq!(
            (&document["error"]["code"], &document["error"]["retryable"]),
            (&json!("INVALID_ARGUMENT"), &json!(false))
        );
    };
    for args in [
        &["no-such-command"][..],
        &["worker"],
        &["role"],
        &["worker", "no-such-command"],
        &["send", "--wait-timeout-seconds", "-1"],
        &["send", "--wait-timeout-seconds", "x"],
        &["send", "--wait-timeout-seconds", "nan"],
        &["wait", "--timeout-seconds", "inf"],
        &["watch", "--worker-id", "w", "--timeout-seconds", "0.05"],
        &["worker", "inspect", "w", "--tail", "0"],
        &["worker", "logs", "w", "--tail-bytes", "x"],
        &["completions", "tcsh"],
    ] {
        wrong(args);
    }
    // A wrong value is reported with the usage of its own command.
    let value = sandbox.run(&["worker", "inspect", "w", "--tail", "0"]);
    assert_eq!(
        value.document()["error"]["details"]["usage"],
        "subagent worker inspect [OPTIONS] <WORKER_ID>"
    );
    for Leaf { path, required, .. } in leaves(&sandbox) {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let required: Vec<&str> = required.iter().map(String::as_str).collect();
        wrong(&[&path[..], &required, &["--no-such-flag"]].concat());
        if !TAKES_SEVERAL.contains(&path.join(" ").as_str()) {
            wrong(&[&path[..], &required, &["one", "too", "many"]].concat());
        }
        if required.contains(&"x") {
            wrong(&path);
        }
    }
    assert!(sandbox.processes().is_empty());
    sandbox.finish();
}

#[test]
fn help_is_a_success_on_stdout() {
    let sandbox = TestSandbox::new();
    let mut paths: Vec<Vec<String>> = leaves(&sandbox).into_iter().map(|leaf| leaf.path).collect();
    paths.extend(paths.clone().into_iter().map(|mut path| {
        path.pop();
        path
    }));
    for path in paths {
        let output = sandbox.command("subagent").args(&path).args(["--help"]).run();
        assert!(output.text().contains("Usage: subagent") && output.stderr.is_empty(), "{output}");
        for line in output.stdout.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
    sandbox.finish();
}

/// The commands that accept any number of workers.
const TAKES_SEVERAL: &[&str] = &[
    "land",
    "worktree land",
    "diff",
    "show",
    "worker show",
    "worker inspect",
    "worktree diff",
    "cancel",
    "wait",
    "watch",
    "stop",
    "rm",
    "logs",
    "worker resume",
    "worker stop",
    "worker rm",
    "worker restart",
    "worker logs",
    "worker set",
    "worker handoff",
];

/// The commands that accept `--config`; of the contract's, those that accept `--cwd`.
const WITH_CONFIG: &str = "launcher list,launcher show,launcher probe,role list,role show,prompt render,send,approve,answer,cancel,worker start,worker continue";
const WITHOUT_CWD: &str = "launcher list,launcher show,role list,role show,prompt render";
/// The only flags with a `--no-` form.
const PAIRS: &[&str] = &["--wait", "--debug-mode"];

#[test]
fn the_common_flags_are_where_the_contract_has_them() {
    let sandbox = TestSandbox::new();
    let listed = |list: &str, name: &str| list.split(',').any(|listed| listed == name);
    for leaf in leaves(&sandbox).into_iter().filter(Leaf::is_in_the_contract) {
        let name = leaf.path.join(" ");
        let has = |flag: &str| leaf.flags.iter().any(|(known, _)| known == flag);
        assert!(has("--json"), "{name}");
        assert_eq!(has("--config"), listed(WITH_CONFIG, &name), "{name}");
        assert_eq!(has("--cwd"), !listed(WITHOUT_CWD, &name), "{name}");
        let refused = |flag: &str| {
            let output =
                sandbox.command("subagent").args(&leaf.path).args(&leaf.required).args([flag, "x"]).run();
            assert_eq!(output.status.code(), Some(2), "{output}");
        };
        for flag in ["--config", "--cwd"].into_iter().filter(|flag| !has(flag)) {
            refused(flag);
        }
        for (flag, takes_value) in &leaf.flags {
            if !takes_value && !flag.starts_with("--no-") && !PAIRS.contains(&flag.as_str()) {
                refused(&flag.replacen("--", "--no-", 1));
            }
        }
    }
    sandbox.finish();
}

#[test]
fn ids_and_timestamps_have_their_forms() {
    let sandbox = TestSandbox::new();
    let controller = sandbox.init();
    let owner = json!({
        "controllerId": "ctl", "instanceId": "ci", "epoch": 1, "pid": "int", "createdAt": "ts", "token": "str",
    });
    assert_shape(&controller["owner"], &owner);
    let token = controller["owner"]["token"].as_str().unwrap();
    let url_safe = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    assert!(token.len() == 32 && token.chars().all(url_safe), "{token}");
    let worker = sandbox.start("demo");
    let shown = sandbox.show(&worker);
    for (key, pattern) in
        [("workerId", "w"), ("controllerId", "ctl"), ("createdAt", "ts"), ("updatedAt", "ts")]
    {
        assert_shape(&shown[key], &json!(pattern));
    }
    let waited = sandbox.send(&worker, "!ask execute rm");
    for (key, pattern) in
        [("turnId", "turn"), ("eventId", "ev"), ("acceptedEventId", "ev"), ("requestId", "ap")]
    {
        assert_shape(&waited[key], &json!(pattern));
    }
    for event in sandbox.events(&worker) {
        let pattern = json!({
            "schemaVersion": "=v1", "eventId": "ev", "ts": "ts", "workerId": "w", "type": "str",
            "data": "object", "turnId!": "turn",
        });
        assert_shape(&event, &pattern);
    }
    sandbox.finish();
}

#[test]
fn advice_stands_on_lines_of_its_own() {
    let sandbox = TestSandbox::new();
    let json = sandbox.run(&["worker", "start"]).error("CONTROLLER_NOT_FOUND");
    let plain = sandbox.command("subagent").args(["worker", "start"]).run();
    assert_plain_error(&plain, &json["code"]);
    let details = &json["details"];
    let expected = format!(
        "CONTROLLER_NOT_FOUND: {}\nHint: {}\nTry: {}\n",
        json["message"].as_str().unwrap(),
        details["recommendedAction"].as_str().unwrap(),
        details["recommendedCommand"].as_str().unwrap(),
    );
    assert_eq!(plain.stderr, expected);
    sandbox.finish();
}

#[test]
fn the_exit_code_is_0_for_any_end_of_the_wait() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let accepted = sandbox.send_no_wait(&worker, "!error -32000 out of luck");
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.failed");
    let accepted = sandbox.send_no_wait(&worker, "!sleep 60000");
    sandbox.run(&["cancel", "--worker-id", &worker]).data_of("turn.canceled");
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.canceled");
    let wait = ["wait", "--worker-id", &worker, "--include-history", "--until", "turn.failed"];
    let plain = sandbox.command("subagent").args(wait).run();
    assert!(plain.text().ends_with("\tturn.failed\n"), "{plain}");
    sandbox.finish();
}

#[test]
fn what_is_not_ascii_is_printed_as_it_is() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let text = "ä\u{1f600}\u{2028} \"\\ \t\u{7f}";
    let waited = sandbox.sending(&worker, text).run();
    assert_eq!(waited.data_of("turn.waited")["assistantText"], text);
    assert!(waited.stdout.contains("ä\u{1f600}\u{2028} \\\"\\\\ \\t\u{7f}"), "{waited}");
    sandbox.finish();
}
