//! Data of earlier versions is understood: frames, journals, state directories.

// `tests/fixtures/VERSION` contains them as that version wrote them; they never change. A release
// adds its own with `cargo test --workspace --test e2e -- --ignored write_the_fixtures`, which
// writes to `tests/fixtures/` below the version.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use subagent_protocol::frame::{FromRuntime, ToRuntime};
use subagent_tests::harness::{TestSandbox, wait_until};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// Whether this is the folder of a version. Other fixtures are beside them.
fn is_version(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name.as_encoded_bytes()[0].is_ascii_digit())
}

fn versions() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(fixtures())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| is_version(path))
        .collect();
    found.sort();
    assert!(!found.is_empty());
    found
}

#[test]
fn frames_of_every_version_are_read_without_a_loss() {
    fn check<T: Serialize + DeserializeOwned>(file: &Path) {
        let lines = fs::read_to_string(file).unwrap();
        assert!(lines.lines().count() > 3, "{}", file.display());
        for line in lines.lines() {
            let frame: T = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            let (again, kept): (Value, Value) =
                (serde_json::to_value(&frame).unwrap(), serde_json::from_str(line).unwrap());
            assert!(holds(&again, &kept), "{again}\ninstead of\n{kept}");
        }
    }
    for version in versions() {
        check::<ToRuntime>(&version.join("to_runtime.ndjson"));
        check::<FromRuntime>(&version.join("from_runtime.ndjson"));
    }
}

#[test]
fn a_state_dir_of_every_version_is_opened_and_its_workers_go_on() {
    for version in versions() {
        let mut sandbox = TestSandbox::new();
        // In spite of its age.
        sandbox.set_env("SUBAGENT_RETENTION_DAYS", "never");
        copy(&version.join("state"), sandbox.state_dir());
        let expected: Value =
            serde_json::from_str(&fs::read_to_string(version.join("expected.json")).unwrap()).unwrap();
        let found = shown(&sandbox);
        assert!(holds(&found, &expected), "{found:#}\ninstead of\n{expected:#}");
        // Stopped workers stay stopped, others can be stopped, and no process is left.
        for worker in found.as_object().unwrap().keys() {
            let _ =
                sandbox.run(&["worker", "handoff", "--worker-id", worker]).data_of("worker.handoff.ready");
        }
        let recovered = sandbox.run(&["controller", "recover"]).data_of("controller.recovered");
        let id = recovered["items"][0]["controllerId"].as_str().unwrap();
        let attach = ["controller", "attach", "--controller-id", id, "--takeover"];
        let _ = sandbox.run(&attach).data_of("controller.attached");
        sandbox.finish();
    }
}

/// Whether `value` contains everything of `kept`; it may have more keys.
fn holds(value: &Value, kept: &Value) -> bool {
    match (value, kept) {
        (Value::Object(value), Value::Object(kept)) => {
            kept.iter().all(|(key, kept)| value.get(key).is_some_and(|value| holds(value, kept)))
        }
        (Value::Array(value), Value::Array(kept)) => {
            value.len() == kept.len() && value.iter().zip(kept).all(|(value, kept)| holds(value, kept))
        }
        _ => value == kept,
    }
}

/// Returns all workers with their events, once the remaining journals were read.
fn shown(sandbox: &TestSandbox) -> Value {
    let list = || sandbox.run(&["worker", "list"]).data_of("worker.listed")["items"].take();
    let settled = || {
        let items = list();
        let open = ["running", "starting", "canceling"];
        let settled = items.as_array()?.iter().all(|item| !open.contains(&item["state"].as_str().unwrap()));
        settled.then_some(items)
    };
    let items = wait_until("the workers to be settled", Duration::from_secs(20), settled);
    let mut all = BTreeMap::new();
    for item in items.as_array().unwrap() {
        let worker = item["workerId"].as_str().unwrap();
        let events: Vec<Value> = sandbox
            .events(worker)
            .iter()
            // Since 0.1.0 the end of a turn closes its tool calls: one of these turns was open
            // and is ended here.
            .filter(|event| event["data"]["closedBy"].is_null())
            .map(|event| json!({"type": event["type"], "data": event["data"], "turnId": event["turnId"]}))
            .collect();
        let mut kept = item.clone();
        kept.as_object_mut().unwrap().retain(|key, _| {
            ["label", "launcher", "role", "state", "sessionId", "activeTurnId", "createdAt"]
                .contains(&key.as_str())
        });
        all.insert(worker.to_owned(), json!({"worker": kept, "events": events}));
    }
    json!(all)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &to)
        } else {
            fs::copy(entry.path(), &to).map(drop).unwrap()
        }
    }
}

/// Writes the fixtures of this version.
#[test]
#[ignore = "only before a release; the result is checked in"]
fn write_the_fixtures_of_this_version() {
    let folder = fixtures().join(env!("CARGO_PKG_VERSION"));
    let sandbox = TestSandbox::new();
    let _ = sandbox.run(&["controller", "init", "--label", "fixture"]).data_of("controller.initialized");
    // A stopped worker with all kinds of data.
    let all = sandbox.start("demo");
    let _ = sandbox.send(
        &all,
        "hello\n!think hm\n!plan read|write\n!tool edit src/a.rs\n!usage 10 100\n!noise\n!unknown",
    );
    let asked = sandbox.send(&all, "!ask execute make");
    let _ = sandbox.approve(&all, &asked["requestId"], "allow");
    let _ = sandbox.turn_end(&asked);
    sandbox.send_fails(&all, "!error -32000 no", "BACKEND_RPC_ERROR");
    let _ = sandbox.run(&["worker", "handoff", "--worker-id", &all]).data_of("worker.handoff.ready");
    let _ = sandbox.run(&["worker", "stop", &all]).data_of("worker.stopped");
    // A worker with a question, one whose turn ends without a daemon, and one
    // with a simulated turn.
    let asking = sandbox.start("demo");
    let _ = sandbox.send(&asking, "!ask edit b.txt");
    let gate = sandbox.gate("alone");
    let alone = sandbox.start("demo");
    let accepted = sandbox.send_no_wait(&alone, &format!("before\n{}\nafter", gate.directive()));
    let _ = sandbox.wait_after(&alone, &accepted["acceptedEventId"], "progress.message");
    let debug = sandbox.run(&["worker", "start", "--debug-mode"]).data_of("worker.started");
    let debug = debug["workerId"].as_str().unwrap().to_owned();
    let _ = sandbox.sending(&debug, "may I").args(["--request-approval"]).run().data_of("turn.waited");
    let runtimes = [sandbox.runtime(&asking), sandbox.runtime(&alone)];
    let journal = sandbox.state_dir().join(format!("runtimes/{alone}/1.journal"));
    sandbox.kill_daemon();
    gate.open();
    wait_until("the end of the turn in the journal", Duration::from_secs(10), || {
        String::from_utf8_lossy(&fs::read(&journal).unwrap()).contains("\"turnEnd\"").then_some(())
    });
    for runtime in &runtimes {
        sandbox.kill(runtime);
    }
    let connection = Connection::open(sandbox.state_dir().join("state.db")).unwrap();
    connection.pragma_update(None, "wal_checkpoint", "TRUNCATE").unwrap();
    connection.execute("VACUUM", []).unwrap();
    drop(connection);
    let state = folder.join("state");
    let _ = fs::remove_dir_all(&state);
    copy(sandbox.state_dir(), &state);
    for left in
        ["logs", "daemon.json", "daemon.lock", "start.lock", "state.db-wal", "state.db-shm", ".gitignore"]
    {
        let path = state.join(left);
        let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
    }
    sandbox.finish();
    let opened = TestSandbox::new();
    copy(&state, opened.state_dir());
    let expected = serde_json::to_string_pretty(&shown(&opened)).unwrap();
    fs::write(folder.join("expected.json"), expected + "\n").unwrap();
    opened.finish();
}
