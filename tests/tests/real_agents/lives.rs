//! Behavior across turns: memory, other workers, processes that die.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use subagent_tests::harness::wait_until;

use super::world::{DEADLINE, RealAgentWorld};

pub(crate) fn five_turns(world: &RealAgentWorld) -> String {
    for turn in 1..=5 {
        world.say(&format!("turn number {turn}"));
        if turn == 1 {
            world.begins(&world.worker);
        }
    }
    let remembered = world.last_request("turn number 5");
    assert!(remembered.contains("turn number 1"), "the first turn was forgotten");
    "yes".into()
}

pub(crate) fn two_workers(world: &RealAgentWorld) -> String {
    let other = world.start();
    let gates = ["one", "two"].map(|name| world.sandbox.gate(name));
    let first = world.at_gate(&world.worker, &gates[0]);
    // Both have an open turn: this one prints while the first waits.
    let second = world.at_gate(&other, &gates[1]);
    for (gate, accepted) in gates.iter().zip([first, second]) {
        gate.open();
        let end = world.next(accepted["workerId"].as_str().unwrap(), &accepted["acceptedEventId"]);
        assert_eq!(end["type"], "turn.completed", "{end}");
    }
    world.begins(&other);
    world.stop(&other);
    // Early, so that it is old enough to be loaded later.
    let sleeper = world.start();
    world.say_to(&sleeper, "turn number 1");
    world.begins(&sleeper);
    world.sleeper.replace(sleeper);
    "yes".into()
}

pub(crate) fn daemon_killed(world: &RealAgentWorld) -> String {
    let gate = world.sandbox.gate("daemon");
    let accepted = world.at_gate(&world.worker, &gate);
    let runtime = world.sandbox.runtime(&world.worker);
    world.sandbox.kill_daemon();
    gate.open();
    let end = world.next(&world.worker, &accepted["acceptedEventId"]);
    assert_eq!(end["type"], "turn.completed", "{end}");
    assert_eq!(world.sandbox.runtime(&world.worker).pid, runtime.pid);
    assert_eq!(world.asked("gate-daemon"), 1, "the prompt was delivered more than once");
    "the turn goes on".into()
}

/// Waits until the agent can load the session of this worker.
fn can_be_loaded(world: &RealAgentWorld, worker: &str) {
    if world.agent.loads_next_minute {
        let minute = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap().as_secs() / 60;
        let since = world.since.borrow()[worker];
        let later = || (minute(SystemTime::now()) > minute(since)).then_some(());
        wait_until("a minute in which the session can be loaded", Duration::from_secs(61), later);
    }
}

pub(crate) fn all_killed(world: &RealAgentWorld) -> String {
    let sandbox = &world.sandbox;
    can_be_loaded(world, &world.worker);
    let session = sandbox.show(&world.worker)["sessionId"].clone();
    let runtime = sandbox.runtime(&world.worker);
    let agent = sandbox.agent(&sandbox.guard(&runtime));
    sandbox.kill(&runtime);
    sandbox.kill(&agent);
    back(world, &world.worker, "back again", &session)["session"].as_str().unwrap().to_owned()
}

/// A turn after which the agent is running again. Returns the data of the event that reports it.
fn back(world: &RealAgentWorld, worker: &str, text: &str, session: &Value) -> Value {
    world.say_to(worker, text);
    let events = world.sandbox.events(worker);
    let restarted = events.iter().rev().find(|event| event["type"] == "worker.restarted").unwrap();
    let lost = world.sandbox.show(worker)["sessionId"] != *session;
    assert_eq!(restarted["data"]["contextLost"], lost, "{restarted}");
    let remembers = world.last_request(text).contains("turn number 1");
    assert_eq!(remembers, !lost, "{restarted}");
    restarted["data"].clone()
}

/// The agent is ended because it is idle, and resumes its session at the next message.
pub(crate) fn hibernates(world: &RealAgentWorld) -> String {
    let sandbox = &world.sandbox;
    let worker = world.sleeper.take();
    let session = sandbox.show(&worker)["sessionId"].clone();
    let runtime = sandbox.runtime(&worker);
    let guard = sandbox.guard(&runtime);
    let agent = sandbox.agent(&guard);
    let set = |timeout| {
        let args = ["worker", "set", "--worker-id", &worker, "--idle-timeout", timeout];
        let _ = world.run(&args).data_of("worker.set");
    };
    set("1s");
    wait_until("the agent to be ended", DEADLINE, || {
        (sandbox.show(&worker)["hibernated"] == true).then_some(())
    });
    for process in [runtime, guard, agent] {
        assert!(!process.lives(), "{} is left", process.command_line());
    }
    set("never");
    can_be_loaded(world, &worker);
    let data = back(world, &worker, "awake again", &session);
    world.stop(&worker);
    assert!(data["hibernated"] == true && data["tookMs"].is_u64(), "{data}");
    data["session"].as_str().unwrap().to_owned()
}

pub(crate) fn listed(world: &RealAgentWorld) -> String {
    let list = world.run(&["session", "list", "--launcher", world.agent.name, "--cwd", "."]);
    if !list.status.success() {
        list.error("AGENT_METHOD_UNSUPPORTED");
        return "no".into();
    }
    let listed = list.data_of("session.listed");
    let session = world.sandbox.show(&world.worker)["sessionId"].clone();
    let found = listed["items"].as_array().unwrap().iter().find(|item| item["sessionId"] == session);
    assert!(found.is_some(), "{session} is missing: {listed}");
    "yes".into()
}

/// Another worker resumes the session of the worker that [`two_workers`] has stopped.
pub(crate) fn taken_up(world: &RealAgentWorld) -> String {
    let listed = world.run(&["worker", "list"]).data_of("worker.listed");
    let stopped = listed["items"].as_array().unwrap().iter().find(|worker| worker["state"] == "stopped");
    let stopped = stopped.unwrap();
    can_be_loaded(world, stopped["workerId"].as_str().unwrap());
    let session = stopped["sessionId"].as_str().unwrap();
    let worker = world.start_with(&["--resume", session]);
    world.say_to(&worker, "the next worker");
    assert!(world.last_request("the next worker").contains("gate-two"), "it remembers nothing");
    assert_eq!(world.sandbox.show(&worker)["sessionId"], session);
    let events = world.sandbox.events(&worker);
    world.stop(&worker);
    let started = events.iter().find(|event| event["type"] == "worker.started").unwrap();
    started["data"]["session"].as_str().unwrap().to_owned()
}

/// Deletes the session of a worker, which is stopped for that.
pub(crate) fn deleted(world: &RealAgentWorld) -> String {
    let worker = world.start();
    world.say_to(&worker, "soon forgotten");
    let session = world.sandbox.show(&worker)["sessionId"].as_str().unwrap().to_owned();
    world.stop(&worker);
    let delete = world.run(&["session", "delete", "--launcher", world.agent.name, &session]);
    if !delete.status.success() {
        delete.error("AGENT_METHOD_UNSUPPORTED");
        return "no".into();
    }
    delete.data_of("session.deleted");
    let start = ["worker", "start", "--launcher", world.agent.name, "--resume", &session];
    let gone = world.run(&start).error("SESSION_NOT_FOUND");
    world.stop(gone["details"]["workerId"].as_str().unwrap());
    "yes".into()
}
