//! How `subagentd run` supervises the workers.

use super::*;

/// A world with a worker whose agent can be uninstalled, and the agent's program.
fn with_removable_agent() -> (TestSandbox, String, std::path::PathBuf) {
    let mut sandbox = TestSandbox::new();
    let program = sandbox.file("removable-agent");
    let script = format!("#!/bin/sh\nexec {} demo-agent \"$@\"\n", sandbox.executable("subagent"));
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let sessions = sandbox.file_name("sessions");
    sandbox.launcher("removable", TestLauncher::new(program.to_str().unwrap(), ["--state", &sessions]));
    sandbox.init();
    let worker = sandbox.start("removable");
    (sandbox, worker, program)
}

#[track_caller]
fn kill_runtime(sandbox: &TestSandbox, worker: &str) {
    sandbox.kill(&sandbox.runtime(worker));
    wait_until("the daemon to know that the runtime is gone", Duration::from_secs(20), || {
        sandbox.show(worker)["runtimePid"].is_null().then_some(())
    });
}

#[test]
fn once_starts_a_dead_runtime_again_and_reports_it() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "hello");
    let (old, runtime) = (sandbox.show(&worker), sandbox.runtime(&worker));
    subagentd(&sandbox, &["stop"]).text();
    // Dead before any check, so its end is not recorded.
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
    let (sandbox, worker) = TestSandbox::with_worker();
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
    // Asks the background daemon, which starts the runtime and returns the result.
    let document = bare(&subagentd(&sandbox, &["run", "--once", "--json"]));
    assert_shape(&document, &payload("once", &json!([unhealthy()])));
    assert_eq!(summary(&document), [1, 0, 1, 0, 1]);
    let item = &document["workerHealth"]["items"][0];
    assert_eq!(item["error"]["code"], "BACKEND_LAUNCHER", "{item}");
    assert_eq!(document["pid"], sandbox.daemon().pid);
    // The same daemon must not retry so soon.
    let soon = bare(&subagentd(&sandbox, &["run", "--once", "--json"]));
    assert_shape(&soon, &payload("once", &json!([unhealthy()])));
    assert_eq!(summary(&soon), [1, 0, 1, 0, 0]);
    assert_eq!(soon["workerHealth"]["items"][0]["cooldown"], true);
    // The same without a daemon.
    subagentd(&sandbox, &["stop"]).text();
    let alone = bare(&subagentd(&sandbox, &["run", "--once", "--json"]));
    assert_eq!(summary(&alone), [1, 0, 1, 0, 1], "{alone:#}");
    sandbox.finish();
}

#[test]
fn a_foreground_daemon_restarts_at_once_and_its_status_file_says_so() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let daemon = foreground(&sandbox, &["--heartbeat-seconds", "1", "--json"]);
    let old = sandbox.runtime(&worker);
    sandbox.kill(&old);
    let reported = wait_until("a heartbeat that reports the restart", Duration::from_secs(30), || {
        status_file(&sandbox).filter(|status| summary(status)[3] == 1)
    });
    assert_shape(&reported, &payload("foreground", &json!([unhealthy()])));
    assert_eq!(summary(&reported), [1, 0, 1, 1, 0]);
    assert_ne!(reported["workerHealth"]["items"][0]["runtime"]["pid"], old.pid);
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
    let (sandbox, worker) = TestSandbox::with_worker();
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
    let (sandbox, worker) = TestSandbox::with_worker();
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
    let (sandbox, worker) = TestSandbox::with_worker();
    sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    let document = bare(&subagentd(&sandbox, &["run", "--once", "--json"]));
    assert_eq!(summary(&document), [0; 5]);
    sandbox.finish();
}

#[test]
fn once_beside_a_foreground_daemon_asks_it_and_leaves_its_file_alone() {
    let (sandbox, _worker) = TestSandbox::with_worker();
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
fn a_worker_in_a_simulated_turn_is_looked_after_like_any_other() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let simulate = ["send", "--worker-id", &worker, "--text", "x", "--request-approval", "--no-wait"];
    let _ = sandbox.run(&simulate).data_of("turn.accepted");
    kill_runtime(&sandbox, &worker);
    let document = bare(&subagentd(&sandbox, &["run", "--once", "--json"]));
    assert_eq!(summary(&document), [1, 0, 1, 1, 0]);
    let shown = sandbox.show(&worker);
    assert_eq!(shown["state"], "waiting_approval");
    assert!(shown["runtimePid"].is_i64(), "{shown}");
    sandbox.finish();
}

#[test]
fn a_cooldown_longer_than_a_year_is_refused() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let socket = sandbox.daemon_info().unwrap().socket;
    let ask = |seconds: u64| {
        let body = json!({"restartCooldownSeconds": seconds}).to_string();
        request(socket.as_ref(), &["POST /v1/daemon/health HTTP/1.1"], &body).json()
    };
    kill_runtime(&sandbox, &worker);
    assert_eq!(ask(0)["data"]["summary"]["restarted"], 1);
    let error = ask(u64::MAX);
    assert_eq!(error["error"]["code"], "INVALID_ARGUMENT", "{error}");
    assert_eq!(sandbox.send(&worker, "here")["assistantText"], "here");
    sandbox.finish();
}
