//! After a reboot nothing runs, and the socket folder is empty, including the agents' environments.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use subagent_tests::harness::{Response, TestSandbox, assert_shape, request, wait_until};

use super::agent::{of_type, sandbox, say, works};

/// Simulates a restart of the machine.
fn reboot(sandbox: &TestSandbox) {
    // A stopped process starts nothing more. The next check finds what it started just before.
    let pids = |running: &[subagent_tests::harness::process::Process]| {
        running.iter().map(|process| process.pid).collect::<Vec<_>>()
    };
    let running = wait_until("everything to stand still", Duration::from_secs(20), || {
        let running = sandbox.processes();
        running.iter().for_each(|process| process.signal(Signal::SIGSTOP));
        (pids(&running) == pids(&sandbox.processes())).then_some(running)
    });
    running.iter().for_each(|process| process.signal(Signal::SIGKILL));
    wait_until("everything to be gone", Duration::from_secs(20), || {
        sandbox.processes().is_empty().then_some(())
    });
    // A process counts as ended just before the last of its files is closed.
    wait_until("the daemon's lock to be free", Duration::from_secs(20), || {
        fs::File::open(sandbox.state_dir().join("daemon.lock")).unwrap().try_lock().ok()
    });
    fs::remove_dir_all(sandbox.file("run/subagent")).unwrap();
    let database = rusqlite::Connection::open(sandbox.state_dir().join("state.db")).unwrap();
    for table in ["workers", "owners"] {
        let sql = format!("UPDATE {table} SET boot_id = 'the boot before' WHERE boot_id IS NOT NULL");
        database.execute(&sql, []).unwrap();
    }
}

/// Returns the variables of a worker's agent.
fn variables(sandbox: &TestSandbox, worker: &str) -> Vec<String> {
    let agent = sandbox.agent(&sandbox.guard(&sandbox.runtime(worker)));
    let environ = fs::read(format!("/proc/{}/environ", agent.pid)).unwrap();
    String::from_utf8_lossy(&environ).split('\0').map(str::to_owned).collect()
}

fn environment_files(sandbox: &TestSandbox) -> Vec<PathBuf> {
    let entries = fs::read_dir(sandbox.file("run/subagent")).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "env"))
        .collect()
}

/// Posts a request about a worker, like any other client.
fn post(sandbox: &TestSandbox, path: &str, key: &str, head: &[&str], body: &Value) -> Response {
    let _ = sandbox.run(&["daemon", "start"]);
    let (line, key) = (format!("POST {path} HTTP/1.1"), format!("Idempotency-Key: {key}"));
    let head = [&[&line, "Content-Type: application/json", &key][..], head].concat();
    request(&sandbox.daemon_info().unwrap().socket, &head, &body.to_string())
}

/// Returns `A=b` in the API's format.
fn env(value: &str) -> Value {
    let path = std::env::var("PATH").unwrap();
    json!([[base64(b"PATH"), base64(path.as_bytes())], [base64(b"GIVEN"), base64(value.as_bytes())]])
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let whole = (0..3).fold(0, |whole, index| whole << 8 | usize::from(*chunk.get(index).unwrap_or(&0)));
        for index in 0..4 {
            let digit = char::from(DIGITS[whole >> (18 - 6 * index) & 63]);
            text.push(if index <= chunk.len() { digit } else { '=' });
        }
    }
    text
}

#[test]
fn a_message_after_a_reboot_gives_the_agent_the_environment_of_its_sender() {
    let mut sandbox = sandbox("load");
    let (old, new) = ("secret-of-the-old-shell", "secret-of-the-new-shell");
    for secret in [old, new] {
        sandbox.recorder().keep_secret(secret);
    }
    sandbox.set_env("API_KEY", old);
    let worker = sandbox.start("words");
    let session = sandbox.show(&worker)["sessionId"].clone();
    reboot(&sandbox);
    sandbox.set_env("API_KEY", new);
    sandbox.set_env("NEW_NAME", "1");
    sandbox.set_env("NOTIFY_SOCKET", "/nowhere");
    let waited = sandbox.send(&worker, "hello");
    assert_eq!(
        (&waited["environmentSent"], &waited["matchedEvent"]["type"]),
        (&json!(true), &json!("turn.completed"))
    );
    let found = variables(&sandbox, &worker);
    assert!(found.contains(&format!("API_KEY={new}")), "{found:?}");
    assert!(found.contains(&format!("PWD={}", sandbox.workspace().display())), "{found:?}");
    let left = |name: &str| name.starts_with("NOTIFY_SOCKET=") || name.starts_with("SUBAGENT_STATE_DIR=");
    assert!(!found.iter().any(|pair| left(pair)), "{found:?}");
    assert_eq!(of_type(&sandbox, &worker, "turn.started").len(), 1, "it must be accepted once");
    let data = of_type(&sandbox, &worker, "worker.restarted").pop().unwrap()["data"].clone();
    assert_eq!((&data["session"], &data["contextLost"]), (&json!("loaded"), &json!(false)));
    assert_eq!(sandbox.show(&worker)["sessionId"], session);
    // It is stored again, and no client has to send it twice.
    let mode = fs::metadata(&environment_files(&sandbox)[0]).unwrap();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 0o777, 0o600);
    let waited = sandbox.send(&worker, "then: exit 1");
    assert_eq!(waited.get("environmentSent"), None);
    let database = rusqlite::Connection::open(sandbox.state_dir().join("state.db")).unwrap();
    let spec: String = database.query_row("SELECT spec FROM workers", [], |row| row.get(0)).unwrap();
    assert!(spec.contains("\"NEW_NAME\""), "the names must be stored: {spec}");
    sandbox.finish();
}

#[test]
fn a_restart_after_a_reboot_gives_the_agent_the_environment_of_its_caller() {
    let mut sandbox = sandbox("resume");
    let worker = sandbox.start("words");
    reboot(&sandbox);
    sandbox.set_env("NEW_NAME", "1");
    let after = sandbox.run(&["worker", "restart", &worker]).data_of("worker.restarted");
    assert_eq!((&after["environmentSent"], &after["state"]), (&json!(true), &json!("idle")));
    assert!(variables(&sandbox, &worker).contains(&"NEW_NAME=1".to_owned()));
    let after = sandbox.run(&["worker", "restart", &worker]).data_of("worker.restarted");
    assert_eq!(after.get("environmentSent"), None);
    works(&sandbox, &worker);
    sandbox.finish();
}

#[test]
fn a_person_is_warned_that_the_environment_is_another_one() {
    let sandbox = sandbox("load");
    let worker = sandbox.start("words");
    reboot(&sandbox);
    let send = sandbox.command("subagent").args(["send", "--worker-id", &worker, "--text", "hello"]).run();
    assert!(send.status.success() && send.stdout.contains("matchedEvent: turn.completed"), "{send}");
    assert_eq!(send.stderr, "Note: the agent's environment was lost; it now has that of this command.\n");
    sandbox.finish();
}

#[test]
fn a_turn_that_the_reboot_has_cut_off_is_over_and_the_next_works() {
    let sandbox = sandbox("load");
    let worker = sandbox.start("words");
    let accepted = sandbox.send_no_wait(&worker, "turn: wait");
    wait_until("the turn", Duration::from_secs(20), || sandbox.file("words.waits").exists().then_some(()));
    reboot(&sandbox);
    let error = sandbox.turn_end(&accepted)["data"]["error"].take();
    assert_eq!((&error["code"], &error["details"]["dispatched"]), (&json!("RUNTIME_LOST"), &json!("maybe")));
    works(&sandbox, &worker);
    sandbox.finish();
}

#[test]
fn a_worker_in_error_comes_back_after_a_reboot_too() {
    let sandbox = sandbox("exit-in-new");
    let error = sandbox.run(&["worker", "start", "--launcher", "words"]).any_error();
    let worker = error["details"]["workerId"].as_str().unwrap().to_owned();
    reboot(&sandbox);
    say(&sandbox, "load");
    works(&sandbox, &worker);
    assert_eq!(of_type(&sandbox, &worker, "worker.started").len(), 1);
    // Also one that has never had an agent.
    let debug = sandbox.run(&["worker", "start", "--launcher", "words", "--debug-mode"]);
    let debug = debug.data_of("worker.started")["workerId"].as_str().unwrap().to_owned();
    reboot(&sandbox);
    let played = sandbox.sending(&debug, "hello").args(["--debug-mode"]).run().data_of("turn.waited");
    assert_eq!(played.get("environmentSent"), None, "that must not need an agent");
    assert_eq!(sandbox.send(&debug, "hello")["environmentSent"], true);
    sandbox.finish();
}

#[test]
fn another_worker_goes_on_after_a_reboot() {
    let sandbox = sandbox("load");
    let worker = sandbox.start("words");
    works(&sandbox, &worker);
    reboot(&sandbox);
    let data = sandbox.run(&["worker", "continue", "--from-worker", &worker]).data_of("worker.continued");
    assert_eq!(sandbox.turn_end(&data["bootstrapTurn"])["type"], "turn.completed");
    works(&sandbox, &worker);
    sandbox.finish();
}

#[test]
fn without_an_environment_nothing_is_accepted_and_the_key_stays_free() {
    let sandbox = sandbox("load");
    let worker = sandbox.start("words");
    reboot(&sandbox);
    let turns = format!("/v1/workers/{worker}/turns");
    let restart = format!("/v1/workers/{worker}/restart");
    // The next daemon reports the loss at some time after its start.
    let events = wait_until("the loss to be reported", Duration::from_secs(20), || {
        let events = sandbox.events(&worker);
        events.last().is_some_and(|event| event["type"] == "worker.lost").then_some(events)
    });
    for (path, body) in [(&turns, json!({"text": "hello"})), (&restart, json!({}))] {
        for _ in 0..2 {
            let answer = post(&sandbox, path, "one key", &[], &body);
            assert_eq!(answer.status, 428, "{answer:?}");
            let error = answer.json()["error"].take();
            assert_eq!((&error["code"], &error["retryable"]), (&json!("ENV_REQUIRED"), &json!(false)));
            assert_shape(&error["details"], &json!({"workerId": "str", "recommendedAction": "str"}));
        }
    }
    assert_eq!(sandbox.events(&worker), events);
    // With an environment the same key is accepted once; a repetition may have one or not.
    let with = |value| json!({"text": "hello", "env": env(value)});
    let first = post(&sandbox, &turns, "key", &[], &with("1")).json();
    assert_eq!(first["type"], "turn.accepted", "{first}");
    let _ = sandbox.turn_end(&first["data"]);
    for body in [with("1"), with("2"), json!({"text": "hello"})] {
        assert_eq!(post(&sandbox, &turns, "key", &[], &body).json(), first);
    }
    let other = post(&sandbox, &turns, "key", &[], &json!({"text": "another"})).json();
    assert_eq!(other["error"]["code"], "IDEMPOTENCY_CONFLICT");
    assert_eq!(of_type(&sandbox, &worker, "turn.started").len(), 1);
    assert!(variables(&sandbox, &worker).contains(&"GIVEN=1".to_owned()));
    sandbox.finish();
}

#[test]
fn an_environment_that_is_not_needed_changes_nothing() {
    let sandbox = sandbox("load");
    let worker = sandbox.start("words");
    let before = fs::read(&environment_files(&sandbox)[0]).unwrap();
    let _ = sandbox.send(&worker, "then: exit 1");
    super::agent::gone(&sandbox, &worker);
    let turns = format!("/v1/workers/{worker}/turns");
    let accepted = post(&sandbox, &turns, "key", &[], &json!({"text": "hello", "env": env("other")})).json();
    assert_eq!(sandbox.turn_end(&accepted["data"])["type"], "turn.completed");
    assert!(!variables(&sandbox, &worker).iter().any(|pair| pair.starts_with("GIVEN=")));
    assert_eq!(fs::read(&environment_files(&sandbox)[0]).unwrap(), before);
    sandbox.finish();
}

#[test]
fn only_the_owner_of_a_worker_gives_it_an_environment() {
    let sandbox = sandbox("load");
    let worker = sandbox.start("words");
    let controller = sandbox.show(&worker)["controllerId"].as_str().unwrap().to_owned();
    reboot(&sandbox);
    let id = format!("Subagent-Controller-Id: {controller}");
    let stale = [&*id, "Subagent-Controller-Epoch: 1", "Subagent-Controller-Token: wrong"];
    for (what, body) in
        [("turns", json!({"text": "x", "env": env("theirs")})), ("restart", json!({"env": env("theirs")}))]
    {
        let answer = post(&sandbox, &format!("/v1/workers/{worker}/{what}"), what, &stale, &body).json();
        assert_eq!(answer["error"]["code"], "INVALID_CONTROLLER_HANDLE", "{what}: {answer}");
    }
    assert!(environment_files(&sandbox).is_empty());
    sandbox.finish();
}

#[test]
fn an_environment_without_what_the_launcher_sets_is_not_sent() {
    let sandbox = sandbox("load");
    let worker = sandbox.start("words");
    reboot(&sandbox);
    let config = fs::read_to_string(sandbox.config_file()).unwrap();
    fs::write(sandbox.config_file(), "{}").unwrap();
    // As above: the loss is reported at some time after the start.
    let events = wait_until("the loss to be reported", Duration::from_secs(20), || {
        let events = sandbox.events(&worker);
        events.last().is_some_and(|event| event["type"] == "worker.lost").then_some(events)
    });
    for args in [vec!["send", "--worker-id", &worker, "--text", "hello"], vec!["worker", "restart", &worker]]
    {
        let error = sandbox.run(&args).error("ENV_REQUIRED");
        let details = json!({"workerId": "str", "launcher": "=words", "recommendedAction": "str"});
        assert_shape(&error["details"], &details);
        assert!(!error["message"].as_str().unwrap().contains("os error"), "{error}");
        assert!(error["details"]["recommendedAction"].as_str().unwrap().contains("with --config"), "{error}");
    }
    assert_eq!(sandbox.events(&worker), events);
    // A config file that contains it may be named.
    fs::write(sandbox.file("config.yaml"), config).unwrap();
    let sent = sandbox.sending(&worker, "hello").args(["--config", &sandbox.file_name("config.yaml")]).run();
    assert_eq!(sent.data_of("turn.waited")["environmentSent"], true);
    sandbox.finish();
}

#[test]
fn a_daemon_that_watches_says_what_is_missing_after_a_reboot() {
    let sandbox = sandbox("load");
    let worker = sandbox.start("words");
    reboot(&sandbox);
    let look = sandbox.command("subagentd").args(["run", "--once", "--json"]).run().document();
    let health = &look["workerHealth"];
    assert_eq!(
        (&health["summary"]["checked"], &health["summary"]["restartFailed"]),
        (&json!(1), &json!(1)),
        "{look}"
    );
    assert_eq!(health["items"][0]["error"]["code"], "ENV_REQUIRED", "{look}");
    let shown = sandbox.show(&worker);
    assert!(shown["lastError"].as_str().unwrap().starts_with("ENV_REQUIRED"), "{shown}");
    works(&sandbox, &worker);
    sandbox.finish();
}
