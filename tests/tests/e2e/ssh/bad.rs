//! What can be wrong with another machine: each has a code, says where, and never hangs.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use subagent_tests::harness::{Output, SshHost, TestSandbox, wait_until};

/// Time limit of a client's question.
const DEADLINE: Duration = Duration::from_secs(60);
/// Time within which a host that wants a password is reported. A client that asks for it is ended
/// later.
const REPORTED: Duration = Duration::from_secs(15);

/// Starts a worker there in vain, returns the error and removes the worker.
fn refused(sandbox: &TestSandbox, code: &str) -> Value {
    error_of_start(sandbox, &sandbox.try_start_on("there"), code)
}

/// Returns the error of a start, and removes its worker.
fn error_of_start(sandbox: &TestSandbox, started: &Output, code: &str) -> Value {
    let error = started.error(code);
    if let Some(worker) = error["details"]["workerId"].as_str() {
        // Nothing was started, so nothing has to be proved there.
        let _ = sandbox.run(&["worker", "rm", "--force", worker]).data_of("worker.removed");
    }
    error
}

#[test]
fn a_host_that_does_not_let_us_in_is_named_with_what_the_client_said() {
    let sandbox = TestSandbox::new();
    let Some(host) = SshHost::start(&sandbox) else { return };
    sandbox.init();
    for (key, expected, reason, said) in [
        ("other", "host", "login", "Permission denied"),
        ("user", "other", "hostKey", "Host key verification failed"),
    ] {
        host.configure_client(key, expected);
        let error = refused(&sandbox, "PLACEMENT_UNREACHABLE");
        assert_eq!(error["details"]["reason"], reason, "{error}");
        assert_eq!(error["details"]["placement"], "there", "{error}");
        assert!(error["message"].as_str().unwrap().contains(said), "{error}");
    }
    host.configure_client("user", "host");
    host.place(&sandbox, json!({"host": "127.0.0.1", "args": ["-F", "/dev/null", "-p", "1"]}));
    let error = refused(&sandbox, "PLACEMENT_UNREACHABLE");
    assert_eq!(error["details"]["reason"], "network", "{error}");
    sandbox.finish();
}

#[test]
fn a_host_that_wants_a_password_is_refused_without_a_question() {
    let mut sandbox = TestSandbox::new();
    let Some(mut host) = SshHost::start(&sandbox) else { return };
    host.offer_passwords(&sandbox);
    // The client would run this script for the question, and wait for it.
    let (script, asked) = (sandbox.file("ask-password"), sandbox.file("asked"));
    fs::write(&script, format!("#!/bin/sh\necho \"$1\" >> {}\nexec sleep 600\n", asked.display())).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    sandbox.set_env("SSH_ASKPASS", &script);
    sandbox.set_env("SSH_ASKPASS_REQUIRE", "force");
    // It does so without our options.
    host.configure_client("other", "host");
    let entry = host.entry(&sandbox);
    let options = entry["args"].as_array().unwrap().iter().filter_map(Value::as_str);
    let name = entry["host"].as_str().unwrap();
    let client = sandbox.command("ssh").args(options).args([name, "true"]).spawn();
    let question = wait_until("the question for a password", DEADLINE, || {
        sandbox.processes().into_iter().find(|one| one.name == "sleep")
    });
    let _ = client.kill();
    question.signal(Signal::SIGKILL);
    fs::remove_file(&asked).unwrap();
    // The commands of the daemon and of the CLI do not.
    host.configure_client("user", "host");
    sandbox.init();
    let worker = sandbox.start_on("there");
    host.configure_client("other", "host");
    host.cut();
    wait_until("the refusal of the stream", REPORTED, || {
        let shown = sandbox.show(&worker);
        shown["unreachable"]["reason"]["message"].as_str()?.contains("Permission denied").then_some(())
    });
    let started = sandbox.try_start_on("there");
    let log = sandbox.run(&["logs", &worker]);
    let check = sandbox.run(&["placement", "check", "there"]);
    for output in [&started, &log, &check] {
        let error = output.error("PLACEMENT_UNREACHABLE");
        assert_eq!(error["details"]["reason"], "login", "{error}");
        assert!(output.elapsed < REPORTED, "{output}");
    }
    let _ = error_of_start(&sandbox, &started, "PLACEMENT_UNREACHABLE");
    assert!(!asked.exists(), "{}", fs::read_to_string(&asked).unwrap_or_default());
    host.configure_client("user", "host");
    assert_eq!(sandbox.send(&worker, "hello")["assistantText"], "hello");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn a_host_that_says_nothing_is_given_up() {
    let sandbox = TestSandbox::new();
    let Some(host) = SshHost::start(&sandbox) else { return };
    sandbox.init();
    // The system accepts the connection, and no server reads from it.
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = silent.local_addr().unwrap().port().to_string();
    host.place(&sandbox, json!({"host": "127.0.0.1", "args": ["-F", "/dev/null", "-p", port]}));
    let error = refused(&sandbox, "PLACEMENT_UNREACHABLE");
    assert_eq!(error["details"]["reason"], "network", "{error}");
    sandbox.finish();
}

#[test]
fn what_is_missing_there_is_named() {
    let mut sandbox = TestSandbox::new();
    let Some(host) = SshHost::start(&sandbox) else { return };
    sandbox.init();
    let runtime = sandbox.executable("subagent-runtime");
    host.place(&sandbox, json!({}));
    let error = refused(&sandbox, "PLACEMENT_NOT_PREPARED");
    assert_eq!(
        error["details"]["recommendedAction"]
            .as_str()
            .map(|text| text.contains("subagent placement prepare there")),
        Some(true),
        "{error}"
    );
    host.place(&sandbox, json!({"program": "/bin/false"}));
    let _ = refused(&sandbox, "PLACEMENT_NOT_PREPARED");
    host.place(&sandbox, json!({"program": runtime, "cwd": "~/no-such-folder"}));
    let error = refused(&sandbox, "PLACEMENT_FOLDER_MISSING");
    assert!(error["message"].as_str().unwrap().contains("there/no-such-folder"), "{error}");
    host.place(&sandbox, json!({"program": runtime}));
    let demo = subagent_tests::harness::TestLauncher::new("no-such-agent", Vec::<String>::new());
    sandbox.launcher("demo", demo);
    let error = refused(&sandbox, "BACKEND_LAUNCHER");
    assert!(error["message"].as_str().unwrap().contains("not installed there"), "{error}");
    sandbox.finish();
}

#[test]
fn a_login_shell_may_print_and_sets_the_path() {
    let mut sandbox = TestSandbox::new();
    let Some(host) = SshHost::start(&sandbox) else { return };
    let bin = host.home().join("bin");
    fs::create_dir_all(&bin).unwrap();
    std::os::unix::fs::symlink(sandbox.executable("subagent"), bin.join("agent-there")).unwrap();
    host.profile("echo 'Welcome!'; printf 'no line end'; PATH=$HOME/bin:$PATH\n");
    fs::write(host.home().join(".bashrc"), "echo 'from bashrc'\n").unwrap();
    let demo = subagent_tests::harness::TestLauncher::new("agent-there", ["demo-agent"]);
    sandbox.launcher("demo", demo);
    host.place(&sandbox, json!({"program": sandbox.executable("subagent-runtime"), "cwd": "~/work"}));
    sandbox.init();
    let worker = sandbox.start_on("there");
    assert_eq!(sandbox.send(&worker, "hello")["assistantText"], "hello");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn what_works_only_on_this_machine_is_refused() {
    let sandbox = TestSandbox::new();
    let Some(_host) = SshHost::start(&sandbox) else { return };
    sandbox.init();
    let start = |args: &[&str]| {
        let all = ["worker", "start", "--launcher", "demo", "--on", "there"];
        sandbox.run(&[&all, args].concat())
    };
    let error = start(&["--add-dir", "/tmp"]).error("INVALID_ARGUMENT");
    assert_eq!(error["details"]["field"], "additionalDirectories", "{error}");
    let error = start(&["--sandbox", "shared_ro"]).error("SANDBOX_UNAVAILABLE");
    assert_eq!(error["details"]["missing"], "placement", "{error}");
    let unknown = sandbox.run(&["worker", "start", "--launcher", "demo", "--on", "nowhere"]);
    let error = unknown.error("PLACEMENT_NOT_FOUND");
    assert_eq!(error["details"]["available"], json!(["there"]), "{error}");
    let here = sandbox.run(&["worker", "start", "--launcher", "demo", "--on", "local"]);
    assert!(here.data_of("worker.started").get("placement").is_none());
    sandbox.finish();
}

#[test]
fn a_project_cannot_bring_a_placement() {
    let sandbox = TestSandbox::new();
    let config = fs::read_to_string(sandbox.config_file()).unwrap();
    let args = "placements:\n  evil: {kind: ssh, host: h, cwd: /x, args: [-oProxyCommand=touch /tmp/x]}\n";
    fs::write(sandbox.config_file(), format!("{config}{args}")).unwrap();
    let error = sandbox.run(&["launcher", "list"]).error("CONFIG_PARSE_ERROR");
    assert!(error["message"].as_str().unwrap().contains("placements"), "{error}");
    sandbox.finish();
}
