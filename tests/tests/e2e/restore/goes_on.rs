//! `subagent restore`: what must still hold after the database has gone back to an earlier moment.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use subagent_tests::harness::{Gate, TestLauncher, TestSandbox, assert_shape, wait_until};

use super::{keep, restore, saved, saved_after_a_turn};

/// Time limit for short waits.
const LIMIT: Duration = Duration::from_secs(30);

/// A turn that has printed `begun` and waits at a gate.
fn turn_at_gate(sandbox: &TestSandbox, worker: &str, gate: &Gate) -> Value {
    let touch = sandbox.file_name("touched");
    let accepted =
        sandbox.send_no_wait(worker, &format!("!touch {touch}\n!say begun\n{}\n!say done", gate.directive()));
    let begun = sandbox.wait_after(worker, &accepted["acceptedEventId"], "progress.message");
    assert_eq!(begun["data"]["text"], "begun");
    accepted
}

fn of_type(events: &[Value], event_type: &str) -> Vec<Value> {
    events.iter().filter(|event| event["type"] == event_type).cloned().collect()
}

fn last_event(sandbox: &TestSandbox, worker: &str) -> String {
    sandbox.events(worker).last().unwrap()["eventId"].as_str().unwrap().to_owned()
}

#[test]
fn a_turn_that_the_backup_does_not_know_goes_on_and_ends() {
    let (sandbox, worker, kept) = saved_after_a_turn();
    let _ = sandbox.send(&worker, "two");
    let gate = sandbox.gate("three");
    let third = turn_at_gate(&sandbox, &worker, &gate);
    let (seen, runtime) = (last_event(&sandbox, &worker), sandbox.runtime(&worker));
    let generation = sandbox.daemon_info().unwrap().generation;
    let data = restore(&sandbox, &kept, &[]);
    assert_shape(
        &data,
        &json!({
            "path": "str", "stateDbPath": "str", "replacedPath": "str?", "schema": "int", "continued": "bool",
            "releasedOwners": "int", "liveWorkers": ["w"], "endedWorkers": [], "setAside": [], "setAsidePath": "str?",
            "daemon": {"pid": "int", "mode": "str"},
        }),
    );
    assert_eq!((&data["continued"], &data["liveWorkers"]), (&json!(true), &json!([worker])));
    assert!(Path::new(data["replacedPath"].as_str().unwrap()).is_file());
    let shown = sandbox.show(&worker);
    assert_eq!((&shown["state"], &shown["runtimePid"]), (&json!("running"), &json!(runtime.pid)), "{shown}");
    assert!(sandbox.daemon_info().unwrap().generation > generation);
    let lost = ["wait", "--worker-id", &worker, "--from-event-id", &seen, "--until", "turn.completed"];
    sandbox.run(&lost).error("EVENT_NOT_FOUND");
    let recovered = of_type(&sandbox.events(&worker), "turn.started").pop().unwrap();
    gate.open();
    let ends = "turn.completed,turn.failed,turn.canceled";
    let end = sandbox.wait_after(&worker, &recovered["eventId"], ends);
    assert_eq!(end["type"], "turn.completed", "{end}");
    let events = sandbox.events(&worker);
    let started = of_type(&events, "turn.started");
    assert_eq!(started.len(), 3, "{started:?}");
    assert_eq!((&started[2]["data"]["recovered"], &started[2]["turnId"]), (&json!(true), &third["turnId"]));
    assert_eq!(of_type(&events, "turn.completed").len(), 3);
    assert!(of_type(&events, "journal.gap").is_empty(), "everything was still in the journal");
    let new = events.iter().filter(|event| event["data"]["recovered"] == true);
    assert!(
        new.clone().all(|event| event["eventId"].as_str().unwrap() > seen.as_str()),
        "a number was given twice"
    );
    assert_eq!(sandbox.send(&worker, "four")["assistantText"], "four");
    assert_eq!(sandbox.touches("touched"), 1, "a prompt was repeated");
    sandbox.finish();
}

#[test]
fn records_that_are_gone_are_one_gap_and_the_rest_is_there() {
    let (sandbox, worker, kept) = saved_after_a_turn();
    // More than a segment holds: the first one is deleted.
    let _ = sandbox.send(&worker, "!flood 300 65536");
    let _ = sandbox.send(&worker, "last");
    restore(&sandbox, &kept, &[]);
    let shown = sandbox.show(&worker);
    assert_eq!(shown["state"], "idle", "{shown}");
    let gaps = of_type(&sandbox.events(&worker), "journal.gap");
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    let (first, last) = (gaps[0]["data"]["firstMissing"].as_u64(), gaps[0]["data"]["lastMissing"].as_u64());
    assert!(first.unwrap() > 1 && last > first, "{gaps:?}");
    assert_eq!(sandbox.send(&worker, "again")["assistantText"], "again");
    sandbox.finish();
}

#[test]
fn a_turn_whose_beginning_is_gone_is_open_and_can_be_canceled() {
    for cancel in [false, true] {
        let (sandbox, worker, kept) = saved();
        let gate = sandbox.gate("on");
        let accepted = sandbox
            .send_no_wait(&worker, &format!("!flood 300 65536\n!say begun\n{}\n!say done", gate.directive()));
        let args = ["wait", "--worker-id", &worker, "--from-event-id"];
        let cursor = accepted["acceptedEventId"].as_str().unwrap();
        let _ = sandbox.run(&[&args[..], &[cursor, "--until", "progress.message"]].concat());
        // All of it was written and read.
        wait_until("the whole flood to be read", LIMIT, || {
            sandbox.events(&worker).iter().any(|event| event["data"]["text"] == "begun").then_some(())
        });
        restore(&sandbox, &kept, &[]);
        let shown = sandbox.show(&worker);
        assert_eq!(shown["state"], "running", "{shown}");
        if cancel {
            let _ = sandbox.run(&["cancel", "--worker-id", &worker]).data_of("turn.canceled");
        } else {
            gate.open();
            let started = of_type(&sandbox.events(&worker), "turn.started");
            let end = sandbox.wait_after(&worker, &started[0]["eventId"], "turn.completed,turn.failed");
            assert_eq!(end["type"], "turn.completed", "{end}");
        }
        gate.open();
        assert_eq!(of_type(&sandbox.events(&worker), "journal.gap").len(), 1);
        assert_eq!(sandbox.send(&worker, "again")["assistantText"], "again");
        sandbox.finish();
    }
}

#[test]
fn a_question_that_the_backup_does_not_know_can_be_answered() {
    let (sandbox, worker, kept) = saved();
    let asked = sandbox.send(&worker, "!ask execute make\n!say done");
    restore(&sandbox, &kept, &[]);
    let shown = sandbox.show(&worker);
    assert_eq!(shown["state"], "waiting_approval", "{shown}");
    let decided = sandbox.approve(&worker, &asked["requestId"], "allow").data_of("approval.decided");
    assert_eq!(decided["delivery"], "delivered");
    let end = sandbox.wait_after(&worker, &decided["eventId"], "turn.completed,turn.failed");
    assert_eq!(end["type"], "turn.completed", "{end}");
    sandbox.finish();
}

#[test]
fn a_question_that_was_answered_since_is_not_asked_again() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let asked = sandbox.send(&worker, "!ask execute make\n!say done");
    let kept = keep(&sandbox);
    let _ = sandbox.approve(&worker, &asked["requestId"], "allow").data_of("approval.decided");
    let _ = sandbox.turn_end(&asked);
    restore(&sandbox, &kept, &[]);
    assert_eq!(sandbox.show(&worker)["state"], "idle");
    sandbox.approve(&worker, &asked["requestId"], "allow").error("APPROVAL_NOT_PENDING");
    assert_eq!(sandbox.send(&worker, "again")["assistantText"], "again");
    sandbox.finish();
}

#[test]
fn workers_that_the_backup_does_not_know_are_named_and_only_force_ends_them() {
    let (sandbox, known, kept) = saved();
    let orphan = sandbox.start("demo");
    let gone = sandbox.start("demo");
    let _ = sandbox.run(&["worker", "stop", &gone]).data_of("worker.stopped");
    let (daemon, runtime) = (sandbox.daemon(), sandbox.runtime(&orphan));
    let error = sandbox.run(&["restore", &kept.file]).error("RESTORE_WOULD_ORPHAN");
    assert_eq!(error["details"]["workers"], json!([orphan]), "{error}");
    assert_eq!(sandbox.daemon().pid, daemon.pid, "the daemon was ended without need");
    assert_eq!(sandbox.show(&orphan)["state"], "idle");
    let data = restore(&sandbox, &kept, &["--force"]);
    assert_eq!(data["endedWorkers"], json!([orphan]));
    wait_until("its runtime to be gone", Duration::from_secs(5), || (!runtime.lives()).then_some(()));
    let aside = PathBuf::from(data["setAsidePath"].as_str().unwrap());
    for worker in [&orphan, &gone] {
        assert!(aside.join(worker).is_dir(), "{data}");
        sandbox.run(&["worker", "show", worker]).error("WORKER_NOT_FOUND");
    }
    assert_eq!(sandbox.send(&known, "well")["assistantText"], "well");
    sandbox.finish();
}

#[test]
fn an_orphan_that_does_not_answer_is_ended_all_the_same() {
    let (sandbox, _, kept) = saved();
    let orphan = sandbox.start("demo");
    let runtime = sandbox.runtime(&orphan);
    let guard = sandbox.guard(&runtime);
    runtime.signal(nix::sys::signal::Signal::SIGSTOP);
    let data = restore(&sandbox, &kept, &["--force"]);
    assert_eq!(data["endedWorkers"], json!([orphan]));
    wait_until("its processes to be gone", Duration::from_secs(5), || {
        (!runtime.lives() && !guard.lives()).then_some(())
    });
    sandbox.finish();
}

#[test]
fn no_handle_is_worth_anything_after_a_restore_and_epochs_go_on() {
    let sandbox = TestSandbox::new();
    let first = sandbox.init()["owner"].clone();
    let worker = sandbox.start("demo");
    let kept = keep(&sandbox);
    let take = || {
        sandbox.run(&["controller", "attach", "--takeover"]).data_of("controller.attached")["owner"].take()
    };
    let second = take();
    let as_owner = |owner: &Value, args: &[&str]| {
        let text = |key: &str| owner[key].as_str().map_or_else(|| owner[key].to_string(), str::to_owned);
        sandbox
            .subagent(args)
            .env("SUBAGENT_CTL_ID", text("controllerId"))
            .env("SUBAGENT_CTL_EPOCH", text("epoch"))
            .env("SUBAGENT_CTL_TOKEN", text("token"))
            .run()
    };
    let daemon = sandbox.daemon();
    as_owner(&first, &["restore", &kept.file]).error("INVALID_CONTROLLER_HANDLE");
    assert_eq!(sandbox.daemon().pid, daemon.pid, "a stale handle ended the daemon");
    let data = as_owner(&second, &["restore", &kept.file]).data_of("state.restored");
    sandbox.recorder().go_back_to(kept.known.clone());
    assert_eq!(data["releasedOwners"], 1);
    for stale in [&first, &second] {
        as_owner(stale, &["worker", "stop", &worker]).error("INVALID_CONTROLLER_HANDLE");
    }
    let third = take();
    assert!(third["epoch"].as_u64() > second["epoch"].as_u64(), "{third}");
    as_owner(&third, &["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn a_worker_that_was_stopped_since_is_idle_and_its_prompts_are_not_repeated() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let runtime = sandbox.runtime(&worker);
    // Accepted and not yet with the runtime: this is the state in the backup.
    runtime.signal(nix::sys::signal::Signal::SIGSTOP);
    let touch = sandbox.file_name("touched");
    let accepted = sandbox.send_no_wait(&worker, &format!("!touch {touch}"));
    let kept = keep(&sandbox);
    runtime.signal(nix::sys::signal::Signal::SIGCONT);
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    for lose_journal in [false, true] {
        if lose_journal {
            fs::remove_dir_all(sandbox.state_dir().join("runtimes").join(&worker)).unwrap();
        }
        let data = restore(&sandbox, &kept, &[]);
        assert_eq!(data["liveWorkers"], json!([]));
        let end = sandbox.turn_end(&accepted);
        let expected = if lose_journal { "turn.failed" } else { "turn.completed" };
        assert_eq!(end["type"], expected, "{end}");
        assert_eq!(sandbox.show(&worker)["state"], "idle");
        assert_eq!(sandbox.touches("touched"), 1, "the prompt was sent again");
    }
    sandbox.finish();
}

#[test]
fn a_turn_that_waited_in_the_backup_is_not_sent_again() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let runtime = sandbox.runtime(&worker);
    runtime.signal(nix::sys::signal::Signal::SIGSTOP);
    let touch = sandbox.file_name("touched");
    let accepted = sandbox.send_no_wait(&worker, &format!("!touch {touch}"));
    let kept = keep(&sandbox);
    restore(&sandbox, &kept, &[]);
    runtime.signal(nix::sys::signal::Signal::SIGCONT);
    let end = sandbox.turn_end(&accepted);
    // Either the former daemon had sent it to the runtime, or it is never sent.
    assert!(end["type"] == "turn.completed" || end["data"]["error"]["code"] == "RUNTIME_LOST", "{end}");
    assert_eq!(sandbox.touches("touched"), usize::from(end["type"] == "turn.completed"), "{end}");
    assert_eq!(sandbox.send(&worker, "again")["assistantText"], "again");
    sandbox.finish();
}

#[test]
fn a_message_with_the_same_key_is_not_sent_again() {
    let (sandbox, worker, kept) = saved();
    let prompt = format!("!touch {}", sandbox.file_name("touched"));
    let send = || sandbox.sending(&worker, &prompt).args(["--turn-id", "key-1", "--no-wait"]).run();
    let first = send().data_of("turn.accepted");
    let _ = sandbox.turn_end(&first);
    restore(&sandbox, &kept, &[]);
    assert_eq!(send().data_of("turn.accepted"), first);
    sandbox.recorder().go_back_to(kept.known.clone());
    assert_eq!(sandbox.touches("touched"), 1);
    sandbox.finish();
}

#[test]
fn a_worker_goes_on_from_one_whose_handoff_is_gone() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "one");
    let handoff = sandbox.run(&["worker", "handoff", "--worker-id", &worker]).data_of("worker.handoff.ready");
    let kept = keep(&sandbox);
    let later = sandbox.run(&["worker", "handoff", "--worker-id", &worker]).data_of("worker.handoff.ready");
    fs::remove_file(handoff["handoffPath"].as_str().unwrap()).unwrap();
    restore(&sandbox, &kept, &[]);
    let data = sandbox.run(&["worker", "continue", "--from-worker", &worker]).data_of("worker.continued");
    assert_eq!(data["sourceWorkerId"], worker.as_str(), "{data}");
    let reported = later["handoffPath"].as_str().unwrap();
    assert!(Path::new(reported).is_file(), "an acknowledged handoff was removed");
    sandbox.finish();
}

#[test]
fn a_later_runtime_of_a_known_worker_is_taken_over() {
    let (sandbox, worker, kept) = saved_after_a_turn();
    let _ = sandbox.run(&["worker", "restart", &worker]).data_of("worker.restarted");
    let gate = sandbox.gate("two");
    let _ = turn_at_gate(&sandbox, &worker, &gate);
    sandbox.kill(&sandbox.runtime(&worker));
    let _ = sandbox.send(&worker, "three");
    let (runtime, seen) = (sandbox.runtime(&worker), last_event(&sandbox, &worker));
    restore(&sandbox, &kept, &[]);
    let shown = sandbox.show(&worker);
    assert_eq!((&shown["state"], &shown["runtimePid"]), (&json!("idle"), &json!(runtime.pid)), "{shown}");
    let events = sandbox.events(&worker);
    // The journals of runtimes in between are deleted when the next one starts.
    assert_eq!(of_type(&events, "journal.gap").len(), 1, "{events:?}");
    assert_eq!(of_type(&events, "worker.restarted").len(), 1, "{events:?}");
    assert_eq!(of_type(&events, "turn.completed").len(), 2, "{events:?}");
    assert!(last_event(&sandbox, &worker) > seen);
    assert_eq!(sandbox.send(&worker, "four")["assistantText"], "four");
    assert_eq!(sandbox.touches("touched"), 1);
    sandbox.finish();
}

#[test]
fn a_worker_that_was_only_being_started_has_started() {
    let mut sandbox = TestSandbox::new();
    let gate = sandbox.gate("start");
    let (program, state) = (sandbox.executable("subagent"), sandbox.file_name("sessions"));
    let wait = format!("until [ -e {} ]; do sleep 0.05; done", gate.path().display());
    let script = format!("{wait}; exec {program} demo-agent --state {state}");
    let slow = TestLauncher::new("sh", ["-c", script.as_str()]);
    sandbox.launcher("slow", slow);
    sandbox.init();
    let starting = sandbox.subagent(&["worker", "start", "--launcher", "slow"]).spawn();
    wait_until("the worker in the list", LIMIT, || {
        let listed = sandbox.run(&["worker", "list"]).data_of("worker.listed");
        listed["items"].as_array().filter(|items| !items.is_empty()).map(drop)
    });
    let kept = keep(&sandbox);
    gate.open();
    let worker = starting.output().data_of("worker.started")["workerId"].as_str().unwrap().to_owned();
    let _ = sandbox.send(&worker, "one");
    restore(&sandbox, &kept, &[]);
    assert_eq!(sandbox.show(&worker)["state"], "idle");
    assert_eq!(sandbox.send(&worker, "two")["assistantText"], "two");
    sandbox.finish();
}
