//! What can be wrong with a host: each has a code, a reason and advice, and never hangs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use subagent_tests::harness::{SshHost, TestSandbox};

use super::far_client::{at_lap, host};

fn refused(sandbox: &TestSandbox, code: &str) -> Value {
    let error = at_lap(sandbox, &["ls"]).run().error(code);
    assert_eq!(error["details"]["host"], "lap", "{error}");
    assert!(error["details"]["recommendedAction"].is_string(), "{error}");
    error
}

#[test]
fn a_host_that_does_not_let_us_in_says_why() {
    let sandbox = TestSandbox::new();
    let Some(host) = host(&sandbox) else { return };
    for (key, expected, reason, said) in [
        ("other", "host", "login", "Permission denied"),
        ("user", "other", "hostKey", "Host key verification failed"),
    ] {
        host.configure_client(key, expected);
        let error = refused(&sandbox, "HOST_UNREACHABLE");
        assert_eq!(error["details"]["reason"], reason, "{error}");
        assert!(error["message"].as_str().unwrap().contains(said), "{error}");
        assert_eq!(error["retryable"], true, "{error}");
    }
    SshHost::offer(&sandbox, &json!({"lap": {"host": "127.0.0.1", "args": ["-F", "/dev/null", "-p", "1"]}}));
    assert_eq!(refused(&sandbox, "HOST_UNREACHABLE")["details"]["reason"], "network");
    sandbox.finish();
}

#[test]
fn a_missing_an_old_and_a_foreign_program_there_have_different_reasons() {
    let sandbox = TestSandbox::new();
    let Some(host) = host(&sandbox) else { return };
    let old = host.home().join("old");
    // As a version that does not know the command.
    fs::write(&old, "#!/bin/sh\necho \"error: unrecognized subcommand '$1'\" >&2\nexit 2\n").unwrap();
    let chatty = host.home().join("chatty");
    fs::write(&chatty, "#!/bin/sh\nhead -c 300000 /dev/zero\n").unwrap();
    for program in [&old, &chatty] {
        fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    for (program, reason) in [
        ("/no/such/subagent", "missing"),
        (old.to_str().unwrap(), "tooOld"),
        (chatty.to_str().unwrap(), "foreign"),
        ("/bin/false", "ended"),
    ] {
        let mut entry = host.entry(&sandbox);
        entry["program"] = json!(program);
        SshHost::offer(&sandbox, &json!({"lap": entry}));
        let error = at_lap(&sandbox, &["ls"]).run().error("HOST_NOT_PREPARED");
        assert_eq!(error["details"]["reason"], reason, "{error}");
    }
    sandbox.finish();
}

/// Lets a script answer there, after the greeting and a request.
fn answers(sandbox: &TestSandbox, host: &SshHost, answer: &str) {
    let script = host.home().join("script");
    let text = format!(
        "#!/bin/sh\nprintf '\\001subagent-dial-daemon\\002\\n'\nread -r request\n\
         cat <<'END'\n{answer}\nEND\ncat >/dev/null\n"
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let mut entry = host.entry(sandbox);
    entry["program"] = json!(script);
    SshHost::offer(sandbox, &json!({"lap": entry}));
}

#[test]
fn daemons_of_other_versions_and_errors_there_say_where_they_are() {
    let sandbox = TestSandbox::new();
    let Some(host) = host(&sandbox) else { return };
    let daemon = |oldest: u32, newest: u32| {
        json!({
            "workspace": {"root": "/x", "stateDir": "/x/state", "hasState": true, "of": "a newer version"},
            "daemon": {
                "protocol": newest, "oldestProtocol": oldest, "version": "9.9.9", "generation": 1,
                "process": {"pid": 1, "startTime": 1}, "socket": "/x/s", "stateDir": "/x/state",
                "mode": "background", "startedAt": "2026-11-21T20:29:42+00:00",
            },
        })
    };
    for (answer, code) in [
        (daemon(900, 999), "DAEMON_TOO_NEW"),
        (daemon(0, 0), "DAEMON_TOO_OLD"),
        (json!({"error": {"code": "OF_ANOTHER_VERSION", "message": "m"}}), "OF_ANOTHER_VERSION"),
    ] {
        answers(&sandbox, &host, &answer.to_string());
        let error = at_lap(&sandbox, &["ls"]).run().any_error();
        assert_eq!((&error["code"], &error["details"]["host"]), (&json!(code), &json!("lap")), "{error}");
    }
    answers(&sandbox, &host, "not JSON");
    assert_eq!(refused(&sandbox, "HOST_NOT_PREPARED")["details"]["reason"], "foreign");
    sandbox.finish();
}

#[test]
fn a_project_names_no_hosts() {
    let sandbox = TestSandbox::new();
    let file = sandbox.file("ws/.subagent/config.yaml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "hosts: {lap: ssh://evil}\n").unwrap();
    let error = sandbox.run(&["launcher", "list"]).error("CONFIG_PARSE_ERROR");
    assert!(error["message"].as_str().unwrap().contains("your own file"), "{error}");
    let error = sandbox.run(&["ls", "--host", "lap"]).error("HOST_NOT_FOUND");
    assert_eq!(error["details"]["available"], json!([]), "{error}");
    sandbox.finish();
}
