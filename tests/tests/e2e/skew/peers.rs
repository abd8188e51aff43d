//! Peers of other versions beside the current ones: clients, daemons and state directories of an
//! earlier version are understood; a later version gets a clear answer and breaks nothing.

// The first version's messages are recorded in `tests/fixtures/0.1.0`. `SUBAGENT_OLD_BINARIES=DIR`
// also tests its executables (made with `git worktree add` of the tag and `cargo build`). Without
// it, that test reports that it was skipped.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use subagent_protocol::start::RuntimeStart;
use subagent_protocol::{PROTOCOL, codec};
use subagent_tests::harness::{TestSandbox, request, say, wait_until};

const LONG: Duration = Duration::from_secs(30);

fn old() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/0.1.0")
}

fn fixture(name: &str) -> String {
    fs::read_to_string(old().join(name)).unwrap()
}

/// Sends this text to a runtime and returns its first frame.
fn frame(socket: &Path, line: &str) -> Option<Value> {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(format!("{line}\n").as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).ok()?;
    serde_json::from_str(&answer).ok()
}

fn runtime_socket(sandbox: &TestSandbox, worker: &str) -> PathBuf {
    sandbox.show(worker)["runtimeSocket"].as_str().unwrap().into()
}

/// Plays a daemon with this document about itself, which answers each request with the
/// next of these bodies.
fn posing(
    sandbox: &TestSandbox,
    mut info: Value,
    answers: Vec<(u16, String)>,
) -> std::thread::JoinHandle<usize> {
    let socket = sandbox.file("run/posing.sock");
    let _ = fs::remove_file(&socket);
    let listener = UnixListener::bind(&socket).unwrap();
    fs::create_dir_all(sandbox.state_dir()).unwrap();
    info["socket"] = json!(socket);
    info["stateDir"] = json!(sandbox.state_dir());
    fs::write(sandbox.state_dir().join("daemon.json"), info.to_string()).unwrap();
    std::thread::spawn(move || {
        let mut answered = 0;
        for (status, body) in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.set_read_timeout(Some(LONG));
            let _ = stream.read(&mut [0; 64 * 1024]);
            let length = body.len();
            let head = format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n");
            let end = format!("content-length: {length}\r\nconnection: close\r\n\r\n{body}");
            let _ = stream.write_all((head + &end).as_bytes());
            answered += 1;
        }
        answered
    })
}

#[test]
fn an_older_daemon_is_understood_and_doctor_says_what_it_cannot_do() {
    let sandbox = TestSandbox::new();
    let info: Value = serde_json::from_str(&fixture("daemon.json")).unwrap();
    let shown = (200, fixture("daemon_shown.json"));
    let unknown = (400, fixture("no_such_path.json"));
    let daemon = posing(&sandbox, info.clone(), vec![shown.clone()]);
    let data = sandbox.run(&["daemon", "status"]).data_of("daemon.shown");
    assert_eq!((&data["running"], &data["version"]), (&json!(true), &json!("0.1.0")), "{data}");
    assert_eq!(daemon.join().unwrap(), 1);
    let daemon = posing(&sandbox, info, vec![shown, unknown]);
    fs::write(sandbox.state_dir().join("state.db"), "").unwrap();
    let output = sandbox.run(&["doctor"]);
    assert_eq!(daemon.join().unwrap(), 2, "{output}");
    let found = output.document()["data"]["findings"].clone();
    let sound = found.as_array().unwrap().iter().find(|found| found["id"] == "database.sound").unwrap();
    assert_eq!(sound["status"], "warning", "{sound}");
    assert!(sound["action"].as_str().unwrap().contains("daemon restart"), "{sound}");
    fs::remove_dir_all(sandbox.state_dir()).unwrap();
    sandbox.finish();
}

#[test]
fn a_daemon_of_another_age_is_refused_with_what_to_do() {
    let sandbox = TestSandbox::new();
    let info: Value = serde_json::from_str(&fixture("daemon.json")).unwrap();
    for (protocol, oldest, code) in [(PROTOCOL + 9, PROTOCOL + 9, "DAEMON_TOO_NEW"), (0, 0, "DAEMON_TOO_OLD")]
    {
        let mut info = info.clone();
        info["protocol"] = protocol.into();
        info["oldestProtocol"] = oldest.into();
        // No request may arrive.
        let _daemon = posing(&sandbox, info, Vec::new());
        for command in [&["worker", "list"][..], &["daemon", "status"]] {
            let error = sandbox.run(command).error(code);
            assert!(error["details"]["recommendedAction"].is_string(), "{error}");
            assert_eq!(error["details"]["daemonVersion"], "0.1.0", "{error}");
        }
        let output = sandbox.run(&["doctor"]);
        assert_eq!(output.status.code(), Some(1), "{output}");
        let found = output.document()["data"]["findings"].clone();
        let reported = |found: &&Value| found["id"] == "versions.daemon" && found["status"] == "problem";
        assert!(found.as_array().unwrap().iter().any(|found| reported(&found)), "{output}");
    }
    fs::remove_dir_all(sandbox.state_dir()).unwrap();
    sandbox.finish();
}

#[test]
fn a_worker_that_an_older_daemon_starts_without_its_rules_is_stopped() {
    let sandbox = TestSandbox::new();
    let info: Value = serde_json::from_str(&fixture("daemon.json")).unwrap();
    let answer = |kind: &str| {
        let data = json!({"workerId": "w_0123456789", "sessionId": "s", "state": "idle"});
        (
            200,
            json!({"ok": true, "protocolVersion": 1, "type": kind, "data": data, "error": null}).to_string(),
        )
    };
    let daemon = posing(&sandbox, info, vec![answer("worker.started"), answer("worker.stopped")]);
    let start = ["worker", "start", "--launcher", "demo", "--deny", "execute(rm *)"];
    let error = sandbox.run(&start).error("DAEMON_TOO_OLD");
    assert_eq!(daemon.join().unwrap(), 2, "{error}");
    assert_eq!(error["details"]["stopped"], true, "{error}");
    fs::remove_dir_all(sandbox.state_dir()).unwrap();
    sandbox.finish();
}

#[test]
fn more_in_daemon_json_is_no_reason_to_stumble_and_nonsense_is_no_daemon() {
    let (sandbox, _) = TestSandbox::with_worker();
    let path = sandbox.state_dir().join("daemon.json");
    let mut info: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let daemon = sandbox.daemon();
    info["hologram"] = json!({"nested": [1, 2]});
    info["protocol"] = (PROTOCOL + 3).into();
    // In place: the daemon would recreate it if it were missing.
    fs::write(&path, info.to_string()).unwrap();
    let data = sandbox.run(&["worker", "list"]).data_of("worker.listed");
    assert_eq!(data["count"], 1);
    assert_eq!(sandbox.daemon().pid, daemon.pid);
    sandbox.kill_daemon();
    fs::write(&path, "{\"protocol\": \"hologram\"").unwrap();
    assert_eq!(sandbox.run(&["worker", "list"]).data_of("worker.listed")["count"], 1);
    sandbox.finish();
}

#[test]
fn requests_of_a_client_of_the_first_version_are_carried_out() {
    let sandbox = TestSandbox::new();
    let _ = sandbox.run(&["daemon", "start"]).data_of("daemon.started");
    let socket = sandbox.daemon_info().unwrap().socket;
    let mut names = vec![
        ("$ROOT".to_owned(), sandbox.workspace().to_str().unwrap().to_owned()),
        ("$AGENT".to_owned(), sandbox.executable("subagent")),
        ("$PID".to_owned(), std::process::id().to_string()),
        ("$START".to_owned(), {
            let stat = fs::read_to_string("/proc/self/stat").unwrap();
            stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap().to_owned()
        }),
    ];
    let mut count = 0;
    for line in fixture("requests.ndjson").lines() {
        let mut filled = line.to_owned();
        for (name, value) in &names {
            filled = filled.replace(name.as_str(), value);
        }
        let asked: Value = serde_json::from_str(&filled).unwrap();
        let head: Vec<&str> =
            asked["head"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
        let body = match &asked["body"] {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        // The recorded client did not wait for the end of the earlier turn.
        let answer = wait_until("a worker that accepts the message", LONG, || {
            let answer = request(&socket, &head, &body);
            (!answer.body.contains("\"code\":\"WORKER_BUSY\"")).then_some(answer)
        });
        assert_eq!(answer.status, 200, "{filled}\n{answer:?}");
        let kind = asked["type"].as_str().unwrap();
        if kind == "ndjson" {
            assert!(answer.body.lines().count() > 3 && !answer.body.contains("\"ok\":false"), "{answer:?}");
        } else {
            let document = answer.json();
            assert_eq!(document["type"], kind, "{filled}\n{answer:?}");
            // The fields that this client read.
            for (path, name) in asked["saves"].as_object().into_iter().flatten() {
                let value = document.pointer(path).unwrap_or_else(|| panic!("no {path}: {document:#}"));
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                names.push((name.as_str().unwrap().to_owned(), text));
            }
        }
        count += 1;
    }
    assert!(count > 15, "{count} requests");
    sandbox.finish();
}

#[test]
fn what_a_daemon_of_the_first_version_hands_to_a_runtime_is_understood() {
    let text = fixture("start.json");
    let start: RuntimeStart = serde_json::from_str(&text).unwrap();
    let (again, kept): (Value, Value) =
        (serde_json::to_value(&start).unwrap(), serde_json::from_str(&text).unwrap());
    for (key, value) in kept.as_object().unwrap() {
        assert_eq!(&again[key], value, "{key}");
    }
}

#[test]
fn an_environment_that_an_older_daemon_kept_is_used() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let runtime = sandbox.runtime(&worker);
    let socket = runtime_socket(&sandbox, &worker);
    let file = socket.with_extension("env");
    let mut kept: Vec<Value> = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let older: Vec<Value> = serde_json::from_str(&fixture("environment.json")).unwrap();
    kept.extend(older);
    sandbox.kill_daemon();
    sandbox.kill(&runtime);
    fs::write(&file, serde_json::to_string(&kept).unwrap()).unwrap();
    let said = sandbox.send(&worker, "!env KEPT_BY_AN_OLDER_DAEMON");
    assert_eq!(said["assistantText"], "said by 0.1.0", "{said}");
    sandbox.finish();
}

#[test]
fn frames_that_a_runtime_does_not_know_are_refused_by_name_and_it_goes_on() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let socket = runtime_socket(&sandbox, &worker);
    let newer = format!(r#"{{"t":"hello","protocol":{},"generation":99,"desired":"run"}}"#, PROTOCOL + 9);
    for (line, why) in [
        (r#"{"t":"hologram","id":1}"#, "unknown"),
        ("no frame at all", "unknown"),
        (r#"{"t":"hello","protocol":1,"generation":0,"desired":"run","hologram":true}"#, "oldGeneration"),
        (r#"{"t":"hello","protocol":1,"generation":0,"desired":"hologram"}"#, "unknown"),
    ] {
        let answer = frame(&socket, line).unwrap_or_else(|| panic!("no answer to {line}"));
        assert_eq!((&answer["t"], &answer["refusal"]["why"]), (&json!("refused"), &json!(why)), "{line}");
    }
    // A later protocol is served as far as it is ours: its essential frames never change.
    let answer = frame(&socket, &newer).unwrap();
    assert!(answer["t"] == "hello" || answer["refusal"]["why"] == "protocol", "{answer}");
    let said = sandbox.send(&worker, "still here");
    assert_eq!(said["assistantText"], "still here");
    sandbox.finish();
}

#[test]
fn records_of_a_later_version_are_kept_out_of_the_rules_and_reported() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let _ = sandbox.send(&worker, "before");
    let runtime = sandbox.runtime(&worker);
    sandbox.kill_daemon();
    runtime.signal(Signal::SIGKILL);
    wait_until("the end of the runtime", LONG, || (!runtime.lives()).then_some(()));
    let path = sandbox.state_dir().join("runtimes").join(&worker).join("1.journal");
    let mut bytes = fs::read(&path).unwrap();
    let last = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
    let records = [
        json!({"n": last + 1, "at": 0, "t": "hologram", "b": {"depth": 3}}),
        json!({"n": last + 2, "at": 0, "t": "noise", "hologram": 1, "b": {"text": "x", "bytes": 1, "hologram": 2}}),
    ];
    for record in &records {
        codec::encode(record.to_string().as_bytes(), &mut bytes);
    }
    fs::write(&path, bytes).unwrap();
    assert_eq!(sandbox.send(&worker, "after")["assistantText"], "after");
    let events = sandbox.events(&worker);
    let gaps: Vec<&Value> = events.iter().filter(|event| event["type"] == "journal.gap").collect();
    assert_eq!(gaps.len(), 1, "{events:#?}");
    assert_eq!(gaps[0]["data"]["firstMissing"], last + 1, "{gaps:#?}");
    let found = sandbox.run(&["doctor"]);
    assert!(
        found.stdout.contains("1 record not understood") && found.stdout.contains("database.gaps"),
        "{found}"
    );
    sandbox.finish();
}

#[test]
fn executables_of_an_earlier_version_and_these_work_together() {
    let Some(folder) = std::env::var_os("SUBAGENT_OLD_BINARIES").map(PathBuf::from) else {
        say(
            "\n!!! SKIPPED: SUBAGENT_OLD_BINARIES names no folder with executables of an earlier version !!!\n",
        );
        return;
    };
    let older = |sandbox: &TestSandbox, args: &[&str]| {
        sandbox.command(folder.join("subagent").to_str().unwrap()).args(args).args(["--json"]).run().data()
    };
    // First the older daemon, runtime and client; then the newer client. Then the newer daemon
    // adopts the runtime, and the older client uses that daemon.
    let sandbox = TestSandbox::new();
    let _ = older(&sandbox, &["controller", "init"]);
    let worker = older(&sandbox, &["worker", "start"])["workerId"].as_str().unwrap().to_owned();
    let runtime = sandbox.runtime(&worker);
    assert_eq!(sandbox.send(&worker, "one")["assistantText"], "one");
    let accepted = sandbox.send_no_wait(&worker, "!ask execute make");
    let asked = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "approval.requested");
    let _ = sandbox.run(&["daemon", "restart"]).data_of("daemon.restarted");
    assert!(runtime.lives() && sandbox.runtime(&worker).pid == runtime.pid, "the runtime must continue");
    let found = sandbox.run(&["doctor"]);
    assert_eq!(found.status.code(), Some(0), "{found}");
    let request = asked["data"]["requestId"].as_str().unwrap().to_owned();
    let _ =
        older(&sandbox, &["approve", "--worker-id", &worker, "--request", &request, "--decision", "allow"]);
    let _ = sandbox.turn_end(&accepted);
    let said = older(&sandbox, &["send", "--worker-id", &worker, "--text", "two"]);
    assert_eq!(said["assistantText"], "two", "{said}");
    let _ = older(&sandbox, &["worker", "stop", &worker]);
    sandbox.finish();
}
