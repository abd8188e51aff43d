//! `subagent daemon ...`: starting, stopping, replacing and showing the daemon.

use super::*;

fn facts() -> Value {
    json!({
        "pid": "int", "version": "str", "mode": "str", "generation": "int", "startedAt": "ts",
        "liveWorkers": "int", "stateDir": "str", "socket": "str", "log": "str",
    })
}

/// The facts of a daemon and one more key.
fn facts_and(key: &str, word: Value) -> Value {
    let mut facts = facts();
    facts[key] = word;
    facts
}

#[test]
fn start_makes_sure_that_one_runs() {
    let mut sandbox = TestSandbox::new();
    // An explicit `start` overrides it.
    sandbox.set_env("SUBAGENT_NO_AUTOSTART", "1");
    let first = sandbox.run(&["daemon", "start"]).data_of("daemon.started");
    assert_shape(&first, &facts_and("alreadyRunning", json!(false)));
    let info = sandbox.daemon_info().unwrap();
    assert_eq!((&first["pid"], &first["mode"]), (&json!(info.process.pid), &json!("background")));
    assert_eq!(first["socket"], info.socket.to_str().unwrap());
    assert_eq!(first["stateDir"], sandbox.state_dir().to_str().unwrap());
    assert!(fs::exists(first["log"].as_str().unwrap()).unwrap());
    let again = sandbox.run(&["daemon", "start"]).data_of("daemon.started");
    assert_shape(&again, &facts_and("alreadyRunning", json!(true)));
    assert_eq!((&again["pid"], &again["generation"]), (&first["pid"], &first["generation"]));
    let text = sandbox.command("subagent").args(["daemon", "start"]).run();
    assert!(text.text().starts_with(&format!("alreadyRunning: true\npid: {}\n", first["pid"])), "{text}");
    sandbox.finish();
}

#[test]
fn many_starts_at_once_start_one() {
    let sandbox = TestSandbox::new();
    let starts: Vec<_> = (0..16).map(|_| sandbox.subagent(&["daemon", "start"]).spawn()).collect();
    for start in starts {
        assert_eq!(start.output().data_of("daemon.started")["generation"], 1);
    }
    sandbox.finish();
}

#[test]
fn status_looks_and_starts_nothing() {
    let sandbox = TestSandbox::new();
    let data = sandbox.run(&["daemon", "status"]).data_of("daemon.shown");
    let mut none = facts();
    for (key, word) in none.as_object_mut().unwrap() {
        if key != "stateDir" && key != "log" {
            *word = Value::Null;
        }
    }
    none["running"] = json!(false);
    assert_shape(&data, &none);
    assert_eq!(data["stateDir"], sandbox.state_dir().to_str().unwrap());
    assert!(sandbox.processes().is_empty() && !sandbox.state_dir().exists());
    let text = sandbox.command("subagent").args(["daemon", "status"]).run();
    assert!(text.text().starts_with("running: false\npid:\n"), "{text}");
    sandbox.init();
    let _worker = sandbox.start("demo");
    let data = sandbox.run(&["daemon", "status"]).data_of("daemon.shown");
    assert_shape(&data, &facts_and("running", json!(true)));
    assert_eq!((&data["pid"], &data["liveWorkers"]), (&json!(sandbox.daemon().pid), &json!(1)));
    sandbox.finish();
}

#[test]
fn stop_ends_the_daemon_and_leaves_the_workers_unless_asked() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let (daemon, runtime) = (sandbox.daemon(), sandbox.runtime(&worker));
    let data = sandbox.run(&["daemon", "stop"]).data_of("daemon.stopped");
    assert_eq!(data, json!({"stopped": true, "pid": daemon.pid, "workers": false}));
    assert!(daemon.ends() && runtime.lives());
    let none = json!({"stopped": false, "pid": null, "workers": false, "reason": "NOT_RUNNING"});
    assert_eq!(sandbox.run(&["daemon", "stop"]).data_of("daemon.stopped"), none);
    let text = sandbox.command("subagent").args(["daemon", "stop"]).run();
    assert_eq!(text.text(), "subagentd is not running\n");
    assert_eq!(sandbox.send(&worker, "on")["assistantText"], "on");
    assert_eq!(sandbox.runtime(&worker).pid, runtime.pid);
    let data = sandbox.run(&["daemon", "stop", "--workers"]).data_of("daemon.stopped");
    assert_eq!((&data["stopped"], &data["workers"]), (&json!(true), &json!(true)));
    assert!(!runtime.lives());
    sandbox.finish();
}

#[test]
fn restart_keeps_a_worker_and_its_turn() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let gate = sandbox.gate("turn");
    let touched = sandbox.file_name("touched");
    let prompt = format!("!touch {touched}\n{}\n!say end", gate.directive());
    let accepted = sandbox.send_no_wait(&worker, &prompt);
    wait_until("the turn to be at work", Duration::from_secs(20), || {
        (sandbox.touches("touched") == 1).then_some(())
    });
    let (old, runtime) = (sandbox.daemon(), sandbox.runtime(&worker));
    let data = sandbox.run(&["daemon", "restart"]).data_of("daemon.restarted");
    assert_shape(&data, &facts_and("previousPid", json!("int")));
    assert_eq!((&data["previousPid"], &data["generation"]), (&json!(old.pid), &json!(2)));
    assert!(old.ends() && runtime.lives());
    assert_eq!(data["pid"], sandbox.daemon().pid);
    assert_eq!(sandbox.show(&worker)["state"], "running");
    gate.open();
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    assert_eq!((sandbox.runtime(&worker).pid, sandbox.touches("touched")), (runtime.pid, 1));
    sandbox.finish();
}

#[test]
fn restart_without_a_daemon_starts_one() {
    let sandbox = TestSandbox::new();
    let data = sandbox.run(&["daemon", "restart"]).data_of("daemon.restarted");
    assert_shape(&data, &facts_and("previousPid", Value::Null));
    sandbox.finish();
}

#[test]
fn restarts_at_once_all_end_well() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let restarts: Vec<_> = (0..4).map(|_| sandbox.subagent(&["daemon", "restart"]).spawn()).collect();
    for restart in restarts {
        restart.output().data_of("daemon.restarted");
    }
    assert_eq!(sandbox.send(&worker, "hello")["assistantText"], "hello");
    sandbox.finish();
}

#[test]
fn stops_at_once_all_end_well() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let daemon = sandbox.daemon();
    let stops: Vec<_> = (0..8).map(|_| sandbox.subagent(&["daemon", "stop"]).spawn()).collect();
    let stopped: Vec<Value> =
        stops.into_iter().map(|stop| stop.output().data_of("daemon.stopped")["stopped"].clone()).collect();
    assert!(stopped.contains(&json!(true)), "{stopped:?}");
    assert!(daemon.ends() && sandbox.runtime(&worker).lives());
    sandbox.finish();
}

#[test]
fn a_daemon_in_the_foreground_is_not_restarted_behind_its_keepers_back() {
    let sandbox = TestSandbox::new();
    let daemon = foreground(&sandbox, &["--json"]);
    let error = sandbox.run(&["daemon", "restart"]).error("DAEMON_ALREADY_RUNNING");
    assert_eq!(error["details"]["pid"], daemon.pid());
    assert_eq!(error["details"]["mode"], "foreground");
    assert_eq!(sandbox.run(&["daemon", "status"]).data_of("daemon.shown")["mode"], "foreground");
    let started = sandbox.run(&["daemon", "start"]).data_of("daemon.started");
    assert_eq!((&started["alreadyRunning"], &started["mode"]), (&json!(true), &json!("foreground")));
    // Its end may be requested.
    let stopped = sandbox.run(&["daemon", "stop"]).data_of("daemon.stopped");
    assert_eq!(stopped["pid"], daemon.pid());
    assert_eq!(daemon.output().status.code(), Some(0));
    sandbox.finish();
}

#[test]
fn logs_are_read_with_and_without_a_daemon() {
    let sandbox = TestSandbox::new();
    let path = sandbox.state_dir().join("logs/subagentd.log");
    let nothing = json!({"path": path, "text": "", "truncated": false});
    assert_eq!(sandbox.run(&["daemon", "logs"]).data_of("daemon.logs"), nothing);
    assert!(sandbox.processes().is_empty());
    sandbox.init();
    sandbox.run(&["daemon", "stop"]).data_of("daemon.stopped");
    let all = sandbox.run(&["daemon", "logs"]).data_of("daemon.logs");
    assert_eq!((&all["path"], &all["truncated"]), (&json!(path), &json!(false)));
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(all["text"], text.as_str());
    assert!(text.contains(" ready ") && text.lines().count() >= 3, "{text}");
    let last = text.lines().last().unwrap();
    let one = sandbox.run(&["daemon", "logs", "--lines", "1"]).data_of("daemon.logs");
    assert_eq!((&one["text"], &one["truncated"]), (&json!(format!("{last}\n")), &json!(true)));
    let bytes = sandbox.run(&["daemon", "logs", "--tail-bytes", "5"]).data_of("daemon.logs");
    assert_eq!((&bytes["text"], &bytes["truncated"]), (&json!(text[text.len() - 5..]), &json!(true)));
    let shown = sandbox.command("subagent").args(["daemon", "logs", "--lines", "1"]).run();
    assert_eq!(shown.text(), format!("{last}\n"));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let error = sandbox.run(&["daemon", "logs"]).error("STORAGE_ERROR");
    assert_eq!(error["details"]["path"], json!(path));
    fs::remove_dir(&path).unwrap();
    sandbox.finish();
}

#[test]
fn a_daemon_that_hangs_is_named_within_a_deadline() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let daemon = sandbox.daemon();
    daemon.signal(Signal::SIGSTOP);
    let commands = [["daemon", "status"], ["daemon", "start"], ["daemon", "stop"], ["daemon", "restart"]];
    let asked: Vec<_> = commands.iter().map(|args| sandbox.subagent(args).spawn()).collect();
    let asked = asked.into_iter().chain([sandbox.command("subagentd").args(["status", "--json"]).spawn()]);
    for command in asked {
        let output = command.output();
        assert!(output.elapsed < Duration::from_secs(25), "{output}");
        let error = output.error("DAEMON_UNRESPONSIVE");
        assert_eq!((&error["details"]["pid"], &error["retryable"]), (&json!(daemon.pid), &json!(true)));
        assert!(error["message"].as_str().unwrap().ends_with(": it is stopped by a signal"), "{error}");
        let advice = error["details"]["recommendedAction"].as_str().unwrap();
        assert!(advice.contains(&format!("`kill -CONT {}`", daemon.pid)), "{advice}");
    }
    daemon.signal(Signal::SIGCONT);
    assert_eq!(sandbox.run(&["daemon", "status"]).data_of("daemon.shown")["running"], true);
    sandbox.finish();
}

#[test]
fn cwd_says_which_workspace() {
    let mut sandbox = TestSandbox::new();
    sandbox.remove_env("SUBAGENT_STATE_DIR");
    let elsewhere = sandbox.file("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let workspace = sandbox.workspace();
    let run = |args: &[&str]| {
        sandbox.subagent(args).args(["--cwd", workspace.to_str().unwrap()]).cwd(&elsewhere).run()
    };
    let started = run(&["daemon", "start"]).data_of("daemon.started");
    assert_eq!(started["stateDir"], sandbox.state_dir().to_str().unwrap());
    for args in
        [["daemon", "status"].as_slice(), &["daemon", "logs"], &["daemon", "restart"], &["daemon", "stop"]]
    {
        run(args).data();
    }
    let nowhere = sandbox.subagent(&["daemon", "status"]).cwd(&elsewhere).run();
    nowhere.error("WORKSPACE_ROOT_NOT_FOUND");
    sandbox.finish();
}

#[test]
fn an_agent_may_look_and_not_touch() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let subagent = sandbox.executable("subagent");
    for (command, expected) in [
        ("status", "\"running\": true"),
        ("start", "\"alreadyRunning\": true"),
        ("stop", "FORBIDDEN_FROM_WORKER"),
        ("restart", "FORBIDDEN_FROM_WORKER"),
    ] {
        let waited = sandbox.send(&worker, &format!("!shell {subagent} daemon {command} --json"));
        let said = waited["assistantText"].as_str().unwrap();
        assert!(said.contains(expected), "{command}: {said}");
    }
    assert_eq!(sandbox.daemon_info().unwrap().generation, 1);
    sandbox.finish();
}
