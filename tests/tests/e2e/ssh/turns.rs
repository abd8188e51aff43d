//! Turns of a worker on another machine, while connections, daemon and runtime die.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use subagent_tests::harness::{SshHost, TestSandbox, wait_until};
use subagent_tests::invariants::Recorder;

/// Time limit of operations there.
const DEADLINE: Duration = Duration::from_secs(60);
/// Time within which the end of a server is reported: the ends of its connections are seen here.
const REPORTED: Duration = Duration::from_secs(5);
/// Number of failed attempts in a row after which the next one is planned.
const ATTEMPTS: usize = 6;
/// The shortest sum of the pauses between these attempts: half of 1, 2, 4, 8 and 16 s.
const ATTEMPTED: Duration = Duration::from_secs(15);
/// The shortest pause after them: half of 32 s.
const PAUSE: Duration = Duration::from_secs(16);
/// Time within which a host that is back answers a command.
const ANSWERED: Duration = Duration::from_secs(15);

/// Returns how many streams of the present daemon have ended, those that did not begin included.
fn ended_streams(sandbox: &TestSandbox) -> usize {
    let log = fs::read_to_string(sandbox.state_dir().join("logs/subagentd.log")).unwrap();
    log.matches("a stream to a placed worker has ended").count()
}

#[test]
fn a_turn_with_a_question_works_there_and_leaves_nothing() {
    let mut sandbox = TestSandbox::new();
    sandbox.set_env("ONLY_HERE", "of-this-machine");
    let Some(host) = SshHost::start(&sandbox) else { return };
    let demo = sandbox.demo_agent(&[]).env("OF_LAUNCHER", "sent along");
    sandbox.launcher("demo", demo);
    sandbox.init();
    let worker = sandbox.start_on("there");
    let shown = sandbox.show(&worker);
    assert_eq!(shown["placement"], json!({"kind": "ssh", "name": "there", "host": "there"}), "{shown}");
    let listed = sandbox.run(&["worker", "list"]).data_of("worker.listed");
    assert_eq!(listed["items"][0]["placement"]["name"], "there", "{listed}");
    let folder = host.folder_of(&worker);
    assert!(folder.join("socket").exists() && folder.join("1.journal").exists());
    let said = sandbox.send(&worker, "!shell pwd; echo $HOME; echo ${ONLY_HERE:-absent}; echo $OF_LAUNCHER");
    let said = said.to_string();
    for expected in [host.work().to_str().unwrap(), host.home().to_str().unwrap(), "absent", "sent along"] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let asked = sandbox.send(&worker, "!ask edit notes.md\n!say done");
    let _ = sandbox.approve(&worker, &asked["requestId"], "allow").data_of("approval.decided");
    wait_until("the end of the turn", DEADLINE, || (sandbox.show(&worker)["state"] == "idle").then_some(()));
    sandbox.check();
    let stopped = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    assert_eq!(stopped["state"], "stopped");
    // The agent has ended before the answer; the killed client's session ends after it.
    wait_until("the end of everything there", DEADLINE, || {
        sandbox.processes().iter().all(|one| one.name == "subagentd").then_some(())
    });
    let _ = sandbox.run(&["worker", "rm", &worker]);
    wait_until("the removal of the folder there", DEADLINE, || (!folder.exists()).then_some(()));
    sandbox.finish();
}

#[test]
fn the_log_of_an_agent_there_is_shown_here() {
    let sandbox = TestSandbox::new();
    let Some(host) = SshHost::start(&sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("there");
    let _ = sandbox.send(&worker, "!stderr first\n!stderr of the agent");
    let log = sandbox.wait_for_log(&worker, "first\nof the agent\n");
    let end = sandbox.run(&["logs", &worker, "--tail-bytes", "6"]).data_of("worker.logs");
    assert_eq!((&end["text"], &end["truncated"]), (&json!("agent\n"), &json!(true)), "{end}");
    let path = host.folder_of(&worker).join("agent.log");
    let whole = fs::metadata(&path).unwrap().len().to_string();
    let all = sandbox.run(&["logs", &worker, "--tail-bytes", &whole]).data_of("worker.logs");
    assert_eq!((&all["text"], &all["truncated"]), (&json!(log), &json!(false)), "{all}");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    let after = sandbox.run(&["logs", &worker]).data_of("worker.logs");
    assert_eq!(after["text"], json!(log), "it outlives the agent");
    host.configure_client("other", "host");
    let error = sandbox.run(&["logs", &worker]).error("PLACEMENT_UNREACHABLE");
    assert_eq!(error["details"]["host"], "there", "{error}");
    sandbox.finish();
}

#[test]
fn an_older_runtime_without_logs_is_named() {
    let sandbox = TestSandbox::new();
    let Some(host) = SshHost::start(&sandbox) else { return };
    let (older, real) = (host.home().join("older"), sandbox.executable("subagent-runtime"));
    let script = format!(
        "#!/bin/sh\nif [ \"$1\" = logs ]; then exec {real} no-such-command; fi\nexec {real} \"$@\"\n"
    );
    fs::write(&older, script).unwrap();
    fs::set_permissions(&older, fs::Permissions::from_mode(0o755)).unwrap();
    host.place(&sandbox, json!({"program": older}));
    sandbox.init();
    let worker = sandbox.start_on("there");
    let error = sandbox.run(&["logs", &worker]).error("PLACEMENT_INCOMPATIBLE");
    assert!(error["details"]["recommendedAction"].as_str().unwrap().contains("restart"), "{error}");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn the_removal_of_a_copied_worker_keeps_the_files_of_the_original_there() {
    let sandbox = TestSandbox::new();
    let Some(host) = SshHost::start(&sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("there");
    assert_eq!(sandbox.send(&worker, "before")["assistantText"], "before");
    let runtime = sandbox.runtime(&worker);
    sandbox.kill_daemon();
    runtime.signal(Signal::SIGKILL);
    wait_until("the end of the agent", DEADLINE, || sandbox.processes().is_empty().then_some(()));
    let copy = sandbox.file("copy");
    assert!(Command::new("cp").arg("-a").args([&sandbox.workspace(), &copy]).status().unwrap().success());
    let there = |args: &[&str]| sandbox.subagent(args).cwd(&copy).recorded_by(&Recorder::default()).run();
    let _ = there(&["worker", "rm", "--force", &worker]).data();
    let own = copy.join(".subagent/state/runtimes").join(&worker);
    wait_until("the removal of the copy", DEADLINE, || (!own.exists()).then_some(()));
    let ended = sandbox.command("subagentd").args(["stop", "--json"]).cwd(&copy).run();
    assert!(ended.status.success(), "{ended}");
    assert!(host.folder_of(&worker).join("placed.json").exists());
    assert_eq!(sandbox.send(&worker, "after")["assistantText"], "after");
    sandbox.finish();
}

#[test]
fn a_daemon_that_is_killed_in_a_turn_finds_it_again() {
    let sandbox = TestSandbox::new();
    let Some(_host) = SshHost::start(&sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("there");
    let gate = sandbox.gate("turn");
    let accepted = sandbox.send_no_wait(&worker, &format!("!say begun\n{}\n!say done", gate.directive()));
    sandbox.wait_for_prompt(1);
    let runtime = sandbox.runtime(&worker);
    sandbox.kill_daemon();
    gate.open();
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    assert_eq!(sandbox.runtime(&worker).pid, runtime.pid);
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn a_turn_and_a_wait_go_on_while_the_server_is_down() {
    let sandbox = TestSandbox::new();
    let Some(mut host) = SshHost::start(&sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("there");
    let runtime = sandbox.runtime(&worker);
    let gate = sandbox.gate("turn");
    let over = sandbox.file_name("over");
    let text = format!("!say begun\n{}\n!touch {over}\n!say done", gate.directive());
    let accepted = sandbox.send_no_wait(&worker, &text);
    sandbox.wait_for_prompt(1);
    let cursor = accepted["acceptedEventId"].as_str().unwrap();
    let until = "turn.completed,turn.failed,turn.canceled";
    let wait = ["wait", "--worker-id", &worker, "--from-event-id", cursor, "--until", until];
    let mut waiting = sandbox.subagent(&wait).args(["--timeout-seconds", "0"]).deadline(3 * DEADLINE).spawn();
    let follower = sandbox.follow(&worker);
    let ended = Instant::now();
    host.end_server();
    follower.wait_line("the report", |line| {
        let event: Value = serde_json::from_str(line).ok()?;
        (event["type"] == "worker.unreachable").then_some(())
    });
    let noticed = ended.elapsed();
    assert!(noticed < REPORTED, "it took {noticed:?}");
    let _ = follower.kill();
    let shown = sandbox.show(&worker);
    assert!(shown["unreachable"].is_object() && shown["state"] == "running", "{shown}");
    gate.open();
    wait_until("the end of the turn there", DEADLINE, || (sandbox.touches("over") == 1).then_some(()));
    assert!(waiting.runs());
    host.restart_server(&sandbox);
    let end = waiting.output().data_of("event.matched");
    assert_eq!(end["type"], "turn.completed", "{end}");
    let count = |kind: &str| sandbox.number(&format!("SELECT count(*) FROM events WHERE type = '{kind}'"));
    wait_until("the report", DEADLINE, || (count("worker.reached") == 1).then_some(()));
    assert_eq!((count("turn.completed"), count("runtime.turn_dispatching")), (1, 1));
    assert_eq!((count("worker.unreachable"), sandbox.touches("over")), (1, 1));
    assert_eq!(sandbox.runtime(&worker).pid, runtime.pid);
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn a_host_that_is_back_is_dialed_at_once_when_a_command_asks() {
    let sandbox = TestSandbox::new();
    let Some(mut host) = SshHost::start(&sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("there");
    assert_eq!(sandbox.send(&worker, "before")["assistantText"], "before");
    let before = ended_streams(&sandbox);
    let ended = Instant::now();
    host.end_server();
    // The first end is that of the stream that was open.
    wait_until("the failed attempts", 2 * DEADLINE, || {
        (ended_streams(&sandbox) > before + ATTEMPTS).then_some(())
    });
    let last = Instant::now();
    assert!(last - ended > ATTEMPTED, "the pauses do not grow: {:?}", last - ended);
    host.restart_server(&sandbox);
    let sent = sandbox.sending(&worker, "hello").run();
    assert_eq!(sent.data_of("turn.waited")["assistantText"], "hello");
    assert!(sent.elapsed < ANSWERED, "{sent}");
    assert!(last.elapsed() < PAUSE, "it may have been the planned attempt: {:?}", last.elapsed());
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn nothing_is_lost_or_twice_while_connections_are_killed() {
    let mut sandbox = TestSandbox::new();
    let Some(host) = SshHost::start(&sandbox) else { return };
    let fast = sandbox.test_agent("fast-agent", &[]);
    sandbox.launcher("demo", fast);
    sandbox.init();
    let worker = sandbox.start_on("there");
    let accepted = sandbox.send_no_wait(&worker, "!stream 60000");
    let mut cuts = 0;
    while sandbox.records().0 < 50_000 {
        let at = sandbox.records().0;
        host.cut();
        cuts += 1;
        wait_until("more events", DEADLINE, || (sandbox.records().0 >= 60_000.min(at + 4000)).then_some(()));
    }
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    let (all, distinct, highest) = sandbox.records();
    assert!(all == distinct && all == highest && all > 60_000, "{all} {distinct} {highest} after {cuts}");
    assert!(cuts >= 2, "{cuts}");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn a_runtime_that_is_killed_there_is_lost_and_another_one_follows() {
    let sandbox = TestSandbox::new();
    let Some(_host) = SshHost::start(&sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("there");
    let accepted = sandbox.send_no_wait(&worker, "!say begun\n!sleep 600000");
    let runtime = sandbox.runtime(&worker);
    let dispatched = "SELECT count(*) FROM events WHERE type = 'runtime.turn_dispatching'";
    wait_until("the prompt", DEADLINE, || (sandbox.number(dispatched) > 0).then_some(()));
    runtime.signal(Signal::SIGKILL);
    let end = sandbox.turn_end(&accepted);
    assert_eq!(end["data"]["error"]["code"], "RUNTIME_LOST", "{end}");
    assert_eq!(sandbox.send(&worker, "again")["assistantText"], "again");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn a_worker_of_a_host_that_does_not_come_back_is_given_up_by_its_owner() {
    let sandbox = TestSandbox::new();
    let Some(host) = SshHost::start(&sandbox) else { return };
    sandbox.init();
    let worker = sandbox.start_on("there");
    let accepted = sandbox.send_no_wait(&worker, "!say begun\n!sleep 600000");
    let dispatched = "SELECT count(*) FROM events WHERE type = 'runtime.turn_dispatching'";
    wait_until("the prompt", DEADLINE, || (sandbox.number(dispatched) > 0).then_some(()));
    let runtime = sandbox.runtime(&worker);
    // Another machine has its address.
    host.configure_client("user", "other");
    host.cut();
    wait_until("the worker to be unreachable", DEADLINE, || {
        sandbox.show(&worker)["unreachable"].is_object().then_some(())
    });
    let restart = ["worker", "restart", &worker, "--force", "--accept-duplicate"];
    let error = sandbox.run(&restart).error("PLACEMENT_UNREACHABLE");
    assert_eq!(error["details"]["reason"], "hostKey", "{error}");
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.canceled");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    let _ = sandbox.run(&["worker", "rm", &worker]).data_of("worker.removed");
    // Its owner has accepted that the agent goes on there.
    assert!(runtime.lives());
    runtime.signal(Signal::SIGKILL);
    sandbox.finish();
}

#[test]
fn a_turn_goes_on_while_a_shared_connection_is_killed() {
    let sandbox = TestSandbox::new();
    let Some(host) = SshHost::start(&sandbox) else { return };
    host.share_connections();
    sandbox.init();
    let worker = sandbox.start_on("there");
    let gate = sandbox.gate("turn");
    let text = format!("!say begun\n{}\n!say done", gate.directive());
    let mut waiting = sandbox.sending(&worker, &text).deadline(2 * DEADLINE).spawn();
    sandbox.wait_for_prompt(1);
    let runtime = sandbox.show(&worker)["runtimePid"].clone();
    let master = wait_until("the shared connection", DEADLINE, || host.shared_connections().pop());
    sandbox.kill(&master);
    // A stream of another connection takes over in the middle of the turn.
    wait_until("the next shared connection", DEADLINE, || {
        host.shared_connections().into_iter().find(|one| one.pid != master.pid)
    });
    assert!(waiting.runs());
    gate.open();
    let answer = waiting.output().data_of("turn.waited");
    let outcome = (&answer["matchedEvent"]["type"], &answer["assistantText"]);
    assert_eq!(outcome, (&json!("turn.completed"), &json!("begundone")), "{answer}");
    assert_eq!((&sandbox.show(&worker)["runtimePid"], runtime.is_number()), (&runtime, true));
    let count = |kind: &str| sandbox.number(&format!("SELECT count(*) FROM events WHERE type = '{kind}'"));
    assert_eq!((count("turn.completed"), count("runtime.turn_dispatching")), (1, 1));
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    wait_until("the end of the shared connection", DEADLINE, || {
        host.shared_connections().is_empty().then_some(())
    });
    sandbox.finish();
}

#[test]
fn the_stream_of_a_later_worker_is_opened_beside_its_start() {
    let sandbox = TestSandbox::new();
    let Some(host) = SshHost::start(&sandbox) else { return };
    sandbox.init();
    // Only a start needs a login shell there.
    let (held, begun) = (sandbox.file("held"), sandbox.file("begun"));
    host.profile(&format!(
        "echo one >> {}; while [ -e {} ]; do sleep 0.1; done\n",
        begun.display(),
        held.display()
    ));
    let starts = || fs::read_to_string(&begun).map_or(0, |log| log.lines().count());
    let named = |name: &str| host.processes().into_iter().filter(|one| one.name == name).count();
    let dials = || named("subagent-dial");
    let mut workers = Vec::new();
    // Another client may share the connection of the first one, which must be there before.
    for streams in [0, 2] {
        fs::write(&held, "").unwrap();
        let start = ["worker", "start", "--launcher", "demo", "--on", "there"];
        let starting = sandbox.subagent(&start).deadline(DEADLINE).spawn();
        wait_until("the start there", DEADLINE, || (starts() == workers.len() + 1).then_some(()));
        wait_until("the streams", DEADLINE, || (dials() == streams).then_some(()));
        fs::remove_file(&held).unwrap();
        let started = starting.output().data_of("worker.started");
        workers.push(started["workerId"].as_str().unwrap().to_owned());
    }
    for worker in &workers {
        assert_eq!(sandbox.send(worker, "!say done")["assistantText"], "done");
    }
    assert_eq!(dials(), 2, "each worker has one stream");
    for worker in &workers {
        let _ = sandbox.run(&["worker", "stop", worker]).data_of("worker.stopped");
    }
    sandbox.finish();
}

#[test]
fn nothing_of_a_start_is_on_a_command_line() {
    const SECRET: &str = "secret-of-an-agent-there-81b0";
    let mut sandbox = TestSandbox::new();
    let Some(_host) = SshHost::start(&sandbox) else { return };
    let demo = sandbox.demo_agent(&[]).env("KEY_THERE", SECRET);
    sandbox.launcher("demo", demo);
    sandbox.recorder().keep_secret(SECRET);
    sandbox.init();
    let worker = sandbox.start_on("there");
    let said = sandbox.send(&worker, "!shell test -n \"$KEY_THERE\" && echo inherited");
    assert!(said.to_string().contains("inherited"), "{said}");
    let ours = sandbox.processes();
    assert!(ours.iter().any(|process| process.name == "ssh"), "{ours:?}");
    for process in &ours {
        let command_line = fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&command_line).contains(SECRET), "{process:?}");
    }
    let _ =
        sandbox.command("subagent").args(["worker", "stop", &worker]).deadline(Duration::from_secs(60)).run();
    sandbox.finish();
}
