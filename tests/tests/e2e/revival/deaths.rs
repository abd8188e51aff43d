//! Every death, and every way of recovery.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;
use subagent_tests::harness::{TestSandbox, wait_until};

use super::agent::{gone, of_type, sandbox, works};

/// The process that dies, and the time.
#[derive(Debug, Clone, Copy)]
enum ProcessDeath {
    /// The agent, by its action for this prompt.
    Agent(&'static str),
    /// The agent, by a signal while it is idle.
    IdleAgent,
    Runtime(Signal, Moment),
    Guard(Moment),
    /// Runtime and guard at the same time.
    Both(Moment),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Moment {
    Idle,
    InTurn,
}

const DEATHS: [ProcessDeath; 14] = [
    ProcessDeath::Agent("then: exit 0"),
    ProcessDeath::Agent("then: exit 1"),
    ProcessDeath::Agent("then: kill"),
    ProcessDeath::Agent("turn: exit 0"),
    ProcessDeath::Agent("turn: exit 1"),
    ProcessDeath::Agent("turn: kill"),
    ProcessDeath::IdleAgent,
    ProcessDeath::Runtime(Signal::SIGKILL, Moment::Idle),
    ProcessDeath::Runtime(Signal::SIGKILL, Moment::InTurn),
    ProcessDeath::Runtime(Signal::SIGTERM, Moment::Idle),
    ProcessDeath::Guard(Moment::Idle),
    ProcessDeath::Guard(Moment::InTurn),
    ProcessDeath::Both(Moment::Idle),
    ProcessDeath::Both(Moment::InTurn),
];

impl ProcessDeath {
    /// Kills the process. Returns the cursor from before.
    fn strike(self, sandbox: &TestSandbox, worker: &str) -> serde_json::Value {
        let before = sandbox.events(worker).pop().unwrap()["eventId"].clone();
        let runtime = sandbox.runtime(worker);
        let guard = sandbox.guard(&runtime);
        let moment = match self {
            Self::Agent(_) | Self::IdleAgent => Moment::Idle,
            Self::Runtime(_, moment) | Self::Guard(moment) | Self::Both(moment) => moment,
        };
        if moment == Moment::InTurn {
            let _ = std::fs::remove_file(sandbox.file("words.waits"));
            let _ = sandbox.send_no_wait(worker, "turn: wait");
            wait_until("the turn", Duration::from_secs(20), || {
                sandbox.file("words.waits").exists().then_some(())
            });
        }
        match self {
            Self::Agent(prompt) => drop(sandbox.sending(worker, prompt).run()),
            Self::IdleAgent => sandbox.agent(&guard).signal(Signal::SIGKILL),
            Self::Runtime(signal, _) => runtime.signal(signal),
            Self::Guard(_) => guard.signal(Signal::SIGKILL),
            Self::Both(_) => {
                for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
                    runtime.signal(signal);
                    guard.signal(signal);
                }
            }
        }
        if moment == Moment::InTurn {
            let _ = sandbox.wait_after(worker, &before, "turn.failed,turn.canceled");
        }
        before
    }
}

/// Checks that the worker has recovered once more than before, with its session.
#[track_caller]
fn is_back(sandbox: &TestSandbox, worker: &str, session: &serde_json::Value, times: usize, what: &str) {
    let restarted = of_type(sandbox, worker, "worker.restarted");
    assert_eq!(restarted.len(), times, "{what}: {restarted:?}");
    let data = &restarted.last().unwrap()["data"];
    assert_eq!((&data["session"], &data["contextLost"]), (&json!("loaded"), &json!(false)), "{what}: {data}");
    let shown = sandbox.show(worker);
    assert_eq!((&shown["sessionId"], &shown["state"]), (session, &json!("idle")), "{what}");
}

#[test]
fn after_every_death_the_next_message_is_answered_on_the_same_session() {
    let sandbox = sandbox("load");
    let worker = sandbox.start("words");
    let session = sandbox.show(&worker)["sessionId"].clone();
    for (index, death) in DEATHS.into_iter().enumerate() {
        death.strike(&sandbox, &worker);
        gone(&sandbox, &worker);
        works(&sandbox, &worker);
        is_back(&sandbox, &worker, &session, index + 1, &format!("{death:?}"));
        assert_eq!(sandbox.show(&worker)["lastError"], json!(null), "{death:?}");
    }
    sandbox.finish();
}

#[test]
fn after_every_death_a_message_that_does_not_wait_for_the_news_has_one_end() {
    let sandbox = sandbox("load");
    let worker = sandbox.start("words");
    for death in DEATHS {
        death.strike(&sandbox, &worker);
        // The daemon may not have noticed: the message may fail, but it ends once, and
        // the next one works.
        let accepted = sandbox.subagent(&["send", "--worker-id", &worker, "--text", "on", "--no-wait"]).run();
        if accepted.status.success() {
            let accepted = accepted.data_of("turn.accepted");
            let _ = sandbox.turn_end(&accepted);
        } else {
            assert_eq!(accepted.any_error()["code"], "WORKER_BUSY", "{death:?}: {accepted}");
        }
        wait_until("the worker to be idle", Duration::from_secs(20), || {
            (sandbox.show(&worker)["state"] == "idle").then_some(())
        });
        // Everything on its way out is then gone.
        let _ = sandbox.run(&["worker", "restart", &worker]).data_of("worker.restarted");
        works(&sandbox, &worker);
    }
    sandbox.finish();
}

#[test]
fn after_every_death_a_restart_brings_the_worker_back() {
    let sandbox = sandbox("load");
    let worker = sandbox.start("words");
    let session = sandbox.show(&worker)["sessionId"].clone();
    for (index, death) in DEATHS.into_iter().enumerate() {
        death.strike(&sandbox, &worker);
        // Also while the old one is still ending.
        let after = sandbox.run(&["worker", "restart", &worker]).data_of("worker.restarted");
        assert_eq!((&after["state"], &after["lastError"]), (&json!("idle"), &json!(null)), "{death:?}");
        is_back(&sandbox, &worker, &session, index + 1, &format!("{death:?}"));
    }
    works(&sandbox, &worker);
    sandbox.finish();
}

#[test]
fn after_every_death_a_daemon_that_watches_brings_the_worker_back() {
    let sandbox = sandbox("load");
    let _ = sandbox.run(&["daemon", "stop"]);
    let daemon = sandbox
        .command("subagentd")
        .args(["run", "--restart-cooldown-seconds", "1", "--heartbeat-seconds", "1"])
        .deadline(Duration::from_secs(300))
        .spawn();
    daemon.wait_line("readiness", |_| Some(()));
    // A separate worker for each, so that none has to wait for its cooldown.
    for death in DEATHS {
        let worker = sandbox.start("words");
        let session = sandbox.show(&worker)["sessionId"].clone();
        let before = death.strike(&sandbox, &worker);
        let _ = sandbox.wait_after(&worker, &before, "worker.restarted");
        is_back(&sandbox, &worker, &session, 1, &format!("{death:?}"));
        works(&sandbox, &worker);
    }
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.output().status.code(), Some(0));
    sandbox.finish();
}

#[test]
fn after_every_death_another_worker_can_go_on() {
    let sandbox = sandbox("load");
    let worker = sandbox.start("words");
    for death in DEATHS {
        death.strike(&sandbox, &worker);
        let data = sandbox.run(&["worker", "continue", "--from-worker", &worker]).data_of("worker.continued");
        assert_eq!(data["sourceWorkerId"], json!(worker), "{death:?}");
        assert_eq!(sandbox.turn_end(&data["bootstrapTurn"])["type"], "turn.completed", "{death:?}");
        gone(&sandbox, &worker);
        works(&sandbox, &worker);
    }
    sandbox.finish();
}
