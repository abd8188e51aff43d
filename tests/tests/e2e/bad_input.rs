//! Bad input from everywhere: invalid launchers, damaged files, full disks, hostile agents. Every
//! error has a code and says what to do, nothing hangs, and the next command works.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use rusqlite::Connection;
use serde_json::{Value, json};
use subagent_tests::harness::{TestLauncher, TestSandbox, say, wait_until};
use subagent_tests::invariants::{self, Evidence};

/// Starts a worker that cannot be started, and returns the error. Nothing may be left of it, and
/// other workers can be started.
#[track_caller]
fn start_fails(sandbox: &TestSandbox, launcher: &str, code: &str) -> Value {
    let error = sandbox.run(&["worker", "start", "--launcher", launcher]).error(code);
    let list = sandbox.run(&["worker", "list"]).data_of("worker.listed");
    for worker in list["items"].as_array().unwrap() {
        assert_ne!((&worker["launcher"], &worker["state"]), (&json!(launcher), &json!("idle")), "{worker}");
    }
    let gone = || sandbox.processes().iter().all(|process| process.name == "subagentd").then_some(());
    wait_until("the processes of the failed start to be gone", Duration::from_secs(5), gone);
    error
}

#[test]
fn launchers_that_cannot_be_run_are_distinguished() {
    let mut sandbox = TestSandbox::new();
    fs::write(sandbox.file("plain"), "no program").unwrap();
    fs::write(sandbox.file("broken"), "#!/nonexistent/interpreter\n").unwrap();
    fs::set_permissions(sandbox.file("broken"), fs::Permissions::from_mode(0o755)).unwrap();
    for (name, path) in [("missing", "/nonexistent/agent"), ("absent", "no-such-agent-anywhere")] {
        sandbox.launcher(name, TestLauncher::new(path, ["--acp"]));
    }
    for name in ["plain", "broken", "tmp"] {
        let path = sandbox.file_name(name);
        sandbox.launcher(name, TestLauncher::new(path, ["--acp"]));
    }
    sandbox.init();
    for launcher in ["missing", "absent", "plain", "broken", "tmp"] {
        let error = start_fails(&sandbox, launcher, "BACKEND_LAUNCHER");
        let details = &error["details"];
        assert_eq!(details["reasonCategory"], "launcher", "{launcher}: {error}");
        assert!(details["recommendedAction"].is_string(), "{launcher}: {error}");
    }
    sandbox.run(&["worker", "start", "--launcher", "unheard-of"]).error("LAUNCHER_NOT_FOUND");
    let worker = sandbox.start("demo");
    assert_eq!(sandbox.send(&worker, "well")["assistantText"], "well");
    sandbox.finish();
}

#[test]
fn agents_that_do_not_come_to_a_session_are_distinguished() {
    let mut sandbox = TestSandbox::new();
    for (name, flags) in [
        ("exits", &["--exit", "3"][..]),
        ("plain-text", &["--no-acp"]),
        ("silent", &["--hang-initialize"]),
        ("no-session", &["--hang-session-new"]),
        ("login", &["--needs-auth"]),
        ("deaf", &["--hang-initialize", "--ignore-term", "--ignore-stdin-eof"]),
    ] {
        let agent = sandbox.demo_agent(flags).startup_seconds(1.0);
        sandbox.launcher(name, agent);
    }
    sandbox.init();
    let error = start_fails(&sandbox, "exits", "BACKEND_UNAVAILABLE");
    assert_eq!(error["details"]["exitCode"], 3, "{error}");
    assert!(error["details"]["logTail"].as_str().is_some_and(|tail| !tail.is_empty()), "{error}");
    for (launcher, method) in [
        ("plain-text", "initialize"),
        ("silent", "initialize"),
        ("no-session", "session/new"),
        ("deaf", "initialize"),
    ] {
        let begun = Instant::now();
        let error = start_fails(&sandbox, launcher, "BACKEND_TIMEOUT");
        assert_eq!(error["details"]["method"], method, "{launcher}: {error}");
        assert!(begun.elapsed() < Duration::from_secs(15), "{launcher}: {:?}", begun.elapsed());
    }
    let error = start_fails(&sandbox, "login", "BACKEND_RPC_ERROR");
    assert!(error.to_string().contains("auth"), "{error}");
    let worker = sandbox.start("demo");
    assert_eq!(sandbox.send(&worker, "well")["assistantText"], "well");
    sandbox.finish();
}

#[test]
fn a_config_that_cannot_be_read_names_line_and_column() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    fs::write(sandbox.config_file(), "launchers:\n  demo:\n    command: [unclosed\n").unwrap();
    for args in [&["launcher", "list"][..], &["worker", "start"]] {
        let error = sandbox.run(args).error("CONFIG_PARSE_ERROR");
        let details = &error["details"];
        assert!(details["line"].is_u64() && details["column"].is_u64(), "{error}");
        assert!(details["path"].as_str().unwrap().ends_with("config.yaml"), "{error}");
    }
    fs::write(sandbox.config_file(), b"launchers: \xff\xfe\n").unwrap();
    sandbox.run(&["launcher", "list"]).error("CONFIG_PARSE_ERROR");
    let shown = sandbox.command("subagent").args(["launcher", "list"]).run();
    assert_eq!((shown.status.code(), shown.stdout.as_str()), (Some(1), ""));
    assert!(shown.stderr.starts_with("CONFIG_PARSE_ERROR: "), "{shown}");
    sandbox.finish();
}

#[test]
fn wrong_usage_is_no_error_of_the_product() {
    let sandbox = TestSandbox::new();
    for args in [
        &["send", "--no-such-flag"][..],
        &["no-such-command"],
        &["worker"],
        &["wait", "--timeout-seconds", "-1"],
    ] {
        let output = sandbox.command("subagent").args(args).run();
        assert_eq!(output.status.code(), Some(2), "{output}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{output}");
        let json = sandbox.command("subagent").args(args).args(["--json"]).run();
        assert_eq!((json.status.code(), &json.document()["ok"]), (Some(2), &json!(false)), "{json}");
    }
    assert!(sandbox.processes().is_empty());
    sandbox.finish();
}

#[test]
fn a_state_dir_that_cannot_be_written_is_reported() {
    let mut sandbox = TestSandbox::new();
    fs::write(sandbox.file("file"), "").unwrap();
    for place in [sandbox.file_name("file/state"), "/proc/self/state".to_owned()] {
        sandbox.set_state_dir(&place);
        let error = sandbox.run(&["controller", "init"]).error("STATE_DIR_UNWRITABLE");
        assert!(error["message"].as_str().unwrap().contains("SUBAGENT_STATE_DIR"), "{error}");
    }
    assert!(sandbox.processes().is_empty());
}

/// Returns the bytes of the database and its WAL; reading it may leave an empty WAL.
fn contents(state_dir: &Path) -> [Vec<u8>; 2] {
    ["state.db", "state.db-wal"].map(|name| fs::read(state_dir.join(name)).unwrap_or_default())
}

/// Reports where the bytes differ, without printing all of them.
#[track_caller]
fn unchanged(sandbox: &TestSandbox, before: &[Vec<u8>; 2]) {
    for (now, before) in contents(sandbox.state_dir()).iter().zip(before) {
        let differs = now.iter().zip(before).position(|(now, before)| now != before);
        assert_eq!((now.len(), differs), (before.len(), None), "it was changed; the first differing byte");
    }
}

#[test]
fn a_state_dir_of_a_newer_version_is_left_as_it_is() {
    let sandbox = TestSandbox::new();
    sandbox.init();
    let stop = sandbox.command("subagentd").args(["stop"]).run();
    assert!(stop.status.success(), "{stop}");
    let database = Connection::open(sandbox.state_dir().join("state.db")).unwrap();
    database.pragma_update(None, "user_version", 999).unwrap();
    database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(database);
    let before = contents(sandbox.state_dir());
    let error = sandbox.run(&["worker", "list"]).error("STATE_DIR_TOO_NEW");
    assert!(
        error["message"].as_str().unwrap().contains("999") || error["details"].to_string().contains("999"),
        "{error}"
    );
    unchanged(&sandbox, &before);
    assert!(sandbox.find_daemon().is_none());
}

#[test]
fn a_state_dir_of_the_reference_is_left_as_it_is() {
    let sandbox = TestSandbox::new();
    fs::create_dir_all(sandbox.state_dir()).unwrap();
    let database = Connection::open(sandbox.state_dir().join("state.db")).unwrap();
    for table in ["controllers", "controller_instances", "workers", "worker_events", "approval_requests"] {
        database.execute_batch(&format!("CREATE TABLE {table} (id TEXT PRIMARY KEY, data TEXT)")).unwrap();
        database.execute_batch(&format!("INSERT INTO {table} VALUES ('an id', 'a user''s work')")).unwrap();
    }
    drop(database);
    let before = contents(sandbox.state_dir());
    let error = sandbox.run(&["controller", "init"]).error("STATE_DIR_FOREIGN");
    assert!(error["details"]["recommendedAction"].is_string(), "{error}");
    unchanged(&sandbox, &before);
    assert!(sandbox.find_daemon().is_none());
}

#[test]
fn a_damaged_database_is_reported_and_not_repaired_away() {
    let sandbox = TestSandbox::new();
    fs::create_dir_all(sandbox.state_dir()).unwrap();
    fs::write(sandbox.state_dir().join("state.db"), "this is no database, but it may be needed").unwrap();
    let before = contents(sandbox.state_dir());
    sandbox.run(&["controller", "init"]).any_error();
    unchanged(&sandbox, &before);
}

#[test]
fn a_runtime_dir_that_is_too_long_for_sockets_is_passed_over() {
    let mut sandbox = TestSandbox::new();
    let long = sandbox.file("x".repeat(90).as_str());
    fs::create_dir(&long).unwrap();
    fs::set_permissions(&long, fs::Permissions::from_mode(0o700)).unwrap();
    sandbox.set_env("XDG_RUNTIME_DIR", &long);
    sandbox.init();
    let worker = sandbox.start("demo");
    assert_eq!(sandbox.send(&worker, "hello")["assistantText"], "hello");
    let socket = sandbox.daemon_info().unwrap().socket;
    assert!(socket.starts_with("/tmp"), "{}", socket.display());
    let prefix = socket.file_stem().unwrap().to_str().unwrap().to_owned();
    sandbox.finish();
    for entry in fs::read_dir(socket.parent().unwrap()).unwrap() {
        let path = entry.unwrap().path();
        assert!(
            !path.file_name().unwrap().to_str().unwrap().starts_with(&prefix),
            "{} is left",
            path.display()
        );
    }
}

#[test]
fn a_daemon_that_is_stopped_under_a_waiting_command_is_unresponsive() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let daemon = sandbox.daemon();
    let wait = ["wait", "--worker-id", &worker, "--timeout-seconds", "2"];
    let waiting = sandbox.subagent(&wait).spawn();
    daemon.signal(Signal::SIGSTOP);
    let error = waiting.output();
    let code = error.any_error()["code"].clone();
    assert!(code == "DAEMON_UNRESPONSIVE", "{error}");
    assert_eq!(error.any_error()["details"]["pid"], daemon.pid, "{error}");
    assert!(error.elapsed < Duration::from_secs(40), "{error}");
    daemon.signal(Signal::SIGCONT);
    assert_eq!(sandbox.send(&worker, "and on")["assistantText"], "and on");
    sandbox.finish();
}

#[test]
fn a_hostile_agent_ends_its_turns_well() {
    let mut sandbox = TestSandbox::new();
    let agent = sandbox.test_agent("hostile-agent", &[]);
    sandbox.launcher("hostile", agent);
    sandbox.init();
    let worker = sandbox.start("hostile");
    let list = sandbox.command("hostile-agent").args(["--list"]).run();
    let cases: Vec<&str> = list.text().lines().collect();
    assert!(cases.len() > 20, "{cases:?}");
    let own_tests = ["long-line", "close-stdout", "never-read"];
    let own = |case: &&str| own_tests.contains(case) || case.starts_with("elicitation-");
    for case in cases.into_iter().filter(|case| !own(case)) {
        let sent = sandbox.send(&worker, &format!("hostile: {case}"));
        let end = if sent["matchedEvent"]["type"] == "approval.requested" {
            let options = sent["matchedEvent"]["data"]["options"].as_array().unwrap();
            assert!(!options.is_empty(), "{case}: {sent}");
            let request = sent["requestId"].as_str().unwrap();
            let option = options[0]["id"].as_str().unwrap();
            let args = ["approve", "--worker-id", &worker, "--request", request, "--option-id", option];
            sandbox.run(&args).data_of("approval.decided");
            sandbox.turn_end(&sent)
        } else {
            assert!(
                sent["assistantText"].as_str().is_some_and(|text| text.starts_with("before")),
                "{case}: {sent}"
            );
            assert!(
                sent["assistantText"].as_str().is_some_and(|text| text.ends_with("after")),
                "{case}: {sent}"
            );
            sent["matchedEvent"].clone()
        };
        assert_eq!(end["type"], "turn.completed", "{case}: {end}");
        assert_eq!(end["data"]["stopReason"], "end_turn", "{case}: {end}");
    }
    assert_eq!(sandbox.send(&worker, "on")["matchedEvent"]["type"], "turn.completed");
    sandbox.check();
    sandbox.finish();
}

#[test]
fn an_agent_that_closes_its_stdout_or_stops_reading_can_be_ended() {
    let mut sandbox = TestSandbox::new();
    let agent = sandbox.test_agent("hostile-agent", &[]);
    sandbox.launcher("hostile", agent);
    sandbox.init();
    let worker = sandbox.start("hostile");
    sandbox.send_fails(&worker, "hostile: close-stdout", "BACKEND_UNAVAILABLE");
    let accepted = sandbox.send_no_wait(&worker, "hostile: never-read");
    let _ = sandbox.wait_after(&worker, &accepted["acceptedEventId"], "progress.message");
    sandbox.run(&["cancel", "--worker-id", &worker]).data_of("turn.canceled");
    assert_eq!(sandbox.send(&worker, "on")["matchedEvent"]["type"], "turn.completed");
    sandbox.finish();
}

#[test]
fn a_line_of_100_mib_is_noted_and_not_kept_in_memory() {
    let mut sandbox = TestSandbox::new();
    let agent = sandbox.test_agent("hostile-agent", &["--bytes", "104857600"]);
    sandbox.launcher("hostile", agent);
    sandbox.init();
    let worker = sandbox.start("hostile");
    let waited = sandbox.send(&worker, "hostile: long-line");
    assert_eq!(waited["matchedEvent"]["type"], "turn.completed");
    assert_eq!(waited["assistantText"], "beforeafter");
    let events = sandbox.events(&worker);
    let noise: Vec<&Value> = events.iter().filter(|event| event["data"]["kind"] == "noise").collect();
    assert_eq!(noise.len(), 1);
    assert_eq!(
        (&noise[0]["data"]["reason"], &noise[0]["data"]["bytes"]),
        (&json!("too_long"), &json!(104_857_599))
    );
    // A line is kept up to 64 MiB before it counts as too long; a growing buffer
    // may be copied once.
    let runtime = sandbox.runtime(&worker).peak_memory_kib() / 1024;
    let daemon = sandbox.daemon().peak_memory_kib() / 1024;
    assert!(runtime < 160 && daemon < 100, "runtime {runtime} MiB, daemon {daemon} MiB");
    assert_eq!(sandbox.send(&worker, "on")["matchedEvent"]["type"], "turn.completed");
    sandbox.finish();
}

#[test]
fn a_line_of_20_mib_is_kept_whole() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let waited = sandbox.send(&worker, "!line 20971520");
    assert_eq!(waited["matchedEvent"]["type"], "turn.completed");
    assert!(waited["assistantText"].as_str().unwrap().len() > 20_900_000);
    sandbox.finish();
}

#[test]
fn a_flood_is_stored_to_the_last_chunk() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let follower = sandbox.follow(&worker);
    let waited = sandbox.send(&worker, "!stream 5000\n!say end");
    assert_eq!(waited["lastAssistantChunk"], "end");
    follower.wait_line("the end of the turn", |line| line.contains("\"turn.completed\"").then_some(()));
    let _ = follower.kill();
    let messages = sandbox.events(&worker).into_iter().filter(|event| event["type"] == "progress.message");
    assert_eq!(messages.count(), 5001);
    sandbox.finish();
}

/// Runs in its own mount namespace, where the state directory is a file system of 24 MiB.
const FULL_DISK: &str = r#"
set -u
mount -t tmpfs -o size=24m,mode=700 none "$STATE" || { echo "SKIP: no tmpfs can be mounted"; exit 0; }
say() { echo "== $1"; }
say init; "$SUBAGENT" controller init --json
say start; "$SUBAGENT" worker start --launcher demo --json > "$OUT/start"; cat "$OUT/start"
worker=$(grep -o 'w_[0-9a-f]\{10\}' "$OUT/start" | head -1)
say before; "$SUBAGENT" send --worker-id "$worker" --text before --json
dd if=/dev/zero of="$STATE/filler" bs=4k 2>/dev/null
say full; "$SUBAGENT" send --worker-id "$worker" --text '!stream 20000' --wait-timeout-seconds 50 --json
say list; "$SUBAGENT" worker list --json
rm "$STATE/filler"
say settle; "$SUBAGENT" wait --worker-id "$worker" --include-history --until turn.completed --json
i=0
until "$SUBAGENT" send --worker-id "$worker" --text after --json > "$OUT/after" || [ $i -ge 20 ]; do i=$((i+1)); sleep 1; done
say after; cat "$OUT/after"
say stop; "$SUBAGENTD" stop --workers --json
rm -rf "$OUT/copy"; cp -a "$STATE" "$OUT/copy"
"#;

#[test]
fn a_full_disk_loses_nothing_and_is_left_again() {
    if !nix::unistd::geteuid().is_root() {
        say("SKIPPED, NOTHING WAS TESTED: a full disk needs a mount, and that root");
        return;
    }
    let mut sandbox = TestSandbox::new();
    let out = sandbox.file("out");
    fs::create_dir(&out).unwrap();
    fs::create_dir_all(sandbox.state_dir()).unwrap();
    sandbox.set_env("STATE", sandbox.state_dir().to_owned());
    sandbox.set_env("SUBAGENT_STATE_DIR", sandbox.state_dir().to_owned());
    sandbox.set_env("OUT", &out);
    sandbox.set_env("SUBAGENT", sandbox.executable("subagent"));
    sandbox.set_env("SUBAGENTD", sandbox.executable("subagentd"));
    let script = ["--mount", "--propagation", "private", "/bin/sh", "-c", FULL_DISK];
    let output = sandbox.command("unshare").args(script).deadline(Duration::from_secs(150)).run();
    let skipped = output.stdout.lines().find(|line| line.starts_with("SKIP"));
    if let Some(why) = skipped.or((!output.status.success()).then_some("unshare failed")) {
        say(&format!("SKIPPED, NOTHING WAS TESTED: {why}\n{output}"));
        return;
    }
    let part = |name: &str| {
        let mut parts = output.stdout.split("== ").filter_map(|part| part.split_once('\n'));
        let (_, text) = parts.find(|(title, _)| *title == name).unwrap_or_else(|| panic!("{name}: {output}"));
        serde_json::from_str::<Value>(text.trim()).unwrap_or_else(|error| panic!("{name}: {error}\n{output}"))
    };
    assert_eq!(part("before")["data"]["assistantText"], "before");
    let full = part("full");
    let code = &full["error"]["code"];
    let failed = &full["data"]["matchedEvent"]["data"]["error"]["code"];
    let expected = ["STORAGE_FULL", "STORAGE_ERROR", "WAIT_TIMEOUT"].map(Value::from);
    assert!(expected.contains(code) || expected.contains(failed), "{full}");
    assert_eq!(part("after")["data"]["assistantText"], "after", "{output}");
    let state_dir = out.join("copy");
    let acknowledged = sandbox.recorder().acknowledged();
    let evidence =
        Evidence { state_dir, there: Vec::new(), socket_folders: Vec::new(), acknowledged, ended: true };
    assert_eq!(invariants::check(&evidence), Vec::<String>::new(), "{output}");
    wait_until("the last process to end", Duration::from_secs(5), || {
        sandbox.processes().is_empty().then_some(())
    });
}
