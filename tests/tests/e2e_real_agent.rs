//! The real Gemini CLI through the whole product, against a model server of ours. Skipped, loudly, where it is not
//! installed; `SUBAGENT_REQUIRE_REAL_AGENTS=1` makes that a failure.

#![allow(clippy::unwrap_used, reason = "all of this file is a test")]

use std::fs;
use std::time::Duration;

use serde_json::json;
use subagent_tests::harness::{Launcher, Sandbox, wait_until};
use subagent_tests::model_server::ModelServer;
use subagent_tests::real_agent::{self, RealAgent};

/// The agent's part in a turn takes seconds on a busy machine.
const TURN: [&str; 2] = ["--wait-timeout-seconds", "120"];
const DEADLINE: Duration = Duration::from_secs(150);

fn launcher(agent: &RealAgent) -> Launcher {
    let command = agent.command.to_str().unwrap();
    let mut launcher =
        Launcher::new(command, agent.args.clone()).startup_seconds(120.0).cancel_grace_seconds(30.0);
    for (name, value) in &agent.env {
        launcher = launcher.env(name, value);
    }
    launcher
}

#[test]
fn gemini_works_for_a_manager() {
    let models = ModelServer::start().unwrap();
    let Some(agent) = real_agent::gemini(&models) else { return };
    let mut sandbox = Sandbox::new();
    sandbox.launcher("gemini", launcher(&agent));
    sandbox.init();
    let start = ["worker", "start", "--launcher", "gemini"];
    let started = sandbox.subagent(&start).deadline(DEADLINE).run().data_of("worker.started");
    let worker = started["workerId"].as_str().unwrap();
    let send = |prompt: &str| {
        sandbox.sending(worker, prompt).args(TURN).deadline(DEADLINE).run().data_of("turn.waited")
    };

    let waited = send("SAY: a text in pieces");
    assert_eq!(waited["matchedEvent"]["type"], "turn.completed", "{waited}");
    assert_eq!(waited["assistantText"], "a text in pieces");

    let made = sandbox.workspace().join("made-by-the-agent");
    let waited = send("RUN: touch made-by-the-agent");
    assert_eq!(waited["matchedEvent"]["type"], "approval.requested", "{waited}");
    assert!(!made.exists(), "nothing may run before it was allowed");
    sandbox.approve(worker, &waited["requestId"], "allow").data_of("approval.decided");
    assert_eq!(sandbox.turn_end(&waited)["type"], "turn.completed");
    assert!(made.exists());

    let waited = send("RUN: rm made-by-the-agent");
    assert_eq!(waited["matchedEvent"]["type"], "approval.requested", "{waited}");
    sandbox.approve(worker, &waited["requestId"], "deny").data_of("approval.decided");
    let _ = sandbox.turn_end(&waited);
    assert!(made.exists(), "it was denied");

    let gate = sandbox.gate("canceled");
    let accepted = sandbox.send_no_wait(worker, &format!("GATE: {}", gate.path().display()));
    let _ = sandbox.wait_after(worker, &accepted["acceptedEventId"], "progress.message");
    let cancel = ["cancel", "--worker-id", worker];
    let canceled = sandbox.subagent(&cancel).deadline(DEADLINE).run().data_of("turn.canceled");
    assert_eq!(canceled["turnId"], accepted["turnId"]);

    let gate = sandbox.gate("daemon");
    let accepted = sandbox.send_no_wait(worker, &format!("GATE: {}", gate.path().display()));
    let _ = sandbox.wait_after(worker, &accepted["acceptedEventId"], "progress.message");
    let runtime = sandbox.runtime(worker);
    sandbox.kill_daemon();
    gate.open();
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    assert_eq!(sandbox.runtime(worker).pid, runtime.pid);
    let delivered = models.prompts().iter().filter(|prompt| prompt.contains("gate-daemon")).count();
    assert_eq!(delivered, 1, "the prompt was delivered more than once");

    let session = sandbox.show(worker)["sessionId"].clone();
    sandbox.kill(&sandbox.runtime(worker));
    let waited = send("SAY: back again");
    assert_eq!(waited["assistantText"], "back again", "a replay is no new output");
    // This agent cannot load a session in the minute in which it was made: then a new one is made, and that is told.
    let events = sandbox.events(worker);
    let restarted = events.iter().find(|event| event["type"] == "worker.restarted").unwrap();
    let lost = sandbox.show(worker)["sessionId"] != session;
    assert_eq!(restarted["data"]["contextLost"], lost, "{restarted}");
    assert_eq!(restarted["data"]["session"], if lost { "new" } else { "loaded" }, "{restarted}");

    let stop = ["worker", "stop", worker];
    let stopped = sandbox.subagent(&stop).deadline(DEADLINE).run().data_of("worker.stopped");
    assert_eq!(stopped["state"], json!("stopped"));
    let node = || sandbox.processes().into_iter().filter(|process| process.name.starts_with("node")).count();
    wait_until("no process of the agent to be left", Duration::from_secs(5), || (node() == 0).then_some(()));
    fs::remove_file(made).unwrap();
    sandbox.finish();
}
