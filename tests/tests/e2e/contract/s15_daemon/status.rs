//! Tests of `subagentd status` and its output.

use super::*;

#[test]
fn status_of_nothing_is_exit_code_1_and_no_envelope() {
    let sandbox = TestSandbox::new();
    let output = subagentd(&sandbox, &["status", "--json"]);
    assert_eq!(output.status.code(), Some(1), "{output}");
    let expected = json!({
        "schemaVersion": "v1", "running": false, "stateDir": sandbox.state_dir(),
        "statusFile": sandbox.state_dir().join(STATUS_FILE),
    });
    assert_eq!(output.document(), expected);
    let text = subagentd(&sandbox, &["status"]);
    assert_eq!((text.status.code(), text.stdout.as_str()), (Some(1), "subagentd not initialized\n"));
    assert!(!sandbox.state_dir().exists(), "looking makes nothing");
    sandbox.finish();
}

#[test]
fn status_is_the_payload_and_whether_it_runs() {
    let sandbox = TestSandbox::new();
    let daemon = foreground(&sandbox, &["--json"]);
    let mut expected = payload("foreground", &json!([]));
    for (key, word) in [("running", json!(true)), ("socket", json!("str")), ("generation", json!("int"))] {
        expected[key] = word;
    }
    expected["version"] = json!("str");
    let status = bare(&subagentd(&sandbox, &["status", "--json"]));
    assert_shape(&status, &expected);
    assert_eq!(status["pid"], daemon.pid());
    let text = subagentd(&sandbox, &["status"]);
    let started = status["startedAt"].as_str().unwrap();
    assert_eq!(text.text(), format!("subagentd running=True pid={} startedAt={started}\n", daemon.pid()));
    let pid = daemon.pid();
    end(daemon, Signal::SIGTERM);
    let mut ended = payload("foreground", &json!([]));
    ended["running"] = json!(false);
    ended["stoppedAt"] = json!("ts");
    assert_shape(&bare(&subagentd(&sandbox, &["status", "--json"])), &ended);
    let text = subagentd(&sandbox, &["status"]);
    assert_eq!(text.text(), format!("subagentd running=False pid={pid} startedAt={started}\n"));
    sandbox.finish();
}

#[test]
fn status_of_a_background_daemon_is_running_too() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let status = bare(&subagentd(&sandbox, &["status", "--json"]));
    assert_eq!((&status["running"], &status["mode"]), (&json!(true), &json!("background")));
    assert_eq!(status["pid"], sandbox.daemon().pid);
    assert!(!sandbox.state_dir().join(STATUS_FILE).exists(), "only `run` writes a heartbeat");
    sandbox.finish();
}

#[test]
fn a_reused_pid_is_not_taken_for_a_daemon() {
    let sandbox = TestSandbox::new();
    bare(&subagentd(&sandbox, &["run", "--once", "--json"]));
    let mut status = status_file(&sandbox).unwrap();
    status["pid"] = std::process::id().into();
    fs::write(sandbox.state_dir().join(STATUS_FILE), status.to_string()).unwrap();
    let reported = bare(&subagentd(&sandbox, &["status", "--json"]));
    assert_eq!((&reported["running"], &reported["pid"]), (&json!(false), &json!(std::process::id())));
    sandbox.finish();
}

#[test]
fn a_damaged_status_file_is_none() {
    let sandbox = TestSandbox::new();
    bare(&subagentd(&sandbox, &["run", "--once", "--json"]));
    let path = sandbox.state_dir().join(STATUS_FILE);
    for damaged in [b"{\"half\": ".as_slice(), b"[]", b"\xff\xfe", b"", b"null"] {
        fs::write(&path, damaged).unwrap();
        let output = subagentd(&sandbox, &["status", "--json"]);
        assert_eq!(output.status.code(), Some(1), "{output}");
        assert_eq!(output.document()["running"], false);
    }
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert_eq!(subagentd(&sandbox, &["status", "--json"]).document()["running"], false);
    // A write error is logged; the check itself succeeds.
    assert_shape(&bare(&subagentd(&sandbox, &["run", "--once", "--json"])), &payload("once", &json!([])));
    fs::remove_dir(&path).unwrap();
    sandbox.finish();
}
