//! Invalid UTF-8 wherever text is accepted, and readers that close early: an error with a
//! code, never a panic.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use serde_json::json;
use subagent_tests::harness::{Output, TestSandbox};

use super::commands::leaves;

fn odd(text: &[u8]) -> OsString {
    OsStr::from_bytes(text).to_owned()
}

/// Ended by itself with a document on stdout and without a panic.
#[track_caller]
fn assert_rejected(output: &Output) {
    assert!(output.status.code().is_some_and(|code| code <= 2), "{output}");
    assert!(!output.stderr.contains("panicked"), "{output}");
    let document = output.document();
    assert_eq!(document["ok"], output.status.code() == Some(0), "{output}");
}

#[test]
fn every_flag_and_argument_may_be_no_text() {
    let mut sandbox = TestSandbox::new();
    sandbox.set_env("SUBAGENT_NO_AUTOSTART", "1");
    for leaf in leaves(&sandbox) {
        let run = |args: Vec<OsString>| {
            sandbox.command("subagent").args(&leaf.path).args(args).args(["--json"]).run()
        };
        let required = || leaf.required.iter().map(OsString::from);
        for (flag, _) in leaf.flags.iter().filter(|(_, takes_value)| *takes_value) {
            assert_rejected(&run(required().chain([flag.into(), odd(b"a\xff")]).collect()));
            // Some commands write it, and others would read it.
            let _ = fs::remove_file(sandbox.workspace().join(odd(b"a\xff")));
        }
        if !leaf.required.is_empty() {
            let args: Vec<OsString> =
                required().map(|word| if word == "x" { odd(b"\xfe") } else { word }).collect();
            assert_rejected(&run(args));
        }
        assert_eq!(run(required().chain([odd(b"--\xff")]).collect()).status.code(), Some(2));
    }
    assert_rejected(&sandbox.command("subagent").args([odd(b"\xff"), "--json".into()]).run());
    assert!(sandbox.processes().is_empty());
    sandbox.finish();
}

#[test]
fn every_variable_may_be_no_text() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let worker = worker.as_str();
    for name in ["HOME", "PATH", "TMPDIR", "XDG_RUNTIME_DIR", "SUBAGENT_LOG", "LANG", "ANY_OTHER"] {
        let send =
            sandbox.subagent(&["send", "--worker-id", worker, "--text", name]).env(name, odd(b"/\xff"));
        assert_eq!(send.run().data_of("turn.waited")["assistantText"], name);
    }
    let list = |name: &str| sandbox.subagent(&["worker", "list"]).env(name, odd(b"/tmp/\xff"));
    assert_eq!(
        list("SUBAGENT_STATE_DIR").run().error("INVALID_ARGUMENT")["details"]["stateDir"],
        "/tmp/\u{fffd}"
    );
    let config = sandbox.subagent(&["launcher", "list"]).env("SUBAGENT_CONFIG", odd(b"/tmp/\xff"));
    config.run().error("CONFIG_PARSE_ERROR");
    for name in ["SUBAGENT_CTL_ID", "SUBAGENT_CTL_EPOCH", "SUBAGENT_CTL_TOKEN"] {
        let with = |args: &[&str]| {
            let handle = sandbox.subagent(args).env("SUBAGENT_CTL_ID", "c");
            let handle = handle.env("SUBAGENT_CTL_EPOCH", "1").env("SUBAGENT_CTL_TOKEN", "t");
            handle.env(name, odd(b"\xff")).run()
        };
        with(&["worker", "list"]).data_of("worker.listed");
        with(&["worker", "stop", worker]).error("INVALID_CONTROLLER_HANDLE");
        assert_eq!(with(&["controller", "status"]).data()["envHandle"]["valid"], false, "{name}");
    }
    // An agent gets them unchanged.
    let start = sandbox.subagent(&["worker", "start"]).env("ODD", odd(b"a\xffb")).run();
    let other = start.data_of("worker.started")["workerId"].as_str().unwrap().to_owned();
    let waited = sandbox.send(&other, "!shell printf %s \"$ODD\" | od -An -tx1");
    assert!(waited["assistantText"].as_str().unwrap().contains("61 ff 62"), "{waited}");
    sandbox.finish();
}

#[test]
fn a_daemon_can_be_started_where_the_runtime_dir_is_no_text() {
    let mut sandbox = TestSandbox::new();
    let folder = sandbox.path().join(odd(b"run\xff"));
    fs::create_dir(&folder).unwrap();
    sandbox.set_env("XDG_RUNTIME_DIR", folder);
    sandbox.init();
    let socket = sandbox.daemon_info().unwrap().socket;
    assert!(socket.starts_with("/tmp") && socket.to_str().is_some(), "{}", socket.display());
    sandbox.finish();
}

#[test]
fn a_folder_whose_name_is_no_text_is_refused_where_it_would_be_a_key() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let (inside, outside) = (sandbox.workspace().join(odd(b"in\xff")), sandbox.path().join(odd(b"out\xff")));
    for folder in [&inside, &outside] {
        fs::create_dir(folder).unwrap();
    }
    let run = |args: &[&str], folder: &std::path::Path| sandbox.subagent(args).cwd(folder).run();
    // Below a named workspace, only an agent cannot work there.
    run(&["worker", "list"], &inside).data_of("worker.listed");
    run(&["worker", "start", "--cwd", "."], &inside).error("INVALID_ARGUMENT");
    for args in [&["controller", "init"][..], &["worker", "list"], &["worker", "start"]] {
        let error = sandbox.subagent(args).args(["--cwd", "."]).cwd(&outside).run().error("INVALID_ARGUMENT");
        assert!(error["message"].as_str().unwrap().contains("not UTF-8"), "{error}");
        assert_eq!(error["details"]["cwd"], json!(outside.to_string_lossy()));
    }
    // Config files can be anywhere.
    fs::create_dir(outside.join(".subagent")).unwrap();
    fs::write(outside.join(".subagent/config.yaml"), "launchers: {a: {command: ./x}}").unwrap();
    assert_eq!(run(&["launcher", "list"], &outside).data()["count"], 1);
    assert_eq!(run(&["launcher", "probe", "a"], &outside).data()["available"], false);
    let init = sandbox.subagent(&["config", "init"]).args(["--path".into(), outside.join("c.yaml")]).run();
    init.data_of("config.initialized");
    assert!(outside.join("c.yaml").is_file());
    sandbox.finish();
}

#[test]
fn a_reader_that_is_gone_changes_nothing() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "hello");
    let program = sandbox.executable("subagent");
    for (args, code) in [
        ("launcher list --json", 0),
        ("launcher list", 0),
        ("prompt render", 0),
        ("--help", 0),
        ("--version", 0),
        ("worker show w_0123456789 --json", 1),
        (&format!("watch --worker-id {worker}"), 0),
        (&format!("watch --worker-id {worker} --follow --timeout-seconds 0"), 0),
        (&format!("send --worker-id {worker} --text hello --json"), 0),
        ("worker --json", 2),
    ] {
        // The reader has certainly ended before the command begins.
        let script = format!("exec 3> >(:); wait $!; {program} {args} >&3; echo $?");
        let output = sandbox.command("bash").args(["-c", &script]).run();
        assert_eq!(output.text(), format!("{code}\n"), "{args}: {output}");
        // Usage goes to stderr.
        assert_eq!(output.stderr.is_empty(), code != 2, "{output}");
        assert!(!output.stderr.contains("panicked"), "{output}");
    }
    sandbox.finish();
}

#[test]
fn an_output_that_cannot_be_written_is_reported() {
    let sandbox = TestSandbox::new();
    let program = sandbox.executable("subagent");
    for args in ["launcher list --json", "prompt render", "--help"] {
        let output = sandbox.command("bash").args(["-c", &format!("{program} {args} > /dev/full")]).run();
        assert_eq!((output.status.code(), output.stdout.as_str()), (Some(1), ""), "{output}");
        assert!(output.stderr.contains("stdout") && !output.stderr.contains("panicked"), "{output}");
    }
    sandbox.finish();
}
