//! `subagentd`: what it prints, what it writes, and how it looks after the workers.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use subagent_tests::harness::{Launcher, Output, Running, Sandbox, assert_shape, wait_until};

const STATUS_FILE: &str = "subagentd-status.json";

/// `subagentd ARGS`.
#[track_caller]
fn subagentd(sandbox: &Sandbox, args: &[&str]) -> Output {
    sandbox.command("subagentd").args(args).run()
}

/// The bare document of a success.
#[track_caller]
fn bare(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{output}");
    output.document()
}

/// A daemon in the foreground, once it is ready.
#[track_caller]
fn foreground(sandbox: &Sandbox, args: &[&str]) -> Running {
    let running =
        sandbox.command("subagentd").args(["run"]).args(args).deadline(Duration::from_secs(120)).spawn();
    running.wait_line("anything", |_| Some(()));
    running
}

#[track_caller]
fn end(daemon: Running, signal: Signal) -> String {
    daemon.signal(signal);
    let output = daemon.output();
    assert_eq!(output.status.code(), Some(0), "{signal} is a clean stop: {output}");
    output.stdout
}

fn status_file(sandbox: &Sandbox) -> Option<Value> {
    serde_json::from_slice(&fs::read(sandbox.state_dir().join(STATUS_FILE)).ok()?).ok()
}

/// The pattern of what `run` prints and writes. `items` are the workers.
fn payload(mode: &str, items: &Value) -> Value {
    json!({
        "schemaVersion": "=v1", "pid": "int", "stateDir": "str", "dbPath": "str", "startedAt": "ts",
        "lastHeartbeatAt": "ts", "mode": format!("={mode}"), "monitorWorkers": "bool",
        "workerHealth": {
            "checkedAt": "ts",
            "summary": {
                "checked": "int", "healthy": "int", "unhealthy": "int", "restarted": "int", "restartFailed": "int",
            },
            "items": items,
        },
    })
}

fn healthy() -> Value {
    json!({"workerId": "w", "state": "str", "healthy": true})
}

fn unhealthy() -> Value {
    json!({
        "workerId": "w", "state": "str", "healthy": false, "restarted": "bool",
        "reason": {"pidAlive": "bool?", "socketExists": "bool", "pingError": "any"},
        "cooldown!": true,
        "error!": {"code": "str", "message": "str", "retryable": "bool", "details!": "object"},
        "runtime!": {"pid": "int", "socketPath": "str", "logPath": "str"},
    })
}

fn summary(document: &Value) -> [i64; 5] {
    let summary = &document["workerHealth"]["summary"];
    ["checked", "healthy", "unhealthy", "restarted", "restartFailed"]
        .map(|key| summary[key].as_i64().unwrap())
}

/// A world with a worker whose agent can be uninstalled, and the agent's program.
fn with_removable_agent() -> (Sandbox, String, std::path::PathBuf) {
    let mut sandbox = Sandbox::new();
    let program = sandbox.file("removable-agent");
    let script = format!("#!/bin/sh\nexec {} demo-agent \"$@\"\n", sandbox.executable("subagent"));
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let sessions = sandbox.file_name("sessions");
    sandbox.launcher("removable", Launcher::new(program.to_str().unwrap(), ["--state", &sessions]));
    sandbox.init();
    let worker = sandbox.start("removable");
    (sandbox, worker, program)
}

#[track_caller]
fn kill_runtime(sandbox: &Sandbox, worker: &str) {
    sandbox.kill(&sandbox.runtime(worker));
    wait_until("the daemon to know that the runtime is gone", Duration::from_secs(20), || {
        sandbox.show(worker)["runtimePid"].is_null().then_some(())
    });
}

#[test]
fn once_without_workers_prints_the_payload_writes_it_and_ends() {
    let sandbox = Sandbox::new();
    let output = subagentd(&sandbox, &["run", "--once", "--json"]);
    let printed = bare(&output);
    assert_shape(&printed, &payload("once", &json!([])));
    assert_eq!(printed["workerHealth"]["items"], json!([]));
    assert_eq!(printed["stateDir"], sandbox.state_dir().to_str().unwrap());
    assert_eq!(printed["dbPath"], sandbox.state_dir().join("state.db").to_str().unwrap());
    assert_eq!(printed["monitorWorkers"], true);
    assert_eq!(status_file(&sandbox).unwrap(), printed, "what is printed is what is written");
    assert!(sandbox.processes().is_empty());
    let text = subagentd(&sandbox, &["run", "--once", "--no-monitor-workers"]);
    assert_eq!(
        text.text(),
        format!("subagentd initialized: {}\n", sandbox.state_dir().join("state.db").display())
    );
    assert_eq!(status_file(&sandbox).unwrap()["monitorWorkers"], false);
    sandbox.finish();
}

#[test]
fn the_status_file_is_indented_private_and_replaced_as_a_whole() {
    let sandbox = Sandbox::new();
    let daemon = foreground(&sandbox, &["--heartbeat-seconds", "1", "--json"]);
    let path = sandbox.state_dir().join(STATUS_FILE);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("{\n  \"dbPath\": "), "{text}");
    assert!(text.ends_with("}\n"), "{text}");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    // A reader never sees a part of it: whoever has it open keeps the old one.
    let opened = fs::File::open(&path).unwrap();
    let first = status_file(&sandbox).unwrap();
    wait_until("a heartbeat", Duration::from_secs(20), || {
        let now = status_file(&sandbox).expect("the file is whole at every moment");
        (now["lastHeartbeatAt"] != first["lastHeartbeatAt"]).then_some(())
    });
    assert_eq!(std::io::read_to_string(&opened).unwrap(), text);
    end(daemon, Signal::SIGTERM);
    sandbox.finish();
}

#[test]
fn in_the_foreground_it_prints_once_beats_and_writes_its_end() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let (sandbox, _worker) = Sandbox::with_worker();
        let daemon = foreground(&sandbox, &["--heartbeat-seconds", "1", "--json"]);
        let printed: Value = serde_json::from_str(daemon.stdout().trim_end()).unwrap();
        assert_shape(&printed, &payload("foreground", &json!([healthy()])));
        assert_eq!(printed["pid"], daemon.pid());
        assert_eq!(summary(&printed), [1, 1, 0, 0, 0]);
        let mut with_end = payload("foreground", &json!([healthy()]));
        assert_shape(&status_file(&sandbox).unwrap(), &with_end);
        wait_until("a heartbeat", Duration::from_secs(20), || {
            let now = status_file(&sandbox)?;
            (now["lastHeartbeatAt"] != printed["lastHeartbeatAt"]).then_some(())
        });
        let said = end(daemon, signal);
        assert_eq!(said.lines().count(), 1, "{said}");
        with_end["stoppedAt"] = json!("ts");
        assert_shape(&status_file(&sandbox).unwrap(), &with_end);
        sandbox.finish();
    }
}

#[test]
fn in_the_foreground_it_says_its_pid_to_people() {
    let sandbox = Sandbox::new();
    let daemon = foreground(&sandbox, &[]);
    assert_eq!(daemon.stdout(), format!("subagentd running (pid={})\n", daemon.pid()));
    end(daemon, Signal::SIGINT);
    sandbox.finish();
}

#[test]
fn once_starts_a_dead_runtime_again_and_reports_it() {
    let (sandbox, worker) = Sandbox::with_worker();
    let _ = sandbox.send(&worker, "hello");
    let (old, runtime) = (sandbox.show(&worker), sandbox.runtime(&worker));
    subagentd(&sandbox, &["stop"]).text();
    // Dead before anybody looks: nobody has noted its end.
    sandbox.kill(&runtime);
    let document = bare(&subagentd(&sandbox, &["run", "--once", "--json"]));
    assert_shape(&document, &payload("once", &json!([unhealthy()])));
    assert_eq!(summary(&document), [1, 0, 1, 1, 0]);
    let item = &document["workerHealth"]["items"][0];
    assert_eq!((&item["workerId"], &item["restarted"]), (&json!(worker), &json!(true)));
    assert_eq!(item["reason"]["pidAlive"], json!(false));
    assert!(item.get("error").is_none() && item.get("cooldown").is_none(), "{item}");
    let new = sandbox.show(&worker);
    assert_eq!(item["runtime"]["pid"], new["runtimePid"]);
    assert_eq!(item["runtime"]["socketPath"], new["runtimeSocket"]);
    assert!(fs::exists(item["runtime"]["logPath"].as_str().unwrap()).unwrap());
    assert_ne!(new["runtimePid"], old["runtimePid"]);
    assert_eq!(new["sessionId"], old["sessionId"]);
    let again = bare(&subagentd(&sandbox, &["run", "--once", "--json"]));
    assert_shape(&again, &payload("once", &json!([healthy()])));
    assert_eq!(summary(&again), [1, 1, 0, 0, 0]);
    sandbox.finish();
}

#[test]
fn without_monitoring_a_dead_runtime_is_only_reported() {
    let (sandbox, worker) = Sandbox::with_worker();
    kill_runtime(&sandbox, &worker);
    let document = bare(&subagentd(&sandbox, &["run", "--once", "--no-monitor-workers", "--json"]));
    assert_shape(&document, &payload("once", &json!([unhealthy()])));
    assert_eq!(summary(&document), [1, 0, 1, 0, 0]);
    let item = &document["workerHealth"]["items"][0];
    assert_eq!(item["reason"]["socketExists"], false);
    assert_eq!(item["reason"]["pingError"]["code"], "BACKEND_SOCKET_UNREACHABLE");
    assert!(item.get("error").is_none() && item.get("runtime").is_none(), "{item}");
    assert!(sandbox.show(&worker)["runtimePid"].is_null());
    sandbox.finish();
}

#[test]
fn a_dead_runtime_with_a_missing_launcher_is_one_failed_restart() {
    let (sandbox, worker, program) = with_removable_agent();
    fs::remove_file(program).unwrap();
    kill_runtime(&sandbox, &worker);
    // The daemon that runs in the background is asked: it starts the runtime, and says what came of it.
    let document = bare(&subagentd(&sandbox, &["run", "--once", "--json"]));
    assert_shape(&document, &payload("once", &json!([unhealthy()])));
    assert_eq!(summary(&document), [1, 0, 1, 0, 1]);
    let item = &document["workerHealth"]["items"][0];
    assert_eq!(item["error"]["code"], "BACKEND_LAUNCHER", "{item}");
    assert_eq!(document["pid"], sandbox.daemon().pid);
    // The same daemon is not to try again so soon.
    let soon = bare(&subagentd(&sandbox, &["run", "--once", "--json"]));
    assert_shape(&soon, &payload("once", &json!([unhealthy()])));
    assert_eq!(summary(&soon), [1, 0, 1, 0, 0]);
    assert_eq!(soon["workerHealth"]["items"][0]["cooldown"], true);
    // And without a daemon the same.
    subagentd(&sandbox, &["stop"]).text();
    let alone = bare(&subagentd(&sandbox, &["run", "--once", "--json"]));
    assert_eq!(summary(&alone), [1, 0, 1, 0, 1], "{alone:#}");
    sandbox.finish();
}

#[test]
fn a_foreground_daemon_restarts_at_once_and_its_status_file_says_so() {
    let (sandbox, worker) = Sandbox::with_worker();
    let daemon = foreground(&sandbox, &["--heartbeat-seconds", "1", "--json"]);
    let old = sandbox.runtime(&worker);
    sandbox.kill(&old);
    let told = wait_until("a heartbeat that tells of the restart", Duration::from_secs(30), || {
        status_file(&sandbox).filter(|status| summary(status)[3] == 1)
    });
    assert_shape(&told, &payload("foreground", &json!([unhealthy()])));
    assert_eq!(summary(&told), [1, 0, 1, 1, 0]);
    assert_ne!(told["workerHealth"]["items"][0]["runtime"]["pid"], old.pid);
    wait_until("a heartbeat after it", Duration::from_secs(30), || {
        status_file(&sandbox).filter(|status| summary(status) == [1, 1, 0, 0, 0])
    });
    end(daemon, Signal::SIGTERM);
    sandbox.finish();
}

#[test]
fn a_foreground_daemon_tries_again_after_the_cooldown() {
    let (sandbox, worker, program) = with_removable_agent();
    let script = fs::read(&program).unwrap();
    fs::remove_file(&program).unwrap();
    let args = ["--heartbeat-seconds", "1", "--restart-cooldown-seconds", "1", "--json"];
    let daemon = foreground(&sandbox, &args);
    sandbox.kill(&sandbox.runtime(&worker));
    wait_until("a failed restart", Duration::from_secs(30), || {
        status_file(&sandbox).filter(|status| summary(status)[4] == 1)
    });
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    wait_until("a restart", Duration::from_secs(30), || {
        status_file(&sandbox).filter(|status| summary(status)[1] == 1)
    });
    assert_eq!(sandbox.send(&worker, "back")["assistantText"], "back");
    end(daemon, Signal::SIGTERM);
    sandbox.finish();
}

#[test]
fn a_restart_of_a_runtime_ends_the_open_turn_and_repeats_no_prompt() {
    let (sandbox, worker) = Sandbox::with_worker();
    let daemon = foreground(&sandbox, &["--heartbeat-seconds", "1", "--json"]);
    let gate = sandbox.gate("turn");
    let prompt = format!("!touch {}\n{}", sandbox.file_name("touched"), gate.directive());
    let accepted = sandbox.send_no_wait(&worker, &prompt);
    wait_until("the turn to be at work", Duration::from_secs(20), || {
        (sandbox.touches("touched") == 1).then_some(())
    });
    sandbox.kill(&sandbox.runtime(&worker));
    let ended = sandbox.turn_end(&accepted);
    assert_eq!(
        (&ended["type"], &ended["data"]["error"]["code"]),
        (&json!("turn.failed"), &json!("RUNTIME_LOST"))
    );
    gate.open();
    assert_eq!(sandbox.send(&worker, "next")["assistantText"], "next");
    assert_eq!(sandbox.touches("touched"), 1);
    end(daemon, Signal::SIGTERM);
    sandbox.finish();
}

#[test]
fn a_runtime_that_hangs_is_reported_and_left_alone() {
    let (sandbox, worker) = Sandbox::with_worker();
    let runtime = sandbox.runtime(&worker);
    runtime.signal(Signal::SIGSTOP);
    let document = bare(&subagentd(&sandbox, &["run", "--once", "--json"]));
    assert_shape(&document, &payload("once", &json!([unhealthy()])));
    assert_eq!(summary(&document), [1, 0, 1, 0, 0]);
    let item = &document["workerHealth"]["items"][0];
    assert_eq!((&item["reason"]["pidAlive"], &item["reason"]["socketExists"]), (&json!(true), &json!(true)));
    assert_eq!(item["reason"]["pingError"]["code"], "BACKEND_TIMEOUT");
    runtime.signal(Signal::SIGCONT);
    assert_eq!(sandbox.send(&worker, "hello")["assistantText"], "hello");
    assert_eq!(sandbox.runtime(&worker).pid, runtime.pid);
    sandbox.finish();
}

#[test]
fn stopped_workers_are_not_looked_at() {
    let (sandbox, worker) = Sandbox::with_worker();
    sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    let document = bare(&subagentd(&sandbox, &["run", "--once", "--json"]));
    assert_eq!(summary(&document), [0; 5]);
    sandbox.finish();
}

#[test]
fn once_beside_a_foreground_daemon_asks_it_and_leaves_its_file_alone() {
    let (sandbox, _worker) = Sandbox::with_worker();
    let daemon = foreground(&sandbox, &["--heartbeat-seconds", "3600", "--json"]);
    let before = status_file(&sandbox);
    let document = bare(&subagentd(&sandbox, &["run", "--once", "--json"]));
    assert_shape(&document, &payload("once", &json!([healthy()])));
    assert_eq!(document["pid"], daemon.pid());
    assert_eq!(status_file(&sandbox), before);
    end(daemon, Signal::SIGTERM);
    sandbox.finish();
}

#[test]
fn status_of_nothing_is_exit_code_1_and_no_envelope() {
    let sandbox = Sandbox::new();
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
    let sandbox = Sandbox::new();
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
    let sandbox = Sandbox::new();
    sandbox.init();
    let status = bare(&subagentd(&sandbox, &["status", "--json"]));
    assert_eq!((&status["running"], &status["mode"]), (&json!(true), &json!("background")));
    assert_eq!(status["pid"], sandbox.daemon().pid);
    assert!(!sandbox.state_dir().join(STATUS_FILE).exists(), "only `run` writes a heartbeat");
    sandbox.finish();
}

#[test]
fn a_pid_that_is_somebody_elses_now_is_not_taken_for_a_daemon() {
    let sandbox = Sandbox::new();
    bare(&subagentd(&sandbox, &["run", "--once", "--json"]));
    let mut status = status_file(&sandbox).unwrap();
    status["pid"] = std::process::id().into();
    fs::write(sandbox.state_dir().join(STATUS_FILE), status.to_string()).unwrap();
    let told = bare(&subagentd(&sandbox, &["status", "--json"]));
    assert_eq!((&told["running"], &told["pid"]), (&json!(false), &json!(std::process::id())));
    sandbox.finish();
}

#[test]
fn a_damaged_status_file_is_none() {
    let sandbox = Sandbox::new();
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
    // What cannot be written is logged; the look itself is done.
    assert_shape(&bare(&subagentd(&sandbox, &["run", "--once", "--json"])), &payload("once", &json!([])));
    fs::remove_dir(&path).unwrap();
    sandbox.finish();
}

#[test]
fn errors_are_envelopes() {
    let sandbox = Sandbox::new();
    let daemon = foreground(&sandbox, &["--json"]);
    let error = subagentd(&sandbox, &["run", "--json"]).error("DAEMON_ALREADY_RUNNING");
    assert_eq!(error["details"]["pid"], daemon.pid());
    let text = subagentd(&sandbox, &["run"]);
    assert_eq!(text.status.code(), Some(1), "{text}");
    assert!(text.stderr.starts_with("DAEMON_ALREADY_RUNNING: "), "{text}");
    assert!(text.stderr.contains("\nTry: subagentd stop"), "{text}");
    assert_eq!(text.stdout, "");
    end(daemon, Signal::SIGTERM);
    let nowhere = sandbox.file("nowhere");
    fs::create_dir(&nowhere).unwrap();
    for args in [["status", "--json"].as_slice(), &["run", "--once", "--json"], &["stop", "--json"]] {
        let output = sandbox.command("subagentd").args(args).cwd(&nowhere).run();
        output.error("WORKSPACE_ROOT_NOT_FOUND");
    }
    sandbox.finish();
}

#[test]
fn numbers_below_their_least_are_wrong_usage() {
    let sandbox = Sandbox::new();
    for args in [
        ["run", "--heartbeat-seconds", "0"],
        ["run", "--restart-cooldown-seconds", "0"],
        ["run", "--heartbeat-seconds", "x"],
    ] {
        let output = subagentd(&sandbox, &args);
        assert_eq!((output.status.code(), output.stdout.as_str()), (Some(2), ""), "{output}");
        assert!(output.stderr.contains(args[1]), "{output}");
    }
    sandbox.finish();
}
