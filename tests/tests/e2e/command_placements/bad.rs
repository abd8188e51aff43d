//! What can be wrong with commands of the user: each has a code and advice. Only `gone` is the end.

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, wait_until};

use super::engine::{DEADLINE, OwnEngine, wait_for_reason, waiting};

/// Starts a worker there in vain, returns the error and removes the worker.
fn refused(sandbox: &TestSandbox, code: &str) -> Value {
    let error = sandbox.try_start_on("own").error(code);
    if let Some(worker) = error["details"]["workerId"].as_str() {
        let _ = sandbox.run(&["worker", "rm", "--force", worker]).data_of("worker.removed");
    }
    error
}

#[test]
fn what_is_wrong_with_a_command_is_named() {
    let sandbox = TestSandbox::new();
    let engine = OwnEngine::start(&sandbox);
    sandbox.init();
    engine.set("fail-submit", "no \u{1b}[31mquota");
    let error = refused(&sandbox, "PLACEMENT_UNREACHABLE");
    assert_eq!(error["details"]["reason"], "command", "{error}");
    assert_eq!(
        error["message"], "`submit` of the placement `own` ended with code 3: no [31mquota",
        "{error}"
    );
    engine.clear("fail-submit");
    engine.place(&sandbox, json!({"submit": ["/no-such-engine"]}));
    let error = refused(&sandbox, "PLACEMENT_UNREACHABLE");
    assert!(error["message"].as_str().unwrap().contains("cannot be started: /no-such-engine:"), "{error}");
    assert_eq!(error["details"]["command"], "submit", "{error}");
    assert!(engine.created().is_empty());
    engine.place(&sandbox, json!({"dial": ["no-such-engine", "exec"]}));
    let error = sandbox.try_start_on("own").error("PLACEMENT_UNREACHABLE");
    assert!(error["message"].as_str().unwrap().contains("cannot be started: no-such-engine:"), "{error}");
    assert_eq!(error["details"]["command"], "dial", "{error}");
    let worker = error["details"]["workerId"].as_str().unwrap().to_owned();
    // It cannot be asked whom it serves, so its owner ends it.
    let error = sandbox.run(&["worker", "stop", &worker]).error("STOP_INCOMPLETE");
    assert!(error["message"].as_str().unwrap().contains("does not say whom it serves"), "{error}");
    engine.end(&engine.only());
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    engine.place(&sandbox, json!({}));
    engine.set("bare", "");
    let error = refused(&sandbox, "PLACEMENT_NOT_PREPARED");
    assert!(error["details"]["recommendedAction"].as_str().unwrap().contains("prepare own"), "{error}");
    engine.clear("bare");
    engine.place(&sandbox, json!({"cwd": "/no-such-folder"}));
    let error = refused(&sandbox, "PLACEMENT_FOLDER_MISSING");
    assert_eq!(error["details"]["cwd"], "/no-such-folder", "{error}");
    engine.place(&sandbox, json!({}));
    assert!(engine.live().is_empty(), "{:?}", engine.live());
    let worker = sandbox.start_on("own");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn a_config_that_cannot_be_used_is_refused_with_its_position() {
    let sandbox = TestSandbox::new();
    let engine = OwnEngine::start(&sandbox);
    sandbox.init();
    for (keys, parts) in [
        (json!({"cancel": null}), ["placements.own.cancel", "is missing"]),
        (json!({"submit": ["x", "{handle}"]}), ["placements.own.submit", "must not have `{handle}`"]),
        (json!({"dial": "ssh host"}), ["placements.own.dial", "list"]),
        (json!({"status": ["./engine"]}), ["placements.own.status", "PATH"]),
        (json!({"atach": ["x"]}), ["atach", "is not known"]),
    ] {
        engine.place(&sandbox, keys);
        let error = sandbox.try_start_on("own").error("CONFIG_PARSE_ERROR");
        for part in parts {
            assert!(error.to_string().contains(part), "{part}: {error}");
        }
        assert!(error["details"]["line"].is_number(), "{error}");
    }
    assert_eq!(engine.calls("submit"), 0);
    sandbox.finish();
}

#[test]
fn a_command_that_hangs_is_ended_with_its_processes() {
    let sandbox = TestSandbox::new();
    let engine = OwnEngine::start(&sandbox);
    sandbox.init();
    engine.set("hang-status", "");
    let (worker, _) = waiting(&sandbox);
    wait_for_reason(&sandbox, &worker, "did not answer in time");
    engine.clear("hang-status");
    wait_until("the start", DEADLINE, || (sandbox.show(&worker)["state"] == "idle").then_some(()));
    let sleeps = sandbox.processes().into_iter().filter(|process| process.name == "sleep").count();
    assert_eq!((sleeps, engine.created().len()), (0, 1));
    // Nor does one that prints without an end.
    engine.set("flood-status", "");
    let error = sandbox.run(&["worker", "stop", &worker]).error("STOP_INCOMPLETE");
    let reason = error["details"]["pending"]["reason"].as_str().unwrap();
    assert!(reason.contains("more than 5 MiB"), "{error}");
    engine.clear("flood-status");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    sandbox.finish();
}

#[test]
fn a_stop_goes_on_until_the_place_is_gone() {
    let sandbox = TestSandbox::new();
    let engine = OwnEngine::start(&sandbox);
    sandbox.init();
    let worker = sandbox.start_on("own");
    engine.set("kept", "");
    let error = sandbox.run(&["worker", "stop", &worker]).error("STOP_INCOMPLETE");
    assert!(error["message"].as_str().unwrap().contains("has not ended yet"), "{error}");
    assert_eq!(engine.live().len(), 1);
    // Nor does the next daemon take its word for the end.
    sandbox.kill_daemon();
    engine.set("says-status", "unknown no answer");
    let error = sandbox.run(&["worker", "stop", &worker]).error("STOP_INCOMPLETE");
    assert!(error["message"].as_str().unwrap().contains("unknown no answer"), "{error}");
    engine.clear("says-status");
    engine.clear("kept");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    assert!(engine.live().is_empty());
    sandbox.finish();
}

#[test]
fn a_place_that_does_not_end_is_given_up_by_its_owner() {
    let sandbox = TestSandbox::new();
    let engine = OwnEngine::start(&sandbox);
    sandbox.init();
    let worker = sandbox.start_on("own");
    let first = engine.only();
    for command in ["submit", "status", "dial"] {
        engine.set(&format!("fail-{command}"), "the engine is down");
    }
    for dial in sandbox.processes().into_iter().filter(|process| process.name == "subagent-dial") {
        dial.signal(Signal::SIGKILL);
    }
    wait_until("the worker to be unreachable", DEADLINE, || {
        sandbox.show(&worker)["unreachable"].is_object().then_some(())
    });
    let restart = ["worker", "restart", &worker, "--force", "--accept-duplicate"];
    let error = sandbox.run(&restart).error("PLACEMENT_UNREACHABLE");
    assert_eq!(error["details"]["command"], "submit", "{error}");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    // Its owner has accepted that the agent goes on there.
    assert_eq!(engine.live(), [first.as_str()]);
    engine.end(&first);
    sandbox.finish();
}

#[test]
fn a_placement_of_commands_is_checked_step_by_step() {
    let sandbox = TestSandbox::new();
    let engine = OwnEngine::start(&sandbox);
    let check = || sandbox.run(&["placement", "check", "own"]);
    let checked = check().data_of("placement.checked");
    let steps: Vec<&Value> = checked["items"].as_array().unwrap().iter().map(|one| &one["step"]).collect();
    let expected = ["submit", "status", "runtime", "folder", "stream", "logs", "cancel"];
    assert_eq!(steps, [&expected[..], &["agent", "log", "stop"]].concat(), "{checked}");
    assert!(engine.live().is_empty());
    let prepared = sandbox.run(&["placement", "prepare", "own"]).data_of("placement.prepared");
    assert_eq!((&prepared["program"], &prepared["uploaded"]), (&"subagent-runtime".into(), &false.into()));
    engine.place(&sandbox, json!({"cwd": "/none"}));
    let error = check().error("PLACEMENT_FOLDER_MISSING");
    assert_eq!(error["details"]["steps"][2]["step"], "runtime", "{error}");
    engine.place(&sandbox, json!({}));
    engine.set("bare", "");
    let error = check().error("PLACEMENT_NOT_PREPARED");
    assert!(error["details"]["recommendedAction"].as_str().unwrap().contains("prepare own"), "{error}");
    engine.clear("bare");
    for (fault, text, command) in
        [("fail-submit", "no quota", "submit"), ("says-submit", "two words", "submit")]
    {
        engine.set(fault, text);
        let error = check().error("PLACEMENT_UNREACHABLE");
        assert_eq!(error["details"]["command"], command, "{error}");
        engine.clear(fault);
    }
    // The last check has said which place is left.
    for handle in engine.live() {
        engine.end(&handle);
    }
    engine.set("says-status", "who knows");
    let error = check().error("PLACEMENT_UNREACHABLE");
    assert!(error["message"].as_str().unwrap().contains("who knows"), "{error}");
    engine.clear("says-status");
    for handle in engine.live() {
        engine.end(&handle);
    }
    let listed = sandbox.run(&["placement", "list"]).data_of("placement.listed");
    let item = &listed["items"][0];
    assert_eq!((&item["kind"], &item["submit"][1]), (&"command".into(), &"submit".into()), "{listed}");
    sandbox.finish();
}
