//! The daemon from outside: its start and end, its permitted clients, and its guarantees to them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, request, wait_until};

#[test]
fn thirty_two_first_commands_start_one_daemon() {
    let sandbox = TestSandbox::new();
    let commands: Vec<_> = (0..32).map(|_| sandbox.subagent(&["daemon", "start"]).spawn()).collect();
    for command in commands {
        assert_eq!(command.output().data_of("daemon.started")["liveWorkers"], 0);
    }
    assert_eq!(sandbox.daemon_info().unwrap().generation, 1, "a second daemon had been started");
    let daemons: Vec<_> =
        sandbox.processes().into_iter().filter(|process| process.name == "subagentd").collect();
    assert_eq!(daemons.len(), 1, "{daemons:?}");
    sandbox.finish();
}

#[test]
fn autostart_can_be_refused() {
    let mut sandbox = TestSandbox::new();
    sandbox.set_env("SUBAGENT_NO_AUTOSTART", "1");
    let error = sandbox.run(&["controller", "init"]).error("DAEMON_NOT_RUNNING");
    assert!(error["message"].as_str().unwrap().contains("SUBAGENT_NO_AUTOSTART"), "{error}");
    assert!(sandbox.processes().is_empty());
    assert_eq!(error["details"]["recommendedCommand"], "subagent daemon start");
    let _ = sandbox.run(&["daemon", "start"]).data_of("daemon.started");
    sandbox.init();
    sandbox.finish();
}

#[test]
fn local_commands_start_no_daemon() {
    let sandbox = TestSandbox::new();
    let list = sandbox.run(&["launcher", "list"]).data_of("launcher.listed");
    assert_eq!(list["items"][0]["name"], "demo");
    assert_eq!(sandbox.run(&["launcher", "probe", "demo"]).data_of("launcher.probed")["available"], true);
    assert!(sandbox.processes().is_empty());
    assert!(!sandbox.state_dir().exists());
    sandbox.finish();
}

#[test]
fn a_read_where_nothing_was_done_makes_no_state_and_starts_no_daemon() {
    let sandbox = TestSandbox::new();
    let list = sandbox.run(&["worker", "list", "--controller-id", "ctl_0123456789"]).data_of("worker.listed");
    assert_eq!(list, json!({"items": [], "count": 0, "controllerId": "ctl_0123456789"}));
    let recovered = sandbox.run(&["controller", "recover"]).data_of("controller.recovered");
    assert_eq!(recovered, json!({"items": [], "count": 0, "workspaceFilter": null}));
    let status = sandbox.subagent(&["controller", "status"]).env("SUBAGENT_CTL_ID", "ctl_0123456789");
    let status = status.env("SUBAGENT_CTL_EPOCH", "3").env("SUBAGENT_CTL_TOKEN", "secret").run();
    let workspace = sandbox.workspace();
    let mut unowned = json!({
        "controllerId": null, "workspaceKey": workspace, "state": "dormant", "activeOwner": null,
        "envHandle": {"present": true, "valid": false, "controllerId": "ctl_0123456789", "epoch": 3},
    });
    assert_eq!(status.data_of("controller.status"), unowned);
    let unknown = ["controller", "status", "--controller-id", "ctl_0123456789"];
    assert_eq!(
        sandbox.run(&unknown).error("CONTROLLER_NOT_FOUND")["details"],
        json!({"controllerId": "ctl_0123456789"})
    );
    let id = "w_0123456789";
    for args in [
        &["worker", "show", id][..],
        &["worker", "inspect", id],
        &["worker", "logs", id],
        &["watch", "--worker-id", id],
        &["wait", "--worker-id", id],
    ] {
        let details = sandbox.run(args).error("WORKER_NOT_FOUND")["details"].clone();
        assert_eq!(details["workerId"], id);
        assert_eq!(details["stateDbPath"], json!(sandbox.state_dir().join("state.db")));
    }
    assert!(!sandbox.state_dir().exists() && sandbox.processes().is_empty());
    // The daemon reports the same.
    let _ = sandbox.run(&["daemon", "start"]).data_of("daemon.started");
    unowned["envHandle"] = json!({"present": false, "valid": false});
    assert_eq!(sandbox.run(&["controller", "status"]).data_of("controller.status"), unowned);
    let list = sandbox.run(&["worker", "list"]).data_of("worker.listed");
    assert_eq!(list, json!({"items": [], "count": 0, "controllerId": null}));
    let recovered = sandbox.run(&["controller", "recover"]).data_of("controller.recovered");
    assert_eq!(recovered, json!({"items": [], "count": 0, "workspaceFilter": null}));
    sandbox.finish();
}

#[test]
fn files_of_a_dead_daemon_do_not_disturb_the_next_one() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let old = sandbox.daemon_info().unwrap();
    sandbox.kill_daemon();
    assert!(old.socket.exists() && sandbox.daemon_info().is_some(), "socket and daemon.json are stale now");
    assert_eq!(sandbox.send(&worker, "hello")["assistantText"], "hello");
    let new = sandbox.daemon_info().unwrap();
    assert!(new.generation > old.generation);
    assert_ne!(new.process, old.process);
    sandbox.kill_daemon();
    fs::write(sandbox.state_dir().join("daemon.json"), "{\"half\": ").unwrap();
    assert_eq!(
        sandbox.send(&worker, "still")["assistantText"],
        "still",
        "a damaged daemon.json must count as missing"
    );
    sandbox.finish();
}

#[test]
fn a_daemon_that_lives_says_again_where_it_is() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let path = sandbox.state_dir().join("daemon.json");
    let before = sandbox.daemon_info().unwrap();
    fs::remove_file(&path).unwrap();
    assert_eq!(sandbox.send(&worker, "removed")["assistantText"], "removed");
    fs::write(&path, "{\"half\": ").unwrap();
    assert_eq!(sandbox.send(&worker, "damaged")["assistantText"], "damaged");
    assert_eq!(sandbox.daemon_info().unwrap(), before, "the same daemon, reachable again");
    sandbox.finish();
}

#[test]
fn the_daemon_leaves_when_nothing_is_left_to_do() {
    let mut sandbox = TestSandbox::new();
    sandbox.set_env("SUBAGENT_IDLE_EXIT_SECONDS", "1");
    sandbox.init();
    let daemon = sandbox.daemon();
    wait_until("the idle daemon to be gone", Duration::from_secs(10), || (!daemon.lives()).then_some(()));
    assert!(sandbox.daemon_info().is_none(), "an orderly end removes daemon.json");
    let worker = sandbox.start("demo");
    let daemon = sandbox.daemon();
    let gate = sandbox.gate("turn");
    let accepted = sandbox.send_no_wait(&worker, &gate.directive());
    // A live worker keeps it running: the turn lasts longer than the idle time.
    let error = ["wait", "--worker-id", &worker, "--timeout-seconds", "2", "--until", "turn.failed"];
    sandbox.run(&error).error("WAIT_TIMEOUT");
    assert!(daemon.lives());
    gate.open();
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    sandbox.finish();
}

#[test]
fn a_stop_leaves_the_workers_and_a_stop_with_workers_does_not() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let gate = sandbox.gate("turn");
    let accepted = sandbox.send_no_wait(&worker, &format!("{}\nend", gate.directive()));
    let (daemon, runtime) = (sandbox.daemon(), sandbox.runtime(&worker));
    let stop = sandbox.command("subagentd").args(["stop", "--json"]).run();
    assert_eq!(stop.status.code(), Some(0), "{stop}");
    assert!(daemon.ends(), "stop returns when the daemon is gone");
    assert!(runtime.lives());
    gate.open();
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    assert_eq!(sandbox.runtime(&worker).pid, runtime.pid);
    sandbox.daemon().signal(Signal::SIGTERM);
    let stop = sandbox.command("subagentd").args(["status", "--json"]).run();
    assert!(matches!(stop.status.code(), Some(0 | 1)), "{stop}");
    assert_eq!(sandbox.send(&worker, "on")["assistantText"], "on");
    let stop = sandbox.command("subagentd").args(["stop", "--workers", "--json"]).run();
    assert_eq!(stop.status.code(), Some(0), "{stop}");
    assert!(!runtime.lives(), "stop --workers returns when the workers are gone");
    sandbox.finish();
}

#[test]
fn a_foreground_daemon_takes_over_from_an_autostarted_one_and_from_no_other() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let background = sandbox.daemon();
    let foreground =
        sandbox.command("subagentd").args(["run", "--json"]).deadline(Duration::from_secs(90)).spawn();
    wait_until("the foreground daemon", Duration::from_secs(20), || {
        sandbox.daemon_info().filter(|info| info.mode == "foreground")
    });
    assert!(!background.lives());
    assert_eq!(sandbox.send(&worker, "hello")["assistantText"], "hello");
    let second = sandbox.command("subagentd").args(["run", "--json"]).run();
    let refused = second.error("DAEMON_ALREADY_RUNNING");
    assert_eq!(refused["details"]["recommendedCommand"], "subagentd stop");
    // A stopped process would not notice that either.
    foreground.signal(Signal::SIGSTOP);
    let third = sandbox.command("subagentd").args(["run", "--json"]).run().error("DAEMON_ALREADY_RUNNING");
    assert!(!third["details"].as_object().unwrap().contains_key("recommendedCommand"), "{third}");
    let advice = third["details"]["recommendedAction"].as_str().unwrap().to_owned();
    for signal in ["CONT", "KILL"] {
        assert!(advice.contains(&format!("`kill -{signal} {}`", foreground.pid())), "{third}");
    }
    foreground.signal(Signal::SIGCONT);
    let status = sandbox.command("subagentd").args(["status", "--json"]).run();
    assert_eq!(status.status.code(), Some(0), "{status}");
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!((&status["running"], &status["mode"]), (&json!(true), &json!("foreground")));
    foreground.signal(Signal::SIGTERM);
    assert_eq!(foreground.output().status.code(), Some(0), "SIGTERM is a clean stop");
    sandbox.finish();
}

#[test]
fn a_client_of_another_protocol_is_refused_before_anything_is_done() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let socket = sandbox.daemon_info().unwrap().socket;
    let path = format!("POST /v1/workers/{worker}/turns HTTP/1.1");
    let body = json!({"text": "not to be run"}).to_string();
    let json_type = "Content-Type: application/json";
    for protocol in ["subagent-protocol: 0", "subagent-protocol: 999999", "subagent-protocol: x"] {
        let response = request(&socket, &[&path, json_type, protocol], &body);
        assert!(response.status >= 400, "{protocol}: {response:?}");
        assert!(response.head.contains("subagent-protocol: 1"), "{response:?}");
        assert_eq!(response.json()["ok"], false);
    }
    let origin = ["GET /v1/daemon HTTP/1.1", "subagent-protocol: 1", "Origin: http://localhost:3000"];
    let response = request(&socket, &origin, "");
    assert_eq!((response.status, &response.json()["error"]["code"]), (403, &json!("FORBIDDEN_ORIGIN")));
    let good = request(&socket, &["GET /v1/daemon HTTP/1.1", "subagent-protocol: 1"], "");
    assert_eq!(good.json()["data"]["process"]["pid"], sandbox.daemon().pid);
    assert_eq!(sandbox.show(&worker)["state"], "idle");
    sandbox.finish();
}

#[test]
fn requests_that_are_no_good_are_answered_with_an_envelope() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let socket = sandbox.daemon_info().unwrap().socket;
    let turns = format!("POST /v1/workers/{worker}/turns HTTP/1.1");
    let (protocol, json_type) = ("subagent-protocol: 1", "Content-Type: application/json");
    for (head, body) in [
        (turns.as_str(), "{\"text\": "),
        (turns.as_str(), "[]"),
        (turns.as_str(), ""),
        ("GET /v1/nothing HTTP/1.1", ""),
        ("DELETE /v1/daemon HTTP/1.1", ""),
        ("GET /v1/workers/..%2f..%2fetc HTTP/1.1", ""),
        ("GET /v1/workers/w_0000000000 HTTP/1.1", ""),
    ] {
        let response = request(&socket, &[head, protocol, json_type], body);
        assert!((400..500).contains(&response.status), "{head} {body}: {response:?}");
        let envelope = response.json();
        assert_eq!(
            (&envelope["ok"], &envelope["type"]),
            (&json!(false), &json!("error")),
            "{head}: {response:?}"
        );
        assert!(envelope["error"]["code"].is_string());
    }
    sandbox.finish();
}

#[test]
fn the_same_key_gives_the_same_turn() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let prompt = format!("!touch {}\n!say done", sandbox.file_name("touched"));
    let keyed = || sandbox.sending(&worker, &prompt).args(["--turn-id", "job-42"]);
    let racing: Vec<_> = (0..6).map(|_| keyed().spawn()).collect();
    let turns: Vec<Value> =
        racing.into_iter().map(|running| running.output().data_of("turn.waited")["turnId"].clone()).collect();
    assert!(turns.iter().all(|turn| *turn == turns[0]), "{turns:?}");
    sandbox.kill_daemon();
    let late = keyed().run().data_of("turn.waited");
    assert_eq!(late["turnId"], turns[0], "the key must survive a crash");
    assert_eq!(sandbox.touches("touched"), 1);
    let other = sandbox.sending(&worker, "another text").args(["--turn-id", "job-42"]).run();
    other.error("IDEMPOTENCY_CONFLICT");
    assert_eq!(sandbox.touches("touched"), 1);
    sandbox.finish();
}

/// Returns the handle's variables from the output of `controller init`.
fn handle(controller: &Value) -> [(&'static str, String); 3] {
    let owner = &controller["owner"];
    [
        ("SUBAGENT_CTL_ID", owner["controllerId"].as_str().unwrap().to_owned()),
        ("SUBAGENT_CTL_EPOCH", owner["epoch"].to_string()),
        ("SUBAGENT_CTL_TOKEN", owner["token"].as_str().unwrap().to_owned()),
    ]
}

#[test]
fn a_former_owner_cannot_act_any_more() {
    let sandbox = TestSandbox::new();
    let first = sandbox.init();
    let worker = sandbox.start("demo");
    let waited = sandbox.send(&worker, "!ask execute something");
    let request = waited["requestId"].as_str().unwrap();
    // The owner itself may initialize again. That raises the epoch, so its
    // older handle becomes stale.
    let mut init = sandbox.subagent(&["controller", "init"]);
    for (name, value) in handle(&first) {
        init = init.env(name, value);
    }
    let second = init.run().data_of("controller.initialized");
    sandbox.recorder().keep_secret(second["owner"]["token"].as_str().unwrap());
    assert_eq!(second["owner"]["epoch"], 2);
    let commands: [&[&str]; 5] = [
        &["worker", "start", "--launcher", "demo"],
        &["send", "--worker-id", &worker, "--text", "x"],
        &["approve", "--worker-id", &worker, "--request", request, "--decision", "allow"],
        &["cancel", "--worker-id", &worker],
        &["worker", "stop", &worker],
    ];
    let mut forged = handle(&second);
    forged[2].1 = "0123456789abcdef0123456789abcdef".to_owned();
    for stale in [handle(&first), forged] {
        for args in commands {
            let mut command = sandbox.subagent(args);
            for (name, value) in stale.clone() {
                command = command.env(name, value);
            }
            command.run().error("INVALID_CONTROLLER_HANDLE");
        }
    }
    assert_eq!(sandbox.show(&worker)["state"], "waiting_approval", "none of these may have an effect");
    let mut approve = sandbox.subagent(commands[2]);
    for (name, value) in handle(&second) {
        approve = approve.env(name, value);
    }
    approve.run().data_of("approval.decided");
    assert_eq!(sandbox.turn_end(&waited)["type"], "turn.completed");
    sandbox.finish();
}

#[test]
fn an_agent_inherits_from_the_process_that_started_the_worker() {
    let mut sandbox = TestSandbox::new();
    sandbox.set_env("SHARED", "of the daemon's starter");
    let controller = sandbox.init();
    let folder = sandbox.workspace().join("deeper");
    fs::create_dir(&folder).unwrap();
    let path = format!("{}:{}", sandbox.file_name("bin"), std::env::var("PATH").unwrap());
    let agent = sandbox.demo_agent(&[]).env("FROM_LAUNCHER", "launcher");
    sandbox.launcher("demo", agent);
    let script = "umask 027; exec \"$0\" \"$@\"";
    let args = [
        "-c",
        script,
        &sandbox.executable("subagent"),
        "worker",
        "start",
        "--cwd",
        folder.to_str().unwrap(),
        "--json",
    ];
    let mut start = sandbox.command("/bin/sh").args(args);
    for (name, value) in handle(&controller) {
        start = start.env(name, value);
    }
    let start = start
        .env("SHARED", "of the caller")
        .env("API_KEY", "key-value-5511")
        .env("CALLERS_OWN", "yes")
        .env("PATH", &path)
        .env("NOTIFY_SOCKET", "/nowhere")
        .env("OLDPWD", "/old");
    sandbox.recorder().keep_secret("key-value-5511");
    let worker = start.run().data_of("worker.started")["workerId"].as_str().unwrap().to_owned();
    let expect = |what: &str, expected: &str| {
        assert_eq!(sandbox.send(&worker, what)["assistantText"], expected, "{what}");
    };
    let folder_name = folder.canonicalize().unwrap().to_str().unwrap().to_owned();
    for _ in 0..2 {
        expect("!env SHARED", "of the caller");
        expect("!env CALLERS_OWN", "yes");
        // The value must not be in any file, so the agent does not print it.
        expect("!shell printf %s \"$API_KEY\" | wc -c", "exit 0\n14\n");
        expect("!env FROM_LAUNCHER", "launcher");
        expect("!env PATH", &path);
        expect("!env PWD", &folder_name);
        expect("!cwd", &folder_name);
        for gone in
            ["SUBAGENT_CTL_TOKEN", "SUBAGENT_CTL_ID", "SUBAGENT_FAILPOINTS", "NOTIFY_SOCKET", "OLDPWD"]
        {
            expect(&format!("!env {gone}"), "unset");
        }
        expect("!shell umask", "exit 0\n0027\n");
        // Again with the agent's next process, started by the daemon alone.
        sandbox.kill(&sandbox.runtime(&worker));
        sandbox.kill_daemon();
    }
    expect("!shell env | grep -c -e SUBAGENT_CTL -e SUBAGENT_STATE; true", "exit 0\n0\n");
    sandbox.finish();
}

#[test]
fn no_other_user_can_enter() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(sandbox.state_dir()), 0o700);
    let info = sandbox.daemon_info().unwrap();
    assert_eq!(mode(info.socket.parent().unwrap()), 0o700);
    for entry in fs::read_dir(info.socket.parent().unwrap()).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path) & 0o077, 0, "{}", path.display());
    }
    for file in ["daemon.json", "state.db", "daemon.lock"] {
        assert_eq!(mode(&sandbox.state_dir().join(file)) & 0o077, 0, "{file}");
    }
    assert_eq!(fs::read_to_string(sandbox.state_dir().join(".gitignore")).unwrap(), "*\n");
    let _ = sandbox.send(&worker, "hello");
    for process in sandbox.processes() {
        assert!(!process.command_line().contains("hello"), "{process:?} shows the prompt");
    }
    sandbox.finish();
}

#[test]
fn an_agent_cannot_act_as_its_owner() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let other = sandbox.start("demo");
    let asked = sandbox.send(&other, "!ask execute something");
    let request = asked["requestId"].as_str().unwrap();
    let subagent = sandbox.executable("subagent");
    let commands = [
        format!("{subagent} approve --worker-id {other} --request {request} --decision allow --json"),
        format!("{subagent} send --worker-id {other} --text hi --no-wait --json"),
        format!("{subagent} cancel --worker-id {other} --json"),
        format!("{subagent} worker stop {other} --json"),
        format!("{subagent} worker stop {worker} --json"),
        format!("{subagent} controller init --json"),
        // A double fork in its own session is still below the guard.
        format!(
            "setsid sh -c '{subagent} approve --worker-id {other} --request {request} --decision allow --json'"
        ),
    ];
    for command in commands {
        let waited = sandbox.send(&worker, &format!("!shell {command}"));
        let said = waited["assistantText"].as_str().unwrap();
        assert!(said.starts_with("exit 1\n"), "{command}: {said}");
        assert!(said.contains("FORBIDDEN_FROM_WORKER"), "{command}: {said}");
    }
    let shown = sandbox.show(&other);
    assert_eq!(shown["state"], "waiting_approval", "nothing was decided: {shown}");
    let forbidden = sandbox.events(&worker).into_iter().filter(|event| event["type"] == "worker.forbidden");
    assert!(forbidden.count() >= 6, "each attempt is journaled");
    sandbox.approve(&other, &json!(request), "deny").data_of("approval.decided");
    assert_eq!(sandbox.turn_end(&asked)["type"], "turn.completed");
    sandbox.finish();
}

#[test]
fn no_daemon_is_born_below_a_guard() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let gate = sandbox.gate("turn");
    let result = sandbox.file_name("result");
    let subagent = sandbox.executable("subagent");
    let command = format!("{subagent} worker list --json > {result}.part; mv {result}.part {result}");
    let accepted = sandbox.send_no_wait(&worker, &format!("{}\n!shell {command}", gate.directive()));
    let stop = sandbox.command("subagentd").args(["stop", "--json"]).run();
    assert_eq!(stop.status.code(), Some(0), "{stop}");
    gate.open();
    let said = wait_until("the agent's command to give up", Duration::from_secs(30), || {
        fs::read_to_string(&result).ok()
    });
    assert!(said.contains("DAEMON_NOT_RUNNING"), "{said}");
    assert!(sandbox.find_daemon().is_none());
    assert!(
        sandbox.processes().iter().all(|process| process.name != "subagentd"),
        "{:?}",
        sandbox.processes()
    );
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    sandbox.finish();
}

#[test]
fn a_daemon_whose_lock_file_was_taken_away_ends() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let daemon = sandbox.daemon();
    fs::remove_file(sandbox.state_dir().join("daemon.lock")).unwrap();
    wait_until("the daemon to notice and end", Duration::from_secs(10), || (!daemon.lives()).then_some(()));
    assert_eq!(sandbox.send(&worker, "another one serves")["assistantText"], "another one serves");
    sandbox.finish();
}

#[test]
fn sockets_that_vanish_are_made_again() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let info = sandbox.daemon_info().unwrap();
    fs::remove_file(&info.socket).unwrap();
    wait_until("the daemon's socket to be back", Duration::from_secs(10), || {
        info.socket.exists().then_some(())
    });
    assert_eq!(sandbox.send(&worker, "hello")["assistantText"], "hello");
    let runtime_socket = sandbox.show(&worker)["runtimeSocket"].as_str().unwrap().to_owned();
    fs::remove_file(&runtime_socket).unwrap();
    wait_until("the runtime's socket to be back", Duration::from_secs(10), || {
        fs::exists(&runtime_socket).unwrap().then_some(())
    });
    sandbox.kill_daemon();
    assert_eq!(sandbox.send(&worker, "adopted")["assistantText"], "adopted");
    assert_eq!(sandbox.daemon_info().unwrap().generation, 2);
    sandbox.finish();
}
