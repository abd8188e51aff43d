//! Turns of a worker in a place behind commands of the user, while place, daemon and engine fail.

use nix::sys::signal::Signal;
use serde_json::json;
use subagent_tests::harness::process::Process;
use subagent_tests::harness::{TestSandbox, wait_until};

use super::engine::{DEADLINE, OwnEngine};

/// Longer than a daemon on a busy machine takes to dial the runtime that it has just started.
const LEASE: &str = "10s";

fn stop(sandbox: &TestSandbox, worker: &str) {
    let stopped = sandbox.run(&["worker", "stop", worker]).data_of("worker.stopped");
    assert_eq!(stopped["state"], "stopped");
}

#[test]
fn a_turn_with_a_question_works_in_a_place_and_leaves_nothing() {
    let mut sandbox = TestSandbox::new();
    let engine = OwnEngine::start(&sandbox);
    sandbox.set_env("ONLY_HERE", "of-this-machine");
    let demo = sandbox.demo_agent(&[]).env("OF_LAUNCHER", "sent along");
    sandbox.launcher("demo", demo);
    sandbox.init();
    let worker = sandbox.start_on("own");
    let shown = sandbox.show(&worker);
    assert_eq!(shown["placement"], json!({"kind": "command", "name": "own"}));
    let name = std::fs::read_to_string(engine.disk(&engine.only()).join("name")).unwrap();
    assert!(name.starts_with("subagent-") && name.contains(&worker.replace('_', "-")), "{name}");
    let lines: Vec<String> = sandbox.processes().iter().map(Process::command_line).collect();
    assert!(lines.iter().any(|line| line.contains("dial")), "{lines:?}");
    assert!(!lines.concat().contains("sent along"), "{lines:?}");
    let said = sandbox
        .send(&worker, "!shell pwd; echo ${ONLY_HERE:-absent}; echo $OF_LAUNCHER; echo $OF_PLACE")
        .to_string();
    let work = sandbox.file("in-places");
    for expected in [work.to_str().unwrap(), "absent", "sent along", "of the place"] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let _ = sandbox.send(&worker, "!stderr of the agent");
    let _ = sandbox.wait_for_log(&worker, "of the agent\n");
    let asked = sandbox.send(&worker, "!ask edit notes.md\n!say done");
    let _ = sandbox.approve(&worker, &asked["requestId"], "allow").data_of("approval.decided");
    wait_until("the end of the turn", DEADLINE, || (sandbox.show(&worker)["state"] == "idle").then_some(()));
    let accepted = sandbox.send_no_wait(&worker, "!say begun\n!sleep 600000");
    sandbox.wait_for_prompt(4);
    let _ = sandbox.run(&["cancel", &worker]);
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.canceled");
    sandbox.check();
    stop(&sandbox, &worker);
    assert!(engine.live().is_empty());
    assert_eq!((engine.created().len(), engine.calls("submit")), (1, 1));
    let error = sandbox.run(&["logs", &worker]).error("PLACEMENT_UNREACHABLE");
    assert_eq!(error["details"]["reason"], "ended", "the log has ended with its place: {error}");
    let _ = sandbox.run(&["worker", "rm", &worker]).data_of("worker.removed");
    let placed = sandbox.state_dir().join("placed").join(&worker);
    wait_until("the removal of the folder", DEADLINE, || (!placed.exists()).then_some(()));
    sandbox.finish();
}

#[test]
fn a_daemon_that_is_killed_in_a_turn_finds_the_place_again() {
    let sandbox = TestSandbox::new();
    let engine = OwnEngine::start(&sandbox);
    sandbox.init();
    let worker = sandbox.start_on("own");
    let gate = sandbox.gate("turn");
    let accepted = sandbox.send_no_wait(&worker, &format!("!say begun\n{}\n!say done", gate.directive()));
    sandbox.wait_for_prompt(1);
    sandbox.kill_daemon();
    gate.open();
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    let ends = sandbox.number("SELECT count(*) FROM events WHERE type = 'turn.completed'");
    assert_eq!((ends, engine.created().len(), engine.calls("submit")), (1, 1, 1));
    stop(&sandbox, &worker);
    sandbox.finish();
}

#[test]
fn a_run_has_a_place_of_its_own_that_ends_with_it() {
    let sandbox = TestSandbox::new();
    let engine = OwnEngine::start(&sandbox);
    let run = sandbox.run(&["run", "--on", "own", "demo", "!shell echo in $OF_PLACE"]).document();
    assert!(run.to_string().contains("in of the place"), "{run}");
    wait_until("the end of the place", DEADLINE, || engine.live().is_empty().then_some(()));
    assert_eq!(engine.created().len(), 1);
    sandbox.finish();
}

/// Ends the only place in the middle of a turn, from outside.
fn ended_in_a_turn(sandbox: &TestSandbox, engine: &OwnEngine) {
    sandbox.init();
    let worker = sandbox.start_on("own");
    let accepted = sandbox.send_no_wait(&worker, "!say begun\n!sleep 600000");
    sandbox.wait_for_prompt(1);
    let handle = engine.only();
    engine.end(&handle);
    let end = sandbox.turn_end(&accepted);
    let error = &end["data"]["error"];
    assert_eq!((&end["type"], &error["code"]), (&"turn.failed".into(), &"RUNTIME_LOST".into()), "{end}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains(&handle) && message.contains("ended by the engine"), "{end}");
    assert_eq!(error["details"]["dispatched"], "maybe", "{end}");
    assert_eq!(sandbox.send(&worker, "again")["assistantText"], "again");
    assert_eq!(engine.created().len(), 2);
    let prompts = sandbox.number("SELECT count(*) FROM events WHERE type = 'runtime.turn_dispatching'");
    assert_eq!(prompts, 2);
    stop(sandbox, &worker);
}

#[test]
fn a_place_that_is_ended_in_a_turn_is_lost_and_another_one_follows() {
    let sandbox = TestSandbox::new();
    let engine = OwnEngine::start(&sandbox);
    ended_in_a_turn(&sandbox, &engine);
    sandbox.finish();
}

#[test]
fn a_place_with_the_disk_of_a_place_that_was_lost_begins_anew() {
    let sandbox = TestSandbox::new();
    let engine = OwnEngine::start(&sandbox);
    engine.set("shared", "");
    ended_in_a_turn(&sandbox, &engine);
    sandbox.finish();
}

#[test]
fn an_engine_that_says_rubbish_loses_nothing() {
    let sandbox = TestSandbox::new();
    let engine = OwnEngine::start(&sandbox);
    sandbox.init();
    let worker = sandbox.start_on("own");
    let gate = sandbox.gate("turn");
    let accepted = sandbox.send_no_wait(&worker, &format!("!say begun\n{}\n!say done", gate.directive()));
    sandbox.wait_for_prompt(1);
    engine.set("says-status", "the place is gone\u{1b}[1m");
    let dials = sandbox.processes().into_iter().filter(|process| process.name == "subagent-dial");
    for dial in dials {
        dial.signal(Signal::SIGKILL);
    }
    wait_until("the worker to be unreachable", DEADLINE, || {
        let shown = sandbox.show(&worker);
        assert_eq!(shown["state"], "running", "{shown}");
        let reason = shown["unreachable"]["reason"].to_string();
        assert!(!reason.contains("\\u001b"), "{shown}");
        reason.contains("the place is gone").then_some(())
    });
    gate.open();
    engine.clear("says-status");
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    assert_eq!(engine.created().len(), 1);
    stop(&sandbox, &worker);
    sandbox.finish();
}

#[test]
fn without_a_daemon_a_lease_ends_the_turn_and_the_place_stays_for_the_next_daemon() {
    let sandbox = TestSandbox::new();
    let engine = OwnEngine::start(&sandbox);
    engine.place(&sandbox, json!({"lease": LEASE}));
    sandbox.init();
    let worker = sandbox.start_on("own");
    let accepted = sandbox.send_no_wait(&worker, "!say begun\n!sleep 600000");
    sandbox.wait_for_prompt(1);
    let handle = engine.only();
    sandbox.kill_daemon();
    wait_until("the end of runtime and agent", DEADLINE, || sandbox.processes().is_empty().then_some(()));
    assert_eq!((engine.live(), engine.calls("cancel")), (vec![handle], 0));
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.canceled");
    let said = json!(sandbox.events(&worker)).to_string();
    assert!(said.contains("no daemon for 10 s, the lease of its placement"), "{said}");
    wait_until("the end of the place", DEADLINE, || engine.live().is_empty().then_some(()));
    assert_eq!(sandbox.send(&worker, "again")["assistantText"], "again");
    assert_eq!(engine.created().len(), 2);
    stop(&sandbox, &worker);
    sandbox.finish();
}
