//! `worker continue`: from a worker, from a file, with another agent.

use std::fs;

use serde_json::{Value, json};
use subagent_tests::harness::{TestLauncher, TestSandbox, assert_shape};

use super::{shown, text};

fn go_on(sandbox: &TestSandbox, flags: &[&str]) -> Value {
    sandbox.run(&[&["worker", "continue"], flags].concat()).data_of("worker.continued")
}

fn accepted() -> Value {
    json!({"workerId": "w", "turnId": "turn", "state": "str", "eventId": "ev", "acceptedEventId": "ev"})
}

#[test]
fn a_worker_goes_on_from_another_one_and_is_asked_to_read_the_handoff() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "build it");
    let data = go_on(&sandbox, &["--from-worker", &worker]);
    assert_shape(
        &data,
        &json!({"sourceWorkerId": "w", "sourceHandoffPath": "str", "checkpointPath": "str?", "worker": shown(),
                "bootstrapTurn": accepted()}),
    );
    assert_eq!(data["sourceWorkerId"], *worker);
    let new = text(&data["worker"]["workerId"]);
    assert_ne!(new, worker);
    assert_eq!(data["worker"]["label"], format!("continued-from-{worker}"));
    assert_eq!(data["worker"]["launcher"], "demo");
    let end = sandbox.turn_end(&data["bootstrapTurn"]);
    assert_eq!(end["type"], "turn.completed");
    let sent = sandbox.events(new).into_iter().find(|event| event["type"] == "message.sent").unwrap();
    let handoff = text(&data["sourceHandoffPath"]);
    let block = json!({"type": "resource_link", "name": "handoff.md", "mimeType": "text/markdown",
                       "uri": format!("file://{handoff}")});
    assert_eq!(sent["data"]["blocks"], json!([block]));
    // It is a block of the protocol, which the agent has understood.
    let said: String =
        sandbox.events(new).iter().filter_map(|event| event["data"]["text"].as_str()).collect();
    assert!(said.contains(&format!("resource_link file://{handoff}")), "{said}");
    sandbox.finish();
}

#[test]
fn a_worker_that_goes_on_has_the_rules_of_its_owner() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let start = [
        "worker",
        "start",
        "--launcher",
        "demo",
        "--allow",
        "execute(git *)",
        "--deny",
        "execute(git push*)",
    ];
    let first = sandbox.run(&start).data_of("worker.started");
    let said = |data: &Value| {
        let _ = sandbox.turn_end(&data["bootstrapTurn"]);
        let waited = sandbox.send(text(&data["worker"]["workerId"]), "!ask execute git push -f");
        (text(&waited["matchedEvent"]["type"]).to_owned(), waited["assistantText"].clone())
    };
    let rejected = ("turn.completed".to_owned(), json!("permission: reject-once"));
    let second = go_on(&sandbox, &["--from-worker", text(&first["workerId"])]);
    assert_eq!(said(&second), rejected);
    let from = ["--from-worker", text(&second["worker"]["workerId"])];
    assert_eq!(said(&go_on(&sandbox, &from)), rejected, "across any number of workers");
    // An explicit choice overrides it.
    let other = go_on(&sandbox, &[&from[..], &["--allow", "execute(git *)"]].concat());
    assert_eq!(said(&other).1, "permission: allow-once");
    // A handoff is a document that an agent may have written.
    let file = text(&second["sourceHandoffPath"]);
    assert_eq!(said(&go_on(&sandbox, &["--from-handoff", file])).0, "approval.requested");
    let ruled = go_on(&sandbox, &["--from-handoff", file, "--deny", "execute(git push*)"]);
    assert_eq!(said(&ruled), rejected);
    sandbox.finish();
}

#[test]
fn a_snapshot_is_used_again_until_something_happens_or_its_file_is_gone() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "one");
    let from = ["--from-worker", &worker];
    let first = go_on(&sandbox, &from)["sourceHandoffPath"].take();
    assert_eq!(go_on(&sandbox, &from)["sourceHandoffPath"], first);
    fs::remove_file(text(&first)).unwrap();
    let second = go_on(&sandbox, &from)["sourceHandoffPath"].take();
    assert_ne!(second, first);
    let _ = sandbox.send(&worker, "two");
    let third = go_on(&sandbox, &from)["sourceHandoffPath"].take();
    assert!(third != second && fs::read_to_string(text(&third)).unwrap().contains("> two\n"), "{third}");
    let elsewhere = sandbox.file_name("elsewhere");
    let fourth = go_on(&sandbox, &[&from[..], &["--handoffs-dir", &elsewhere]].concat());
    assert!(text(&fourth["sourceHandoffPath"]).starts_with(&elsewhere), "{fourth}");
    sandbox.finish();
}

#[test]
fn a_stopped_worker_and_another_agent_are_no_obstacle() {
    let mut sandbox = TestSandbox::new();
    let sdk = sandbox.test_agent("sdk-agent", &[]);
    sandbox.launcher("other", sdk);
    sandbox.init();
    let worker = sandbox.start("demo");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    let flags = ["--from-worker", &worker, "--launcher", "other", "--role", "tester", "--label", "next"];
    let data = go_on(&sandbox, &flags);
    let new = &data["worker"];
    assert_eq!(
        (&new["launcher"], &new["role"], &new["label"]),
        (&json!("other"), &json!("tester"), &json!("next"))
    );
    let _ = sandbox.turn_end(&data["bootstrapTurn"]);
    sandbox.finish();
}

#[test]
fn a_file_is_enough_and_the_checkpoint_beside_it_is_believed_as_far_as_it_can_be() {
    let (sandbox, worker) = TestSandbox::with_worker();
    fs::create_dir(sandbox.file("ws/with space")).unwrap();
    let file = sandbox.file_name("ws/with space/notes.md");
    fs::write(&file, "# Handoff\n").unwrap();
    let data = go_on(&sandbox, &["--from-handoff", "with space/notes.md"]);
    assert_eq!((&data["sourceWorkerId"], &data["checkpointPath"]), (&Value::Null, &Value::Null));
    assert_eq!(
        (&data["sourceHandoffPath"], &data["worker"]["label"]),
        (&json!(file), &json!("continued-worker"))
    );
    let new = text(&data["worker"]["workerId"]);
    let sent = sandbox.events(new).into_iter().find(|event| event["type"] == "message.sent").unwrap();
    assert!(text(&sent["data"]["blocks"][0]["uri"]).ends_with("/with%20space/notes.md"), "{sent}");
    let checkpoint = sandbox.file("ws/with space/checkpoint.json");
    for (said, label, role) in [
        ("not json".to_owned(), "continued-worker", "default"),
        (
            json!({"workerId": [], "launcher": 7, "role": {}, "cwd": "/no/such", "controllerId": "no id"})
                .to_string(),
            "continued-worker",
            "default",
        ),
        (
            json!({"workerId": worker, "launcher": "demo", "profile": "old role"}).to_string(),
            &format!("continued-from-{worker}"),
            "old role",
        ),
    ] {
        fs::write(&checkpoint, &said).unwrap();
        let new = go_on(&sandbox, &["--from-handoff", &file])["worker"].take();
        assert_eq!((&new["label"], &new["role"]), (&json!(label), &json!(role)), "{said}");
    }
    sandbox.finish();
}

#[test]
fn there_is_exactly_one_source_and_it_exists() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.run(&["worker", "continue"]).error("INVALID_ARGUMENT");
    let both = ["worker", "continue", "--from-worker", &worker, "--from-handoff", "x"];
    let _ = sandbox.run(&both).error("INVALID_ARGUMENT");
    for missing in ["nothing.md", "."] {
        let error =
            sandbox.run(&["worker", "continue", "--from-handoff", missing]).error("HANDOFF_NOT_FOUND");
        assert!(text(&error["details"]["handoffPath"]).starts_with('/'), "{error}");
    }
    sandbox.finish();
}

#[test]
fn the_text_output_is_of_the_new_worker() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let output = sandbox.command("subagent").args(["worker", "continue", "--from-worker", &worker]).run();
    let keys: Vec<&str> = output.text().lines().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(keys, ["sourceHandoffPath", "workerId", "state"]);
    assert!(!output.text().contains(&format!("workerId: {worker}")), "{output}");
    sandbox.finish();
}

#[test]
fn a_continue_that_cannot_start_its_worker_writes_no_handoff() {
    let mut sandbox = TestSandbox::new();
    sandbox.launcher("gone", TestLauncher::new("/no/such/agent", ["--acp"]));
    sandbox.init();
    let worker = sandbox.start("demo");
    fs::write(sandbox.file("broken.yaml"), "launchers: 7").unwrap();
    let broken = sandbox.file_name("broken.yaml");
    for (flags, code) in [
        (["--launcher", "gone"], "BACKEND_LAUNCHER"),
        (["--launcher", "unknown"], "LAUNCHER_NOT_FOUND"),
        (["--cwd", "/no/such/folder"], "INVALID_ARGUMENT"),
        (["--config", &broken], "CONFIG_PARSE_ERROR"),
        (["--controller-id", "ctl_0000000000"], "CONTROLLER_NOT_FOUND"),
    ] {
        let args = [&["worker", "continue", "--from-worker", &worker][..], &flags].concat();
        let _ = sandbox.run(&args).error(code);
        let look = sandbox.run(&["worker", "inspect", &worker]).data_of("worker.inspected");
        assert_eq!(look["latestHandoff"], Value::Null, "{flags:?}");
    }
    sandbox.finish();
}

#[test]
fn the_workspace_is_that_of_cwd_then_of_the_checkpoint_then_of_the_callers_folder() {
    let mut sandbox = TestSandbox::new();
    // Uses the workspaces' own state directories.
    sandbox.remove_env("SUBAGENT_STATE_DIR");
    let folder = |name: &str| {
        fs::create_dir_all(sandbox.file(name).join(".subagent")).unwrap();
        sandbox.file_name(name)
    };
    let (typed, said) = (folder("typed"), folder("said"));
    for cwd in [&typed, &said] {
        let _ = sandbox.run(&["controller", "init", "--cwd", cwd]).data_of("controller.initialized");
    }
    let file = sandbox.file_name("handoff.md");
    fs::write(&file, "# Handoff\n").unwrap();
    fs::write(sandbox.file("checkpoint.json"), json!({"cwd": said}).to_string()).unwrap();
    let config = sandbox.config_file();
    let from = ["--from-handoff", &file, "--launcher", "demo", "--config", config.to_str().unwrap()];
    assert_eq!(go_on(&sandbox, &from)["worker"]["cwd"], said);
    assert_eq!(go_on(&sandbox, &[&from[..], &["--cwd", &typed]].concat())["worker"]["cwd"], typed);
    for cwd in [&typed, &said] {
        let list = sandbox.run(&["worker", "list", "--cwd", cwd]).data_of("worker.listed");
        assert_eq!(list["items"].as_array().unwrap().len(), 1, "{list}");
        let _ = sandbox.run(&["daemon", "stop", "--workers", "--cwd", cwd]);
    }
    sandbox.finish();
}
