//! Agents that are ended because they were idle, and come back when they are needed.

use std::fs;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use subagent_tests::harness::process::Process;
use subagent_tests::harness::{TestSandbox, wait_until};

use super::agent::{of_type, sandbox, say, works};

/// Short, so that tests do not wait long; long enough for a command in between.
const SOON: &str = "0.4";
const DEADLINE: Duration = Duration::from_secs(30);

fn start(sandbox: &TestSandbox, launcher: &str, timeout: &str) -> String {
    let args = ["worker", "start", "--launcher", launcher, "--idle-timeout", timeout];
    let data = sandbox.run(&args).data_of("worker.started");
    data["workerId"].as_str().unwrap().to_owned()
}

fn set_timeout(sandbox: &TestSandbox, worker: &str, timeout: &str) -> Value {
    let args = ["worker", "set", "--worker-id", worker, "--idle-timeout", timeout];
    sandbox.run(&args).data_of("worker.set")
}

/// Waits until the worker hibernates. Returns the output of `worker show`.
#[track_caller]
fn asleep(sandbox: &TestSandbox, worker: &str) -> Value {
    wait_until("the worker to hibernate", DEADLINE, || {
        let shown = sandbox.show(worker);
        (shown["hibernated"] == true).then_some(shown)
    })
}

/// Checks that the worker does not hibernate, although a worker started later with
/// the same time does.
#[track_caller]
fn stays_awake(sandbox: &TestSandbox, worker: &str, by: &str) {
    let other = start(sandbox, by, SOON);
    let _ = asleep(sandbox, &other);
    let _ = sandbox.run(&["worker", "stop", &other]).data_of("worker.stopped");
    let shown = sandbox.show(worker);
    assert!(shown["hibernated"].is_null() && shown["runtimePid"].is_number(), "{shown}");
    assert!(of_type(sandbox, worker, "worker.hibernated").is_empty());
}

/// Checks that no loss was reported.
#[track_caller]
fn nothing_lost(sandbox: &TestSandbox, worker: &str) {
    assert!(of_type(sandbox, worker, "worker.lost").is_empty());
    assert_eq!(sandbox.show(worker)["lastError"], Value::Null);
}

/// Words of an agent that hangs when its session is closed, so that its end takes time.
const SLOW: &str = "resume close hang-in-close";

/// A worker whose runtime has recorded its end and then stays stopped until it gets SIGCONT.
#[track_caller]
fn being_ended(sandbox: &TestSandbox) -> (String, Process) {
    let worker = start(sandbox, "words", "never");
    let runtime = sandbox.runtime(&worker);
    let _ = set_timeout(sandbox, &worker, SOON);
    is_asked_to_end(sandbox, &worker);
    runtime.signal(Signal::SIGSTOP);
    (worker, runtime)
}

fn is_asked_to_end(sandbox: &TestSandbox, worker: &str) {
    let folder = sandbox.state_dir().join("runtimes").join(worker);
    wait_until("the runtime to get the command to hibernate", DEADLINE, || {
        let journals =
            fs::read_dir(&folder).unwrap().filter_map(|entry| fs::read(entry.unwrap().path()).ok());
        let reported = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).contains(r#""t":"terminating""#);
        journals.into_iter().any(reported).then_some(())
    });
}

#[test]
fn an_idle_agent_is_ended_and_the_next_message_goes_on_in_its_session() {
    let mut sandbox = TestSandbox::new();
    sandbox.launcher("sleepy", sandbox.demo_agent(&[]).key("idleTimeout", json!("1h")));
    sandbox.init();
    let worker = sandbox.start("sleepy");
    assert_eq!(sandbox.show(&worker)["idleTimeoutMs"], 3_600_000);
    let _ = set_timeout(&sandbox, &worker, "never");
    let _ = sandbox.send(&worker, "remember me");
    let shown = sandbox.show(&worker);
    assert!(shown["agent"]["memoryBytes"].as_u64() > Some(0), "{shown}");
    assert!(shown["hibernated"].is_null() && shown["idleTimeoutMs"].is_null(), "{shown}");
    for round in 1..=2 {
        let runtime = sandbox.runtime(&worker);
        let guard = sandbox.guard(&runtime);
        let agent = sandbox.agent(&guard);
        assert_eq!(set_timeout(&sandbox, &worker, SOON)["idleTimeoutMs"], 400);
        let asleep = asleep(&sandbox, &worker);
        assert!(!runtime.lives() && !guard.lives() && !agent.lives(), "{:?}", sandbox.processes());
        assert_eq!(
            (&asleep["state"], &asleep["runtimePid"], &asleep["agent"]["memoryBytes"], &asleep["lastError"]),
            (&json!("idle"), &Value::Null, &Value::Null, &Value::Null)
        );
        assert!(asleep["hibernatedAt"].is_string() && asleep["hibernation"].is_null(), "{asleep}");
        let listed = sandbox.run(&["worker", "list"]).data_of("worker.listed");
        assert_eq!(listed["items"][0]["hibernated"], true);
        let reported = of_type(&sandbox, &worker, "worker.hibernated");
        assert_eq!(reported.len(), round);
        assert!(reported[round - 1]["data"]["idleSeconds"].is_u64(), "{reported:?}");
        // Another daemon knows it too, and this command alone wakes no agent.
        sandbox.kill_daemon();
        let _ = set_timeout(&sandbox, &worker, "never");
        assert_eq!(sandbox.show(&worker)["hibernatedAt"], asleep["hibernatedAt"]);
        assert_eq!(sandbox.send(&worker, "again")["assistantText"], "again");
        let awake = sandbox.show(&worker);
        assert!(awake["hibernated"].is_null() && awake["hibernatedAt"].is_null(), "{awake}");
        assert_eq!(awake["sessionId"], shown["sessionId"]);
        let restarted = of_type(&sandbox, &worker, "worker.restarted");
        assert_eq!(restarted.len(), round);
        let data = &restarted[round - 1]["data"];
        assert_eq!((&data["contextLost"], &data["hibernated"]), (&json!(false), &json!(true)));
        assert!(data["tookMs"].is_u64(), "{data}");
    }
    nothing_lost(&sandbox, &worker);
    sandbox.finish();
}

#[test]
fn what_is_open_keeps_the_agent() {
    let sandbox = sandbox("load");
    let worker = start(&sandbox, "words", "never");
    let _ = sandbox.send_no_wait(&worker, "turn: wait");
    let _ = set_timeout(&sandbox, &worker, SOON);
    stays_awake(&sandbox, &worker, "words");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");

    let worker = start(&sandbox, "words", "never");
    let sent = sandbox.send(&worker, "then: ask");
    let asked = sandbox.wait_after(&worker, &sent["acceptedEventId"], "approval.requested");
    let _ = set_timeout(&sandbox, &worker, SOON);
    stays_awake(&sandbox, &worker, "words");
    let _ = sandbox.approve(&worker, &asked["data"]["requestId"], "allow").data();
    let _ = asleep(&sandbox, &worker);
    assert!(of_type(&sandbox, &worker, "approval.canceled").is_empty());
    nothing_lost(&sandbox, &worker);
    sandbox.finish();
}

#[test]
fn a_command_that_runs_in_a_terminal_keeps_the_agent() {
    let mut sandbox = TestSandbox::new();
    sandbox.launcher("sdk", sandbox.test_agent("sdk-agent", &["--state", &sandbox.file_name("sdk")]));
    sandbox.init();
    let gate = sandbox.gate("command");
    let worker = start(&sandbox, "sdk", "never");
    let command = format!("leave until [ -e {} ]; do sleep 0.1; done", gate.path().display());
    let sent = sandbox.send(&worker, &command);
    assert_eq!(sent["matchedEvent"]["type"], "turn.completed", "{sent}");
    let _ = set_timeout(&sandbox, &worker, SOON);
    stays_awake(&sandbox, &worker, "sdk");
    gate.open();
    let _ = asleep(&sandbox, &worker);
    sandbox.finish();
}

#[test]
fn an_agent_that_would_forget_everything_is_not_ended() {
    let sandbox = sandbox("load");
    for words in ["no-load", "", "close"] {
        say(&sandbox, words);
        let worker = start(&sandbox, "words", SOON);
        say(&sandbox, "load");
        stays_awake(&sandbox, &worker, "words");
        let shown = sandbox.show(&worker);
        let why = shown["hibernation"].as_str().unwrap();
        assert!(why.starts_with("not possible: the agent"), "{why}");
        let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    }
    sandbox.finish();
}

#[test]
fn options_are_set_at_an_agent_that_is_woken_for_it() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let session = sandbox.show(&worker)["sessionId"].clone();
    let _ = sandbox.send(&worker, "hello");
    for (mode, code) in [("bold", None), ("timid", Some("OPTION_NOT_AVAILABLE"))] {
        let _ = set_timeout(&sandbox, &worker, SOON);
        let _ = asleep(&sandbox, &worker);
        let set = sandbox.run(&["worker", "set", "--worker-id", &worker, "--mode", mode]);
        match code {
            None => assert_eq!(set.data_of("worker.set")["applied"], true),
            Some(code) => drop(set.error(code)),
        }
    }
    let _ = set_timeout(&sandbox, &worker, "never");
    assert_eq!(sandbox.send(&worker, "back")["assistantText"], "back");
    let shown = sandbox.show(&worker);
    assert_eq!((&shown["sessionId"], &shown["agent"]["mode"]), (&session, &json!("bold")));
    sandbox.finish();
}

#[test]
fn an_agent_that_does_not_close_its_session_is_ended_all_the_same() {
    let sandbox = sandbox("");
    for words in ["load close hang-in-close", "load close refuse-close", "load close exit-in-close"] {
        say(&sandbox, words);
        let worker = start(&sandbox, "words", SOON);
        let _ = asleep(&sandbox, &worker);
        works(&sandbox, &worker);
        nothing_lost(&sandbox, &worker);
        let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    }
    sandbox.finish();
}

#[test]
fn a_message_to_an_agent_that_is_being_ended_goes_to_the_next_one() {
    let sandbox = sandbox(SLOW);
    let (worker, runtime) = being_ended(&sandbox);
    let sent = sandbox.send_no_wait(&worker, "hello");
    runtime.signal(Signal::SIGCONT);
    assert_eq!(sandbox.turn_end(&sent)["type"], "turn.completed");
    assert_ne!(sandbox.show(&worker)["runtimePid"], runtime.pid);
    let events = sandbox.events(&worker);
    let count = |wanted: &str| events.iter().filter(|event| event["type"] == wanted).count();
    let found = ["message.sent", "turn.completed", "worker.hibernated", "worker.restarted"].map(count);
    assert_eq!(found, [1, 1, 1, 1], "{events:?}");
    nothing_lost(&sandbox, &worker);
    sandbox.finish();
}

#[test]
fn orders_to_an_agent_that_is_being_ended_are_carried_out() {
    let sandbox = sandbox(SLOW);
    let (worker, runtime) = being_ended(&sandbox);
    let restarting = sandbox.subagent(&["worker", "restart", &worker]).spawn();
    runtime.signal(Signal::SIGCONT);
    let restarted = restarting.output().data_of("worker.restarted");
    assert!(restarted["runtimePid"].is_number() && restarted["state"] == "idle", "{restarted}");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");

    let (worker, runtime) = being_ended(&sandbox);
    let stopping = sandbox.subagent(&["worker", "stop", &worker]).spawn();
    runtime.signal(Signal::SIGCONT);
    assert_eq!(stopping.output().data_of("worker.stopped")["state"], "stopped");

    let (worker, runtime) = being_ended(&sandbox);
    let sent = sandbox.send_no_wait(&worker, "never mind");
    let _ = sandbox.run(&["cancel", "--worker-id", &worker]).data_of("turn.canceled");
    assert_eq!(sandbox.turn_end(&sent)["type"], "turn.canceled");
    let _ = sandbox.run(&["controller", "attach", "--takeover"]).data_of("controller.attached");
    runtime.signal(Signal::SIGCONT);
    let _ = asleep(&sandbox, &worker);
    nothing_lost(&sandbox, &worker);
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn no_data_is_lost_by_a_death_while_an_agent_is_being_ended() {
    let sandbox = sandbox(SLOW);
    let (worker, runtime) = being_ended(&sandbox);
    sandbox.kill_daemon();
    runtime.signal(Signal::SIGCONT);
    let _ = asleep(&sandbox, &worker);
    nothing_lost(&sandbox, &worker);
    works(&sandbox, &worker);
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");

    let (worker, runtime) = being_ended(&sandbox);
    sandbox.kill(&runtime);
    let _ = asleep(&sandbox, &worker);
    nothing_lost(&sandbox, &worker);
    works(&sandbox, &worker);
    sandbox.finish();
}

#[test]
fn a_runtime_that_hangs_hibernates_when_it_goes_on() {
    let sandbox = sandbox("load");
    let worker = start(&sandbox, "words", "never");
    let runtime = sandbox.runtime(&worker);
    runtime.signal(Signal::SIGSTOP);
    let _ = set_timeout(&sandbox, &worker, SOON);
    wait_until("the runtime to be found hanging", DEADLINE, || {
        (sandbox.show(&worker)["unresponsive"] == true).then_some(())
    });
    runtime.signal(Signal::SIGCONT);
    let _ = asleep(&sandbox, &worker);
    works(&sandbox, &worker);
    nothing_lost(&sandbox, &worker);
    sandbox.finish();
}

#[test]
fn a_session_that_cannot_be_taken_up_after_it_is_reported() {
    let sandbox = sandbox("load");
    let worker = start(&sandbox, "words", SOON);
    let _ = asleep(&sandbox, &worker);
    say(&sandbox, "load refuse-load");
    works(&sandbox, &worker);
    let data = of_type(&sandbox, &worker, "worker.restarted").remove(0)["data"].take();
    assert_eq!((&data["contextLost"], &data["hibernated"]), (&json!(true), &json!(true)), "{data}");
    // Or the agent does not start at all.
    let _ = asleep(&sandbox, &worker);
    say(&sandbox, "load exit-in-initialize");
    sandbox.send_fails(&worker, "hello", "BACKEND_UNAVAILABLE");
    let shown = sandbox.show(&worker);
    assert!(shown["hibernated"].is_null() && shown["state"] == "idle", "{shown}");
    say(&sandbox, "load");
    works(&sandbox, &worker);
    sandbox.finish();
}

#[test]
fn a_daemon_that_watches_over_the_workers_lets_them_sleep() {
    let sandbox = sandbox("load");
    let worker = start(&sandbox, "words", SOON);
    let _ = asleep(&sandbox, &worker);
    let once = sandbox.command("subagentd").args(["run", "--once", "--json"]).run().document();
    assert_eq!(once["workerHealth"]["summary"]["unhealthy"], 0, "{once}");
    assert_eq!(sandbox.show(&worker)["hibernated"], true);
    let error = sandbox.run(&["worker", "set", "--worker-id", &worker, "--idle-timeout", "soon"]);
    assert_eq!(error.status.code(), Some(2), "{error}");
    sandbox.finish();
}
