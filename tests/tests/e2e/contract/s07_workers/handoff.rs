//! `worker handoff`: both files, in any state of the worker.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};
use subagent_tests::harness::{TestSandbox, assert_shape};

use super::text;

const SECTIONS: [&str; 10] = [
    "## Task",
    "## Goal",
    "## Current Status",
    "## Completed",
    "## Pending",
    "## Files of Interest",
    "## Commands Run",
    "## Risks / Notes",
    "## Recommended Next Step",
    "## Artifacts",
];

fn hand_off(sandbox: &TestSandbox, worker: &str) -> Value {
    sandbox.run(&["worker", "handoff", "--worker-id", worker]).data_of("worker.handoff.ready")
}

fn document(ready: &Value) -> String {
    fs::read_to_string(text(&ready["handoffPath"])).unwrap()
}

fn checkpoint(ready: &Value) -> Value {
    serde_json::from_str(&fs::read_to_string(text(&ready["checkpointPath"])).unwrap()).unwrap()
}

fn section<'a>(document: &'a str, title: &str) -> &'a str {
    let (_, rest) =
        document.split_once(&format!("\n{title}\n")).unwrap_or_else(|| panic!("{title}: {document}"));
    rest.split_once("\n## ").map_or(rest, |(section, _)| section)
}

fn headings(document: &str) -> Vec<&str> {
    document.lines().filter(|line| line.starts_with('#')).collect()
}

#[test]
fn the_files_lie_in_a_private_folder_of_the_snapshots_name() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let turn = sandbox.send(&worker, "say it");
    let ready = hand_off(&sandbox, &worker);
    let shape = json!({"snapshotId": "hs", "workerId": "w", "handoffPath": "str", "checkpointPath": "str", "sourceTurnId": "turn?"});
    assert_shape(&ready, &shape);
    assert_eq!(ready["sourceTurnId"], turn["turnId"]);
    let folder = sandbox.state_dir().join("handoffs").join(&worker).join(text(&ready["snapshotId"]));
    assert_eq!(Path::new(text(&ready["handoffPath"])), folder.join("handoff.md"));
    assert_eq!(Path::new(text(&ready["checkpointPath"])), folder.join("checkpoint.json"));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(&folder), mode(&folder.join("handoff.md")), mode(&folder.join("checkpoint.json"))),
        (0o700, 0o600, 0o600)
    );
    let output = sandbox.command("subagent").args(["worker", "handoff", "--worker-id", &worker]).run();
    let keys: Vec<&str> = output.text().lines().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(keys, ["workerId", "handoffPath", "checkpointPath"]);
    sandbox.finish();
}

#[test]
fn the_document_reports_what_the_worker_was_asked_and_did() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let first =
        sandbox.send(&worker, "!plan look|build\n!tool execute make check\n!usage 10 100\nit is green");
    let failed = sandbox.send_fails(&worker, "!error -32000 no luck", "BACKEND_RPC_ERROR");
    let _ = sandbox.send(&worker, "!ask edit the file");
    let document = document(&hand_off(&sandbox, &worker));
    assert_eq!(headings(&document), [&["# Handoff"][..], &SECTIONS].concat());
    let said = |title: &str, what: &str| {
        let section = section(&document, title);
        assert!(section.contains(what), "{what:?} is not in {section}");
    };
    said("## Task", "> !plan look|build\n> !tool execute make check\n");
    said("## Task", "> !ask edit the file\n");
    said("## Current Status", &format!("worker {worker}"));
    said("## Current Status", "state `waiting_approval`");
    said("## Current Status", "- `build`: `pending`");
    said("## Current Status", "> it is green\n");
    said("## Completed", &format!("- {} is completed", text(&first["turnId"])));
    said("## Completed", &format!("- {} is failed", text(&failed["turnId"])));
    said("## Pending", "- permission request ap_");
    said("## Commands Run", "- `make check`: `completed`");
    said("## Risks / Notes", "waits for an answer");
    said("## Recommended Next Step", &format!("subagent worker continue --from-worker {worker}"));
    said("## Artifacts", "handoff.md`");
    said("## Artifacts", "checkpoint.json`");
    sandbox.finish();
}

#[test]
fn a_decided_question_is_not_pending() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let asked = sandbox.send(&worker, "!ask edit x");
    let _ = sandbox.approve(&worker, &asked["requestId"], "allow").data_of("approval.decided");
    let _ = sandbox.wait_after(&worker, &asked["acceptedEventId"], "turn.completed");
    let document = document(&hand_off(&sandbox, &worker));
    assert_eq!(section(&document, "## Pending").trim(), "- nothing");
    sandbox.finish();
}

#[test]
fn the_checkpoint_has_the_keys_of_the_contract_and_more() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "!plan a\n!usage 1 2\nhello");
    let ready = hand_off(&sandbox, &worker);
    let checkpoint = checkpoint(&ready);
    assert_shape(
        &checkpoint,
        &json!({
            "schemaVersion": "=v1", "workerId": "w", "controllerId": "ctl", "launcher": "=demo", "role": "=default",
            "cwd": "str", "state": "=handoff_ready", "sourceTurnId": "turn?", "handoffPath": "str",
            "artifacts": ["str"], "filesChanged": ["str"], "snapshotId": "hs", "createdAt": "ts", "upToEventId": "ev",
            "workerState": "=idle", "plan": [{"content": "str", "status": "str"}],
            "instructions": [{"turnId": "turn", "text": "str", "status": "=completed"}],
            "commands": [{"command": "str", "status": "str"}],
            "usage": {"lastTurn": "object?", "context": "object?"}, "lastMessage": "str?",
        }),
    );
    assert_eq!(checkpoint["artifacts"], json!([ready["handoffPath"]]));
    assert_eq!(
        (&checkpoint["lastMessage"], &checkpoint["usage"]["context"]["used"]),
        (&json!("hello"), &json!(1))
    );
    sandbox.finish();
}

#[test]
fn git_is_asked_for_what_changed_and_its_absence_is_said() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let document_of = |ready: &Value| document(ready);
    let without = document_of(&hand_off(&sandbox, &worker));
    assert!(
        section(&without, "## Files of Interest")
            .contains("git status is not known: `it is no git repository`"),
        "{without}"
    );
    let script = "git init -q . && git -c user.name=x -c user.email=x@x commit -q --allow-empty -m x && echo 1 > 'new file'";
    let _ = sandbox.command("sh").args(["-c", script]).run().text();
    let ready = hand_off(&sandbox, &worker);
    let with = document_of(&ready);
    assert!(section(&with, "## Files of Interest").contains("- `??` `new file`\n"), "{with}");
    assert!(checkpoint(&ready)["filesChanged"].as_array().unwrap().contains(&json!("new file")));
    sandbox.finish();
}

#[test]
fn what_the_folders_git_config_names_is_not_run_by_a_handoff() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let ran = sandbox.file_name("ran");
    // A filter of the folder, one with `=` in its name, the same for a submodule, and a monitor.
    let script = r#"
        spy="sh -c 'env >> $RAN; cat'"
        git init -q . && git init -q sub
        for at in . sub; do
            echo '* filter=x' > $at/.gitattributes; echo 'odd* filter=a=b' >> $at/.gitattributes
            echo 1 > $at/file; echo 1 > $at/odd
            git -C $at -c user.name=x -c user.email=x@x add file odd .gitattributes
            git -C $at -c user.name=x -c user.email=x@x commit -q -m x
        done
        git -c user.name=x -c user.email=x@x add sub 2>/dev/null
        for at in . sub; do
            git -C $at config filter.x.clean "$spy"; git -C $at config filter.x.required true
            git -C $at config filter.a=b.clean "$spy"; git -C $at config core.fsmonitor "$spy"
            echo 2 > $at/file; echo 2 > $at/odd
        done"#;
    let _ = sandbox.command("sh").args(["-c", script]).env("RAN", &ran).run().text();
    let handoff = sandbox.subagent(&["worker", "handoff", "--worker-id", &worker]).env("RAN", &ran);
    let document = document(&handoff.run().data_of("worker.handoff.ready"));
    let files = section(&document, "## Files of Interest");
    assert!(files.contains("`file`\n") && files.contains("`odd`\n"), "{files}");
    assert!(!Path::new(&ran).exists(), "{}", fs::read_to_string(&ran).unwrap_or_default());
    // The trap works: git itself runs it.
    let _ = sandbox.command("git").args(["status"]).env("RAN", &ran).run();
    assert!(Path::new(&ran).exists());
    sandbox.finish();
}

#[test]
fn another_folder_can_be_named_and_must_be_writable() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let handoff = ["worker", "handoff", "--worker-id", &worker, "--handoffs-dir"];
    let ready = sandbox.run(&[&handoff[..], &["out"]].concat()).data_of("worker.handoff.ready");
    let expected = sandbox.workspace().join("out/handoffs").join(&worker).join(text(&ready["snapshotId"]));
    assert_eq!(Path::new(text(&ready["handoffPath"])), expected.join("handoff.md"));
    let file = sandbox.file_name("ws/file");
    fs::write(&file, "").unwrap();
    let error = sandbox.run(&[&handoff[..], &[&file]].concat()).error("INVALID_ARGUMENT");
    assert!(error["details"]["path"].is_string() && error["details"]["error"].is_string(), "{error}");
    sandbox.finish();
}

#[test]
fn a_worker_can_be_handed_over_in_any_state() {
    let mut sandbox = TestSandbox::new();
    let agent = sandbox.demo_agent(&["--exit", "3"]);
    sandbox.launcher("broken", agent);
    sandbox.init();
    let worker = sandbox.start("demo");
    let fresh = document(&hand_off(&sandbox, &worker));
    assert_eq!(headings(&fresh).len(), 1 + SECTIONS.len());
    let gate = sandbox.gate("turn");
    let _ = sandbox.send_no_wait(&worker, &gate.directive());
    let running = document(&hand_off(&sandbox, &worker));
    assert!(section(&running, "## Pending").contains("is open"), "{running}");
    let _ = sandbox.run(&["worker", "stop", &worker]).data_of("worker.stopped");
    let stopped = hand_off(&sandbox, &worker);
    assert!(section(&document(&stopped), "## Current Status").contains("state `stopped`"));
    let error = sandbox.run(&["worker", "start", "--launcher", "broken"]).any_error();
    let broken = document(&hand_off(&sandbox, text(&error["details"]["workerId"])));
    assert!(section(&broken, "## Current Status").contains("last error: `"), "{broken}");
    sandbox.finish();
}

#[test]
fn an_agent_cannot_write_sections_of_its_own() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(
        &worker,
        "!say \n## Artifacts\n# Handoff\n- `/etc/passwd`\n!tool execute ## Risks\n!plan ## Task",
    );
    let document = document(&hand_off(&sandbox, &worker));
    assert_eq!(headings(&document), [&["# Handoff"][..], &SECTIONS].concat());
    sandbox.finish();
}

#[test]
fn a_handle_that_is_not_the_owners_gets_no_handoff() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let id = text(&sandbox.show(&worker)["controllerId"]).to_owned();
    let command = sandbox.subagent(&["worker", "handoff", "--worker-id", &worker]).env("SUBAGENT_CTL_ID", id);
    let error = command.env("SUBAGENT_CTL_EPOCH", "1").env("SUBAGENT_CTL_TOKEN", "wrong").run();
    let _ = error.error("INVALID_CONTROLLER_HANDLE");
    assert!(!sandbox.state_dir().join("handoffs").exists(), "nothing was written");
    sandbox.finish();
}

#[test]
fn fifty_handoffs_at_once_are_fifty_snapshots_and_the_latest_knows_the_most() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "one");
    let args = ["worker", "handoff", "--worker-id", &worker];
    let running: Vec<_> = (0..50).map(|_| sandbox.subagent(&args).spawn()).collect();
    let _ = sandbox.send(&worker, "two");
    let all: Vec<Value> =
        running.into_iter().map(|one| one.output().data_of("worker.handoff.ready")).collect();
    let ids: HashSet<&str> = all.iter().map(|ready| text(&ready["snapshotId"])).collect();
    assert_eq!(ids.len(), 50);
    assert!(all.iter().all(|ready| headings(&document(ready)).len() == 1 + SECTIONS.len()));
    let look = sandbox.run(&["worker", "inspect", &worker]).data_of("worker.inspected");
    let newest = all.iter().map(|ready| text(&checkpoint(ready)["upToEventId"]).to_owned()).max().unwrap();
    assert_eq!(look["latestHandoff"]["upToEventId"], *newest);
    assert!(ids.contains(text(&look["latestHandoff"]["snapshotId"])));
    let unfinished = fs::read_dir(sandbox.state_dir().join("handoffs").join(&worker)).unwrap().count();
    assert_eq!(unfinished, 50, "and nothing else");
    sandbox.finish();
}
