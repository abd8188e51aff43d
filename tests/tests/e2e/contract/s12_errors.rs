//! Error codes: a test produces each one with the executables, or this file lists
//! the reason why not.

mod agents;
mod hints;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use subagent_protocol::Code;
use subagent_tests::harness::{TestLauncher, TestSandbox, assert_shape, request, wait_until};

/// Codes that no test here produces, with the reason.
const NOT_HERE: &[(Code, &str)] = &[
    (Code::Internal, "a defect; no known way to cause one"),
    (
        Code::ControllerHintUnwritable,
        "the ownership is stored all the same, so this is only a warning; tested below",
    ),
    (Code::WorkerCopied, "needs a copied workspace; tested in copies.rs"),
    (Code::DaemonBusy, "needs bodies of 192 MiB that do not end for 25 s; unit test of api/incoming.rs"),
    (Code::StateDirUnsupportedFs, "needs a mount of another machine; the numbers have a unit test"),
    (Code::SocketPathTooLong, "such a folder is passed over for one in /tmp; unit test"),
];

/// Codes of the contract that this version does not have.
const RETIRED: &[&str] =
    &["BACKEND_WORKER_CONFIG", "INVALID_WORKER_STATE_TRANSITION", "CONFIG_NOT_AVAILABLE"];

#[test]
fn every_code_is_produced_by_a_test_or_has_a_reason_why_not() {
    fn read(folder: &Path, texts: &mut String) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                read(&path, texts);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                texts.push_str(&fs::read_to_string(&path).unwrap());
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut tests = String::new();
    read(&root.join("tests/tests"), &mut tests);
    let documented = fs::read_to_string(root.join("docs/errors.md")).unwrap();
    let mut wrong = Vec::new();
    for code in Code::ALL {
        let excused = NOT_HERE.iter().any(|(known, _)| known == code);
        let tested = is_expected(&tests, code.as_str());
        if tested == excused {
            wrong.push(format!("{code}: expected by a test: {tested}, excused: {excused}"));
        }
        assert!(documented.contains(&format!("`{code}`")), "{code} is not in docs/errors.md");
    }
    assert_eq!(wrong, Vec::<String>::new());
    let migrating = fs::read_to_string(root.join("docs/migrating.md")).unwrap();
    for code in RETIRED {
        assert!(Code::parse(code).is_none(), "{code} is there again");
        for (text, name) in [(&documented, "errors.md"), (&migrating, "migrating.md")] {
            assert!(text.contains(&format!("`{code}`")), "{code} is not in docs/{name}");
        }
    }
}

/// Whether a test fails if an error has another code: a statement that inspects an
/// error contains the code.
fn is_expected(tests: &str, code: &str) -> bool {
    [format!("\"{code}\""), format!("\"={code}\"")].iter().any(|quoted| {
        tests.match_indices(quoted).any(|(at, _)| {
            let statement = tests[..at].rsplit([';', '{', '}']).next().unwrap();
            if statement.contains("assert_ne!") || statement.ends_with("!= ") {
                return false;
            }
            // Text of an agent that repeats its input.
            let says = ["\"assistantText\"]).contains(", "\"result\"]).contains("];
            let reported =
                ["error(", "send_fails(", "assert_error(", "notifications(", "\"code\"", "&*failure.code"];
            says.iter().chain(&reported).any(|look| statement.contains(look))
        })
    })
}

#[test]
fn a_code_that_is_only_named_is_not_expected() {
    assert!(is_expected("let error = run.error(\"X\");", "X"));
    assert!(is_expected("assert_eq!((&a, &error[\"code\"]), (&b, &json!(\"X\")));", "X"));
    assert!(!is_expected("run.error(\"Y\"); let x = \"X\";", "X"));
    assert!(!is_expected("assert_ne!(error[\"code\"], \"X\");", "X"));
}

/// Returns a launcher of a shell script.
fn script(text: &str) -> TestLauncher {
    TestLauncher::new("/bin/sh", ["-c", text])
}

#[test]
fn an_agent_that_may_not_be_run_is_backend_permission_denied() {
    let mut sandbox = TestSandbox::new();
    fs::write(sandbox.file("interpreter"), "not executable").unwrap();
    let program = sandbox.file_name("agent");
    fs::write(&program, format!("#!{}\n", sandbox.file_name("interpreter"))).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    sandbox.launcher("forbidden", TestLauncher::new(program.clone(), ["--acp"]));
    sandbox.launcher("refused", script("exit 126"));
    sandbox.init();
    for launcher in ["forbidden", "refused"] {
        let error =
            sandbox.run(&["worker", "start", "--launcher", launcher]).error("BACKEND_PERMISSION_DENIED");
        let mut shape = agents::failed_start();
        shape["reasonCategory"] = "=permission".into();
        shape["recommendedCommand"] = format!("=subagent launcher probe {launcher} --json").into();
        assert_shape(&error["details"], &shape);
        assert_eq!(error["retryable"], false);
    }
    sandbox.finish();
}

#[test]
fn an_agent_of_another_protocol_is_backend_protocol_error() {
    let mut sandbox = TestSandbox::new();
    let answer = |result: &str| {
        script(&format!(
            r#"read -r line; id=${{line#*\"id\":}}; id=${{id%%[,\}}]*}}; echo "{{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{result}}}"; cat >/dev/null"#
        ))
    };
    sandbox.launcher("future", answer(r#"{\"protocolVersion\":99}"#));
    sandbox.init();
    let error = sandbox.run(&["worker", "start", "--launcher", "future"]).error("BACKEND_PROTOCOL_ERROR");
    assert_eq!(error["details"]["method"], "initialize", "{error}");
    assert_eq!(error["details"]["response"], json!({"protocolVersion": 99}), "{error}");
    sandbox.finish();
}

#[test]
fn a_config_that_cannot_be_written_is_an_error_and_a_hint_only_a_warning() {
    let sandbox = TestSandbox::new();
    fs::write(sandbox.file("plain"), "").unwrap();
    let below = sandbox.file_name("plain/config.yaml");
    sandbox.run(&["config", "init", "--path", &below]).error("CONFIG_UNWRITABLE");
    fs::create_dir_all(sandbox.file("ws/.subagent/controller.json/full")).unwrap();
    let output = sandbox.run(&["controller", "init"]);
    let _ = output.data_of("controller.initialized");
    let hint = sandbox.file_name("ws/.subagent/controller.json");
    assert!(output.stderr.starts_with("Warning: ") && output.stderr.contains(&hint), "{output}");
    sandbox.finish();
}

#[test]
fn a_daemon_that_cannot_begin_says_why() {
    let sandbox = TestSandbox::new();
    // An incomplete installation.
    let alone = sandbox.file_name("subagent");
    fs::copy(sandbox.executable("subagent"), &alone).unwrap();
    let error =
        sandbox.command(&alone).args(["daemon", "start", "--json"]).run().error("DAEMON_START_FAILED");
    assert!(error["message"].as_str().unwrap().contains("subagentd"), "{error}");
    let _ = sandbox.run(&["daemon", "start"]).data_of("daemon.started");
    sandbox.finish();
}

#[test]
fn a_runtime_that_cannot_be_started_is_backend_runtime_error() {
    let sandbox = TestSandbox::new();
    let alone = sandbox.file_name("installed/subagent");
    fs::create_dir(sandbox.file("installed")).unwrap();
    for name in ["subagent", "subagentd", "subagent-runtime"] {
        fs::copy(sandbox.executable(name), sandbox.file(&format!("installed/{name}"))).unwrap();
    }
    let run = |args: &[&str]| sandbox.command(&alone).args(args).args(["--json"]).run();
    let _ = run(&["controller", "init"]).data_of("controller.initialized");
    fs::remove_file(sandbox.file("installed/subagent-runtime")).unwrap();
    let error = run(&["worker", "start"]).error("BACKEND_RUNTIME_ERROR");
    assert_eq!(error["details"]["reasonCategory"], "worker", "{error}");
    sandbox.finish();
}

#[test]
fn a_folder_of_sockets_that_is_not_safe_is_refused() {
    let sandbox = TestSandbox::new();
    fs::create_dir(sandbox.file("elsewhere")).unwrap();
    symlink(sandbox.file("elsewhere"), sandbox.file("run/subagent")).unwrap();
    sandbox.run(&["daemon", "start"]).error("RUNTIME_DIR_UNSAFE");
    fs::remove_file(sandbox.file("run/subagent")).unwrap();
    fs::create_dir(sandbox.file("run/subagent")).unwrap();
    fs::set_permissions(sandbox.file("run/subagent"), fs::Permissions::from_mode(0o777)).unwrap();
    let error = sandbox.run(&["daemon", "start"]).error("RUNTIME_DIR_UNSAFE");
    assert!(error["message"].as_str().unwrap().contains("chmod 700"), "{error}");
    fs::remove_dir(sandbox.file("run/subagent")).unwrap();
    let _ = sandbox.run(&["daemon", "start"]).data_of("daemon.started");
    sandbox.finish();
}

#[test]
fn a_folder_of_sockets_that_cannot_be_made_is_reported() {
    let mut sandbox = TestSandbox::new();
    // It belongs to us, and no folder can be created in it.
    sandbox.set_env("XDG_RUNTIME_DIR", format!("/proc/{}", std::process::id()));
    sandbox.run(&["daemon", "start"]).error("RUNTIME_DIR_UNWRITABLE");
    sandbox.finish();
}

#[test]
fn another_protocol_is_refused_in_both_directions() {
    let (sandbox, _) = TestSandbox::with_worker();
    let socket = sandbox.daemon_info().unwrap().socket;
    let answer = |protocol: &str| {
        let head = format!("Subagent-Protocol: {protocol}");
        let answer = request(&socket, &["GET /v1/workers HTTP/1.1", &head], "");
        assert_eq!(answer.status, 412);
        answer.json()
    };
    assert_eq!(answer("0")["error"]["code"], "DAEMON_TOO_NEW");
    assert_eq!(answer("99")["error"]["code"], "DAEMON_TOO_OLD");
    sandbox.finish();
}

#[test]
fn a_body_that_is_too_large_is_payload_too_large() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let socket = sandbox.daemon_info().unwrap().socket;
    let text = "x".repeat(65 * 1024 * 1024);
    let head = format!("POST /v1/workers/{worker}/turns HTTP/1.1");
    let answer = request(&socket, &[&head], &json!({"text": text}).to_string());
    assert_eq!((answer.status, &answer.json()["error"]["code"]), (413, &json!("PAYLOAD_TOO_LARGE")));
    assert_eq!(sandbox.send(&worker, "still here")["assistantText"], "still here");
    sandbox.finish();
}

#[test]
fn a_worker_whose_environment_is_gone_says_so() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let runtime = sandbox.runtime(&worker);
    for entry in fs::read_dir(sandbox.file("run/subagent")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "env") {
            fs::remove_file(path).unwrap();
        }
    }
    sandbox.kill(&runtime);
    wait_until("the loss to be known", Duration::from_secs(20), || {
        (sandbox.show(&worker)["runtimePid"] == Value::Null).then_some(())
    });
    // The command could not send a complete one.
    fs::write(sandbox.config_file(), "{}").unwrap();
    let error = sandbox.run(&["send", "--worker-id", &worker, "--text", "hello"]).error("ENV_REQUIRED");
    assert_eq!((&error["retryable"], &error["details"]["workerId"]), (&json!(false), &json!(worker)));
    sandbox.finish();
}

#[test]
fn processes_that_cannot_be_ended_in_time_are_named_and_ended_later() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let guard = sandbox.guard(&sandbox.runtime(&worker));
    // Simulates a hang in the kernel: it can neither handle its agent nor end.
    guard.signal(Signal::SIGSTOP);
    let stop = sandbox.subagent(&["worker", "stop", &worker]).deadline(Duration::from_secs(60)).run();
    let error = stop.error("STOP_INCOMPLETE");
    assert_shape(&error["details"], &json!({"workerId": "w", "pids": ["int"], "recommendedAction": "str"}));
    assert_eq!(error["retryable"], true);
    guard.signal(Signal::SIGCONT);
    let stopped = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    assert_eq!(stopped["state"], Value::from("stopped"));
    sandbox.finish();
}

#[test]
fn people_are_shown_what_an_agent_said_before_it_ended() {
    let mut sandbox = TestSandbox::new();
    sandbox.launcher("complains", script("echo 'no API key' >&2; exit 3"));
    sandbox.init();
    let output = sandbox.command("subagent").args(["worker", "start", "--launcher", "complains"]).run();
    assert_eq!((output.status.code(), output.stdout.as_str()), (Some(1), ""), "{output}");
    assert!(output.stderr.starts_with("BACKEND_UNAVAILABLE: "), "{output}");
    assert!(output.stderr.ends_with("\nAgent: no API key\n"), "{output}");
    sandbox.finish();
}
