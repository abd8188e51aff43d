//! A place that waits, and one whose handle is not known.

use std::path::Path;

use subagent_tests::harness::{TestSandbox, wait_until};

use super::engine::{DEADLINE, OwnEngine, wait_for_reason, waiting};

#[test]
fn a_worker_that_waits_for_the_engine_says_why_and_starts_later() {
    let sandbox = TestSandbox::new();
    let engine = OwnEngine::start(&sandbox);
    sandbox.init();
    engine.set("waiting", "no quota");
    let (worker, shown) = waiting(&sandbox);
    let pending = &shown["pending"];
    assert_eq!((&shown["state"], &pending["engine"]), (&"starting".into(), &"command".into()), "{shown}");
    assert_eq!(pending["handle"], engine.only().as_str(), "{shown}");
    wait_for_reason(&sandbox, &worker, "no quota");
    // The next daemon finds the same place.
    sandbox.kill_daemon();
    wait_for_reason(&sandbox, &worker, "no quota");
    engine.clear("waiting");
    wait_until("the start", DEADLINE, || (sandbox.show(&worker)["state"] == "idle").then_some(()));
    assert_eq!(sandbox.send(&worker, "hello")["assistantText"], "hello");
    assert_eq!((engine.created().len(), engine.calls("submit")), (1, 1));
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn a_stop_ends_a_waiting_place() {
    let sandbox = TestSandbox::new();
    let engine = OwnEngine::start(&sandbox);
    sandbox.init();
    engine.set("waiting", "no quota");
    let (worker, _) = waiting(&sandbox);
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    assert!(engine.live().is_empty());
    sandbox.finish();
}

#[test]
fn a_waiting_place_that_is_ended_from_outside_fails_the_start() {
    let sandbox = TestSandbox::new();
    let engine = OwnEngine::start(&sandbox);
    sandbox.init();
    engine.set("waiting", "no quota");
    let (worker, _) = waiting(&sandbox);
    engine.end(&engine.only());
    let failed = wait_until("the end of the start", DEADLINE, || {
        let shown = sandbox.show(&worker);
        (shown["state"] == "error").then_some(shown)
    });
    let message = failed["lastError"].as_str().unwrap();
    assert!(message.contains("ended before the runtime was started"), "{failed}");
    // What the engine has of it.
    assert!(message.contains("it was ended"), "{failed}");
    assert!(engine.calls("logs") > 0);
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn a_daemon_that_dies_before_it_knows_the_handle_asks_for_the_same_place() {
    let mut sandbox = TestSandbox::new();
    let engine = OwnEngine::start(&sandbox);
    let once = sandbox.file_name("once");
    sandbox.set_env("SUBAGENT_FAILPOINTS_ONCE", &once);
    sandbox.set_env("SUBAGENT_FAILPOINTS", "queued.after_start=abort");
    sandbox.init();
    let started = sandbox.try_start_on("own");
    assert!(Path::new(&once).exists(), "{started}");
    let listed = sandbox.run(&["worker", "list"]).data_of("worker.listed");
    let worker = listed["items"][0]["workerId"].as_str().unwrap_or_else(|| panic!("{started}")).to_owned();
    assert_eq!(sandbox.send(&worker, "hello")["assistantText"], "hello");
    assert_eq!((engine.created().len(), engine.calls("submit")), (1, 2));
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn a_place_whose_handle_was_not_printed_is_ended_once_it_is() {
    let sandbox = TestSandbox::new();
    let engine = OwnEngine::start(&sandbox);
    sandbox.init();
    engine.set("says-submit", "-o rubbish");
    let error = sandbox.try_start_on("own").error("PLACEMENT_UNREACHABLE");
    assert_eq!(error["details"]["command"], "submit", "{error}");
    assert!(error["message"].as_str().unwrap().contains("-o rubbish"), "{error}");
    let worker = error["details"]["workerId"].as_str().unwrap().to_owned();
    let error = sandbox.run(&["worker", "stop", &worker]).error("STOP_INCOMPLETE");
    assert!(error["message"].as_str().unwrap().contains("printed no handle"), "{error}");
    assert_eq!(engine.live().len(), 1);
    engine.clear("says-submit");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    assert_eq!((engine.live().len(), engine.created().len()), (0, 1));
    sandbox.finish();
}
