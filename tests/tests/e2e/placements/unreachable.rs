//! A place that does not answer: the worker is `unreachable`, never lost, and goes on. Requests are
//! stored and delivered when it answers.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use subagent_tests::harness::{On, TestSandbox, request, wait_until};

use super::{DEADLINE, dial, dials};

/// A dead link is reported within this time.
const REPORTED: Duration = Duration::from_secs(5);

/// The connections to the places of a sandbox, which a test cuts.
pub(super) struct Link {
    cut: PathBuf,
}

impl Link {
    pub(super) fn of(sandbox: &mut TestSandbox) -> Self {
        let cut = sandbox.file("cut");
        sandbox.set_env("SUBAGENT_FAILPOINTS", format!("dial.before_open=while({})", cut.display()));
        Self { cut }
    }

    pub(super) fn cut(&self, sandbox: &TestSandbox) {
        fs::write(&self.cut, "").unwrap();
        for dial in dials(sandbox) {
            dial.signal(Signal::SIGKILL);
        }
    }

    pub(super) fn repair(&self) {
        fs::remove_file(&self.cut).unwrap();
    }
}

fn linked() -> (TestSandbox, Link, String) {
    let mut sandbox = TestSandbox::placed();
    let link = Link::of(&mut sandbox);
    sandbox.init();
    let worker = sandbox.start("demo");
    (sandbox, link, worker)
}

pub(super) fn unreachable(sandbox: &TestSandbox, worker: &str) -> Value {
    wait_until("the worker to be unreachable", DEADLINE, || {
        let shown = sandbox.show(worker);
        Some(shown["unreachable"].clone()).filter(Value::is_object)
    })
}

pub(super) fn reached(sandbox: &TestSandbox, worker: &str) {
    wait_until("the worker to be reached", DEADLINE, || {
        sandbox.show(worker).get("unreachable").is_none().then_some(())
    });
}

fn count(events: &[Value], kind: &str) -> usize {
    events.iter().filter(|event| event["type"] == kind).count()
}

#[test]
fn a_second_runtime_is_started_only_if_its_owner_accepts_it_and_the_first_one_is_ended() {
    let (sandbox, link, worker) = linked();
    let restart = ["worker", "restart", &worker, "--force", "--accept-duplicate"];
    let error = sandbox.run(&restart).error("INVALID_WORKER_STATE");
    assert!(error["details"]["recommendedAction"].as_str().unwrap().contains("without"), "{error}");
    let accepted = sandbox.send_no_wait(&worker, "!say begun\n!sleep 600000");
    let _ = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "progress.message");
    let first = sandbox.runtime(&worker);
    link.cut(&sandbox);
    let _ = unreachable(&sandbox, &worker);
    let restarting = sandbox.subagent(&restart).spawn();
    // The new runtime is started by `submit`, which needs no stream.
    let end = sandbox.turn_end(&accepted);
    assert_eq!(end["type"], "turn.canceled", "{end}");
    wait_until("the end of the first runtime", DEADLINE, || (!first.lives()).then_some(()));
    link.repair();
    let _ = restarting.output().data_of("worker.restarted");
    assert_eq!(count(&sandbox.events(&worker), "worker.duplicate_accepted"), 1);
    assert_eq!(sandbox.send(&worker, "again")["assistantText"], "again");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn a_cut_link_is_reported_and_the_turn_goes_on() {
    let (sandbox, link, worker) = linked();
    let gate = sandbox.gate("turn");
    let accepted = sandbox.send_no_wait(&worker, &format!("!say begun\n{}\n!say done", gate.directive()));
    let _ = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "progress.message");
    assert!(sandbox.show(&worker).get("unreachable").is_none());
    let cursor = accepted["acceptedEventId"].as_str().unwrap();
    let waiting = sandbox.subagent(&["wait", "--worker-id", &worker, "--from-event-id", cursor]).spawn();
    let follower = sandbox.follow(&worker);
    let begun = Instant::now();
    link.cut(&sandbox);
    let event = follower.wait_line("the report", |line| {
        let event: Value = serde_json::from_str(line).ok()?;
        (event["type"] == "worker.unreachable").then_some(event)
    });
    assert!(begun.elapsed() < REPORTED, "{:?}", begun.elapsed());
    // It would start a daemon again.
    let _ = follower.kill();
    let reported = unreachable(&sandbox, &worker);
    for known in [&reported, &event["data"]] {
        assert!(known["lastHeard"].as_str().unwrap() <= known["since"].as_str().unwrap(), "{known}");
        assert_eq!(known["reason"]["code"], "PLACEMENT_UNREACHABLE", "{known}");
    }
    assert!(reported["reason"]["message"].as_str().unwrap().contains("Input/output error"), "{reported}");
    // Marked wherever the state is shown.
    let info = sandbox.daemon_info().unwrap();
    let overview = request(&info.socket, &["GET /v1/overview HTTP/1.1"], "").json();
    let marked = [
        sandbox.show(&worker),
        sandbox.run(&["worker", "list"]).data()["items"][0].clone(),
        sandbox.run(&["ls"]).data()["items"][0].clone(),
        overview["data"]["items"][0].clone(),
    ];
    for shown in &marked {
        assert_eq!(
            (&shown["state"], &shown["unreachable"]["since"]),
            (&json!("running"), &reported["since"])
        );
    }
    for command in [["ls"].as_slice(), &["worker", "show", &worker]] {
        let screen = sandbox.command("subagent").args(command).at_terminal(250, On::Both).screen();
        assert!(
            screen.text().contains("unreachable for") || screen.text().contains("not answered for"),
            "{}",
            screen.text()
        );
    }
    // Stored, and said so.
    let queued =
        sandbox.run(&["send", "--worker-id", &worker, "--text", "next", "--if-busy", "queue", "--no-wait"]);
    assert_eq!(queued.data()["unreachable"]["since"], reported["since"], "{queued}");
    gate.open();
    link.repair();
    reached(&sandbox, &worker);
    assert_eq!(waiting.output().data_of("event.matched")["type"], "turn.completed");
    wait_until("the queued turn", DEADLINE, || {
        (count(&sandbox.events(&worker), "turn.completed") == 2).then_some(())
    });
    let events = sandbox.events(&worker);
    assert_eq!((count(&events, "worker.unreachable"), count(&events, "worker.reached")), (1, 1));
    assert_eq!((count(&events, "worker.lost"), count(&events, "message.sent")), (0, 2));
    sandbox.finish();
}

#[test]
fn a_half_open_link_is_noticed_and_replaced() {
    let (sandbox, _, worker) = linked();
    let gate = sandbox.gate("turn");
    let accepted = sandbox.send_no_wait(&worker, &format!("!say begun\n{}", gate.directive()));
    let _ = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "progress.message");
    let held = dial(&sandbox);
    held.signal(Signal::SIGSTOP);
    gate.open();
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.completed");
    assert!(!held.lives(), "the silent one was ended");
    sandbox.finish();
}

#[test]
fn a_question_is_answered_when_the_place_answers() {
    let (sandbox, link, worker) = linked();
    let asked = sandbox.send(&worker, "!ask edit notes.md\n!say done");
    link.cut(&sandbox);
    let _ = unreachable(&sandbox, &worker);
    let request = asked["requestId"].as_str().unwrap();
    let said = sandbox.command("subagent").args(["approve", request, "--decision", "allow"]).on_screen();
    assert!(said.text().contains("it is stored and delivered later"), "{said:?}");
    link.repair();
    wait_until("the end of the turn", DEADLINE, || (sandbox.show(&worker)["state"] == "idle").then_some(()));
    assert_eq!(count(&sandbox.events(&worker), "approval.decided"), 1);
    sandbox.finish();
}

#[test]
fn a_stop_of_an_unreachable_worker_is_incomplete_and_goes_on() {
    let (sandbox, link, worker) = linked();
    let _ = sandbox.send(&worker, "!spawn ignore-term");
    let runtime = sandbox.runtime(&worker);
    link.cut(&sandbox);
    let reported = unreachable(&sandbox, &worker);
    let error = sandbox.run(&["worker", "stop", &worker]).error("STOP_INCOMPLETE");
    assert_eq!(error["details"]["unreachable"]["since"], reported["since"], "{error}");
    assert!(error["details"]["recommendedAction"].as_str().unwrap().contains("--without-host"), "{error}");
    assert!(runtime.lives() && sandbox.show(&worker)["state"] != "stopped");
    link.repair();
    let stopped = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    assert_eq!(stopped["state"], "stopped", "{stopped}");
    wait_until("the end of the runtime", DEADLINE, || (!runtime.lives()).then_some(()));
    sandbox.finish();
}

/// Gives up a worker after a stop that waits for its place, and removes it.
fn given_up_after_a_stop(with_another_daemon: bool) {
    let (sandbox, link, worker) = linked();
    let give_up = ["worker", "stop", &worker, "--without-host"];
    let accepted = sandbox.send_no_wait(&worker, "!say begun\n!sleep 600000");
    let _ = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "progress.message");
    let runtime = sandbox.runtime(&worker);
    link.cut(&sandbox);
    let _ = unreachable(&sandbox, &worker);
    let stop = sandbox.subagent(&["worker", "stop", &worker]).spawn();
    wait_until("the stop to be stored", DEADLINE, || {
        (sandbox.show(&worker)["state"] == "canceling").then_some(())
    });
    if with_another_daemon {
        let _ = stop.kill();
        sandbox.kill_daemon();
        let _ = unreachable(&sandbox, &worker);
        let _ = sandbox.run(&give_up).data_of("worker.stopped");
    } else {
        let _ = sandbox.run(&give_up).data_of("worker.stopped");
        let _ = stop.output().data_of("worker.stopped");
    }
    assert_eq!(sandbox.turn_end(&accepted)["type"], "turn.canceled");
    // As often as one likes.
    let _ = sandbox.run(&give_up).data_of("worker.stopped");
    let events = sandbox.events(&worker);
    assert_eq!((count(&events, "worker.given_up"), count(&events, "worker.stopped")), (1, 1));
    let _ = sandbox.run(&["worker", "rm", &worker]).data_of("worker.removed");
    // Its owner has accepted that the agent goes on there.
    link.repair();
    assert!(runtime.lives());
    runtime.signal(Signal::SIGKILL);
    sandbox.finish();
}

#[test]
fn a_worker_is_given_up_after_a_stop_that_waits_for_its_place() {
    given_up_after_a_stop(false);
}

#[test]
fn a_worker_that_waits_for_its_place_is_given_up_with_a_later_daemon() {
    given_up_after_a_stop(true);
}

#[test]
fn a_worker_whose_place_answers_is_stopped_and_not_given_up() {
    let (sandbox, link, worker) = linked();
    let start = ["worker", "start", "--launcher", "demo", "--on", "local"];
    let local = sandbox.run(&start).data_of("worker.started");
    let runtime = sandbox.runtime(&worker);
    link.cut(&sandbox);
    let _ = unreachable(&sandbox, &worker);
    // It answers again before the daemon dials it by itself.
    link.repair();
    for worker in [&worker, local["workerId"].as_str().unwrap()] {
        let _ = sandbox.run(&["worker", "stop", worker, "--without-host"]).data_of("worker.stopped");
        assert_eq!(count(&sandbox.events(worker), "worker.given_up"), 0);
    }
    assert!(!runtime.lives());
    sandbox.finish();
}

#[test]
fn a_daemon_that_starts_without_a_link_waits_and_the_next_one_knows_of_it() {
    let (sandbox, link, worker) = linked();
    let runtime = sandbox.runtime(&worker);
    link.cut(&sandbox);
    sandbox.kill_daemon();
    let reported = unreachable(&sandbox, &worker);
    assert!(reported.get("lastHeard").is_none(), "{reported}");
    sandbox.kill_daemon();
    link.repair();
    assert_eq!(sandbox.send(&worker, "hello")["assistantText"], "hello");
    assert_eq!(sandbox.runtime(&worker).pid, runtime.pid);
    let events = sandbox.events(&worker);
    assert_eq!((count(&events, "worker.unreachable"), count(&events, "worker.reached")), (1, 1));
    sandbox.finish();
}

#[test]
fn another_protocol_there_has_its_code_and_the_worker_goes_on() {
    let (mut sandbox, _, worker) = linked();
    let runtime = sandbox.runtime(&worker);
    sandbox.kill_daemon();
    sandbox.set_env("SUBAGENT_SABOTAGE", "stream.later_protocol");
    let reported = unreachable(&sandbox, &worker);
    assert_eq!(reported["reason"]["code"], "PLACEMENT_INCOMPATIBLE", "{reported}");
    let error = sandbox.run(&["worker", "start", "--launcher", "demo"]).error("PLACEMENT_INCOMPATIBLE");
    assert!(error["message"].as_str().unwrap().contains("speaks the protocols"), "{error}");
    sandbox.kill_daemon();
    sandbox.remove_env("SUBAGENT_SABOTAGE");
    assert_eq!(sandbox.send(&worker, "hello")["assistantText"], "hello");
    assert_eq!(sandbox.runtime(&worker).pid, runtime.pid);
    sandbox.finish();
}

#[test]
fn a_reboot_there_is_seen_by_the_boot_of_that_machine() {
    for rebooted in [false, true] {
        let (mut sandbox, link, worker) = linked();
        let runtime = sandbox.runtime(&worker);
        let guard = sandbox.guard(&runtime);
        let agent = sandbox.agent(&guard);
        link.cut(&sandbox);
        let _ = unreachable(&sandbox, &worker);
        let accepted = sandbox.send_no_wait(&worker, "hello");
        sandbox.kill_daemon();
        for process in [&runtime, &guard, &agent] {
            sandbox.kill(process);
        }
        if rebooted {
            sandbox.set_env("SUBAGENT_SABOTAGE", "place.rebooted");
        }
        link.repair();
        let end = sandbox.turn_end(&accepted);
        if rebooted {
            // The end of the journal may be lost, so it is not known that nothing was sent.
            assert_eq!(end["data"]["error"]["code"], "RUNTIME_LOST", "{end}");
            // Only the check knows that here nothing was lost.
            let violations = sandbox.finish_broken();
            assert!(violations.iter().all(|found| found.contains("dispatched maybe")), "{violations:?}");
        } else {
            // One more runtime gets a message that was not sent.
            assert_eq!(end["type"], "turn.completed", "{end}");
            sandbox.finish();
        }
    }
}

#[test]
fn a_hibernated_worker_is_stopped_without_its_place() {
    let mut sandbox = TestSandbox::placed();
    let link = Link::of(&mut sandbox);
    sandbox.init();
    let start = ["worker", "start", "--launcher", "demo", "--idle-timeout", "0.4"];
    let started = sandbox.run(&start).data_of("worker.started");
    let worker = started["workerId"].as_str().unwrap();
    wait_until("the worker to hibernate", DEADLINE, || {
        (sandbox.show(worker)["hibernated"] == true).then_some(())
    });
    sandbox.kill_daemon();
    link.cut(&sandbox);
    let stopped = sandbox.run(&["worker", "stop", worker]).data_of("worker.stopped");
    assert_eq!(stopped["state"], "stopped");
    link.repair();
    sandbox.finish();
}
