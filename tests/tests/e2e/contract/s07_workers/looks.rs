//! The commands `worker list` and `worker show`.

use serde_json::json;
use subagent_tests::harness::{TestSandbox, assert_shape};

use super::{listed, shown, text};

#[test]
fn a_list_is_newest_first_and_can_be_of_one_controller() {
    let sandbox = TestSandbox::new();
    let none = sandbox.run(&["worker", "list"]).data_of("worker.listed");
    assert_eq!(none, json!({"items": [], "count": 0, "controllerId": null}));
    let id = text(&sandbox.init()["controllerId"]).to_owned();
    let mut started: Vec<String> = (0..5).map(|_| sandbox.start("demo")).collect();
    let all = sandbox.run(&["worker", "list", "--controller-id", &id]).data_of("worker.listed");
    assert_eq!((&all["count"], &all["controllerId"]), (&json!(5), &json!(id)));
    let items = all["items"].as_array().unwrap();
    for item in items {
        assert_shape(item, &shown());
        assert!(listed().as_object().unwrap().keys().all(|key| item.get(key).is_some()), "{item}");
    }
    started.reverse();
    let shown: Vec<&str> = items.iter().map(|item| text(&item["workerId"])).collect();
    assert_eq!(shown, started, "also for workers started within one second");
    let other =
        sandbox.run(&["worker", "list", "--controller-id", "ctl_0000000000"]).data_of("worker.listed");
    assert_eq!(other["items"], json!([]));
    sandbox.finish();
}

#[test]
fn a_list_as_text_has_a_line_for_each_worker() {
    let sandbox = TestSandbox::new();
    let list = || sandbox.command("subagent").args(["worker", "list"]).run();
    let none = list();
    assert_eq!((none.text(), none.stderr.as_str()), ("", "(no workers)\n"));
    sandbox.init();
    let worker = sandbox.start("demo");
    assert_eq!(list().text(), format!("{worker}\tidle\tworker\n"));
    sandbox.finish();
}

#[test]
fn a_worker_is_shown_with_all_its_keys_and_as_lines_in_order() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let mut shape = shown();
    shape["agent"] = json!({
        "name": "str?", "version": "str?", "model": "str?", "mode": "str?", "configOptions": "list?", "title": "str?",
        "contextUsed": "int?", "contextSize": "int?", "cost": "object?", "tokens": "object?",
        "lastActivityAt": "ts?", "restarts": "int", "memoryBytes": "int?",
    });
    assert_shape(&sandbox.show(&worker), &shape);
    let output = sandbox.command("subagent").args(["worker", "show", &worker]).run();
    let keys: Vec<&str> = output.text().lines().filter_map(|line| line.split(':').next()).collect();
    let order = "workerId controllerId label launcher role cwd sessionId activeTurnId runtimePid runtimeSocket state \
                 recoveryState createdAt updatedAt stoppedAt lastError unresponsive agent";
    assert_eq!(keys, order.split(' ').collect::<Vec<_>>());
    let shown = sandbox.show(&worker);
    for key in ["activeTurnId", "stoppedAt", "lastError"] {
        assert_eq!(shown[key], json!(null));
        assert!(output.text().contains(&format!("\n{key}:\n")), "{key}: {output}");
    }
    sandbox.finish();
}

#[test]
fn an_unknown_worker_is_not_found_with_the_database_that_was_asked() {
    let (sandbox, _) = TestSandbox::with_worker();
    for args in [
        &["worker", "show", "w_0000000000"][..],
        &["worker", "inspect", "w_0000000000"],
        &["worker", "stop", "w_0000000000"],
        &["worker", "restart", "w_0000000000"],
        &["worker", "handoff", "--worker-id", "w_0000000000"],
        &["worker", "continue", "--from-worker", "w_0000000000"],
    ] {
        let error = sandbox.run(args).error("WORKER_NOT_FOUND");
        assert_eq!(error["details"]["workerId"], "w_0000000000", "{args:?}");
        assert!(text(&error["details"]["stateDbPath"]).ends_with("/state.db"), "{args:?}");
    }
    sandbox.finish();
}

#[test]
fn the_recovery_state_is_the_same_in_every_look() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let everywhere = |expected: &str| {
        let list = sandbox.run(&["worker", "list"]).data_of("worker.listed");
        let item = list["items"].as_array().unwrap().iter().find(|item| item["workerId"] == *worker).unwrap();
        let inspected = sandbox.run(&["worker", "inspect", &worker]).data_of("worker.inspected");
        let seen = [&item["recoveryState"], &inspected["worker"]["recoveryState"]];
        assert_eq!(
            (seen, &sandbox.show(&worker)["recoveryState"]),
            ([&json!(expected); 2], &json!(expected))
        );
    };
    everywhere("restartable");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    everywhere("lost");
    let _ = sandbox.run(&["worker", "handoff", "--worker-id", &worker]).data_of("worker.handoff.ready");
    everywhere("handoff_available");
    sandbox.finish();
}
