//! The permission to change workers: each command, with each kind of handle.

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, assert_shape};

use super::{handle, owned, take_over};

type Handle = [(&'static str, String); 3];

/// A worker that waits for a permission, so that every command can do something.
struct Scene {
    sandbox: TestSandbox,
    worker: String,
    request: String,
    controller: String,
    waited: Value,
}

impl Scene {
    fn new(controller: &Value, sandbox: TestSandbox) -> Self {
        let start = owned(sandbox.subagent(&["worker", "start"]), &handle(controller)).run();
        let worker = start.data_of("worker.started")["workerId"].as_str().unwrap().to_owned();
        let send = owned(sandbox.sending(&worker, "!ask execute something"), &handle(controller));
        let waited = send.run().data_of("turn.waited");
        let request = waited["requestId"].as_str().unwrap().to_owned();
        let controller = controller["controllerId"].as_str().unwrap().to_owned();
        Self { sandbox, worker, request, controller, waited }
    }

    /// Returns every command that changes a worker.
    fn changes(&self) -> [Vec<&str>; 8] {
        let worker = &self.worker;
        [
            vec!["worker", "start", "--controller-id", &self.controller],
            vec!["send", "--worker-id", worker, "--text", "x", "--no-wait"],
            vec!["approve", "--worker-id", worker, "--request", &self.request, "--decision", "allow"],
            vec!["cancel", "--worker-id", worker],
            vec!["worker", "stop", worker],
            vec!["worker", "restart", worker, "--force"],
            vec!["worker", "handoff", "--worker-id", worker],
            vec!["worker", "continue", "--from-worker", worker],
        ]
    }

    /// Returns the state that a change would affect.
    fn state(&self) -> Value {
        let workers = self.sandbox.run(&["worker", "list"]).data_of("worker.listed");
        let mut shown = self.sandbox.show(&self.worker);
        // The agent's memory varies.
        shown["agent"]["memoryBytes"].take();
        json!([workers, shown, self.sandbox.events(&self.worker)])
    }

    /// Every command is refused with such a handle and with these details, and nothing changes.
    #[track_caller]
    fn all_refused(&self, handle: Option<&Handle>, details: &Value) {
        let before = self.state();
        for args in self.changes() {
            let mut command = self.sandbox.subagent(&args);
            if let Some(handle) = handle {
                command = owned(command, handle);
            }
            let error = command.run().error("INVALID_CONTROLLER_HANDLE");
            assert_eq!(error["retryable"], false, "{args:?}");
            assert_shape(error.get("details").unwrap_or(&Value::Null), details);
        }
        assert_eq!(self.state(), before);
    }

    /// All commands that make sense in sequence succeed.
    fn all_allowed(self, handle: Option<&Handle>) {
        let [start, _, approve, cancel, stop, restart, hand_off, go_on] = self.changes();
        let run = |args: &[&str]| {
            let command = self.sandbox.subagent(args);
            handle.map_or(command.clone(), |handle| owned(command, handle)).run()
        };
        run(&approve).data_of("approval.decided");
        assert_eq!(self.sandbox.turn_end(&self.waited)["type"], "turn.completed");
        let prompt = ["send", "--worker-id", &self.worker, "--text", "!sleep 60000", "--no-wait"];
        run(&prompt).data_of("turn.accepted");
        run(&cancel).data_of("turn.canceled");
        run(&start).data_of("worker.started");
        run(&restart).data_of("worker.restarted");
        run(&hand_off).data_of("worker.handoff.ready");
        run(&go_on).data_of("worker.continued");
        run(&stop).data_of("worker.stopped");
        self.sandbox.finish();
    }
}

#[test]
fn a_former_owner_changes_nothing_with_any_command() {
    let sandbox = TestSandbox::new();
    let first = sandbox.init();
    let scene = Scene::new(&first, sandbox);
    let second = take_over(&scene.sandbox);
    let stale = json!({"controllerId": format!("={}", scene.controller), "recommendedAction": "str"});
    scene.all_refused(Some(&handle(&first)), &stale);
    let mut forged = handle(&second);
    forged[2].1 = first["owner"]["token"].as_str().unwrap().to_owned();
    scene.all_refused(Some(&forged), &stale);
    scene.all_allowed(Some(&handle(&second)));
}

#[test]
fn an_owner_that_released_it_changes_nothing_either() {
    let sandbox = TestSandbox::new();
    let first = sandbox.init();
    let scene = Scene::new(&first, sandbox);
    scene.sandbox.run(&["controller", "release", "--force"]).data_of("controller.released");
    let stale = json!({"controllerId": format!("={}", scene.controller), "recommendedAction": "str"});
    scene.all_refused(Some(&handle(&first)), &stale);
    scene.all_allowed(None);
}

#[test]
fn an_epoch_that_is_no_number_is_no_handle() {
    let sandbox = TestSandbox::new();
    let granted = sandbox.init();
    let scene = Scene::new(&granted, sandbox);
    let mut handle = handle(&granted);
    for epoch in ["one", "not int", " 1"] {
        handle[1].1 = epoch.to_owned();
        scene.all_refused(Some(&handle), &Value::Null);
    }
    scene.sandbox.finish();
}

#[test]
fn what_no_handle_can_hold_is_refused_by_changes_and_ignored_by_looks() {
    let sandbox = TestSandbox::new();
    let granted = sandbox.init();
    let scene = Scene::new(&granted, sandbox);
    let mut handle = handle(&granted);
    handle[2].1.push('é');
    let stale = json!({"controllerId": format!("={}", scene.controller), "recommendedAction": "str"});
    scene.all_refused(Some(&handle), &stale);
    handle[0].1 = "märz 1".to_owned();
    let other = json!({"envControllerId": "=m?rz?1", "targetControllerId": format!("={}", scene.controller)});
    scene.all_refused(Some(&handle), &other);
    let worker = scene.worker.as_str();
    for (args, kind) in [
        (["worker", "show", worker].as_slice(), "worker.shown"),
        (&["worker", "list"], "worker.listed"),
        (&["worker", "inspect", worker], "worker.inspected"),
        (&["worker", "logs", worker], "worker.logs"),
        (&["controller", "status"], "controller.status"),
        (&["controller", "recover"], "controller.recovered"),
        (&["wait", "--worker-id", worker, "--include-history"], "event.matched"),
        (&["watch", "--worker-id", worker], "events.watched"),
    ] {
        let output = owned(scene.sandbox.subagent(args), &handle).run();
        output.data_of(kind);
    }
    scene.sandbox.finish();
}

#[test]
fn the_handle_of_another_controller_does_not_count() {
    let mut sandbox = TestSandbox::new();
    let state_dir = sandbox.state_dir().to_owned();
    sandbox.set_state_dir(state_dir);
    let granted = sandbox.init();
    let other = sandbox.run(&["controller", "init", "--cwd", &sandbox.file_name("tmp")]).data();
    let scene = Scene::new(&granted, sandbox);
    let details = json!({
        "envControllerId": format!("={}", other["controllerId"].as_str().unwrap()),
        "targetControllerId": format!("={}", scene.controller),
    });
    scene.all_refused(Some(&handle(&other)), &details);
    scene.sandbox.finish();
}

#[test]
fn without_a_handle_or_with_a_part_of_one_everybody_may() {
    for empty in [None, Some(0), Some(1), Some(2)] {
        let sandbox = TestSandbox::new();
        let first = sandbox.init();
        let scene = Scene::new(&first, sandbox);
        take_over(&scene.sandbox);
        let partial = empty.map(|empty| {
            let mut stale = handle(&first);
            stale[empty].1 = String::new();
            stale
        });
        scene.all_allowed(partial.as_ref());
    }
}

#[test]
fn a_controller_can_require_handles() {
    let sandbox = TestSandbox::new();
    let init = ["controller", "init", "--require-handle"];
    let granted = sandbox.run(&init).data_of("controller.initialized");
    assert_eq!(granted["requireHandle"], true);
    let scene = Scene::new(&granted, sandbox);
    let status = scene.sandbox.run(&["controller", "status"]).data();
    assert_eq!(status["requireHandle"], true);
    let details = json!({
        "controllerId": format!("={}", scene.controller), "requireHandle": true, "recommendedAction": "str",
    });
    scene.all_refused(None, &details);
    let mut partial = handle(&granted);
    partial[2].1 = String::new();
    scene.all_refused(Some(&partial), &details);
    // A lost token can be replaced, and the requirement stays.
    let next = take_over(&scene.sandbox);
    assert_eq!(next["requireHandle"], true);
    scene.all_refused(None, &details);
    scene.sandbox.run(&["controller", "release", "--force"]).data_of("controller.released");
    scene.all_refused(None, &details);
    let last = scene.sandbox.run(&["controller", "init"]).data_of("controller.initialized");
    assert_eq!(last["requireHandle"], true);
    scene.all_allowed(Some(&handle(&last)));
}

#[test]
fn the_daemons_end_needs_no_handle_and_the_end_of_all_workers_does() {
    let sandbox = TestSandbox::new();
    let init = ["controller", "init", "--require-handle"];
    let granted = sandbox.run(&init).data_of("controller.initialized");
    let start = owned(sandbox.subagent(&["worker", "start"]), &handle(&granted)).run();
    let worker = start.data_of("worker.started")["workerId"].as_str().unwrap().to_owned();
    let daemon = sandbox.daemon().pid;
    let stop = || sandbox.command("subagentd").args(["stop", "--workers", "--json"]);
    let details = json!({
        "controllerId": format!("={}", granted["controllerId"].as_str().unwrap()), "requireHandle": true,
        "recommendedAction": "str",
    });
    for refused in [stop().run(), sandbox.run(&["daemon", "stop", "--workers"])] {
        assert_shape(&refused.error("INVALID_CONTROLLER_HANDLE")["details"], &details);
    }
    let stale = handle(&granted);
    let next = take_over(&sandbox);
    for refused in
        [owned(stop(), &stale).run(), owned(sandbox.subagent(&["daemon", "stop", "--workers"]), &stale).run()]
    {
        let _ = refused.error("INVALID_CONTROLLER_HANDLE");
    }
    assert_eq!(sandbox.daemon().pid, daemon, "nothing was stopped");
    assert_eq!(sandbox.show(&worker)["state"], "idle");
    let _ = sandbox.run(&["daemon", "stop"]).data_of("daemon.stopped");
    let _ = sandbox.show(&worker);
    let stopped = owned(stop(), &handle(&next)).run();
    assert!(stopped.status.success(), "{stopped}");
    assert_eq!(sandbox.show(&worker)["state"], "stopped");
    sandbox.finish();
}

#[test]
fn of_a_stopped_worker_a_stranger_hears_only_that_it_is_not_his() {
    let sandbox = TestSandbox::new();
    let first = sandbox.init();
    let scene = Scene::new(&first, sandbox);
    take_over(&scene.sandbox);
    scene.sandbox.run(&["worker", "stop", &scene.worker]).data_of("worker.stopped");
    let stale = json!({"controllerId": format!("={}", scene.controller), "recommendedAction": "str"});
    scene.all_refused(Some(&handle(&first)), &stale);
    // The same from a daemon that never had an actor for it.
    scene.sandbox.kill_daemon();
    scene.all_refused(Some(&handle(&first)), &stale);
    scene.sandbox.finish();
}

#[test]
fn a_caller_below_a_worker_neither_becomes_the_owner_nor_ends_an_ownership() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let before = sandbox.run(&["controller", "status"]).data();
    let program = sandbox.executable("subagent");
    for args in ["init", "attach --takeover", "release --force", "recover", "status"] {
        let waited = sandbox.send(&worker, &format!("!shell '{program}' controller {args} --json"));
        let said = waited["assistantText"].as_str().unwrap();
        assert!(said.contains("\"code\": \"FORBIDDEN_FROM_WORKER\""), "{args}: {said}");
    }
    assert_eq!(sandbox.run(&["controller", "status"]).data(), before);
    sandbox.finish();
}
