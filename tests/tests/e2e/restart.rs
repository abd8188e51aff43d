//! Deaths of processes during work: runtime, guard, agent, daemon.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use rusqlite::Connection;
use serde_json::{Value, json};
use subagent_tests::harness::{TestLauncher, TestSandbox, wait_until};

/// A turn that has printed `begun` and waits at a gate.
fn turn_at_gate(sandbox: &TestSandbox, worker: &str, gate: &str) -> Value {
    let gate = sandbox.gate(gate);
    let prompt =
        format!("!touch {}\n!say begun\n{}\n!say done", sandbox.file_name("touched"), gate.directive());
    let accepted = sandbox.send_no_wait(worker, &prompt);
    let begun = sandbox.wait_after(worker, &accepted["acceptedEventId"], "progress.message");
    assert_eq!(begun["data"]["text"], "begun");
    accepted
}

fn of_type(events: &[Value], event_type: &str) -> Vec<Value> {
    events.iter().filter(|event| event["type"] == event_type).cloned().collect()
}

#[test]
fn a_runtime_that_is_killed_loses_its_turn_and_the_next_send_works() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "remember me");
    let session = sandbox.show(&worker)["sessionId"].clone();
    let accepted = turn_at_gate(&sandbox, &worker, "never");
    let runtime = sandbox.runtime(&worker);
    let guard = sandbox.guard(&runtime);
    let agent = sandbox.agent(&guard);
    sandbox.kill(&runtime);
    let end = sandbox.turn_end(&accepted);
    assert_eq!(end["type"], "turn.failed");
    let error = &end["data"]["error"];
    assert_eq!((&error["code"], &error["details"]["dispatched"]), (&json!("RUNTIME_LOST"), &json!("maybe")));
    let shown = sandbox.show(&worker);
    assert_eq!((&shown["state"], &shown["runtimePid"]), (&json!("idle"), &Value::Null));
    assert!(shown["lastError"].as_str().unwrap().starts_with("RUNTIME_LOST"), "{shown}");
    for process in [guard, agent] {
        wait_until("guard and agent to be gone", Duration::from_secs(5), || (!process.lives()).then_some(()));
    }
    let waited = sandbox.send(&worker, "again");
    assert_eq!(waited["assistantText"], "again", "the session's replay must not count as new output");
    let shown = sandbox.show(&worker);
    assert_eq!(shown["sessionId"], session, "{shown}");
    assert_ne!(shown["runtimePid"], runtime.pid);
    assert_eq!(sandbox.touches("touched"), 1, "the lost prompt was sent again");
    let events = sandbox.events(&worker);
    let restarted = of_type(&events, "worker.restarted");
    assert_eq!(restarted.len(), 1);
    assert_eq!(restarted[0]["data"]["contextLost"], false, "{restarted:?}");
    assert!(
        ["loaded", "resumed"].map(Value::from).contains(&restarted[0]["data"]["session"]),
        "{restarted:?}"
    );
    sandbox.finish();
}

#[test]
fn an_open_approval_is_lost_with_its_runtime() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let waited = sandbox.send(&worker, "!ask execute something");
    sandbox.kill(&sandbox.runtime(&worker));
    let end = sandbox.turn_end(&waited);
    assert_eq!(
        (&end["type"], &end["data"]["error"]["code"]),
        (&json!("turn.failed"), &json!("RUNTIME_LOST"))
    );
    let lost = of_type(&sandbox.events(&worker), "approval.lost");
    assert_eq!(lost.len(), 1);
    assert_eq!(lost[0]["data"]["requestId"], waited["requestId"]);
    let late = sandbox.approve(&worker, &waited["requestId"], "allow").any_error();
    assert!(late["code"] == "APPROVAL_NOT_PENDING" || late["code"] == "APPROVAL_NOT_FOUND", "{late}");
    assert_eq!(sandbox.send(&worker, "on")["assistantText"], "on");
    sandbox.finish();
}

#[test]
fn a_session_that_cannot_be_restored_is_reported() {
    let mut sandbox = TestSandbox::new();
    let forgetful =
        subagent_tests::harness::TestLauncher::new(sandbox.executable("subagent"), ["demo-agent"]);
    sandbox.launcher("forgetful", forgetful);
    sandbox.init();
    let worker = sandbox.start("forgetful");
    let before = sandbox.show(&worker)["sessionId"].clone();
    sandbox.kill(&sandbox.runtime(&worker));
    assert_eq!(sandbox.send(&worker, "who am I")["assistantText"], "who am I");
    assert_ne!(sandbox.show(&worker)["sessionId"], before);
    let restarted = of_type(&sandbox.events(&worker), "worker.restarted");
    assert_eq!(restarted[0]["data"]["contextLost"], true, "{restarted:?}");
    sandbox.finish();
}

#[test]
fn an_agent_that_crashes_fails_its_turn_once() {
    let (sandbox, worker) = TestSandbox::with_worker();
    for prompt in ["!stderr last words\n!say one\n!crash 7", "!say two\n!kill-self"] {
        let details = sandbox.send_fails(&worker, prompt, "BACKEND_UNAVAILABLE");
        assert!(["one", "two"].map(Value::from).contains(&details["assistantText"]), "{details}");
        assert_eq!(sandbox.send(&worker, "back")["assistantText"], "back");
    }
    let events = sandbox.events(&worker);
    let failed = of_type(&events, "turn.failed");
    assert_eq!(failed.len(), 2);
    assert_eq!(failed[0]["data"]["error"]["details"]["exitCode"], 7, "{failed:?}");
    assert!(failed[0].to_string().contains("last words"), "{failed:?}");
    sandbox.finish();
}

#[test]
fn an_agent_that_exits_after_its_turn_is_started_again() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let runtime = sandbox.runtime(&worker);
    assert_eq!(sandbox.send(&worker, "!say bye\n!exit-after")["matchedEvent"]["type"], "turn.completed");
    assert_eq!(sandbox.send(&worker, "hello again")["assistantText"], "hello again");
    assert_ne!(sandbox.runtime(&worker).pid, runtime.pid);
    sandbox.finish();
}

#[test]
fn a_killed_guard_takes_the_agent_with_it() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let accepted = turn_at_gate(&sandbox, &worker, "never");
    let runtime = sandbox.runtime(&worker);
    let guard = sandbox.guard(&runtime);
    let agent = sandbox.agent(&guard);
    sandbox.kill(&guard);
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.failed");
    wait_until("the agent to be gone", Duration::from_secs(5), || (!agent.lives()).then_some(()));
    assert_eq!(sandbox.send(&worker, "next")["assistantText"], "next");
    sandbox.finish();
}

#[test]
fn a_turn_goes_on_while_the_daemon_is_killed() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let gate = sandbox.gate("turn");
    let touched = sandbox.file_name("touched");
    let prompt = format!("!touch {touched}\n!say begun\n{}\n!chunks 5 x", gate.directive());
    let sending = sandbox.sending(&worker, &prompt).spawn();
    let follower = sandbox.follow(&worker);
    follower.wait_line("the beginning", |line| line.contains("\"begun\"").then_some(()));
    let runtime = sandbox.runtime(&worker);
    sandbox.kill_daemon();
    gate.open();
    // The waiting command finds or starts the next daemon itself.
    let waited = sending.output().data_of("turn.waited");
    assert_eq!(waited["matchedEvent"]["type"], "turn.completed");
    assert_eq!(waited["assistantText"], "begunxxxxx");
    follower.wait_line("the end of the turn", |line| line.contains("\"turn.completed\"").then_some(()));
    let _ = follower.kill();
    assert_eq!(sandbox.runtime(&worker).pid, runtime.pid, "the runtime was adopted");
    assert_eq!(sandbox.touches("touched"), 1);
    assert_eq!(sandbox.daemon_info().unwrap().generation, 2);
    sandbox.finish();
}

#[test]
fn an_approval_outlives_the_daemon() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let waited = sandbox.send(&worker, "!ask execute something");
    sandbox.kill_daemon();
    let decided = sandbox.approve(&worker, &waited["requestId"], "allow").data_of("approval.decided");
    assert_eq!(decided["optionId"], "allow-once");
    assert_eq!(sandbox.turn_end(&waited)["type"], "turn.completed");
    sandbox.finish();
}

#[test]
fn a_runtime_that_dies_while_no_daemon_runs_is_noticed_by_the_next() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let accepted = turn_at_gate(&sandbox, &worker, "never");
    let runtime = sandbox.runtime(&worker);
    sandbox.kill_daemon();
    sandbox.kill(&runtime);
    let end = sandbox.turn_end(&accepted);
    assert_eq!(end["data"]["error"]["code"], "RUNTIME_LOST");
    assert_eq!(sandbox.send(&worker, "next")["assistantText"], "next");
    sandbox.finish();
}

#[test]
fn a_turn_that_ends_while_no_daemon_runs_has_ended() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let gate = sandbox.gate("turn");
    let done = sandbox.file_name("done");
    let prompt = format!("!think it over\n{}\n!chunks 50 y\n!touch {done}", gate.directive());
    let accepted = sandbox.send_no_wait(&worker, &prompt);
    // Before that the daemon would take the prompt with it, and the next one would send it.
    let _ = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "progress.update:thought");
    sandbox.kill_daemon();
    gate.open();
    wait_until("the turn to end", Duration::from_secs(10), || (sandbox.touches("done") == 1).then_some(()));
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    let events = sandbox.events(&worker);
    assert_eq!(of_type(&events, "progress.message").len(), 50);
    sandbox.finish();
}

#[test]
fn a_stopped_runtime_is_unresponsive_and_never_lost() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let accepted = turn_at_gate(&sandbox, &worker, "turn");
    let runtime = sandbox.runtime(&worker);
    runtime.signal(Signal::SIGSTOP);
    // A daemon that has to adopt it must neither hang nor report it as dead.
    sandbox.kill_daemon();
    let shown = sandbox.show(&worker);
    assert_eq!(
        (&shown["state"], &shown["activeTurnId"]),
        (&json!("running"), &accepted["turnId"]),
        "{shown}"
    );
    let other = sandbox.start("demo");
    assert_eq!(sandbox.send(&other, "not delayed")["assistantText"], "not delayed");
    runtime.signal(Signal::SIGCONT);
    sandbox.gate("turn").open();
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    sandbox.finish();
}

#[test]
fn a_cancel_of_a_turn_that_a_silent_runtime_may_have_waits_for_it() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let runtime = sandbox.runtime(&worker);
    let gate = sandbox.gate("turn");
    let (begun, over) = (sandbox.file_name("begun"), sandbox.file_name("over"));
    runtime.signal(Signal::SIGSTOP);
    let prompt = format!("!touch {begun}\n{}\n!touch {over}", gate.directive());
    let accepted = sandbox.send_no_wait(&worker, &prompt);
    wait_until("a prompt without an answer", Duration::from_secs(20), || {
        (sandbox.show(&worker)["unresponsive"] == true).then_some(())
    });
    sandbox.kill_daemon();
    // Between two daemons it accepts the prompt that the first one has sent.
    runtime.signal(Signal::SIGCONT);
    wait_until("the turn to begin", Duration::from_secs(20), || {
        (sandbox.touches("begun") == 1).then_some(())
    });
    runtime.signal(Signal::SIGSTOP);
    let cancel = sandbox.subagent(&["cancel", "--worker-id", &worker]).spawn();
    wait_until("the cancel to be stored", Duration::from_secs(20), || {
        (sandbox.show(&worker)["state"] == "canceling").then_some(())
    });
    runtime.signal(Signal::SIGCONT);
    let canceled = cancel.output().data_of("turn.canceled");
    assert_eq!(canceled["turnId"], accepted["turnId"]);
    gate.open();
    assert_eq!(sandbox.send(&worker, "next")["assistantText"], "next");
    assert_eq!((sandbox.touches("begun"), sandbox.touches("over")), (1, 0), "the agent continued");
    sandbox.finish();
}

#[test]
fn a_send_while_the_old_runtime_ends_is_run_once() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let touched = sandbox.file_name("touched");
    for _ in 0..5 {
        let before = sandbox.touches("touched");
        sandbox.runtime(&worker).signal(Signal::SIGTERM);
        let waited = sandbox.send(&worker, &format!("!touch {touched}"));
        let runs = sandbox.touches("touched") - before;
        // The runtime may have accepted it before its own end: then the turn fails
        // and is not repeated.
        let completed = waited["matchedEvent"]["type"] == "turn.completed";
        assert!(if completed { runs == 1 } else { runs <= 1 }, "run {runs} times: {waited}");
        if !completed {
            // Nothing starts a runtime again before the next message.
            let _ = sandbox.send(&worker, "come back");
        }
    }
    sandbox.finish();
}

#[test]
fn a_send_right_after_its_runtime_was_killed_is_answered_by_the_next() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let session = sandbox.show(&worker)["sessionId"].clone();
    for round in 0..5 {
        let runtime = sandbox.runtime(&worker);
        // Does not wait: the daemon may notice the death before or after the message.
        runtime.signal(Signal::SIGKILL);
        let text = format!("round {round}");
        let waited = sandbox.send(&worker, &text);
        assert_eq!(waited["matchedEvent"]["type"], "turn.completed", "{waited}");
        assert_eq!(waited["assistantText"], text.as_str(), "{waited}");
        let shown = sandbox.show(&worker);
        assert_eq!(shown["sessionId"], session, "{shown}");
        assert_ne!(shown["runtimePid"], runtime.pid);
        assert!(shown["runtimePid"].is_i64(), "{shown}");
    }
    assert_eq!(of_type(&sandbox.events(&worker), "turn.started").len(), 5);
    sandbox.finish();
}

#[test]
fn a_watching_daemon_restarts_a_dead_runtime_at_once_and_not_again_within_the_cooldown() {
    let sandbox = TestSandbox::new();
    let daemon = sandbox
        .command("subagentd")
        .args(["run", "--monitor-workers", "--restart-cooldown-seconds", "3600", "--json"])
        .deadline(Duration::from_secs(120))
        .spawn();
    wait_until("the foreground daemon", Duration::from_secs(20), || {
        sandbox.daemon_info().filter(|info| info.mode == "foreground")
    });
    sandbox.init();
    let worker = sandbox.start("demo");
    let session = sandbox.show(&worker)["sessionId"].clone();
    let first = sandbox.runtime(&worker);
    let last = |event_type| of_type(&sandbox.events(&worker), event_type).pop().map(|e| e["eventId"].clone());
    let start = sandbox.events(&worker).pop().unwrap()["eventId"].clone();
    sandbox.kill(&first);
    let _ = sandbox.wait_after(&worker, &start, "worker.restarted");
    let second = sandbox.runtime(&worker);
    assert_ne!(second.pid, first.pid);
    let before = last("worker.restarted").unwrap();
    sandbox.kill(&second);
    let lost = sandbox.wait_after(&worker, &before, "worker.lost");
    let lost = lost["eventId"].as_str().unwrap();
    let next = ["wait", "--worker-id", &worker, "--from-event-id", lost, "--until", "any"];
    sandbox.run(&[&next[..], &["--timeout-seconds", "2"]].concat()).error("WAIT_TIMEOUT");
    let shown = sandbox.show(&worker);
    assert_eq!((&shown["state"], &shown["runtimePid"]), (&json!("idle"), &Value::Null), "{shown}");
    // A message never waits for the cooldown.
    assert_eq!(sandbox.send(&worker, "on")["assistantText"], "on");
    let shown = sandbox.show(&worker);
    assert_eq!(shown["sessionId"], session, "{shown}");
    assert_eq!(of_type(&sandbox.events(&worker), "worker.restarted").len(), 2);
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.output().status.code(), Some(0));
    sandbox.finish();
}

#[test]
fn what_runtime_and_guard_left_when_both_were_killed_in_one_stroke_is_found_by_its_marker() {
    let mut sandbox = TestSandbox::new();
    let agent = format!("setsid sleep 1000 & exec '{}' demo-agent", sandbox.executable("subagent"));
    sandbox.launcher("demo", TestLauncher::new("sh", ["-c".to_owned(), agent]));
    sandbox.init();
    let worker = sandbox.start("demo");
    let sleeper = || sandbox.processes().into_iter().find(|process| process.name == "sleep");
    let left = wait_until("the process that will remain", Duration::from_secs(10), sleeper);
    let runtime = sandbox.runtime(&worker);
    let guard = sandbox.guard(&runtime);
    // Stopped first, so that neither can react when the other dies.
    for signal in [Signal::SIGSTOP, Signal::SIGKILL] {
        runtime.signal(signal);
        guard.signal(signal);
    }
    wait_until("the process to be gone", Duration::from_secs(10), || (!left.lives()).then_some(()));
    assert_eq!(sandbox.send(&worker, "again")["assistantText"], "again");
    sandbox.finish();
}

#[test]
fn a_stop_that_a_dead_daemon_had_begun_for_a_silent_runtime_is_finished_by_the_next() {
    let mut sandbox = TestSandbox::new();
    // After the request is stored, before the runtime is notified.
    sandbox.set_env("SUBAGENT_FAILPOINTS", "terminate.before_send=abort");
    sandbox.set_env("SUBAGENT_FAILPOINTS_ONCE", sandbox.file("aborted"));
    sandbox.init();
    let worker = sandbox.start("demo");
    let runtime = sandbox.runtime(&worker);
    runtime.signal(Signal::SIGSTOP);
    let stopped = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    assert_eq!(stopped["state"], "stopped");
    assert!(sandbox.file("aborted").exists() && !runtime.lives());
    sandbox.finish();
}

#[test]
fn who_is_asked_for_is_taken_up_before_its_turn_comes() {
    let mut sandbox = TestSandbox::new();
    sandbox.set_env("SUBAGENT_SABOTAGE", "adoption.never");
    sandbox.init();
    let workers: Vec<String> = (0..4).map(|_| sandbox.start("demo")).collect();
    let accepted = turn_at_gate(&sandbox, &workers[1], "turn");
    let updated_at = || {
        let database = Connection::open(sandbox.state_dir().join("state.db")).unwrap();
        let sql = "SELECT updated_at FROM workers WHERE worker_id = ?1";
        database.query_row(sql, [&workers[0]], |row| row.get::<_, i64>(0)).unwrap()
    };
    let before = updated_at();
    sandbox.kill_daemon();
    let shown = sandbox.show(&workers[0]);
    assert_eq!((&shown["state"], shown["runtimePid"].is_i64()), (&json!("idle"), true), "{shown}");
    assert_eq!(updated_at(), before, "its runtime must report the known state");
    sandbox.gate("turn").open();
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    assert_eq!(sandbox.send(&workers[2], "hello")["assistantText"], "hello");
    let stopped = sandbox.run(&["worker", "stop", &workers[3]]).data_of("worker.stopped");
    assert_eq!(stopped["state"], "stopped");
    sandbox.finish();
}

#[test]
fn runtimes_that_do_not_answer_keep_no_other_worker_from_being_taken_up() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = turn_at_gate(&sandbox, &worker, "turn");
    let after = format!("!touch {}", sandbox.file_name("after"));
    let _ = sandbox.sending(&worker, &after).args(["--queue", "--no-wait"]).run().data_of("turn.queued");
    // More than are resumed at once, twice, and all of them before it.
    let silent: Vec<_> = (0..17).map(|_| sandbox.runtime(&sandbox.start("demo"))).collect();
    silent.iter().for_each(|runtime| runtime.signal(Signal::SIGSTOP));
    sandbox.kill_daemon();
    sandbox.gate("turn").open();
    let begun = Instant::now();
    // No request is about a worker.
    let _ = sandbox.run(&["daemon", "start"]).data_of("daemon.started");
    wait_until("the next turn", Duration::from_secs(20), || (sandbox.touches("after") == 1).then_some(()));
    // A runtime counts as silent after five seconds, and the next eight after ten.
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
    silent.iter().for_each(|runtime| runtime.signal(Signal::SIGCONT));
    sandbox.finish();
}

/// Resumes its session only if there is no file `shut` in its folder.
const SHUT: &str = r#"
while read -r line; do
    id=$(printf %s "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
    case $line in
    *'"initialize"'*) result='{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}' ;;
    *'"session/new"'*) result='{"sessionId":"s"}' ;;
    *'"session/load"'*)
        while [ -e shut ]; do sleep 0.02; done
        result='{}' ;;
    *) result='{"stopReason":"end_turn"}' ;;
    esac
    echo '{"jsonrpc":"2.0","id":'"$id"',"result":'"$result"'}'
done
"#;

#[test]
fn a_daemon_that_learns_twice_that_a_prompt_can_be_given_gives_it_once() {
    let mut sandbox = TestSandbox::new();
    std::fs::write(sandbox.file("agent.sh"), SHUT).unwrap();
    sandbox.launcher("shut", TestLauncher::new("sh", [sandbox.file_name("agent.sh")]));
    // Counts only, and breaks nothing.
    sandbox.set_env("SUBAGENT_FAILPOINTS", "dispatch.before_send=abort@1000");
    sandbox.set_env("SUBAGENT_FAILPOINTS_ONCE", sandbox.file("given"));
    sandbox.init();
    let worker = sandbox.start("shut");
    let shut = sandbox.workspace().join("shut");
    std::fs::write(&shut, "").unwrap();
    sandbox.kill(&sandbox.runtime(&worker));
    let accepted = sandbox.send_no_wait(&worker, "hello");
    let runtime = sandbox.runtime(&worker);
    sandbox.kill_daemon();
    std::fs::remove_file(&shut).unwrap();
    sandbox.wait_for_session_in(2);
    // The next daemon reads about the session and also gets it in the runtime's hello.
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    assert!(runtime.lives());
    assert_eq!(std::fs::read(sandbox.file("given.dispatch.before_send")).unwrap().len(), 1);
    sandbox.finish();
}
